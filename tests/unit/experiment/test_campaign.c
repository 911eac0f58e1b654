/* SPDX-License-Identifier: Apache-2.0 */
/* Campaigns with planted causes: how often a cause is confirmed or refuted, how often wrongly, and how often the budget
 * ends without a result. The seeds are fixed. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "experiment/campaign.h"
#include "experiment/sequential.h"

#define CAMPAIGNS 100
#define WRONG_MAX 1 /* of 100 */
#define CELLS 4

static uint64_t random_state;

static double draw(void)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(random_state >> 11) / 9007199254740992.0;
}

/* --- the e-value --- */

/* Average of the factor of one pair under the rates pb and pc. */
static double average(enum claim claim, double pb, double pc)
{
    double sum = 0;
    for (unsigned failed = 0; failed < 4; failed++) {
        struct pairs_of_runs pair = {1, failed & 1, failed >> 1};
        sum += (pair.base_failed ? pb : 1 - pb) * (pair.changed_failed ? pc : 1 - pc) *
               exp(sequential_evidence(&pair, claim));
    }
    return sum;
}

static void test_average_is_at_most_one(void **state)
{
    double largest = 0;
    (void)state;
    for (int b = 0; b <= 100; b++)
        for (int c = 0; c <= 100; c++) {
            if (c >= b)
                largest = fmax(largest, average(CLAIM_HELPS, b / 100.0, c / 100.0));
            if (c <= SEQUENTIAL_WORTH * b)
                largest = fmax(largest, average(CLAIM_NO_HELP, b / 100.0, c / 100.0));
        }
    assert_true(largest <= 1 + 1e-12);
    assert_true(average(CLAIM_HELPS, 1, 0) > 1.5);
    assert_true(average(CLAIM_NO_HELP, 1, 1) > 1.2);
}

/* The rounds needed if the failure always comes and the change always or never helps. */
static void test_how_many_pairs(void **state)
{
    unsigned cured = 1;
    unsigned stays = 1;
    double threshold = sequential_threshold(CAMPAIGN_ERROR, 2);
    (void)state;
    while (sequential_evidence(&(struct pairs_of_runs){cured, cured, 0}, CLAIM_HELPS) < threshold)
        cured++;
    while (sequential_evidence(&(struct pairs_of_runs){stays, stays, stays}, CLAIM_NO_HELP) < threshold)
        stays++;
    print_message("one change: %u pairs confirm a cure, %u refute it\n", cured, stays);
    assert_in_range(cured, 4, 6);
    assert_in_range(stays, 7, 10);
}

static void test_bound_of_a_rate(void **state)
{
    (void)state;
    assert_float_equal(rate_at_most(0, 10, 0.05), 0.2589, 1e-4); /* 1 - 0.05^(1/10) */
    assert_float_equal(rate_at_most(2, 10, 0.05), 0.5069, 1e-4);
    assert_float_equal(rate_at_most(3, 3, 0.05), 1, 0);
}

/* --- campaigns --- */

struct planted {
    double fails, otherwise; /* failure rates: of the baseline's kind, of another kind */
    double later;            /* progress, as a multiple of the baseline's */
    unsigned right;          /* set of 1 << enum finding */
};

struct scenario {
    const char *name;
    double base;
    double drift; /* added to every rate, times -1 .. 1 over 200 rounds */
    unsigned kinds; /* of failure, each as probable */
    unsigned runs;
    struct planted cell[CELLS];
};

#define BIT(finding) (1u << FINDING_##finding)
#define NOTHING (BIT(REFUTED) | BIT(UNDECIDED))

