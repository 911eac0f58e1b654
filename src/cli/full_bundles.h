/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks of one machine that fail alike: the first ones leave full bundles, the others small ones. */
#ifndef CLI_FULL_BUNDLES_H
#define CLI_FULL_BUNDLES_H

#include <stdbool.h>

struct rc_err;

/* May this rank leave a full bundle, because fewer than `most` of its machine and job that fail of the same `cause` have
 * claimed one within a minute? True also if it is not one of several ranks, or no claim can be made. A claim is a file
 * in the machine's memory (/dev/shm): shared storage is not involved, and a dead machine leaves no claim. */
bool full_bundles_claim(const char *const *environ_list, const char *cause, unsigned most);

/* Leaves in the stage what a small bundle has: the run, its output and the job. facts.json, verdict.json, SUMMARY.md and
 * the manifest come later. 0 or -errno. */
int full_bundles_reduce(const char *stage);

#endif
