/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proof that one pair's factor is on average at most 1 where the claim is false.
 *
 * Let pB and pC be the true rates. The two runs of a pair are independent, so the average is A * C with
 *     A = 1 + (qB - rB) (pB - rB) / (rB (1 - rB)),    C = 1 + (qC - rC) (pC - rC) / (rC (1 - rC)).
 * "Helps" is false where pC >= pB. There qB > qC, so rB = rC lies between them, A rises with pB and C
 * falls with pC. "No help" is false where pC <= w pB. There qC > w qB, so qB < rB and qC > rC; A falls
 * with pB and C rises with pC. In both cases A * C is largest on the border pC = w pB (w = 1 for
 * "helps"). Along the border it is a quadratic in pB with a negative leading coefficient. It has the
 * value 1 at pB = rB, and the slope there is 0 exactly when (rB, w rB) is the point of the border that
 * is nearest to (qB, qC), which is how it is chosen below. So A * C <= 1. A product of such factors
 * is a supermartingale, also with other rates in each pair, and so is a mean of such products.
 */
#include "experiment/sequential.h"

#include <math.h>
#include <stddef.h>

/* Guesses of a rate. The ends are the failures that come always or never. */
static const double rates[] = {0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.65, 0.8, 0.9, 1.0};
#define RATES (sizeof rates / sizeof rates[0])

/* Shares of the mean. Most real failures come each time, and a true cause cures: the guess "always
 * without, never with" has the largest share, and cures of flaky failures the next. */
#define SHARE_EXTREME 0.5
#define SHARE_PURE 0.25 /* a cure of a flaky failure; or no effect at all on one */
#define SHARE_REST 0.25

struct sum_of_logs {
    double largest, scaled; /* sum = scaled * exp(largest) */
};

static void add_log(struct sum_of_logs *sum, double log_value)
{
    if (log_value == -HUGE_VAL)
        return;
    if (log_value > sum->largest) {
        sum->scaled = sum->scaled * exp(sum->largest - log_value) + 1;
        sum->largest = log_value;
    } else {
        sum->scaled += exp(log_value - sum->largest);
    }
}

/* log of x / y, where 0 / y, and also 0 / 0, is 0: a guess that the data rule out counts nothing,
 * whatever the border says. The average stays below 1. */
static double log_ratio(double x, double y)
{
    return x <= 0 ? -HUGE_VAL : log(x / y);
}

/* count * each, where 0 times -infinity is 0. */
static double times(unsigned count, double each)
{
    return count > 0 ? count * each : 0;
}

/* The rate as it is of the nearest point to (qb, qc) on the border pC = w pB: the smaller root of
 * 2 w r^2 - (1 + w + w qb + qc) r + qb + qc. */
static double nearest_on_border(double qb, double qc, double w)
{
    double b = 1 + w + w * qb + qc;
    double root = sqrt(fmax(b * b - 8 * w * (qb + qc), 0));
    return (b - root) / (4 * w);
}

struct guess {
    double log_share;
    double base_failed, base_passed, changed_failed, changed_passed; /* log of the factor of a run */
};

struct guesses {
    size_t count; /* 0 = not made yet */
    struct guess guess[RATES * RATES];
};

/* 0 extreme, 1 pure, 2 the rest, -1 none: the claim does not hold for this guess. */
static int kind_of_guess(enum claim claim, double qb, double qc)
{
    if (claim == CLAIM_HELPS)
        return qb <= qc ? -1 : qc > 0 ? 2 : qb < 1 ? 1 : 0;
    return qb <= 0 || qc <= SEQUENTIAL_WORTH * qb ? -1 : qc < qb || qc > qb ? 2 : qb < 1 ? 1 : 0;
}

static void make_guesses(struct guesses *g, enum claim claim)
{
    static const double shares[] = {SHARE_EXTREME, SHARE_PURE, SHARE_REST};
    double w = claim == CLAIM_HELPS ? 1 : SEQUENTIAL_WORTH;
    unsigned of_kind[] = {0, 0, 0};
    for (size_t i = 0; i < RATES * RATES; i++) {
        int kind = kind_of_guess(claim, rates[i / RATES], rates[i % RATES]);
        if (kind >= 0)
            of_kind[kind]++;
    }
    for (size_t i = 0; i < RATES * RATES; i++) {
        double qb = rates[i / RATES];
        double qc = rates[i % RATES];
        int kind = kind_of_guess(claim, qb, qc);
        double r = nearest_on_border(qb, qc, w);
        if (kind >= 0)
            g->guess[g->count++] = (struct guess){
                .log_share = log(shares[kind] / of_kind[kind]),
                .base_failed = log_ratio(qb, r),
                .base_passed = log_ratio(1 - qb, 1 - r),
                .changed_failed = log_ratio(qc, w * r),
                .changed_passed = log_ratio(1 - qc, 1 - w * r),
            };
    }
}

double sequential_evidence(const struct pairs_of_runs *p, enum claim claim)
{
    static struct guesses made[2]; /* of each claim; they never change */
    struct guesses *g = &made[claim];
    struct sum_of_logs sum = {-HUGE_VAL, 0};
    if (g->count == 0)
        make_guesses(g, claim);
    for (const struct guess *q = g->guess; q < g->guess + g->count; q++)
        add_log(&sum, q->log_share + times(p->base_failed, q->base_failed) +
                          times(p->count - p->base_failed, q->base_passed) +
                          times(p->changed_failed, q->changed_failed) +
                          times(p->count - p->changed_failed, q->changed_passed));
    return sum.scaled > 0 ? sum.largest + log(sum.scaled) : -HUGE_VAL;
}

double sequential_majority(unsigned yes, unsigned count)
{
    static const double guesses[] = {0.65, 0.8, 0.9, 1.0};
    static const double shares[] = {0.05, 0.1, 0.15, 0.7};
    struct sum_of_logs sum = {-HUGE_VAL, 0};
    for (size_t i = 0; i < sizeof guesses / sizeof guesses[0]; i++)
        add_log(&sum, log(shares[i]) + times(yes, log_ratio(guesses[i], 0.5)) +
                          times(count - yes, log_ratio(1 - guesses[i], 0.5)));
    return sum.scaled > 0 ? sum.largest + log(sum.scaled) : -HUGE_VAL;
}

double sequential_threshold(double error, unsigned claims)
{
    return log((claims > 0 ? claims : 1) / error);
}

/* P(at most `failed` of `count` fail) at the rate p. */
static double at_most(unsigned failed, unsigned count, double p)
{
    double sum = 0;
    for (unsigned k = 0; k <= failed; k++)
        sum += exp(lgamma(count + 1.0) - lgamma(k + 1.0) - lgamma(count - k + 1.0) + k * log(p) +
                   (count - k) * log1p(-p));
    return sum;
}

double rate_at_most(unsigned failed, unsigned count, double error)
{
    double low = 0;
    double high = 1;
    if (count == 0 || failed >= count)
        return 1;
    for (int i = 0; i < 50; i++) {
        double middle = (low + high) / 2;
        if (at_most(failed, count, middle) > error)
            low = middle;
        else
            high = middle;
    }
    return high;
}
