/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for a condition on a process that somebody else started: `snap --watch`. A sampler of our own
 * reads its counters; the process is not touched.
 */
#ifndef LAUNCH_AWAIT_H
#define LAUNCH_AWAIT_H

#include <sys/types.h>

#include "launch/still.h"
#include "telemetry/condition.h"

struct rc_err;
struct shared;

struct await {
    struct shared *shared;
    pid_t sampler;
    int pidfd;
    uint32_t look_ms; /* how often it is asked whether the process stands still */
    struct condition_watches watches;
    struct still_watch still;
};

/* 0, or -ESRCH when there is no such process, -errno; *err has the words. */
int await_begin(struct await *await, pid_t pid, const struct condition_list *conditions,
                struct rc_err *err);
/* Blocks. 1 = a condition was crossed, and `why` names it; 0 = the process has ended; -ECHILD: the sampler
 * has ended, so nobody reads the counters. */
int await_next(struct await *await, char *why, unsigned size);
/* The sampler ends. False where a condition was about a quantity that was never known; `why` has it. */
bool await_end(struct await *await, char *why, unsigned size);

#endif
