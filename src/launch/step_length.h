/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a standstill of the program must be before --hang-after=auto takes it for a hang. The Python hook
 * tells how long a step of its training takes (inject/python/rocmcrash_steps.py).
 */
#ifndef LAUNCH_STEP_LENGTH_H
#define LAUNCH_STEP_LENGTH_H

#include <stdbool.h>
#include <stdint.h>

struct shared;

#define HANG_UNKNOWN_MS 300000u /* where no steps are known */
#define HANG_SOONEST_MS 30000u

struct step_length {
    uint64_t count;    /* steps that were seen; 0 = the length is not known */
    uint64_t usual_us; /* 99 of 100 of the latest took at most so long */
    uint64_t ended_ns; /* the latest; short steps are told of once a second only */
};

/* Those of the process with the longest steps. The program can write there, so any bytes are possible. */
struct step_length step_length_read(const struct shared *shared);
/* When the latest step of any process ended, perhaps a second early; 0 = none is known. */
uint64_t step_length_last_ns(const struct shared *shared);
/* Does a standstill that began at `since_ns` interrupt the steps? What follows them, or comes between them, like
 * validation, takes its own time, of which steps say nothing. */
bool step_length_holds(const struct step_length *length, uint64_t since_ns);
/* `longest_still_ms`: the longest standstill after which the program went on by itself. */
uint64_t step_length_patience_ms(const struct step_length *length, uint64_t since_ns,
                                 uint64_t longest_still_ms);

#endif
