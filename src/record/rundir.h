/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The run directory: what one run leaves on disk while it works, and what the finisher starts from.
 *
 *   $XDG_STATE_HOME/rocmcrash/runs/<UTC>-<pid>/       (0700; made when a run is older than 100 ms)
 *     run.json          how the run was started (of struct shared_run), rewritten when it changes
 *     impact.N          struct shared_impact followed by its arena bytes, one file a failed process
 *     samples.NNNN      segments of sample records (telemetry/segment.h), 256 KiB each, thinned
 *     output.head       the first 64 KiB of stderr; output.0 then output.1 its last 256..512 KiB
 *     gpus              a line a GPU in the order of their indices: "PCI KFD_NODE CARD", "-" = none
 *     kmsg              kernel-log records of the run's window, as /dev/kmsg gave them
 *     ledger            copy of the ledger of GPU memory (record/ledger.h), sparse
 *     events            lines "<mono_ns> <who> <text>"
 *     hook/             what the Python hook in the target wrote (inject/python/README.md); the hook may
 *                       make the run directory too, before the recorder does
 *     state             "running" | "ended STATUS" | "bundled PATH"; locked (flock) by the recorder
 *                       while the run is alive: an unlocked "running" is an unfinished run
 *
 * Written with libc alone by the recorder, and once more by recorder_flush() in the finisher, which
 * adds what a dead or hung recorder did not get to disk: same names, idempotent.
 */
#ifndef RECORD_RUNDIR_H
#define RECORD_RUNDIR_H

#include <stddef.h>
#include <stdint.h>

struct rc_err;

/* Folder that holds the runs: $XDG_STATE_HOME/rocmcrash/runs, else ~/.local/state/rocmcrash/runs,
 * else /tmp/rocmcrash-<uid>/runs. ROCMCRASH_STATE_DIR names the folder that holds runs/; where it
 * cannot be written, the others are tried. */
int rundir_base(char *out, size_t size, struct rc_err *err);
/* The name that rundir_create() will give, without making it. */
int rundir_name(char *out, size_t size, uint64_t start_wall_ns, int32_t pid, struct rc_err *err);
/* Make the directory of this run (0700, not through links in a shared /tmp). Fills path. */
int rundir_create(char *out, size_t size, uint64_t start_wall_ns, int32_t pid, struct rc_err *err);

/* Lock the state file of a run; the lock lasts until the descriptor is closed or its process ends.
 * -EWOULDBLOCK: the run is alive, or being bundled. -errno otherwise. */
int rundir_lock(const char *run_dir);

/* Called with the path of each run that has ended without a bundle and that nobody works on. */
typedef void (*rundir_unfinished_fn)(void *context, const char *run_dir);
/* Returns how many there are, or -errno; `fn` may be NULL. */
int rundir_unfinished(rundir_unfinished_fn fn, void *context, struct rc_err *err);

#endif
