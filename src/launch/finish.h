/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After the target: was it a failure, and if so, have the finisher (a program of its own, in a
 * session of its own) make the bundle. Runs in the supervisor, or in the recorder when the
 * supervisor was killed.
 */
#ifndef LAUNCH_FINISH_H
#define LAUNCH_FINISH_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/loader_variables.h"
#include "launch/options.h"

struct shared;

enum finish_what {
    FINISH_NOTHING,
    FINISH_HINT,   /* it failed, and no bundle is made of that: one line on a terminal how to get a bundle */
    FINISH_ENDED,  /* somebody asked it to end: a record, if it is a rank of a job; and the line of FINISH_RECORD */
    FINISH_RECORD, /* one line about a swallowed out-of-memory error */
    FINISH_BUNDLE,
};

/* By the target's status, what the tracer saw, which patterns the output had, whether somebody asked it to end, and
 * whether the environment may be that of a rank. */
enum finish_what finish_decide(const struct shared *shared, const struct launch_options *options);

/* Fork and exec the finisher on the run, in a session of its own when this returns; -1 when it cannot be started. `aside`: what it is loaded
 * without. `silent`: prints nothing, because the one who would read it is gone. */
pid_t finish_start(int shared_fd, const struct launch_options *options, enum finish_what what,
                   enum loader_variables aside, bool silent);

/* In a process of ours that writes files: the caller's limits (file size, memory, descriptors) are
 * meant for the target. A write beyond a limit that cannot be lifted fails instead of killing us. */
void finish_lift_limits(void);

#endif
