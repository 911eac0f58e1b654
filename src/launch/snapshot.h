/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A look at a live process that somebody else started: shared memory is filled as a run fills it, so
 * that the finisher makes a bundle of it.
 *
 * The process is looked at twice through /proc, SNAPSHOT_INTERVAL_MS apart, while the sampler reads
 * the counters. Then a child of ours seizes its threads, copies registers, stacks and Python's frames, and
 * lets them go. We kill the child when it holds a process for longer than IMPACT_COPY_MS: the kernel
 * then lets the threads run.
 */
#ifndef LAUNCH_SNAPSHOT_H
#define LAUNCH_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct rc_err;
struct shared;
struct shared_run;

#define SNAPSHOT_INTERVAL_MS 1000u

struct snapshot_options {
    pid_t pid;
    bool tree;              /* its descendants, too */
    const char *why;        /* what asked for it */
    const char *output_dir; /* NULL = the current folder */
    /* The run, where rocmcrash started the process: then its tracer holds the threads. Takes over what the
     * tracer copies from `since_ns` on, as answer to number `request` of shared->look_request. NULL = none. */
    const struct shared *run;
    uint32_t request;
    uint64_t since_ns;
};

/* `shared` is fresh. 0, or -ESRCH when there is no such process, -EACCES when nothing of it may be read; *err
 * has the words. What else could not be read is in shared->trace_errno and the copies. */
int snapshot_take(struct shared *shared, const struct snapshot_options *options,
                  struct rc_err *err);

/* The process that reads the counters of shared->target_pid's tree, the GPUs and the host; it ends with us.
 * Its pid, or -1. */
pid_t snapshot_start_sampler(struct shared *shared);

/* Fills in the command, the start and the folder of the process, which are read without touching it. */
void snapshot_fill_run(struct shared *shared, const struct snapshot_options *options);

/* The part of it that an exec changes; nothing is changed when the process is gone. */
void snapshot_fill_command(struct shared_run *run, pid_t pid);

#endif
