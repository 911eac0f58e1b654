/* SPDX-License-Identifier: Apache-2.0 */
/* The largest value that runs is found exactly, in floor(log2(values)) + 2 runs at most, whatever the memory use. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "experiment/fit.h"

#define ROOM 1e9

/* A program that needs fixed + slope * value^power bytes of ROOM, measured with an error. */
struct program {
    double fixed, slope, power;
    double noise; /* share of the measured value */
    bool silent;  /* nothing is known of its memory */
};

static double needs(const struct program *p, int64_t value)
{
    return p->fixed + p->slope * pow((double)value, p->power);
}

static unsigned search(const struct program *p, int64_t min, int64_t max, struct fit *fit)
{
    int64_t value;
    assert_int_equal(fit_init(fit, min, max), 0);
    while (fit_next(fit, &value)) {
        double bytes = needs(p, value);
        double measured = bytes * (1 + p->noise * sin((double)value * 12.9898));
        assert_in_range((uintmax_t)value, (uintmax_t)min, (uintmax_t)max);
        fit_note(fit, value, bytes <= ROOM, p->silent ? 0 : measured, !p->silent && bytes > ROOM ? ROOM : 0);
    }
    return fit->runs;
}

static int64_t truth(const struct program *p, int64_t min, int64_t max)
{
    int64_t value = min - 1;
    while (value < max && needs(p, value + 1) <= ROOM)
        value++;
    return value;
}

static unsigned log2_of(int64_t n)
{
    unsigned log = 0;
    for (; n > 1; n /= 2)
        log++;
    return log;
}

static void test_exact_within_the_bound(void **state)
{
    static const struct program kinds[] = {{1e8, 0, 1, 0, false},      {1e8, 0, 1, 0.02, false}, {1e8, 0, 1, 0, true},
                                           {1e8, 0, 2, 0.01, false}, {9e8, 0, 0.5, 0, false},  {0, 0, 1, 0.3, false}};
    static const int64_t ranges[][2] = {{1, 64}, {1, 1}, {1, 2}, {0, 10}, {512, 131072}, {7, 1000}};
    unsigned long runs = 0;
    unsigned long campaigns = 0;
    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
        for (size_t r = 0; r < sizeof ranges / sizeof ranges[0]; r++)
            for (int answer = -1; answer <= 40; answer++) {
                struct program p = kinds[k];
                struct fit fit;
                int64_t min = ranges[r][0];
                int64_t max = ranges[r][1];
                double at = (double)min + (double)(max - min) * answer / 39.0 + 0.5;
                p.slope = at > 0 ? (ROOM - p.fixed) / pow(at, p.power) : 2 * ROOM;
                unsigned used = search(&p, min, max, &fit);
                assert_int_equal(fit.passed, truth(&p, min, max));
                assert_in_range(used, 1, log2_of(max - min + 1) + 2);
                runs += used;
                campaigns++;
            }
    print_message("%lu campaigns, %.1f runs each\n", campaigns, (double)runs / (double)campaigns);
}

/* A linear growth is recognised: it needs fewer runs than bisection. */
static void test_a_line_is_found_sooner(void **state)
{
    struct fit fit;
    struct fit_model m;
    const struct program p = {1e8, 1e5, 1, 0, false};
    (void)state;
    assert_in_range(search(&p, 1, 65536, &fit), 4, 10); /* bisection: 17 */
    fit_model(&fit, &m);
    assert_true(m.known && m.has_prediction);
    assert_float_equal(m.slope, 1e5, 1);
    assert_float_equal(m.fixed, 1e8, 1e3);
    assert_int_equal(m.predicted, 9000);
    assert_int_equal(fit.passed, 9000);
}

/* An estimate never costs more than the bound; a right one saves runs. */
static void test_hints(void **state)
{
    static const int64_t hints[] = {28592, 28591, 28593, 40000, 1, 0, 999999};
    (void)state;
    for (size_t i = 0; i < sizeof hints / sizeof hints[0]; i++) {
        struct fit fit;
        int64_t value;
        assert_int_equal(fit_init(&fit, 1024, 131072), 0);
        while (fit_next(&fit, &value)) {
            fit_note(&fit, value, value <= 28592, 0, 0);
            if (value > 28592)
                fit_hint(&fit, hints[i]);
        }
        assert_int_equal(fit.passed, 28592);
        assert_in_range(fit.runs, 3, i == 0 ? 10 : 18);
    }
}

/* The smallest failing value is run once more, but not if all values run or the search did not end. */
static void test_the_answer_is_checked(void **state)
{
    struct fit fit;
    int64_t value = 0;
    const struct program p = {1e8, 1e5, 1, 0, true};
    (void)state;
    assert_int_equal(fit_init(&fit, 1, 65536), 0);
    assert_false(fit_check(&fit, &value));
    unsigned used = search(&p, 1, 65536, &fit);
    assert_true(fit_check(&fit, &value));
    assert_int_equal(value, 9001);
    fit_note_check(&fit, true);
    assert_true(fit.unsure);
    assert_int_equal(fit.runs, used + 1);
    assert_int_equal(fit.passed, 9000);
    assert_false(fit_check(&fit, &value));
    (void)search(&p, 1, 9000, &fit);
    assert_false(fit_check(&fit, &value));
    (void)search(&p, 9001, 9010, &fit); /* no value runs */
    assert_true(fit_check(&fit, &value));
    assert_int_equal(value, 9001);
    fit_note_check(&fit, false);
    assert_false(fit.unsure);
}

static void test_memory_that_falls_is_noticed(void **state)
{
    struct fit fit;
    int64_t smaller = 0;
    int64_t larger = 0;
    (void)state;
    assert_int_equal(fit_init(&fit, 1, 64), 0);
    fit_note(&fit, 8, true, 5e8, 0);
    fit_note(&fit, 32, true, 5e8, 0);
    assert_false(fit_is_not_monotone(&fit, &smaller, &larger));
    fit_note(&fit, 33, true, 4e8, 0);
    assert_true(fit_is_not_monotone(&fit, &smaller, &larger));
    assert_int_equal(smaller, 8);
    assert_int_equal(larger, 33);
}

static void test_ranges(void **state)
{
    struct fit fit;
    (void)state;
    assert_true(fit_init(&fit, 2, 1) < 0);
    assert_true(fit_init(&fit, -1, 1) < 0);
    assert_true(fit_init(&fit, 0, INT64_MAX) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact_within_the_bound),
        cmocka_unit_test(test_a_line_is_found_sooner),
        cmocka_unit_test(test_hints),
        cmocka_unit_test(test_the_answer_is_checked),
        cmocka_unit_test(test_memory_that_falls_is_noticed),
        cmocka_unit_test(test_ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
