/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --on-hang=kill: ends a program and all its processes. SIGTERM to each, ten seconds, SIGKILL. Processes
 * that outlive the program itself (of a shell script, of a launcher) are ended, too.
 */
#ifndef LAUNCH_HANG_END_H
#define LAUNCH_HANG_END_H

#include <stdbool.h>
#include <stdint.h>

#include "launch/tree_scan.h"

struct shared;

enum hang_end {
    HANG_END_NONE, /* not begun */
    HANG_END_TERM, /* SIGTERM was sent */
    HANG_END_KILL, /* SIGKILL was sent */
    HANG_END_GIVEN_UP, /* not even SIGKILL ends it */
};

struct hang_ending {
    enum hang_end step;
    uint64_t since_ns; /* when that step was taken */
    uint32_t count;
    int processes[TREE_SCAN_MAX]; /* pidfds of the processes that lived when the ending began */
};

/* In each turn of the supervisor's loop, as long as the program runs. */
void hang_ending_turn(struct hang_ending *ending, struct shared *shared, bool quiet);
/* After the program's end: waits for its other processes, and kills those that remain. Returns how many still
 * live. */
uint32_t hang_ending_rest(struct hang_ending *ending);

#endif
