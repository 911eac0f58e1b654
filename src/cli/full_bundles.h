/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks of one machine that fail alike: the first ones leave full bundles, the others small ones. */
#ifndef CLI_FULL_BUNDLES_H
#define CLI_FULL_BUNDLES_H

#include <stdbool.h>

struct rc_err;

/* May this rank leave a full bundle, because fewer than `most` of its machine and job that fail of the same `cause` have
 * claimed one within a minute? True also where it is no rank of several, or nothing can be claimed. A claim is a file in
 * the memory of the machine (/dev/shm), so that shared storage has no part in it, and a dead machine keeps none. */
bool full_bundles_claim(const char *const *environ_list, const char *cause, unsigned most);

/* Leaves in the stage what a small bundle has: the run, its output and the job. facts.json, verdict.json, SUMMARY.md and
 * the manifest come later. 0 or -errno. */
int full_bundles_reduce(const char *stage);

#endif
