/* SPDX-License-Identifier: Apache-2.0 */
#include "experiment/campaign.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Progress that differs by less is the same: clocks and allocators are no finer. */
#define LATER_BY 1.01
#define GAINS_MAX (sizeof((struct cell *)0)->gains / sizeof(double))

void campaign_init(struct campaign *c, size_t cells, double error, uint64_t seed)
{
    memset(c, 0, sizeof *c);
    c->count = 1 + (cells < CAMPAIGN_CELLS_MAX ? cells : CAMPAIGN_CELLS_MAX - 1);
    c->error = error > 0 ? error : CAMPAIGN_ERROR;
    c->random = seed;
}

/* splitmix64: the order of a round needs no better one. */
static uint64_t draw(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static void begin_round(struct campaign *c)
{
    c->at = c->order_count = 0;
    for (size_t i = 0; i < c->count; i++)
        if (i == 0 || c->cell[i].decided_in == 0)
            c->order[c->order_count++] = i;
    for (size_t i = c->order_count; i > 1; i--) {
        size_t other = (size_t)(draw(&c->random) % i);
        size_t moved = c->order[i - 1];
        c->order[i - 1] = c->order[other];
        c->order[other] = moved;
    }
}

int campaign_next(struct campaign *c)
{
    if (c->at == c->order_count)
        begin_round(c);
    return c->order_count > 1 || c->count == 1 ? (int)c->order[c->at] : -1;
}

static bool is_baselines(const struct campaign *c, const char *key)
{
    for (size_t i = 0; i < c->key_count; i++)
        if (strcmp(c->keys[i], key) == 0)
            return true;
    return false;
}

void campaign_learn(struct campaign *c, const struct outcome *base)
{
    if (base->end == RUN_FAILED && !is_baselines(c, base->key) && c->key_count < CAMPAIGN_KEYS_MAX)
        (void)snprintf(c->keys[c->key_count++], CAMPAIGN_KEY_MAX, "%s", base->key);
}

static void note_pair(struct pairs_of_runs *pairs, bool base_failed, bool changed_failed)
{
    pairs->count++;
    pairs->base_failed += base_failed;
    pairs->changed_failed += changed_failed;
}

static void note_progress(struct cell *cell, const struct outcome *base, const struct outcome *o)
{
    if (!base->has_progress || !o->has_progress || base->progress <= 0)
        return;
    if (cell->compared < GAINS_MAX)
        cell->gains[cell->compared] = o->progress / base->progress;
    cell->compared++;
    cell->later += o->progress > base->progress * LATER_BY;
}

/*
 * Both runs of a pair are counted alike. A failure is one of the baseline's kinds only if an earlier round
 * has shown that kind: the run as it is of this round must not choose what the changed run is compared with.
 * As long as no kind is known, there is nothing to compare kinds by.
 */
static void compare(struct campaign *c, size_t i)
{
    const struct outcome *base = &c->now[0];
    const struct outcome *o = &c->now[i];
    struct cell *cell = &c->cell[i];
    if (base->end == RUN_LOST || o->end == RUN_LOST)
        return;
    bool base_failed = base->end == RUN_FAILED;
    bool changed_failed = o->end == RUN_FAILED;
    note_pair(&cell->any, base_failed, changed_failed);
    if (c->key_count > 0)
        note_pair(&cell->same, base_failed && is_baselines(c, base->key), changed_failed && is_baselines(c, o->key));
    if (changed_failed && !is_baselines(c, o->key) && strcmp(o->key, base->key) != 0)
        (void)snprintf(cell->other, sizeof cell->other, "%s", o->key);
    if (base_failed && changed_failed && strcmp(base->key, o->key) == 0)
        note_progress(cell, base, o);
}

/* Shares of the error of a cell. At most SHARE_HELPS + SHARE_OTHERWISE + SHARE_LATER, or SHARE_HELPS +
 * SHARE_NO_HELP, is ever at stake (see judge()). */
#define SHARE_HELPS 0.5
#define SHARE_NO_HELP 0.5
#define SHARE_OTHERWISE 0.25
#define SHARE_LATER 0.25

/* The log e-value at which a claim with this share is made. */
static double needed(const struct campaign *c, double share)
{
    return sequential_threshold(c->error * share, (unsigned)(c->count - 1));
}

/* The smaller evidence of the two counts. A change that removes one kind of failure but leaves another is not called
 * "no help", and neither is one that brings another kind. */
static double evidence_of_no_help(const struct cell *cell)
{
    return fmin(sequential_evidence(&cell->any, CLAIM_NO_HELP), sequential_evidence(&cell->same, CLAIM_NO_HELP));
}

/*
 * A change "helps" when runs fail less often in any way: one that makes the program stop early for
 * another reason must not be called a cure. It is "no help" when failures of any kind, and those of the
 * baseline's kinds, stay. It "fails otherwise" when failures stay and the baseline's kinds become rarer.
 *
 * Which of these can be wrong depends on the true rates. Let "any" be all failures, "same" those of the
 * baseline's kinds.
 *  - "any" falls to half or less: every wrong finding needs the evidence that "any" is no help.
 *  - Else, "same" falls to half or less: "helps" may be wrong, and "no help" by its count of "same".
 *  - Else: "helps", "otherwise" and "later" may be wrong.
 * So the shares of each line sum up to 1 at most.
 */
static enum finding judge(const struct campaign *c, const struct cell *cell)
{
    double no_help = needed(c, SHARE_NO_HELP);
    if (sequential_evidence(&cell->any, CLAIM_HELPS) >= needed(c, SHARE_HELPS))
        return cell->failed == 0 ? FINDING_CURES : FINDING_LOWERS;
    if (sequential_evidence(&cell->same, CLAIM_HELPS) >= needed(c, SHARE_OTHERWISE) &&
        sequential_evidence(&cell->any, CLAIM_NO_HELP) >= no_help)
        return FINDING_OTHERWISE;
    if (evidence_of_no_help(cell) < no_help)
        return FINDING_UNDECIDED;
    return sequential_majority(cell->later, cell->compared) >= needed(c, SHARE_LATER) ? FINDING_POSTPONES
                                                                                      : FINDING_REFUTED;
}

static void end_round(struct campaign *c)
{
    c->rounds++;
    for (size_t i = 1; i < c->count; i++) {
        struct cell *cell = &c->cell[i];
        if (cell->decided_in > 0)
            continue;
        compare(c, i);
        cell->finding = cell->lost >= CAMPAIGN_LOST_MAX ? FINDING_LOST : judge(c, cell);
        if (cell->finding != FINDING_UNDECIDED)
            cell->decided_in = c->rounds;
    }
    campaign_learn(c, &c->now[0]);
}

void campaign_note(struct campaign *c, const struct outcome *outcome)
{
    size_t i = c->order[c->at++];
    struct cell *cell = &c->cell[i];
    c->now[i] = *outcome;
    cell->seconds += outcome->seconds;
    cell->runs += outcome->end != RUN_LOST;
    cell->failed += outcome->end == RUN_FAILED;
    cell->lost = outcome->end == RUN_LOST ? cell->lost + 1 : 0;
    if (c->at == c->order_count)
        end_round(c);
}

double campaign_runs_left(const struct campaign *c)
{
    double threshold = needed(c, SHARE_NO_HELP); /* SHARE_HELPS is the same */
    double cells = 0;
    double longest = 0;
    for (size_t i = 1; i < c->count; i++) {
        const struct cell *cell = &c->cell[i];
        if (cell->decided_in > 0)
            continue;
        double evidence = fmax(sequential_evidence(&cell->any, CLAIM_HELPS), evidence_of_no_help(cell));
        if (c->rounds < 2 || evidence < 0.5)
            return -1;
        /* The mean over the guesses costs a part of the first rounds: about log(2). */
        double rounds = c->rounds * ((threshold + 0.7) / (evidence + 0.7) - 1);
        cells += rounds;
        longest = fmax(longest, rounds);
    }
    return cells + longest;
}

static int by_value(const void *a, const void *b)
{
    const double *x = a;
    const double *y = b;
    return (*x > *y) - (*x < *y);
}

double campaign_gain(const struct cell *cell)
{
    double sorted[GAINS_MAX];
    size_t n = cell->compared < GAINS_MAX ? cell->compared : GAINS_MAX;
    if (n == 0)
        return 0;
    memcpy(sorted, cell->gains, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_value);
    return n % 2 == 1 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

bool finding_confirms(enum finding finding)
{
    return finding == FINDING_CURES || finding == FINDING_LOWERS;
}

bool finding_is_shown(enum finding finding)
{
    return finding != FINDING_UNDECIDED && finding != FINDING_LOST;
}

const char *finding_name(enum finding finding)
{
    static const char *const names[] = {"undecided", "cures",     "lowers",
                                        "refuted",   "postpones", "otherwise", "lost"};
    return names[finding];
}
