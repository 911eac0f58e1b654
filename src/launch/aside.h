/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bundle of the program while it goes on: the tracer copies what its processes do, and a child of the
 * supervisor makes the bundle. For a program that stands still (launch/hang.h), and for a condition that
 * came to hold (--bundle-at).
 */
#ifndef LAUNCH_ASIDE_H
#define LAUNCH_ASIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct launch_options;
struct relay;
struct shared;

#define ASIDE_MAX 3 /* in a run, for each reason */
#define ASIDE_PATH_MAX 4608

struct aside_paths {
    char path[ASIDE_MAX][ASIDE_PATH_MAX]; /* "" = that one could not be made, or is being made */
};

struct aside {
    struct shared *snapshot; /* memory of the last one, where its bundle is named; NULL = none */
    pid_t child;             /* the child that makes the bundle now; 0 = none */
    uint32_t count;
    struct aside_paths *made; /* of the bundles; NULL = none was asked for */
};

/* False when ASIDE_MAX were made, one is being made, or no child can be made. `why`: what asked for it. */
bool aside_start(struct aside *aside, struct shared *shared, const struct launch_options *options,
                 struct relay *relays, const char *why);
/* A child was reaped: true when it was this one. The run then knows the bundle's name. */
bool aside_ended(struct aside *aside, struct shared *run, pid_t pid);
/* At the end of the run: a line for each bundle that begins with `what`, and one where the last could not be
 * made. */
void aside_tell(struct aside *aside, const char *what);

#endif
