/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's paths that belong to the emulated machine: below /sys and /dev, /proc/modules,
 * /proc/meminfo and DRM's part of /proc/PID. The emulated file is used if the tree has it, else the
 * real one.
 */
#ifndef EMULATOR_REDIRECT_H
#define EMULATOR_REDIRECT_H

#include <limits.h>
#include <stdbool.h>

#include "node.h"

#define EXPORT __attribute__((visibility("default")))

/* `path` itself, or the one below the root, written to out. */
const char *redirect(const char *path, char out[PATH_MAX]);
/* /dev/kfd, /dev/dri/renderD* or card*. */
bool redirect_is_node(const char *path, struct node *ret);
/* Removes the root from a resolved path, in place: the program must not see it. */
void redirect_strip(char *path);

/* The next definition of a libc function: void *, to be stored in a typed pointer. */
void *redirect_next(const char *name);

#endif
