/* SPDX-License-Identifier: Apache-2.0 */
/* A rank that was asked to end did not fail, and leaves no bundle; its record tells `fleet` that it is not missing. */
#ifndef CLI_RANK_RECORD_H
#define CLI_RANK_RECORD_H

#include <stdbool.h>

struct rc_err;

/* Writes rocmcrash-TIME-rank-ended-rN.json (facts.json of some 3 KB: numbers only) into the folder, with one
 * metadata operation: file systems that many ranks share are slow in these. Nothing where the run in run_dir is
 * no rank of several. 0 or -errno. */
int rank_record_write(const char *run_dir, const char *folder, struct rc_err *err);
/* By the name. */
bool rank_record_is_name(const char *path);

#endif
