/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A campaign: one command as it is (the baseline) and under single changes (the cells), in rounds. A round
 * runs the baseline and each undecided cell once, in an order that is drawn anew each time, so that heat,
 * caches and neighbours meet all of them alike. After each round it is decided what the runs have shown of
 * each cell (sequential.h). Pure: the caller runs the command and reports the outcome.
 */
#ifndef EXPERIMENT_CAMPAIGN_H
#define EXPERIMENT_CAMPAIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "experiment/sequential.h"

#define CAMPAIGN_CELLS_MAX 16 /* with the baseline, which is cell 0 */
#define CAMPAIGN_KEY_MAX 64
#define CAMPAIGN_KEYS_MAX 16 /* beyond these, each new kind counts as one that the baseline does not have */
#define CAMPAIGN_LOST_MAX 3 /* after so many lost runs in a row a change is no longer tried */
#define CAMPAIGN_ERROR 0.01   /* default: of all claims of a campaign together */

enum run_end {
    RUN_PASSED,
    RUN_FAILED,
    RUN_LOST, /* it could not be started, or left nothing to judge by: no result */
};

struct outcome {
    enum run_end end;
    char key[CAMPAIGN_KEY_MAX]; /* what kind of failure: failures of one key are the same one */
    bool has_progress;
    double progress;            /* how far it came, in the campaign's unit */
    double seconds;
};

enum finding {
    FINDING_UNDECIDED,
    FINDING_CURES,     /* fails less often, and has not failed at all */
    FINDING_LOWERS,    /* fails less often */
    FINDING_REFUTED,   /* takes away less than half of the failures */
    FINDING_POSTPONES, /* refuted, and the failure comes later */
    FINDING_OTHERWISE, /* the baseline's kinds of failure are rarer, others came instead */
    FINDING_LOST,      /* given up: its runs had no result */
};

struct cell {
    unsigned runs, failed;      /* of all rounds; lost runs are not counted */
    unsigned lost;              /* runs without a result, since the last one with a result */
    struct pairs_of_runs any;   /* pairs with the baseline: any failure */
    struct pairs_of_runs same;  /* failures of kinds that the baseline had shown before */
    unsigned later, compared;   /* pairs in which both failed alike, and this one came further */
    double gains[64];           /* progress of this one / of the baseline, of such pairs */
    double seconds;             /* of all its runs */
    char other[CAMPAIGN_KEY_MAX]; /* the last failure that the baseline does not have */
    enum finding finding;
    unsigned decided_in;        /* round, 0 = not decided */
};

struct campaign {
    size_t count; /* cells with the baseline */
    struct cell cell[CAMPAIGN_CELLS_MAX];
    double error;
    unsigned rounds; /* whole ones */
    char keys[CAMPAIGN_KEYS_MAX][CAMPAIGN_KEY_MAX]; /* of the baseline's failures */
    size_t key_count;
    uint64_t random;
    /* the current round */
    size_t order[CAMPAIGN_CELLS_MAX], order_count, at;
    struct outcome now[CAMPAIGN_CELLS_MAX];
};

/* `cells` changes beside the baseline, at most CAMPAIGN_CELLS_MAX - 1. `error` 0: CAMPAIGN_ERROR. The
 * order of runs follows from `seed`. */
void campaign_init(struct campaign *c, size_t cells, double error, uint64_t seed);
/* Notes a run of the unchanged command from before the campaign. Its failure is of a kind that the baseline has. */
void campaign_learn(struct campaign *c, const struct outcome *base);
/* The cell whose turn it is; -1 when everything is decided. */
int campaign_next(struct campaign *c);
/* Notes how the run of that cell ended. */
void campaign_note(struct campaign *c, const struct outcome *outcome);
/* Expected number of runs until everything is decided, at the rates so far; -1 = not known. */
double campaign_runs_left(const struct campaign *c);
/* The median of progress / the baseline's, of pairs that failed alike; 0 = not known. */
double campaign_gain(const struct cell *cell);
bool finding_confirms(enum finding finding);
/* The runs have shown it: neither undecided nor lost. */
bool finding_is_shown(enum finding finding);
const char *finding_name(enum finding finding); /* "cures", "lowers", "refuted", ... */

#endif
