/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The helper processes of a run, and the watchdog over them. Runs in the supervisor.
 *
 * A helper that stops, hangs or dies is killed and replaced, or done without; the target is not
 * told. The sampler and the recorder may be replaced HELPER_RESTARTS_MAX times; the relay always, as
 * the target's output goes through it.
 */
#ifndef LAUNCH_HELPERS_H
#define LAUNCH_HELPERS_H

#include <stdbool.h>
#include <sys/types.h>

#include "launch/options.h"
#include "launch/tracer.h"
#include "recorder/recorder.h"
#include "watch/relay.h"

struct shared;

#define HELPER_RESTARTS_MAX 8

struct helpers {
    struct shared *shared;
    const struct launch_options *options;
    struct relay relay;
    struct tracer_options tracer;
    struct recorder_options recorder;
    bool relay_ended; /* its work was done; it needs no replacement */
    uint64_t forked_again_ns;
    uint64_t suspect_since_ns; /* the work of the tracer that was over its budget at... */
    uint64_t suspect_seen_ns;  /* ...this time */
};

/* Fork one; its pid is in shared->helpers[]. False when fork failed or it was replaced too often. */
bool helper_start(struct helpers *helpers, int id);
/* One of ours ended (pid was reaped). True when the pid was a helper's. */
bool helper_ended(struct helpers *helpers, pid_t pid, int status);
/* One of ours was stopped by somebody: it is killed. True when the pid was a helper's. */
bool helper_stopped(struct helpers *helpers, pid_t pid);
/* Several times a second: tracer that holds too long, relay that does not carry, read that hangs. */
void helpers_watch(struct helpers *helpers);
/* SIGKILL and reap, bounded; one in D state is left behind. */
void helper_kill(struct helpers *helpers, int id);
/* One that is ending by itself: reap it, bounded; kill it then. */
void helper_reap(struct helpers *helpers, int id);

#endif
