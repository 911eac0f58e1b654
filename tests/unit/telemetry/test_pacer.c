/* SPDX-License-Identifier: Apache-2.0 */
/* The sampler's share of a core. No clock is read; the test sets the time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "telemetry/pacer.h"

#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)

/* Works at its period for `seconds`, with a given cost for each piece. Returns the used share of the time in ppm. */
static double work(struct pacer *p, uint64_t *now_ns, uint64_t seconds, uint64_t piece_ns)
{
    uint64_t end_ns = *now_ns + seconds * SECOND;
    uint64_t used_ns = 0;
    for (; *now_ns < end_ns; used_ns += piece_ns) {
        (void)pacer_spend(p, piece_ns, *now_ns);
        *now_ns += pacer_period(p, SECOND);
    }
    return (double)used_ns * 1e6 / ((double)seconds * 1e9);
}

static void within_its_share_nothing_is_stretched(void **state)
{
    struct pacer p = {.share_ppm = 200};
    uint64_t now_ns = SECOND;
    (void)state;
    (void)work(&p, &now_ns, 60, MS / 10);
    assert_int_equal(pacer_period(&p, SECOND), SECOND);
}

static void an_expensive_piece_of_work_keeps_to_the_share(void **state)
{
    (void)state;
    for (uint32_t jump_max = 0; jump_max <= 4; jump_max += 4) {
        struct pacer p = {.share_ppm = 200, .jump_max = jump_max};
        uint64_t now_ns = SECOND;
        (void)work(&p, &now_ns, 120, 5 * MS); /* 25 times too expensive */
        assert_true(pacer_period(&p, SECOND) > 20 * SECOND);
        assert_true(pacer_period(&p, SECOND) < 30 * SECOND);
        assert_true(work(&p, &now_ns, 2000, 5 * MS) < 220);
    }
}

/* One window 25 times too expensive, then a tenth of that: sampled again within seconds, not after
 * a minute. */
static void an_expensive_start_is_soon_forgotten(void **state)
{
    (void)state;
    struct pacer p = {.share_ppm = 200, .jump_max = 4};
    uint64_t now_ns = SECOND;
    (void)work(&p, &now_ns, 3, 5 * MS);
    assert_int_equal(pacer_period(&p, SECOND), 4 * SECOND);
    (void)work(&p, &now_ns, 10, MS / 4);
    assert_true(pacer_period(&p, SECOND) < 2 * SECOND);
}

static void what_changes_much_is_told_once(void **state)
{
    struct pacer p = {.share_ppm = 200};
    (void)state;
    assert_false(pacer_spend(&p, 4 * MS, SECOND)); /* the window begins */
    assert_false(pacer_spend(&p, 4 * MS, 2 * SECOND));
    assert_true(pacer_spend(&p, 0, 3 * SECOND)); /* 4,000 ppm: x 20 */
    assert_int_equal(pacer_period(&p, SECOND), 20 * SECOND);
    assert_false(pacer_spend(&p, 8 * MS, 43 * SECOND)); /* 200 ppm: not stretched */
    assert_true(pacer_spend(&p, 0, 83 * SECOND));       /* no work at all */
    assert_int_equal(pacer_period(&p, SECOND), SECOND);
}

static void it_is_never_longer_than_600_times(void **state)
{
    struct pacer p = {.share_ppm = 1};
    (void)state;
    (void)pacer_spend(&p, 0, SECOND);
    assert_true(pacer_spend(&p, 2 * SECOND, 3 * SECOND));
    assert_int_equal(pacer_period(&p, SECOND), 600 * SECOND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(within_its_share_nothing_is_stretched),
        cmocka_unit_test(an_expensive_piece_of_work_keeps_to_the_share),
        cmocka_unit_test(an_expensive_start_is_soon_forgotten),
        cmocka_unit_test(what_changes_much_is_told_once),
        cmocka_unit_test(it_is_never_longer_than_600_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
