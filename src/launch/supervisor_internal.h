/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the parts of the supervisor.
 *
 *   supervisor.c        the turn of the loop: signals, children, job control
 *   supervisor_start.c  descriptors, processes
 *   supervisor_end.c    draining, the recorder's end, the finisher, our own exit
 *   attend.c            the same for a process that somebody else started
 */
#ifndef LAUNCH_SUPERVISOR_INTERNAL_H
#define LAUNCH_SUPERVISOR_INTERNAL_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "inject/preload.h"
#include "launch/crossing.h"
#include "launch/forward.h"
#include "launch/hang.h"
#include "launch/helpers.h"
#include "launch/inherited.h"
#include "launch/supervisor.h"
#include "record/shared.h"

#define SUPERVISOR_WAIT_MS 1000 /* for room to say a line: the program, or its end, waits meanwhile */
#define TICK_MS 200       /* while a helper has something in hand */
#define CALM_TICK_MS 1000 /* while none has */

struct supervisor {
    struct shared *shared;
    int shared_fd;
    struct ledger *ledger; /* NULL = none */
    int ledger_fd;
    struct preload preload;
    const struct launch_options *options;
    struct helpers helpers;
    struct forwarder forwarder;
    struct inherited inherited;
    sigset_t caller_mask;
    timer_t continue_timer; /* if `continues` */
    bool child_signal_ignored, continues;
    int signal_fd, wake_fd, recorder_wake_fd, exec_error_fd;
    uint32_t mirrored_stops; /* how many stops of the target we have shown to our parent */
    pid_t finisher;
    int finisher_status;
    bool finisher_ended, hurry, told_unfinished;
    struct hang hang;
    struct crossing crossing;
    bool is_attached;    /* to a process that somebody else started */
    int target_pidfd;    /* of that one, else -1 */
    int end_pidfd;       /* of the one that we started, else -1: the shared memory alone is not believed */
    pid_t started;       /* its pid */
    bool overwritten;    /* the program has written what only we write */
    int leave_signal;    /* asks us, and not that process, to end; 0 = none came */
};

/* --- supervisor.c --- */
/* One turn of the loop: wait at most timeout_ms, then see to signals, children and helpers. */
void supervisor_turn(struct supervisor *s, int timeout_ms);
void supervisor_reap(struct supervisor *s);
/* At the end of the program; bounded. */
void supervisor_wait_for_asides(struct supervisor *s);
/* All are blocked, and read from a descriptor. */
void supervisor_take_over_signals(struct supervisor *s);

/* --- supervisor_start.c --- */
/* The descriptors of the loop: signals, and what wakes supervisor and recorder. 0 or -errno. */
int supervisor_open_events(struct supervisor *s);
void supervisor_fill_run(struct supervisor *s, char *const argv[]);
void supervisor_plan_relay(struct supervisor *s, char *const argv[]);
/* For struct recorder_options: the context is a struct supervisor. */
void supervisor_bundle_for_recorder(void *context);
/* Fork the relay, the tracer (which forks the target) and all that only looks on. 0 or -errno. */
int supervisor_start_processes(struct supervisor *s, char *const argv[]);

/* --- supervisor_end.c --- */
/* The caller's end has everything before we end; bounded. */
void supervisor_drain_relays(struct supervisor *s);
/* done: 1 = leave nothing, 2 = to be bundled. */
void supervisor_end_recorder(struct supervisor *s, uint32_t done);
/* Into the shared memory: what the ledger says about the end. */
void supervisor_count_refusals(const struct supervisor *s);
/* Decide, and have the bundle made. */
void supervisor_finish(struct supervisor *s);
/* Instead of it, where the program has overwritten the shared memory. */
void supervisor_tell_overwritten(struct supervisor *s);
/* Does not return, but for pid 1: 128 + signal. */
int supervisor_leave_by_signal(int signo);

#endif
