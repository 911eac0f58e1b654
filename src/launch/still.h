/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does the target stand still? It says nothing on stderr, its processes neither read nor write, nor do pages of
 * their mapped files come from a disk, and they use hardly any CPU time; the first thread of each uses and moves
 * next to nothing; and no thread waits for a CPU at two looks in a row. Time in which we ourselves did not run
 * says nothing. Runs in the supervisor, one watch in a process; looks at the processes only when stderr has been
 * silent for `look_ms`, and then every `look_ms`.
 *
 * A program that waits for its GPU in a loop of its own uses the CPU and does not stand still by this rule.
 */
#ifndef LAUNCH_STILL_H
#define LAUNCH_STILL_H

#include <stdint.h>

struct shared;

#define STILL_SILENT_MS 60000u /* default: after this time without work a program stands still */
#define STILL_LOOK_MS 5000u
/* The supervisor's turns are at most a second apart. Where it waited longer, its container was paused, its job
 * suspended or the machine too busy: the program may have waited for the same reason. */
#define STILL_TURNS_APART_MS 2500u

struct still_watch {
    uint64_t output_bytes;   /* when it last said something */
    uint64_t since_ns;       /* when that was, or when it last worked */
    uint64_t look_ns;        /* of the last look at the processes; 0 = none */
    uint64_t turn_ns;        /* of the last call; 0 = none */
    uint64_t longest_ns;     /* standstill that ended by work of the program or output */
    uint32_t processes;      /* how many there were at that look */
    uint32_t turn;
};

/* In each turn of the supervisor's loop. `look_ms` is how often it looks. Returns for how many ms the
 * target has stood still, and publishes it: shared->still_since_ns is set from `silent_ms` on. */
uint64_t still_turn(struct still_watch *watch, struct shared *shared, uint32_t look_ms,
                    uint32_t silent_ms);

#endif
