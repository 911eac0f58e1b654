/* SPDX-License-Identifier: Apache-2.0 */
/* The frames of the status pipe: intact frames arrive, broken ones are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collect/frame.h"

static unsigned char out[sizeof(struct frame_header) + FRAME_PAYLOAD_MAX];

static void test_facts_survive(void **state)
{
    (void)state;
    struct fact facts[] = {
        {.name = "a.b_bytes", .type = FACT_INTEGER, .when = FACT_PEAK, .integer = INT64_MIN},
        {.name = "a.real", .type = FACT_REAL, .real = 0.5},
        {.name = "env.HIP_X", .type = FACT_TEXT, .text = "v\xc3\xa4l", .source = "environ"},
        {.name = "a.flag", .type = FACT_BOOLEAN, .when = FACT_LOG, .integer = 1},
        {.name = "a.none", .status = FACT_ABSENT, .reason = "no file", .source = "/sys/x"},
    };
    for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++) {
        size_t n = frame_encode_fact(out, &facts[i]);
        struct frame f;
        assert_int_equal(frame_decode(out, n, &f), n);
        assert_int_equal(f.type, FRAME_FACT);
        assert_string_equal(f.fact.name, facts[i].name);
        assert_int_equal(f.fact.status, facts[i].status);
        assert_int_equal(f.fact.when, facts[i].when);
        assert_int_equal(f.fact.integer, facts[i].integer);
        assert_true(f.fact.real == facts[i].real);
        assert_string_equal(f.fact.text, facts[i].text != NULL ? facts[i].text : "");
        assert_string_equal(f.fact.source, facts[i].source != NULL ? facts[i].source : "");
        assert_string_equal(f.fact.reason, facts[i].reason != NULL ? facts[i].reason : "");
    }
}

static void test_long_strings_are_cut_between_characters(void **state)
{
    (void)state;
    char text[3 * FRAME_TEXT_MAX + 1];
    for (size_t i = 0; i < FRAME_TEXT_MAX; i++)
        memcpy(text + 3 * i, "\xe2\x82\xac", 3);
    text[sizeof text - 1] = '\0';
    struct fact fact = {.name = "x", .type = FACT_TEXT, .text = text, .source = text};
    size_t n = frame_encode_fact(out, &fact);
    struct frame f;
    assert_int_equal(frame_decode(out, n, &f), n);
    assert_true(strlen(f.fact.text) <= FRAME_TEXT_MAX - 1);
    assert_true(strlen(f.fact.text) >= FRAME_TEXT_MAX - 4);
    assert_int_equal(strlen(f.fact.text) % 3, 0);
    assert_int_equal(strlen(f.fact.source) % 3, 0);
}

static void test_reason_and_done(void **state)
{
    (void)state;
    struct frame f;
    size_t n = frame_encode_reason(out, "because");
    assert_int_equal(frame_decode(out, n, &f), n);
    assert_string_equal(f.reason, "because");
    n = frame_encode_done(out, COLLECT_PARTIAL, true);
    assert_int_equal(frame_decode(out, n, &f), n);
    assert_int_equal(f.status, COLLECT_PARTIAL);
    assert_true(f.cut);
    /* Only the runner may set these. */
    n = frame_encode_done(out, COLLECT_STUCK, false);
    assert_int_equal(frame_decode(out, n, &f), -EBADMSG);
}

static void test_every_prefix_is_incomplete(void **state)
{
    (void)state;
    struct fact fact = {.name = "a.b", .type = FACT_TEXT, .text = "t", .source = "s"};
    size_t n = frame_encode_fact(out, &fact);
    for (size_t len = 0; len < n; len++) {
        unsigned char *copy = malloc(len != 0 ? len : 1); /* exact size: ASan sees an overread */
        assert_non_null(copy);
        memcpy(copy, out, len);
        struct frame f;
        assert_int_equal(frame_decode(copy, len, &f), 0);
        free(copy);
    }
}

static void test_bad_names_and_ranges(void **state)
{
    (void)state;
    const char *const bad[] = {"", "A.b", "a b", "a/b", "a\n", "1a", ".a"};
    struct frame f;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct fact fact = {.name = bad[i], .type = FACT_INTEGER};
        assert_int_equal(frame_decode(out, frame_encode_fact(out, &fact), &f), -EBADMSG);
    }
    struct fact when = {.name = "a", .when = (enum fact_when)99};
    assert_int_equal(frame_decode(out, frame_encode_fact(out, &when), &f), -EBADMSG);
    struct fact type = {.name = "a", .type = (enum fact_type)77};
    assert_int_equal(frame_decode(out, frame_encode_fact(out, &type), &f), -EBADMSG);
}

/* 200,000 damaged frames: no read out of bounds (ASan), and no value out of its range. */
static void test_damaged_frames(void **state)
{
    (void)state;
    srandom(7);
    struct fact fact = {.name = "gpu.0.pci", .type = FACT_TEXT, .text = "text", .source = "src"};
    int accepted = 0;
    for (int round = 0; round < 200000; round++) {
        size_t n = round % 3 == 0   ? frame_encode_fact(out, &fact)
                   : round % 3 == 1 ? frame_encode_reason(out, "some words")
                                    : frame_encode_done(out, COLLECT_OK, false);
        for (int hits = 1 + (int)(random() % 3); hits > 0; hits--)
            out[(size_t)random() % n] = (unsigned char)random();
        unsigned char *copy = malloc(n);
        assert_non_null(copy);
        memcpy(copy, out, n);
        struct frame f;
        int r = frame_decode(copy, n, &f);
        assert_true(r == -EBADMSG || (r >= 0 && (size_t)r <= n));
        if (r > 0) {
            accepted++;
            assert_true(f.type >= FRAME_FACT && f.type <= FRAME_DONE);
            if (f.type == FRAME_FACT) {
                assert_true(f.fact.status <= FACT_BLIND && f.fact.when <= FACT_LOG);
                assert_true(strlen(f.fact.text) + strlen(f.fact.reason) < n);
            }
        }
        free(copy);
    }
    assert_true(accepted > 0); /* harmless damage (inside a text) is accepted */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_facts_survive),
        cmocka_unit_test(test_long_strings_are_cut_between_characters),
        cmocka_unit_test(test_reason_and_done),
        cmocka_unit_test(test_every_prefix_is_incomplete),
        cmocka_unit_test(test_bad_names_and_ranges),
        cmocka_unit_test(test_damaged_frames),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
