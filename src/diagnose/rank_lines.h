/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks of one machine often write to one file: the launcher's log. Who wrote a line is known where it is marked:
 * "[rank2]:" by PyTorch, "[default2]:" (the local rank) by torchrun --tee, "[1,2]<stderr>:" by mpirun with tags,
 * "2: " by srun -l. A program may begin its own lines with numbers, so "2: " counts only in a file that ranks share,
 * and only where the own number and another one occur. Pure.
 */
#ifndef DIAGNOSE_RANK_LINES_H
#define DIAGNOSE_RANK_LINES_H

#include <stddef.h>

struct facts;

/* The processes that may have written the unmarked lines in the output of a run. */
enum rank_lines_writer {
    RANK_LINES_OWN,    /* the run's only */
    RANK_LINES_BELOW,  /* several ranks below one launcher, two or more of which failed */
    RANK_LINES_SHARED, /* other ranks write to the same file */
};

enum rank_lines_writer rank_lines_writer(const struct facts *facts);

/* The text without the lines that other ranks than the run's (job.rank, job.local_rank) have marked as theirs, without
 * what rocmcrash said of them, and without the marks of launchers. An empty line stands for each that is left out, so
 * that all lines keep their numbers. NULL: nothing is left out, the run is no rank of several, or memory is short.
 * free() it. */
char *rank_lines_own(const struct facts *facts, const char *text, size_t len, size_t *ret_len);

/* Notes in the source of each fact from `from` on that its line of the text is not marked as the run's own, where
 * others may have written it. */
void rank_lines_doubt(struct facts *facts, size_t from, const char *text, size_t len);

#endif
