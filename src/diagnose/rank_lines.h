/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks of one machine often write to one file: the launcher's log. The writer of a line is known only if the line is
 * marked: "[rank2]:" by PyTorch, "[default2]:" (the local rank) by torchrun --tee, "[1,2]<stderr>:" by mpirun with
 * tags, "2: " by srun -l. A program may begin its own lines with numbers. So "2: " counts only in a file that ranks
 * share, and only if the run's own number and another number occur. Pure.
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

/* The text without the lines that are marked as those of other ranks (other than job.rank, job.local_rank), without
 * the lines that rocmcrash printed about other ranks, and without the marks of launchers. An empty line stands for
 * each line that is left out, so all lines keep their numbers. NULL: nothing is left out, the run is not one of
 * several ranks, or memory is short. free() it. */
char *rank_lines_own(const struct facts *facts, const char *text, size_t len, size_t *ret_len);

/* For each fact from index `from` on: if others may have written its line, and the line is not marked as the run's
 * own, the fact's source gets a note that says so. */
void rank_lines_doubt(struct facts *facts, size_t from, const char *text, size_t len);

#endif
