/* SPDX-License-Identifier: Apache-2.0 */
/* Runs another program: its output, its exit, and programs that do not end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "collect/exec.h"

static uint64_t in_ms(uint64_t ms)
{
    return clock_mono_ns() + ms * 1000000u;
}

static void test_output_and_status(void **state)
{
    (void)state;
    const char *const argv[] = {"sh", "-c", "cat; echo out; echo err >&2; exit 7", NULL};
    struct buf out;
    buf_init(&out, 100);
    struct rc_err err;
    assert_int_equal(collect_exec(argv, in_ms(5000), &out, &err), 7);
    assert_string_equal(buf_str(&out), "out\n"); /* cat saw an empty stdin */
    buf_release(&out);
}

static void test_missing_program(void **state)
{
    (void)state;
    const char *const argv[] = {"rocmcrash-no-such-program", NULL};
    struct buf out = BUF_INIT;
    struct rc_err err;
    assert_int_equal(collect_exec(argv, in_ms(5000), &out, &err), -ENOENT);
    assert_non_null(strstr(err.msg, "cannot run 'rocmcrash-no-such-program'"));
    buf_release(&out);
}

static void test_hanging_program(void **state)
{
    (void)state;
    const char *const argv[] = {"sh", "-c", "trap '' TERM; echo early; exec sleep 100", NULL};
    struct buf out = BUF_INIT;
    uint64_t start = clock_mono_ns();
    assert_int_equal(collect_exec(argv, in_ms(1000), &out, NULL), -ETIMEDOUT);
    assert_true(clock_mono_ns() - start < 60 * UINT64_C(1000000000)); /* it would sleep for 100 s */
    assert_string_equal(buf_str(&out), "early\n");
    buf_release(&out);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static void test_closed_output_but_alive(void **state)
{
    (void)state;
    const char *const argv[] = {"sh", "-c", "exec >&-; exec sleep 100", NULL};
    struct buf out = BUF_INIT;
    uint64_t start = clock_mono_ns();
    assert_int_equal(collect_exec(argv, in_ms(200), &out, NULL), -ETIMEDOUT);
    assert_true(clock_mono_ns() - start < 60 * UINT64_C(1000000000));
    buf_release(&out);
}

static void test_endless_output(void **state)
{
    (void)state;
    const char *const argv[] = {"sh", "-c", "while :; do echo 0123456789; done", NULL};
    struct buf out;
    buf_init(&out, 10000);
    assert_int_equal(collect_exec(argv, in_ms(10000), &out, NULL), -EFBIG);
    assert_int_equal(out.len, 10000);
    assert_false(buf_failed(&out));
    buf_release(&out);
}

static void test_killed_program(void **state)
{
    (void)state;
    const char *const argv[] = {"sh", "-c", "kill -9 $$", NULL};
    struct buf out = BUF_INIT;
    assert_int_equal(collect_exec(argv, in_ms(5000), &out, NULL), COLLECT_EXEC_SIGNAL + 9);
    buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_output_and_status), cmocka_unit_test(test_missing_program),
        cmocka_unit_test(test_hanging_program),   cmocka_unit_test(test_closed_output_but_alive),
        cmocka_unit_test(test_endless_output),    cmocka_unit_test(test_killed_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
