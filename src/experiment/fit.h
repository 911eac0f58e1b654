/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The largest value of a numeric option that still runs, by bisection over real runs that a model of memory
 * guides: bytes = fixed + slope * value, fitted to the runs that passed, and the room that a run which failed
 * had. No more runs than floor(log2(number of values)) + 2, however wrong the model is, and one that checks
 * the answer. Pure: the caller runs the command and reports the outcome.
 */
#ifndef EXPERIMENT_FIT_H
#define EXPERIMENT_FIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FIT_POINTS_MAX 64

struct fit_point {
    int64_t value;
    bool passed;
    double bytes; /* that it had at its peak, or wanted when it failed; 0 = not known */
};

struct fit {
    int64_t min, max;
    int64_t passed; /* largest value known to run; min - 1 = none yet */
    int64_t failed; /* smallest value known not to; max + 1 = none yet */
    unsigned runs, runs_max;
    bool checked;   /* `failed` was run a second time */
    bool unsure;    /* the second run passed: the failure does not depend on the value alone */
    int64_t hint;   /* what a run that failed said would fit; -1 = nothing */
    int64_t start;  /* the value of the first run; -1 = a small one */
    double room;    /* bytes that a run may have; 0 = not known */
    size_t count;
    struct fit_point point[FIT_POINTS_MAX];
};

struct fit_model {
    bool known;
    double fixed, slope; /* bytes; bytes a unit of the value */
    double error;        /* largest distance of a point from the line, bytes */
    int64_t predicted;   /* largest value that fits the room; 0 where `has_prediction` is false */
    bool has_prediction;
};

/* 0, or -EINVAL when the range is empty or too wide. */
int fit_init(struct fit *fit, int64_t min, int64_t max);
/* Before the first run: a value that should fit by an estimate, in place of a small one. */
void fit_start(struct fit *fit, int64_t value);
/* The value to run next. False: the answer is fit->passed (min - 1 = none runs). */
bool fit_next(const struct fit *fit, int64_t *ret);
/* `room` 0 = not known from this run. */
void fit_note(struct fit *fit, int64_t value, bool passed, double bytes, double room);
/* When the search is over: the value to run once more, the smallest that fails. False: none does, or it was. */
bool fit_check(const struct fit *fit, int64_t *ret);
void fit_note_check(struct fit *fit, bool passed);
/* A value that would fit, according to the run noted last: from a model's header or an engine's report.
 * The search tries it like any other value. */
void fit_hint(struct fit *fit, int64_t value);
void fit_model(const struct fit *fit, struct fit_model *ret);
/* True if memory fell while the value rose: then a larger value may run although a smaller one does not.
 * Sets the two values. */
bool fit_is_not_monotone(const struct fit *fit, int64_t *ret_smaller, int64_t *ret_larger);

#endif
