/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that stands still. After a silent minute (or after --hang-after) the tracer looks at its
 * processes, so that a bundle tells what they did when a signal ends it then. --hang-after: it is copied,
 * and a child of the supervisor makes a bundle of the copy; --on-hang=kill then ends the program.
 */
#ifndef LAUNCH_HANG_H
#define LAUNCH_HANG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "launch/aside.h"
#include "launch/hang_end.h"
#include "launch/step_length.h"
#include "launch/still.h"

struct launch_options;
struct relay;
struct shared;

struct hang {
    const pid_t *tracer;     /* 0 = none */
    struct still_watch still;
    struct aside aside;
    uint32_t idle_ms;        /* a condition of --bundle-at waits for a standstill of this many ms; 0 = none */
    uint64_t still_ms;       /* for how long it has stood still */
    struct step_length steps; /* --hang-after=auto: what is known of the program's steps */
    uint64_t woken_for_ns;   /* the standstill at which the tracer was last asked to look */
    bool looked;             /* at this standstill */
    uint64_t looked_ns;
    uint64_t looked_said;    /* bytes of output until then */
    struct hang_ending ending;
};

/* In each turn of the supervisor's loop. */
void hang_turn(struct hang *hang, struct shared *shared, const struct launch_options *options,
               struct relay *relays);
/* It takes its next look, and the copies that were asked for. */
void hang_wake_tracer(const struct hang *hang);
/* The next turn must not be later than this; at most CALM_TICK_MS matters. */
bool hang_is_busy(const struct hang *hang);
/* At the end of the run: ends what is left of a program that was ended, and says where the bundle is. */
void hang_tell(struct hang *hang, const struct launch_options *options);

#endif
