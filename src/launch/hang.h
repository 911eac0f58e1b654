/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --hang-after: a program that stands still for so long is looked at, and goes on. The snapshot and its
 * bundle are made by a child of the supervisor; --on-hang=kill then ends the program.
 */
#ifndef LAUNCH_HANG_H
#define LAUNCH_HANG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "launch/still.h"

struct launch_options;
struct relay;
struct shared;

#define HANG_SNAPSHOTS_MAX 3 /* in a run: it may go on, and stand still again */

enum hang_end { HANG_END_NOT, HANG_END_TERM, HANG_END_KILL, HANG_END_TOLD };

struct hang {
    struct still_watch still;
    struct shared *snapshot; /* memory of the last one, where its bundle is named; NULL = none */
    pid_t child;             /* makes it now; 0 = nobody does */
    uint32_t count;
    bool looked;             /* at this standstill */
    enum hang_end end;       /* how far the program is ended */
    uint64_t end_ns;         /* when that was asked for */
};

/* In each turn of the supervisor's loop. */
void hang_turn(struct hang *hang, struct shared *shared, const struct launch_options *options,
               struct relay *relays);
/* A child was reaped: true when it was the one that makes the snapshot. */
bool hang_child_ended(struct hang *hang, pid_t pid);
/* The next turn must not be later than this; at most CALM_TICK_MS matters. */
bool hang_is_busy(const struct hang *hang);
/* At the end of the run: say where the bundles are. */
void hang_tell(const struct hang *hang, const struct launch_options *options);

#endif
