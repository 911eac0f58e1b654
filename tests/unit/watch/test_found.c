/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of failure after the kept head of the output, with the lines around them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "record/rundir.h"
#include "record/shared.h"
#include "watch/relay_internal.h"

#define OOM "RuntimeError: HIP out of memory. Tried to allocate 2.00 GiB\n"

static struct carrier *carrier_new(size_t printed)
{
    struct carrier *c = calloc(1, sizeof *c);
    struct shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_non_null(c);
    assert_true(s != MAP_FAILED);
    ring_init(&s->output, SHARED_OUTPUT_RING_BYTES);
    ring_init(&s->events, SHARED_EVENT_RING_BYTES);
    ring_init(&s->report, SHARED_REPORT_RING_BYTES);
    ring_init(&s->found, SHARED_FOUND_RING_BYTES);
    c->shared = s;
    c->carried = &s->stderr_carried;
    matcher_init(&c->matcher);
    for (size_t i = 0; i < printed / 16; i++)
        look_at(c, "a line that ran\n", 16);
    return c;
}

static void carrier_free(struct carrier *c)
{
    (void)munmap(c->shared, sizeof *c->shared);
    free(c);
}

static const char *kept(const struct carrier *c)
{
    static char text[SHARED_FOUND_RING_BYTES + 1];
    uint64_t cursor = 0;
    text[ring_read(&c->shared->found, &cursor, text, sizeof text - 1, NULL)] = '\0';
    return text;
}

static void feed(struct carrier *c, const char *text, size_t piece)
{
    size_t len = strlen(text);
    for (size_t at = 0; at < len; at += piece)
        look_at(c, text + at, len - at < piece ? len - at : piece);
}

static void test_with_neighbours(void **state)
{
    static const size_t pieces[] = {1, 7, 64, 100000};
    (void)state;
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        struct carrier *c = carrier_new(2 * OUTPUT_HEAD_BYTES);
        feed(c, "before\n" OOM "behind\nnot ended", pieces[i]);
        const char *text = kept(c);
        assert_non_null(strstr(text, "\nbefore\n" OOM "behind\n"));
        assert_null(strstr(text, "not ended"));
        assert_int_equal(strncmp(text, "a line that ran\n", 16), 0); /* whole lines only */
        assert_true(strlen(text) < 2048);
        for (int line = 0; line < 2000; line++)
            look_at(c, "a line that ran\n", 16);
        assert_true(strlen(kept(c)) < 6144);
        carrier_free(c);
    }
}

static void test_nothing_to_keep(void **state)
{
    (void)state;
    struct carrier *c = carrier_new(2 * OUTPUT_HEAD_BYTES);
    assert_string_equal(kept(c), "");
    carrier_free(c);
    c = carrier_new(0);
    feed(c, OOM, 1000); /* the head is kept in any case */
    assert_string_equal(kept(c), "");
    carrier_free(c);
}

/* A line that does not fit around the message is left out, never cut. */
static void test_long_lines(void **state)
{
    static char line[200000];
    (void)state;
    struct carrier *c = carrier_new(2 * OUTPUT_HEAD_BYTES);
    memset(line, 's', sizeof line - 1);
    feed(c, "password=", 9);
    feed(c, line, 30000);
    feed(c, "\n" OOM, 1000);
    feed(c, line, 30000);
    assert_string_equal(kept(c), OOM);
    carrier_free(c);
}

static void test_flood(void **state)
{
    (void)state;
    struct carrier *c = carrier_new(2 * OUTPUT_HEAD_BYTES);
    for (int i = 0; i < 20000; i++)
        feed(c, OOM, 1000);
    const char *text = kept(c);
    assert_non_null(strstr(text, OOM));
    assert_true(c->shared->found.head < 20000 * (sizeof OOM - 1) / 2);
    carrier_free(c);
}

/* The first bytes are kept, however much follows before they are saved. Text after a gap is not the beginning. */
static void test_the_head_stays(void **state)
{
    (void)state;
    struct carrier *c = carrier_new(0);
    feed(c, "the first line\n", 4);
    for (size_t n = 0; n < 4u * SHARED_OUTPUT_RING_BYTES; n += 16)
        look_at(c, "a line that ran\n", 16);
    assert_int_equal(c->shared->output_head_used, OUTPUT_HEAD_BYTES);
    assert_memory_equal(c->shared->output_head, "the first line\na line that ran\n", 31);
    assert_int_equal(c->shared->stderr_carried.unseen, 0);
    carrier_free(c);
    c = carrier_new(0);
    feed(c, "the first line\n", 4);
    look_gap(c);
    feed(c, "half of a line\na line that ran\n", 100);
    assert_int_equal(c->shared->output_head_used, 15);
    assert_int_equal(c->shared->stderr_carried.unseen, 1);
    carrier_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_head_stays),
        cmocka_unit_test(test_with_neighbours),
        cmocka_unit_test(test_nothing_to_keep),
        cmocka_unit_test(test_long_lines),
        cmocka_unit_test(test_flood),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
