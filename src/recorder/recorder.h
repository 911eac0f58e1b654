/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder process: puts the run on disk while it happens, and takes the supervisor's place when
 * that is killed.
 *
 * It is the only process of a run that opens files of the run directory, so a disk that hangs costs
 * only the copy on disk. The directory is made after RECORDER_QUIET_MS, or as soon as a failure was
 * noticed. So a run that ends well before that leaves no trace.
 */
#ifndef RECORDER_RECORDER_H
#define RECORDER_RECORDER_H

#include <stdbool.h>

struct ledger;
struct shared;

#define RECORDER_QUIET_MS 100

struct recorder_options {
    int supervisor_pidfd; /* wakes us when the supervisor has ended; -1 = we notice one turn later */
    int wake_fd;          /* eventfd: the supervisor has set supervisor_done */
    int kernel_log_mark;  /* from kernel_log_mark() before the target began; -1 = none */
    struct ledger *ledger; /* NULL = none */
    bool keep_orphan;     /* do not kill the target when the supervisor is killed */
    void (*bundle)(void *context); /* called when the supervisor was killed and the target is gone */
    void (*forget)(void *context); /* called when no bundle is wanted and no directory was made */
    void *context;
};

/* The main function of the recorder; ends the process. */
_Noreturn void recorder_run(struct shared *shared, const struct recorder_options *options);

#endif
