/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --bundle-at: a bundle of the program when a condition on what the sampler reads comes to hold. The
 * program goes on. Runs in the supervisor.
 */
#ifndef LAUNCH_CROSSING_H
#define LAUNCH_CROSSING_H

#include "launch/aside.h"
#include "launch/silence.h"
#include "telemetry/condition.h"

struct crossing {
    struct condition_watches watches;
    struct silence silence;
    struct aside aside;
    uint32_t untold; /* crossings for which no bundle was made: too many, or one was being made */
};

/* Before the target starts. False when there is no memory for it. */
bool crossing_begin(struct crossing *crossing, const struct condition_list *conditions);
/* In each turn of the supervisor's loop. */
void crossing_turn(struct crossing *crossing, struct shared *shared,
                   const struct launch_options *options, struct relay *relays, uint64_t still_ms);
/* At the end of the run: say where the bundles are, and that a quantity was never known. */
void crossing_tell(struct crossing *crossing, const struct launch_options *options);

#endif
