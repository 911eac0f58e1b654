/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rocmcrash-probe: the only program of ours that loads GPU libraries and opens GPU devices. It may
 * hang in the driver or crash in a library, so collectors run it with a deadline.
 */
#ifndef PROBE_PROBE_H
#define PROBE_PROBE_H

struct cJSON;
struct rc_err;

/* Agents, pools and ISAs as HSA sees them. `library` is tried first when not NULL. The caller frees
 * the tree; NULL and *err if the runtime is missing or does not start. */
struct cJSON *probe_hsa(const char *library, struct rc_err *err);
/* Heaps, usage and counters of every amdgpu render node, or of the one named. */
struct cJSON *probe_drm(const char *only_path, struct rc_err *err);

#endif
