/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tracer process: wait, ptrace, and pread of /proc into shared memory. Nothing else.
 *
 * It is the parent of the target and a child of the supervisor. It opens no file of a run
 * directory or of a GPU, of a program only what the kernel has just read for its exec, and waits for
 * no other process of ours longer than IMPACT_SAMPLER_WAIT_MS, because a tracer that hangs freezes
 * its target; the supervisor kills one that holds a tracee over its budget. Every stop is looked at
 * with waitid(WNOWAIT) and answered by one PTRACE_CONT: then a tracer that is killed in between has
 * swallowed no signal.
 */
#ifndef LAUNCH_TRACER_H
#define LAUNCH_TRACER_H

#include <stdbool.h>
#include <sys/types.h>

#include "launch/options.h"
#include "launch/target.h"

struct inherited;
struct shared;

/* shared->trace_state */
enum trace_state {
    TRACE_STATE_STARTING,
    TRACE_STATE_TRACING,
    TRACE_STATE_OFF,     /* --trace=none, or we are traced ourselves */
    TRACE_STATE_REFUSED, /* PTRACE_SEIZE failed, see trace_errno */
    TRACE_STATE_SETUID,  /* the target gains privilege at exec: not traced, so that it can */
    TRACE_STATE_LOST,    /* the tracer was killed or died during the run */
    TRACE_STATE_LATE,    /* not traced as long as it is a launcher (target_is_launcher()) or may execute one unseen */
    TRACE_STATE_SLOW,    /* a snapshot: the machine was too busy to copy it in the time that it may be held */
};

struct tracer_options {
    struct target_spec target;
    pid_t attach_pid; /* not our child, but a process that somebody else started; 0 = start the target */
    int go_write_fd;
    int wake_fd; /* eventfd of the supervisor: something changed in the shared memory */
    const struct inherited *inherited; /* descriptors of the target only */
    enum trace_mode mode;
    bool keep_orphan;
};

/* Main of the tracer; ends the process when the target and all tracees are gone or released. */
_Noreturn void tracer_run(struct shared *shared, const struct tracer_options *options);

#endif
