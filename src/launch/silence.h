/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For how long has the target said nothing, whatever it does? For --bundle-at=silent>10m: a program that spins
 * and one that computes look alike from outside, but its user knows how often it speaks. Runs in the supervisor.
 */
#ifndef LAUNCH_SILENCE_H
#define LAUNCH_SILENCE_H

#include <stdint.h>

struct relay;
struct shared;

#define SILENCE_UNKNOWN UINT64_MAX

struct silence {
    int file;                   /* stdout, where that is a file; -1 = stdout is something else */
    uint64_t since_ns, turn_ns; /* 0 = no turn yet */
    uint64_t said;              /* changes with what comes from either stream */
};

/* While fd 1 is the target's, too: before its start. */
void silence_begin(struct silence *silence);
/* In each turn of the supervisor's loop; `relays`: the two of the run. Returns ms, or SILENCE_UNKNOWN where
 * something may be said that we do not see: stderr is not read, or stdout is a pipe that is not. */
uint64_t silence_turn(struct silence *silence, const struct shared *shared, const struct relay *relays);

#endif
