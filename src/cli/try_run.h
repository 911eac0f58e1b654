/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One run of a command under rocmcrash, with one change or none: its output is counted and goes nowhere
 * else, its stdin is empty, it has a process group of its own. What became of it is read from its bundle.
 */
#ifndef CLI_TRY_RUN_H
#define CLI_TRY_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/fs.h"

struct change;
struct facts;
struct outcome;
struct rc_err;

struct try_limits {
    uint64_t fail_after_ns, pass_after_ns; /* 0 = none */
};

/* Called a few times a second while the run goes on. False: end it. */
typedef bool (*try_tick)(void *context, double seconds);

struct try_run {
    int wait_status;
    bool end_unknown;  /* there was no child to wait for; wait_status means nothing */
    bool ended_by_us;  /* tick() asked for it; the run has no result */
    bool failed_late;  /* it was still there after fail_after */
    bool outlived;     /* it was still there after pass_after */
    double seconds;    /* with what rocmcrash does after the command's end */
    uint64_t lines;    /* on stdout and stderr */
    bool not_started;  /* rocmcrash could not; `tail` says why */
    char tail[200];    /* of what was printed */
    char bundle[FS_PATH_MAX]; /* "" = it left none */
};

struct try_plan {
    char *const *command; /* ends with NULL */
    const char *cwd;      /* "" = here */
    const struct change *change; /* NULL = none */
    const char *folder;   /* exists and is ours; the bundle goes there */
    const char *campaign; /* the folder with the folders of all runs */
    struct try_limits limits;
    try_tick tick;
    void *context;        /* of tick() */
};

/* 0 or -errno with *err. */
int try_run(struct try_run *ret, const struct try_plan *plan, struct rc_err *err);

/* A new folder "rocmcrash-VERB-<time>-..." in output_dir (NULL = here) for the bundles of runs. Each gets
 * FS_PATH_MAX bytes; ret_here, the absolute path of output_dir, may be NULL. 0 or -errno with *err. */
int try_make_folder(const char *output_dir, const char *verb, char *ret_here, char *ret_folder,
                    struct rc_err *err);

/* The verdict of the run, read from its bundle. */
struct try_verdict {
    char class_name[32];
    char runner_up[32];
    struct facts *facts; /* NULL = no bundle; facts_free() it */
};

/* Units of progress. The first failing run of a campaign decides which one is used. */
enum try_measure { TRY_BYTES, TRY_LINES, TRY_SECONDS };
const char *try_measure_name(enum try_measure measure);
enum try_measure try_measure_of(const struct try_run *run, const struct try_verdict *verdict);

void try_read_verdict(const char *bundle, struct try_verdict *ret);
void try_outcome(const struct try_run *run, const struct try_verdict *verdict, enum try_measure measure,
                 struct outcome *ret);

#endif
