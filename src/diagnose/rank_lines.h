/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks of one machine often write to one file: the launcher's log. PyTorch writes "[rank2]:" before what a rank
 * says of its failure, torchrun "[default2]:" (the local rank) with --tee. Pure.
 */
#ifndef DIAGNOSE_RANK_LINES_H
#define DIAGNOSE_RANK_LINES_H

#include <stddef.h>

struct facts;

/* The text without the lines that other ranks than the run's (job.rank, job.local_rank) have marked as theirs, and
 * without what rocmcrash said of them. An empty line stands for each, so that all lines keep their numbers. NULL:
 * there is no such line, the run is no rank of several, or memory is short. free() it; as long as the text. */
char *rank_lines_own(const struct facts *facts, const char *text, size_t len, size_t *ret_len);

#endif
