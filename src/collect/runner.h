/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs collectors, each in a forked child with a limit of time and bytes. Each gets one row, whatever
 * happens.
 *
 * Called by the finisher (a single-threaded process: the children are plain forks). Rows and facts
 * arrive in list order, whichever child finishes first, so that two runs over the same machine give
 * the same bytes. Every wait has a limit: a child that does not die when it is killed is abandoned,
 * and its files are kept.
 */
#ifndef COLLECT_RUNNER_H
#define COLLECT_RUNNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "collect/collector.h"

struct rc_err;

#define RUNNER_DEADLINE_MS 2000u
#define RUNNER_MAX_BYTES ((uint64_t)2 << 20)
#define RUNNER_TERM_GRACE_MS 200u /* SIGTERM to SIGKILL */
#define RUNNER_KILL_GRACE_MS 200u /* SIGKILL to COLLECT_STUCK */

struct runner_row {
    const char *name; /* of the collector */
    enum collect_status status;
    const char *reason; /* "" when there is none; valid during the callback */
    uint64_t ms;        /* from fork to end, 0 when it was not started */
    uint64_t bytes;     /* in its folder */
    bool for_lack_of_time; /* not finished, or not started, before total_deadline_mono_ns */
};

typedef void (*runner_row_callback)(const struct runner_row *row, void *arg);

struct runner_options {
    const char *stage_dir; /* exists; each collector gets stage_dir/<name> (0700) */
    int cancel_fd; /* < 0 = none. Readable = the user cancels: running collectors are ended at once,
                    * the others are skipped with the reason "cancelled". Never read here. */
    uint64_t total_deadline_mono_ns; /* 0 = none; no child lives longer (plus both graces) */
    unsigned parallel;               /* children at a time, 0 = 3 */
    void *callback_arg;
    /* For tests. NULL = kill(2) of the group; a test double simulates a process in D state. */
    int (*kill_group)(pid_t group, int signo);
    bool without_pidfd; /* as on kernels and in sandboxes that lack pidfd_open(2) */
};

/*
 * Run every collector of `phase` in `list` (NULL-terminated), add their facts to `facts`, and call
 * `on_row` once for each. Blocks until all have ended, been killed or been abandoned. 0, or -errno
 * if nothing could be run at all (no staging folder); then each collector still gets its row.
 */
int runner_run(const struct collector *const *list, enum collect_phase phase,
               const struct collect_ctx *ctx, const struct runner_options *options,
               struct facts *facts, runner_row_callback on_row, struct rc_err *err);

#endif
