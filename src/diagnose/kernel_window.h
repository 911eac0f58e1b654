/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel log given by the user covers the time since boot. Only the run's time counts, as in the log
 * that the finisher collects. Of a pasted text only the dates of the program's own lines are known: a
 * record more than a day older than the first of them is of another time. Pure.
 */
#ifndef DIAGNOSE_KERNEL_WINDOW_H
#define DIAGNOSE_KERNEL_WINDOW_H

#include <stddef.h>

struct facts;

/* Returns the text with empty lines for the records from before or after the run. Line numbers stay, and
 * so do records without a time. Sets kmsg.outside_run_count. NULL: the time of the run is not known
 * (run.start_uptime_ms, run.start_time_s, log.first_time_s), the whole log is of the run, or memory is short. free() it;
 * *ret_len without the NUL. */
char *kernel_window(struct facts *, const char *text, size_t len, size_t *ret_len);

#endif
