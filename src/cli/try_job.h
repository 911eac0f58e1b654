/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the parts of `rocmcrash try`. */
#ifndef CLI_TRY_JOB_H
#define CLI_TRY_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/again.h"
#include "cli/try_run.h"
#include "experiment/conclusion.h"

struct rc_err;

struct try_record {
    size_t cell;
    struct outcome outcome;
    char *bundle; /* NULL = none */
};

struct try_job {
    /* options */
    bool json, help, suggested, first;
    const char *output_dir;
    double error;
    unsigned runs_max;
    uint64_t for_ns; /* 0 = no limit */
    struct try_limits limits;
    /* the campaign */
    struct again again;
    struct experiment experiment;
    enum try_measure measure;
    bool measured;
    char folder[FS_PATH_MAX]; /* with the bundles of the runs */
    uint64_t start_ns, ended_ns; /* of the campaign; of its last run that has ended */
    unsigned count;           /* runs so far, also those that were lost */
    struct try_record *records; /* runs_max of them */
    bool is_terminal;
    size_t cell; /* the cell whose run is going on */
    unsigned lost; /* unchanged runs without a usable result, since the last usable one */
};

/* --- try_show.c --- */

/* On a terminal, a line that each call overwrites; elsewhere nothing. */
void try_show_progress(const struct try_job *job, double seconds);
/* How the last run ended, and how long it took with all that rocmcrash did for it. */
void try_show_run(const struct try_job *job, const struct try_run *run, double whole_s);
void try_show_result(const struct try_job *job, const struct conclusion *conclusion, const char *bundle);

/* --- try_bundle.c --- */

/* The bundle of the campaign: a copy of the bundle of the last failing unchanged run (or of any run), with
 * the table, the deciding run and the conclusion. ret_path is "" when no run left one. 0 or -errno with *err. */
int try_write_bundle(const struct try_job *job, const struct conclusion *conclusion, char *ret_path,
                     size_t size, struct rc_err *err);
/* experiment.json with each run. The caller's to delete. */
struct cJSON *try_to_json(const struct try_job *job, const struct conclusion *conclusion);

#endif
