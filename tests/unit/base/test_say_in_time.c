/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/say.h"
#include "base/say_in_time.h"

#define WAIT_MS 20

static char bytes[1 << 16];

static void fill(int fd)
{
    assert_return_code(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    while (write(fd, bytes, sizeof bytes) > 0 || write(fd, bytes, 1) > 0)
        ;
    assert_return_code(fcntl(fd, F_SETFL, 0), 0);
}

static size_t take(int fd)
{
    size_t all = 0;
    ssize_t n = 0;
    assert_return_code(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    while ((n = read(fd, bytes, sizeof bytes)) > 0)
        all = (size_t)n;
    return all;
}

/* A line without room is dropped, and the next one with room is not. The descriptor itself stays as it was. */
static void test_a_full_pipe(void **state)
{
    (void)state;
    int ends[2];
    assert_return_code(pipe(ends), 0);
    FILE *to = fdopen(ends[1], "w");
    fill(ends[1]);
    say_in_time(&to, WAIT_MS);
    assert_int_equal(say_line(to, "lost"), 0);
    assert_int_equal(fcntl(ends[1], F_GETFL) & O_NONBLOCK, 0);
    (void)take(ends[0]);
    assert_int_equal(say_line(to, "said"), 0);
    assert_int_equal(take(ends[0]), strlen("said\n"));
    assert_memory_equal(bytes, "said\n", strlen("said\n"));
}

/* A file is written on, not from its beginning. */
static void test_a_file(void **state)
{
    (void)state;
    FILE *file = tmpfile();
    assert_non_null(file);
    FILE *to = file;
    (void)fputs("before\n", file);
    say_in_time(&to, WAIT_MS);
    assert_int_equal(say_line(to, "after"), 0);
    char text[32] = "";
    assert_int_equal(pread(fileno(file), text, sizeof text - 1, 0), strlen("before\nafter\n"));
    assert_string_equal(text, "before\nafter\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_full_pipe),
        cmocka_unit_test(test_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
