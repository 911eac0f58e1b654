/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract between a collector (one source of evidence) and the runner.
 *
 * The runner forks one child per collector. The child has its own process group, PR_SET_PDEATHSIG,
 * limits on CPU time and file size, no core dump, a hard deadline, and no open descriptors except
 * the staging directory and the status pipe. A child that hangs in D state is abandoned (STUCK).
 * Only its own row is lost.
 *
 * A collector writes only through `out` (relative names below its own folder) and reads only through
 * base/fs.h (for the sysroot) and `ctx`. It never reads stdin, prints or changes state. It never
 * reads a file whose read has side effects (debugfs amdgpu_gpu_recover, ras/_err_count, pcie_bw,
 * xgmi_error ...). The same input gives the same bytes: the output is sorted, and has no pointers
 * and no clock readings of its own.
 */
#ifndef COLLECT_COLLECTOR_H
#define COLLECT_COLLECTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "diagnose/fact.h"

enum collect_status {
    COLLECT_OK,
    COLLECT_PARTIAL, /* something is there; the reason names what is missing */
    COLLECT_SKIPPED, /* does not apply here; the reason says why */
    COLLECT_FAILED,  /* the reason says why */
    /* set by the runner only: */
    COLLECT_TIMED_OUT, /* killed at its deadline; what it wrote is kept */
    COLLECT_CRASHED,
    COLLECT_STUCK, /* did not die when killed; abandoned */
};

enum collect_phase {
    COLLECT_PERISHABLE, /* kernel log, devcoredump, counters: before everything */
    COLLECT_QUICK,      /* what the verdict reads; all together take well below a second */
    COLLECT_SLOW,       /* versions, pools, hashes: runs after the verdict was printed */
};

/* The run, as far as it is known. Strings are never NULL ("" = unknown), pids 0 = none. */
struct collect_ctx {
    const char *run_dir;     /* the run directory (record/rundir.h), for recorded evidence */
    int64_t target_pid;      /* the direct child; probably gone */
    int64_t failed_pid;      /* the process that failed first, 0 = unknown */
    const char *const *argv; /* of the target, NULL-terminated */
    const char *cwd;
    const char *maps; /* /proc/PID/maps of the failed process at impact, "" = none */
    const char *fds;  /* lines "FD TARGET" at impact, "" = none */
    const char *const *environ_at_impact; /* "NAME=VALUE" of the failed process; see environ_source */
    const char *environ_source;           /* where it was read; NULL = "environment of the process" */
    uint64_t start_mono_ns, end_mono_ns;  /* window of the run */
    uint64_t start_wall_ns;
    const char *boot_id;       /* of the run, if the machine was rebooted since; else NULL */
    uint64_t kmsg_start_seq;   /* UINT64_MAX = unknown */
    bool window_is_claimed;    /* the time of the run comes from a bundle, which anybody may have
                                * written */
    uint64_t deadline_mono_ns; /* of this collector; poll it in long loops */
    uint64_t hash_budget_ms;   /* for the models collector */
    const char *hook_trouble;  /* what the Python hook could not write down, NULL or "" = nothing */
    const char *ledger_error;  /* why the run has no ledger, NULL or "" = no reason known */
    const char *stdout_path; /* the file behind stdout if stderr goes elsewhere; NULL or "" = none */
    uint64_t stdout_inode, stdout_start; /* its inode, the offset at which the run's output begins */
    const char *program;       /* the program that a site's collector executes; else NULL */
    const char *include;       /* --include: files that the user wants although they may hold user
                                * data; NULL = none */
    bool follows_stdout;      /* a relay kept lines of stdout in the run directory */
    const char *stdout_error; /* why no relay did although the user asked for one; NULL or "" = no error */
};

struct collect_out; /* opaque */

/* Open `name` (relative, no "..", created 0600) below the collector's folder in the bundle; caller
 * closes. -errno on failure. */
int collect_open(struct collect_out *, const char *name);
/* Whole small file at once. 0 or -errno. */
int collect_write(struct collect_out *, const char *name, const void *data, size_t len);
/* Facts travel to the finisher through the status pipe. Same meaning as facts_set_*(). */
void collect_integer(struct collect_out *, const char *name, enum fact_when, int64_t value,
                     const char *source);
void collect_real(struct collect_out *, const char *name, enum fact_when, double value,
                  const char *source);
void collect_text(struct collect_out *, const char *name, enum fact_when, const char *value,
                  const char *source);
void collect_boolean(struct collect_out *, const char *name, enum fact_when, bool value,
                     const char *source);
void collect_missing(struct collect_out *, const char *name, enum fact_when, enum fact_status,
                     const char *reason, const char *source);
/* Set the reason of the row (last one wins) and return `status`, so that a collector can end with
 * `return collect_reason(out, COLLECT_SKIPPED, "no /dev/kmsg: %s", strerror(errno));` */
enum collect_status collect_reason(struct collect_out *, enum collect_status status,
                                   const char *fmt, ...) __attribute__((format(printf, 3, 4)));

struct collector {
    const char *name;     /* [a-z0-9_]+: folder in the bundle, key in the manifest */
    const char *describe; /* one line for `rocmcrash collectors` and the manual */
    enum collect_phase phase;
    bool needs_run; /* without a run it has nothing to say, or takes too long: `doctor` leaves it out */
    uint32_t deadline_ms; /* 0 = runner's default (2000) */
    uint64_t max_bytes;   /* of everything it writes; 0 = runner's default (2 MiB) */
    enum collect_status (*run)(const struct collect_ctx *ctx, struct collect_out *out);
    const char *program; /* of a site's collector (collectors/site.h); else NULL */
};

/* All collectors in run order: perishable and cheap first; ends with NULL (collectors/table.c). */
extern const struct collector *const collectors[];

#endif
