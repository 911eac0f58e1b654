/* SPDX-License-Identifier: Apache-2.0 */
/* Parsers of control-group texts. Pure: bytes in, values out. */
#ifndef COLLECTORS_CGROUP_PARSE_H
#define COLLECTORS_CGROUP_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

/* The path of `controller` in /proc/PID/cgroup ("" = the v2 hierarchy). Refuses paths with "..". */
bool cgroup_path(const char *membership, const char *controller, char *out, size_t size);
/* A limit file; false for "max" and for v1's "no limit". */
bool cgroup_limit(const char *text, uint64_t *ret);
/* A line "KEY NUMBER". */
bool cgroup_key(const char *text, const char *key, uint64_t *ret);
/* The kind of container that a path names; NULL = none. */
const char *cgroup_container(const char *membership);
/* A path with the ids of containers and pods replaced. */
void cgroup_append_path(struct buf *out, const char *path);

#endif
