/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of a start-up report after the kept head of the output, however the bytes arrive. */
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

static struct carrier *carrier_new(void)
{
    struct carrier *c = calloc(1, sizeof *c);
    /* page-aligned, as it is in a run */
    struct shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_non_null(c);
    assert_true(s != MAP_FAILED);
    ring_init(&s->output, SHARED_OUTPUT_RING_BYTES);
    ring_init(&s->events, SHARED_EVENT_RING_BYTES);
    ring_init(&s->report, SHARED_REPORT_RING_BYTES);
    c->shared = s;
    c->carried = &s->stderr_carried;
    matcher_init(&c->matcher);
    return c;
}

static void carrier_free(struct carrier *c)
{
    (void)munmap(c->shared, sizeof *c->shared);
    free(c);
}

/* Starts with `printed` bytes of earlier output. */
static void fill_head(struct carrier *c)
{
    atomic_store(&c->shared->output.head, OUTPUT_HEAD_BYTES + 1);
}

static const char *kept(const struct carrier *c)
{
    static char text[SHARED_REPORT_RING_BYTES + 1];
    uint64_t cursor = 0;
    text[ring_read(&c->shared->report, &cursor, text, sizeof text - 1, NULL)] = '\0';
    return text;
}

#define KV "llama_kv_cache:      ROCm0 KV buffer size =  2048.00 MiB\n"
#define WEIGHTS "INFO Model loading took 14.2 GiB memory and 3.4 seconds\n"

static void test_every_split(void **state)
{
    static const char text[] = "some words\n" KV "other words\n" WEIGHTS "and so on";
    (void)state;
    for (size_t cut = 0; cut < sizeof text; cut++) {
        struct carrier *c = carrier_new();
        fill_head(c);
        look_at(c, text, cut);
        look_at(c, text + cut, sizeof text - 1 - cut);
        assert_string_equal(kept(c), KV WEIGHTS);
        carrier_free(c);
    }
}

static void test_byte_by_byte(void **state)
{
    static const char text[] = KV "other words\n" WEIGHTS;
    (void)state;
    struct carrier *c = carrier_new();
    fill_head(c);
    for (size_t i = 0; i < sizeof text - 1; i++)
        look_at(c, text + i, 1);
    assert_string_equal(kept(c), KV WEIGHTS);
    carrier_free(c);
}

/* The head is kept whole in any case. */
static void test_head(void **state)
{
    (void)state;
    struct carrier *c = carrier_new();
    look_at(c, KV, sizeof KV - 1);
    assert_string_equal(kept(c), "");
    carrier_free(c);
}

/* No failure is noted, and no counters are requested. */
static void test_no_failure(void **state)
{
    (void)state;
    struct carrier *c = carrier_new();
    fill_head(c);
    look_at(c, KV WEIGHTS, sizeof KV WEIGHTS - 1);
    assert_int_equal(c->shared->first_match_ns, 0);
    assert_int_equal(c->shared->oom_matches + c->shared->fault_matches + c->shared->hang_matches +
                         c->shared->error_matches,
                     0);
    assert_int_equal(c->shared->impact_request, 0);
    carrier_free(c);
}

/* A part of a line may not show that its value is a secret: after a gap, and if a line is too long. */
static void test_cut_lines(void **state)
{
    static char line[3 * REPORT_LINE_MAX];
    (void)state;
    struct carrier *c = carrier_new();
    fill_head(c);
    look_at(c, "the token is ", 13);
    report_gap(c);
    look_at(c, KV WEIGHTS, sizeof KV WEIGHTS - 1);
    assert_string_equal(kept(c), WEIGHTS);
    memset(line, 'x', sizeof line);
    memcpy(line, KV, sizeof KV - 2);
    line[sizeof line - 1] = '\n';
    look_at(c, line, sizeof line); /* in one piece, then in three */
    for (size_t at = 0; at < sizeof line; at += REPORT_LINE_MAX)
        look_at(c, line + at, REPORT_LINE_MAX);
    assert_string_equal(kept(c), WEIGHTS);
    look_at(c, KV, sizeof KV - 1); /* the next one is whole again */
    assert_string_equal(kept(c), WEIGHTS KV);
    carrier_free(c);
}

/* If a program prints such words without end, the search stays bounded and the last lines are kept. */
static void test_flood(void **state)
{
    static char chunk[(64 << 10) / (sizeof KV - 1) * (sizeof KV - 1)];
    (void)state;
    struct carrier *c = carrier_new();
    fill_head(c);
    for (size_t at = 0; at < sizeof chunk; at += sizeof KV - 1)
        memcpy(chunk + at, KV, sizeof KV - 1);
    for (int i = 0; i < 64; i++)
        look_at(c, chunk, sizeof chunk);
    uint64_t written = c->shared->report.head;
    assert_true(written >= 7 * sizeof chunk);
    assert_true(written < 32 * sizeof chunk);
    carrier_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_split), cmocka_unit_test(test_byte_by_byte),
        cmocka_unit_test(test_head),        cmocka_unit_test(test_no_failure),
        cmocka_unit_test(test_cut_lines),   cmocka_unit_test(test_flood),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
