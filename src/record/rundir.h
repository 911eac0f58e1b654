/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The run directory: what one run leaves on disk while it works, and what the finisher starts from.
 *
 *   $XDG_STATE_HOME/rocmcrash/runs/<UTC>-<pid>/       (0700; made when a run is older than 100 ms)
 *     run.json          how the run was started (of struct shared_run), by which rank of a job; rewritten when it changes
 *     impact.N          struct shared_impact followed by its arena bytes, one file a failed process
 *     samples.NNNN      segments of sample records (telemetry/segment.h), 256 KiB each, thinned
 *     output.head       the first 64 KiB of stderr; output.0 then output.1 its last 256..512 KiB
 *     output.report     lines after that head in which an engine says how it uses the GPU's memory: the last
 *                       32 KiB of them
 *     output.first      messages of failure after that head with the lines around them: the first 64 KiB
 *     output.last       and the last 64 KiB of them
 *     stdout.head       the first 64 KiB of the lines about memory and failures of a stdout that has a
 *                       relay of its own
 *     stdout.last       and the last 64 KiB of them
 *     gpus              a line a GPU in the order of their indices: "PCI KFD_NODE CARD", "-" = none
 *     boot              "BOOT_ID BTIME_S" of the machine
 *     kmsg              kernel-log records of the run's window, as /dev/kmsg gave them
 *     ledger            copy of the ledger of GPU memory (record/ledger.h), sparse
 *     events            lines "<mono_ns> <who> <text>"
 *     moved             where this directory was before that disk failed (rundir_move())
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

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Ends the note about a gap in the output if the text after the gap begins within a line. */
#define OUTPUT_WITHIN_LINE " from within a line"

struct rc_err;

/* Folder that holds the runs: $XDG_STATE_HOME/rocmcrash/runs, else ~/.local/state/rocmcrash/runs (both
 * only if they are the effective user's: base/own_folder.h), else /tmp/rocmcrash-<uid>/runs, else that
 * in /dev/shm, else a private folder of a random name in /tmp, /var/tmp, /dev/shm or the current
 * folder. ROCMCRASH_STATE_DIR names the folder that holds runs/; where it cannot be written, the
 * others are tried. */
int rundir_base(char *out, size_t size, struct rc_err *err);
/* The path of the folder with that number. A folder of a random name must exist already. -EINVAL:
 * this folder is not available; -ENOENT: this one and all later ones are not. */
int rundir_place(unsigned place, char *out, size_t size);
/* The path of the folder with that number is a private folder of ours, and no link of another user
 * leads there. */
bool rundir_is_ours(unsigned place, const char *runs);
/* The name that rundir_create() will use if the disk can be written. Creates nothing. */
int rundir_name(char *out, size_t size, uint64_t start_wall_ns, int32_t pid, struct rc_err *err);
/* Make the directory of this run (0700, not through links in a shared /tmp) in the first of those
 * folders that can be written. Fills path. */
int rundir_create(char *out, size_t size, uint64_t start_wall_ns, int32_t pid, struct rc_err *err);
/* Make `name` in the first of those folders, from number *place on, that has room for `room` bytes;
 * *place becomes its number. -ENOENT if none has; then *err is that of the last one. */
int rundir_make(char *out, size_t size, unsigned *place, const char *name, size_t room,
                struct rc_err *err);
/* 0, or -ENOSPC and the like: `room` bytes could not be written into `dir`. */
int rundir_has_room(const char *dir, size_t room, struct rc_err *err);
/* The disk is full, broken or read-only: another folder is worth a try. */
bool rundir_is_disk_error(int code);
/* Copy the recorded files of `path` (a buffer of `size` bytes) into the next usable folder from
 * number *place on, and store its name in `path`. Files that cannot be read are left behind. 0, or
 * -errno and nothing has changed. */
int rundir_move(char *path, size_t size, unsigned *place, struct rc_err *err);

/* The recorder moved the run away from `from`, which had no room. Copies what the Python hook has
 * written there to the run's own directory, and removes `from`. */
void rundir_take_hook(const char *from, const char *to);

/* Lock the state file of a run; the lock lasts until the descriptor is closed or its process ends.
 * -EWOULDBLOCK: the run is alive, or being bundled. -errno otherwise. */
int rundir_lock(const char *run_dir);

/* Called with the path of each run that has ended without a bundle and that no process works on.
 * Includes runs that were moved out of their usual folder. */
typedef void (*rundir_unfinished_fn)(void *context, const char *run_dir);
/* Returns how many there are, or -errno; `fn` may be NULL. */
int rundir_unfinished(rundir_unfinished_fn fn, void *context, struct rc_err *err);

/* Bytes that the files of a run take on the disk. */
uint64_t rundir_bytes(const char *run_dir);

/* Removes the oldest unfinished runs beyond RUNDIR_KEPT_MAX runs or RUNDIR_KEPT_BYTES, at most
 * RUNDIR_RETIRED_MAX in one call. Never removes `own` or a run that cannot be locked. */
#define RUNDIR_KEPT_MAX 200
#define RUNDIR_KEPT_BYTES ((uint64_t)4 << 30)
#define RUNDIR_RETIRED_MAX 100
void rundir_retire(const char *own);

#endif
