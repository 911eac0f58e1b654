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

static void learn_key(struct campaign *c, const struct outcome *base)
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

static void compare(struct campaign *c, size_t i)
{
    const struct outcome *base = &c->now[0];
    const struct outcome *o = &c->now[i];
    struct cell *cell = &c->cell[i];
    if (base->end == RUN_LOST || o->end == RUN_LOST)
        return;
    bool same = o->end == RUN_FAILED && is_baselines(c, o->key);
    note_pair(&cell->any, base->end == RUN_FAILED, o->end == RUN_FAILED);
    note_pair(&cell->same, base->end == RUN_FAILED, same);
    cell->same_failed += same;
    if (o->end == RUN_FAILED && !same)
        (void)snprintf(cell->other, sizeof cell->other, "%s", o->key);
    if (base->end == RUN_FAILED && same)
        note_progress(cell, base, o);
}

/*
 * A change "helps" when runs fail less often in any way: one that makes the program stop early for
 * another reason must not be called a cure. It is "no help" when the baseline's own kind of failure
 * stays. So each claim is tested with the count that is harder for it.
 *
 * Two claims a cell share the error: whatever the true rates are, at most two of the events that would
 * make a finding wrong are possible. Where changed runs fail as often, these are "helps" and "later".
 * Where they fail as often in another way, "helps" and "no help". Where they fail half as often or
 * less, the two counts of "no help" ("later" is possible only for a change that is no help).
 */
static enum finding judge(const struct campaign *c, const struct cell *cell)
{
    unsigned claims = (unsigned)(c->count - 1) * 2;
    double threshold = sequential_threshold(c->error, claims);
    bool kind_helped = sequential_evidence(&cell->same, CLAIM_HELPS) >= threshold;
    if (kind_helped && sequential_evidence(&cell->any, CLAIM_HELPS) >= threshold)
        return cell->failed == 0 ? FINDING_CURES : FINDING_LOWERS;
    if (kind_helped && sequential_evidence(&cell->any, CLAIM_NO_HELP) >= threshold)
        return FINDING_OTHERWISE;
    if (sequential_evidence(&cell->same, CLAIM_NO_HELP) < threshold)
        return FINDING_UNDECIDED;
    return sequential_majority(cell->later, cell->compared) >= threshold ? FINDING_POSTPONES
                                                                        : FINDING_REFUTED;
}

static void end_round(struct campaign *c)
{
    c->rounds++;
    learn_key(c, &c->now[0]);
    for (size_t i = 1; i < c->count; i++) {
        struct cell *cell = &c->cell[i];
        if (cell->decided_in > 0)
            continue;
        compare(c, i);
        cell->finding = judge(c, cell);
        if (cell->finding != FINDING_UNDECIDED)
            cell->decided_in = c->rounds;
    }
}

void campaign_note(struct campaign *c, const struct outcome *outcome)
{
    size_t i = c->order[c->at++];
    struct cell *cell = &c->cell[i];
    c->now[i] = *outcome;
    cell->seconds += outcome->seconds;
    cell->runs += outcome->end != RUN_LOST;
    cell->failed += outcome->end == RUN_FAILED;
    if (c->at == c->order_count)
        end_round(c);
}

double campaign_runs_left(const struct campaign *c)
{
    double threshold = sequential_threshold(c->error, (unsigned)(c->count - 1) * 2);
    double cells = 0;
    double longest = 0;
    for (size_t i = 1; i < c->count; i++) {
        const struct cell *cell = &c->cell[i];
        if (cell->decided_in > 0)
            continue;
        double evidence = fmax(sequential_evidence(&cell->any, CLAIM_HELPS),
                               sequential_evidence(&cell->same, CLAIM_NO_HELP));
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

const char *finding_name(enum finding finding)
{
    static const char *const names[] = {"undecided", "cures",     "lowers",
                                        "refuted",   "postpones", "otherwise"};
    return names[finding];
}
