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

struct aside {
    struct shared *snapshot; /* memory of the last one, where its bundle is named; NULL = none */
    pid_t child;             /* makes it now; 0 = nobody does */
    uint32_t count;
};

/* False when ASIDE_MAX were made, one is being made, or no child can be made. `why`: what asked for it. */
bool aside_start(struct aside *aside, struct shared *shared, const struct launch_options *options,
                 struct relay *relays, const char *why);
/* A child was reaped: true when it was this one. */
bool aside_ended(struct aside *aside, pid_t pid);
/* The path of the last bundle, in `out`; false = none was made. */
bool aside_bundle(const struct aside *aside, char *out, size_t size);

/* Then: in words. */
const char *aside_why_none(const struct aside *aside);

#endif
