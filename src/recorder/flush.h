/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies the shared memory to the run directory (record/rundir.h has the layout).
 *
 * The recorder calls it once a second; the finisher calls it once, because the recorder may be dead.
 * The shared memory itself remembers what has been written (struct record_progress), so the two
 * never write the same bytes twice.
 */
#ifndef RECORDER_FLUSH_H
#define RECORDER_FLUSH_H

struct shared;
struct rc_err;

/* Copies everything that is new. 0 or the first -errno. If one part fails, the others are still copied. */
int recorder_flush(struct shared *shared, const char *run_dir, struct rc_err *err);

#endif
