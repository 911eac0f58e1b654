/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One bundle in the making: run directory -> collectors -> facts -> verdict -> report -> archive.
 *
 * Ordered by perishability: what vanishes first is read first, the verdict is on the terminal
 * before the slow things are in, and every stage leaves a folder that could be archived as it is.
 */
#ifndef CLI_JOB_H
#define CLI_JOB_H

#include <stdbool.h>
#include <stddef.h>

#include "base/fs.h"
#include "cli/run_info.h"
#include "collect/collector.h"
#include "cli/stage_redact.h"
#include "diagnose/verdict.h"
#include "telemetry/series.h"

struct manifest;
struct redactor;
struct shared;

struct job_options {
    unsigned finish_within_ms;
    unsigned hash_budget_ms;
    unsigned full_bundles; /* of the ranks of this machine that fail alike; 0 = all */
    bool quiet;
    const char *colour; /* auto, always, never; NULL = auto */
    const char *event_to;   /* the program that is told of the failure; NULL = none */
    const char *output_dir; /* NULL = the one that the run directory names */
    struct privacy privacy;
    int cancel_fd; /* readable when the job should finish soon; -1 = none */
};

#define JOB_LATE_MAX 16

struct job {
    const struct job_options *options;
    struct shared *shared; /* NULL when recovering */
    struct run_info info;
    char stage[FS_PATH_MAX];
    unsigned stage_place; /* of rundir_place() from where on a stage is looked for; 0 = the run's */
    bool stage_failed;    /* its disk did: another one is worth a try */
    bool told;            /* the verdict, in an attempt before */
    bool has_printed;     /* so that the cursor is where a line begins */
    struct facts *facts;
    struct verdict verdict;
    struct tree *tree;
    struct manifest *manifest;
    struct redactor *redactor; /* one for all, so that a name has one pseudonym in the bundle */
    struct cJSON *items;       /* the manifest's rows, for the summary */
    struct series_set series;
    bool has_series;
    bool is_output_clean; /* info.output was redacted; false after a failure to do so */
    int series_error; /* of the last look; 0 or -errno */
    unsigned troubles;  /* what the bundle lacks and no row of its own says */
    char trouble[160];  /* the first of them */
    unsigned memory_refusals, troubles_told;
    bool small; /* a bundle without what the first rank that failed alike has */
    bool early;                     /* before the first verdict */
    const char *late[JOB_LATE_MAX]; /* collectors that had no time then */
    size_t late_count;
    struct collect_ctx ctx;
    char *maps, *fds, *environ_text;
    const char **environ_list;
};

/* Make the bundle of run_dir. Prints on stdout unless quiet. 0 or -errno with *err; ret_path gets
 * where it is. On success the run directory is removed. */
int job_run(const char *run_dir, struct shared *shared, const struct job_options *options,
            char *ret_path, size_t ret_size, struct rc_err *err);

/* Judge a copy of the facts; the verdict goes to job->verdict, the copy with its features to
 * *ret_judged (facts_free() it). 0 or -errno. */
int job_judge(struct job *job, const struct facts *facts, struct facts **ret_judged,
              struct rc_err *err);
/* Run the collectors of a list and phase into the stage; adds rows and facts. */
void job_collect(struct job *job, const struct collector *const *list, enum collect_phase phase,
                 uint64_t within_ms);
/* As job_judge() of a redacted copy: what the bundle is made of. */
int job_judge_clean(struct job *job, struct facts **ret_judged, struct rc_err *err);
/* Notes that a part of `what` is not in the bundle, by -errno. No effect when code >= 0. */
void job_trouble(struct job *job, const char *what, int code);
/* A row of them, and of memory that was refused to us; 0 or -ENOMEM. */
int job_tell_troubles(struct job *job);
void job_close(struct job *job);

#endif