static const struct scenario scenarios[] = {
    {"fails only with the copy engine on", 1, 0, 1, 60,
     {{0, 0, 1, BIT(CURES)}, {1, 0, 1, BIT(REFUTED)}, {1, 0, 1, BIT(REFUTED)}, {1, 0, 1, BIT(REFUTED)}}},
    {"fails only above 1,024 descriptors", 1, 0, 1, 60,
     {{1, 0, 1, BIT(REFUTED)}, {0, 0, 1, BIT(CURES)}, {1, 0, 1, BIT(REFUTED)}, {0, 1, 0.1, BIT(OTHERWISE)}}},
    {"fails only under one allocator setting", 0.9, 0, 1, 240,
     {{0, 0, 1, BIT(CURES)}, {0.9, 0, 1, BIT(REFUTED)}, {0.9, 0, 1, BIT(REFUTED)}, {0.9, 0, 1, BIT(REFUTED)}}},
    {"cured by expandable segments", 1, 0, 1, 60,
     {{0, 0, 1, BIT(CURES)}, {1, 0, 1, BIT(REFUTED)}, {1, 0, 1, BIT(REFUTED)}, {1, 0, 1, BIT(REFUTED)}}},
    {"only postponed by expandable segments", 1, 0, 1, 60,
     {{1, 0, 1.02, BIT(POSTPONES)}, {1, 0, 1, BIT(REFUTED)}, {1, 0, 1.4, BIT(POSTPONES)}, {1, 0, 0.9, BIT(REFUTED)}}},
    {"30 % flaky with no cause", 0.3, 0, 1, 1500,
     {{0.3, 0, 1, NOTHING}, {0.3, 0, 1, NOTHING}, {0.3, 0, 1, NOTHING}, {0.3, 0, 1, NOTHING}}},
    {"30 % flaky, drifting from 0 to 60 %", 0.3, 0.3, 1, 1500,
     {{0.3, 0, 1, NOTHING}, {0.3, 0, 1, NOTHING}, {0.3, 0, 1, NOTHING}, {0.3, 0, 1, NOTHING}}},
    {"30 % flaky with a variable that halves it", 0.3, 0, 1, 1500,
     {{0.15, 0, 1, BIT(LOWERS) | BIT(UNDECIDED)}, {0.3, 0, 1, NOTHING}, {0.3, 0, 1, NOTHING}, {0.3, 0, 1, NOTHING}}},
    {"30 % flaky with a variable that cures it", 0.3, 0, 1, 600,
     {{0, 0, 1, BIT(CURES) | BIT(UNDECIDED)}, {0.3, 0, 1, NOTHING}, {0.3, 0, 1, NOTHING}, {0.3, 0, 1, NOTHING}}},
    {"a change that breaks the program instead", 0.3, 0, 1, 600,
     {{0, 0.6, 0.1, BIT(OTHERWISE) | BIT(UNDECIDED)}, {0.3, 0, 1, NOTHING}, {0.3, 0, 1, NOTHING}, {0.3, 0, 1, NOTHING}}},
    {"six kinds of failure with no cause", 1, 0, 6, 300,
     {{1, 0, 1, NOTHING}, {1, 0, 1, NOTHING}, {1, 0, 1, NOTHING}, {1, 0, 1, NOTHING}}},
    {"20 kinds of failure with no cause", 1, 0, 20, 300,
     {{1, 0, 1, NOTHING}, {1, 0, 1, NOTHING}, {1, 0, 1, NOTHING}, {1, 0, 1, NOTHING}}},
    {"50 % flaky, 100 kinds with no cause", 0.5, 0, 100, 1500,
     {{0.5, 0, 1, NOTHING}, {0.5, 0, 1, NOTHING}, {0.5, 0, 1, NOTHING}, {0.5, 0, 1, NOTHING}}},
    {"100 kinds of failure, one change cures", 1, 0, 100, 60,
     {{0, 0, 1, BIT(CURES)}, {1, 0, 1, NOTHING}, {0, 1, 0.1, BIT(OTHERWISE) | BIT(UNDECIDED)}, {1, 0, 1, NOTHING}}},
    {"two kinds of failure, one change lowers", 1, 0, 2, 300,
     {{0.2, 0, 1, BIT(LOWERS) | BIT(CURES)}, {0, 1, 0.1, BIT(OTHERWISE)}, {1, 0, 1, NOTHING}, {1, 0, 1.2, NOTHING | BIT(POSTPONES)}}},
};

static struct outcome run_once(const struct planted *p, double drift, unsigned kinds)
{
    struct outcome o = {.has_progress = true, .seconds = 1};
    double u = draw();
    double fails = p->fails > 0 ? p->fails + drift * (p->fails / 0.3) : 0;
    o.end = u < fails + p->otherwise ? RUN_FAILED : RUN_PASSED;
    if (u < fails && kinds > 1)
        (void)snprintf(o.key, sizeof o.key, "signal %u", (unsigned)(draw() * kinds));
    else
        (void)snprintf(o.key, sizeof o.key, "%s", u < fails ? "memory" : "exit 2");
    o.progress = p->later * (100 + 0.5 * draw()); /* half a percent of noise */
    return o;
}

static void run_campaign(const struct scenario *s, struct campaign *c, uint64_t seed)
{
    const struct planted base = {.fails = s->base, .later = 1};
    int cell;
    random_state = seed;
    campaign_init(c, CELLS, 0, seed);
    for (unsigned run = 0; run < s->runs && (cell = campaign_next(c)) >= 0; run++) {
        double drift = s->drift * fmin(c->rounds / 100.0 - 1, 1);
        struct outcome o = run_once(cell == 0 ? &base : &s->cell[cell - 1], drift, s->kinds);
        campaign_note(c, &o);
    }
}

