/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contents of a run directory: run.json as a struct (record/run_json_fields.h lists its fields), the
 * impacts, the recorded output. The finisher starts from here, whether the run ended a moment ago or the
 * machine died since.
 */
#ifndef CLI_RUN_INFO_H
#define CLI_RUN_INFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record/impact_record.h"

struct facts;
struct rc_err;

struct run_info {
    char *dir;
    uint64_t start_mono_ns, start_wall_ns;
    uint64_t target_end_ns; /* CLOCK_MONOTONIC, 0 = unknown */
    char **argv;                                        /* NULL-terminated, owned */
    char *cwd, *output_dir, *kmsg_error, *follow_error;
    char *job_variables; /* record/job_variables.h */
    char *stdout_path; /* "" = stdout is no file of its own */
    uint64_t stdout_inode, stdout_start;
    bool follows_stdout; /* a relay has kept lines of it */
    char *stdout_error;  /* why none has although one was asked for, "" = nothing */
    char *ledger_error; /* why there is no ledger, "" = there is one, or no reason is known */
    uint64_t attached_wall_ns; /* != 0: somebody else started it, and rocmcrash came then */
    bool status_unknown;       /* how it ended is not known */
    uint64_t snapshot_wall_ns; /* != 0: a look at a live process, made then; not a run */
    char *snapshot_why;        /* what asked for it, "" = it is a run */
    uint64_t still_began_ns, still_asked_ns; /* it stood still, and a signal asked it to end; 0 = not so */
    int still_signal;
    bool still_ended;          /* by us: --on-hang=kill */
    unsigned asides_count;     /* bundles that were made while it ran */
    char *aside_why, *aside_bundle; /* of the last one; "" = none, or not known */
    uint64_t first_match_ns;   /* of the first message of failure, 0 = none was seen */
    char *hook_trouble; /* what the Python hook could not write down itself, "" = nothing */
    uint64_t kmsg_start_seq; /* UINT64_MAX = unknown */
    int target_state, target_status, target_pid;
    int trace_mode, trace_state, trace_errno;
    unsigned processes_seen, processes_traced, processes_released_busy, impacts_dropped;
    unsigned processes_sanitized;
    unsigned processes_wary;
    bool children_late;
    unsigned watchdog_kills, helper_restarts;
    bool supervisor_killed, ended_with_supervisor, argv_cut;
    char unread[96];         /* another file that could not be read, and why; "" = none */
    char damage[160];        /* why run.json could not be read; "" = it was read */
    char boot_id[40];        /* of the run, "" = unknown */
    int64_t boot_time_s;     /* of that boot, 0 = unknown */
    bool restarted;          /* the machine, since */
    int stderr_kind;         /* enum stream_kind of watch/stream.h */
    uint64_t output_lost_bytes, samples_lost_bytes;
    unsigned oom_matches;
    struct impact_record impacts[SHARED_IMPACTS_MAX];
    size_t impact_count;
    int failed;   /* index into impacts of the process that failed first, -1 = none was seen; of a
                   * snapshot the process that uses the GPU, else the first */
    char *output; /* what is kept of stderr, NUL-terminated */
    size_t output_len;
};

/* 0 or -errno; a run that was cut off at any point, also in run.json, gives what is there. */
int run_info_load(struct run_info *info, const char *dir, struct rc_err *err);
void run_info_release(struct run_info *info);
/* Last path component of the program; a Python script rather than "python". Never empty. */
const char *run_info_program(const struct run_info *info);

/* run.*, target.* and proc.P.* facts (templates/facts.tsv). */
void run_info_to_facts(const struct run_info *info, struct facts *facts);
/* run.boot_time_s of the machine as it is now. */
void run_boot_time_fact(struct facts *facts);

/* A signal asked it to end while it stood still, and no message of failure came before. */
bool run_info_ended_still(const struct run_info *info);

#endif
