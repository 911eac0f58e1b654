/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the folder of the cgroup tree that sets the memory limit of a process.
 *
 * In v2 the limits of the parents apply too, so the smallest on the way up is taken. In a container
 * /proc/PID/cgroup may give the host's path while the mount shows the container's own root: then
 * the root is taken.
 */
#ifndef TELEMETRY_CGROUP_H
#define TELEMETRY_CGROUP_H

#include <stdbool.h>
#include <stddef.h>

#include "telemetry/procfs.h"

struct cgroup_memory {
    bool found;
    bool v1;
    char leaf[1200];  /* machine path of the process's own cgroup */
    char limit[1200]; /* machine path of the cgroup with the smallest limit; the leaf if none has a
                       * limit */
};

/* Looks below the sysroot's /sys/fs/cgroup. */
void cgroup_resolve(const struct cgroup_paths *paths, struct cgroup_memory *ret);
/* memory.max and memory.limit_in_bytes: false for "max" and for v1's "no limit" number. */
bool cgroup_parse_limit(const char *text, uint64_t *ret);

#endif