static void run_scenario(const struct scenario *s)
{
    unsigned wrong = 0;
    unsigned undecided[CELLS] = {0};
    unsigned long runs = 0;
    for (unsigned i = 0; i < CAMPAIGNS; i++) {
        struct campaign c;
        bool is_wrong = false;
        run_campaign(s, &c, 1000 * i + 17);
        for (size_t cell = 0; cell < CELLS; cell++) {
            enum finding found = c.cell[cell + 1].finding;
            undecided[cell] += found == FINDING_UNDECIDED;
            is_wrong = is_wrong || (s->cell[cell].right & (1u << found)) == 0;
        }
        for (size_t cell = 0; cell < c.count; cell++)
            runs += c.cell[cell].runs;
        wrong += is_wrong;
    }
    print_message("%-45s wrong %u of %d, %lu runs each, undecided %u %u %u %u\n", s->name, wrong, CAMPAIGNS,
                  runs / CAMPAIGNS, undecided[0], undecided[1], undecided[2], undecided[3]);
    assert_in_range(wrong, 0, WRONG_MAX);
}

static void test_planted_causes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++)
        run_scenario(&scenarios[i]);
}

/* --- the order of runs --- */

static void test_a_round_runs_each_cell_once(void **state)
{
    struct campaign c;
    unsigned seen[3] = {0};
    unsigned first[3] = {0};
    (void)state;
    campaign_init(&c, 2, 0, 1);
    for (unsigned i = 0; i < 30; i++) {
        int cell = campaign_next(&c);
        assert_in_range(cell, 0, 2);
        assert_int_equal(cell, campaign_next(&c)); /* asking changes nothing */
        seen[cell]++;
        first[cell] += i % 3 == 0;
        campaign_note(&c, &(struct outcome){.end = RUN_PASSED});
        if (i % 3 == 2)
            assert_true(seen[0] == seen[1] && seen[1] == seen[2]);
    }
    assert_int_equal(c.rounds, 10);
    assert_true(first[0] > 0 && first[1] > 0 && first[2] > 0);
}

/* Runs of a command that never fails show nothing. */
static void test_nothing_is_said_without_a_failure(void **state)
{
    struct campaign c;
    (void)state;
    campaign_init(&c, 2, 0, 1);
    for (unsigned i = 0; i < 300; i++) {
        (void)campaign_next(&c);
        campaign_note(&c, &(struct outcome){.end = RUN_PASSED});
    }
    assert_int_equal(c.cell[1].finding, FINDING_UNDECIDED);
    assert_int_equal(c.cell[1].runs, 100);
}

/* Lost runs count for nothing. A change is given up when three of its runs in a row are lost. */
static void test_a_change_that_loses_its_runs_is_given_up(void **state)
{
    struct campaign c;
    int cell;
    unsigned runs[3] = {0};
    (void)state;
    campaign_init(&c, 2, 0, 1);
    while ((cell = campaign_next(&c)) >= 0) {
        bool lost = cell == 1 || (cell == 2 && runs[2] % 3 != 0); /* two lost in a row, then one that is not lost */
        campaign_note(&c, &(struct outcome){.end = lost ? RUN_LOST : RUN_FAILED, .key = "x"});
        runs[cell]++;
    }
    assert_int_equal(c.cell[1].finding, FINDING_LOST);
    assert_false(finding_is_shown(c.cell[1].finding));
    assert_int_equal(runs[1], CAMPAIGN_LOST_MAX);
    assert_int_equal(c.cell[1].runs, 0);
    assert_int_equal(c.cell[2].finding, FINDING_REFUTED);
}

static void test_a_decided_cell_is_not_run_again(void **state)
{
    struct campaign c;
    int cell;
    unsigned runs = 0;
    (void)state;
    campaign_init(&c, 2, 0, 3);
    for (; (cell = campaign_next(&c)) >= 0 && runs < 100; runs++)
        campaign_note(&c, &(struct outcome){.end = cell == 1 ? RUN_PASSED : RUN_FAILED, .key = "x",
                                            .has_progress = true, .progress = cell == 2 ? 3 : 2});
    assert_int_equal(c.cell[1].finding, FINDING_CURES);
    assert_int_equal(c.cell[2].finding, FINDING_POSTPONES);
    assert_float_equal(campaign_gain(&c.cell[2]), 1.5, 1e-12);
    assert_true(c.cell[1].decided_in < c.cell[2].decided_in);
    assert_int_equal(c.cell[1].runs, c.cell[1].decided_in);
    assert_int_equal(runs, c.cell[1].runs + 2 * c.cell[2].runs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_average_is_at_most_one),
        cmocka_unit_test(test_how_many_pairs),
        cmocka_unit_test(test_bound_of_a_rate),
        cmocka_unit_test(test_a_round_runs_each_cell_once),
        cmocka_unit_test(test_nothing_is_said_without_a_failure),
        cmocka_unit_test(test_a_change_that_loses_its_runs_is_given_up),
        cmocka_unit_test(test_a_decided_cell_is_not_run_again),
        cmocka_unit_test(test_planted_causes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
