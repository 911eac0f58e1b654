/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The helper processes of a run, and the watchdog over them. Runs in the supervisor.
 *
 * A helper that stops, hangs or dies is killed and replaced, or the run continues without it. The target does
 * not notice. The sampler and the recorder may be replaced HELPER_RESTARTS_MAX times; the relay always, as
 * the target's output goes through it.
 */
#ifndef LAUNCH_HELPERS_H
#define LAUNCH_HELPERS_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/proc_stat.h"
#include "launch/options.h"
#include "launch/tracer.h"
#include "record/shared.h"
#include "recorder/recorder.h"
#include "watch/relay.h"

#define HELPER_RESTARTS_MAX 8

/* Work that was over its budget when it was looked at. */
struct suspect {
    uint64_t since_ns; /* when that work began, 0 = none is suspected */
    uint64_t seen_ns;  /* when it was first seen to be late */
};

struct helpers {
    struct shared *shared;
    pid_t pids[HELPER_MAX]; /* 0 = none. Signals go to these: the target's user can write to the shared memory */
    const struct launch_options *options;
    struct relay relays[RELAYS];
    struct tracer_options tracer;
    struct recorder_options recorder;
    uint64_t forked_again_ns;
    struct suspect tracer_holds, tracer_hangs, sampler_hangs;
    struct held_look tracer_look;
    pid_t traced_recorder; /* the last one that we asked to trace */
    uint64_t sampler_started_ns;
};

/* The relay whose helper `id` is, or NULL. */
struct relay *helpers_relay(struct helpers *helpers, int id);
/* Fork one; its pid is in shared->helpers[]. False when fork failed or it was replaced too often. */
bool helper_start(struct helpers *helpers, int id);
/* One of ours ended (pid was reaped). True when the pid was a helper's. */
bool helper_ended(struct helpers *helpers, pid_t pid, int status);
/* One of ours was stopped by somebody: it is killed. True when the pid was a helper's. */
bool helper_stopped(struct helpers *helpers, pid_t pid);
/* One that we trace got a SIGSTOP or SIGCONT: it goes on without. */
void helper_trapped(pid_t pid);
/* Several times a second: tracer that holds too long, relay that does not carry, read that hangs. */
void helpers_watch(struct helpers *helpers);
/* Nothing is held, read, carried or to be started: the next look may come later. */
bool helpers_calm(const struct helpers *helpers);
/* SIGKILL and reap, bounded; one in D state is left behind. */
void helper_kill(struct helpers *helpers, int id);
/* Reaps a helper that is ending by itself. Kills it if that takes too long. */
void helper_reap(struct helpers *helpers, int id);

#endif
