/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel log that somebody gives holds what was said since the machine started: of it only the run's
 * time counts, as of the log that the finisher collects. Pure.
 */
#ifndef DIAGNOSE_KERNEL_WINDOW_H
#define DIAGNOSE_KERNEL_WINDOW_H

#include <stddef.h>

struct facts;

/* The text with those records emptied that are known to be from before or after the run; lines keep their
 * numbers, records without a time stay. Sets kmsg.outside_run_count. NULL: when the run was is not known
 * (run.start_uptime_ms, run.start_time_s), all of it is of the run, or memory is short. free() it;
 * *ret_len without the NUL. */
char *kernel_window(struct facts *, const char *text, size_t len, size_t *ret_len);

#endif
