/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that the caller started: forwards signals, watches its helpers, waits for the target,
 * has the bundle made, and ends as the target ended. libc only; does nothing that can hang.
 */
#ifndef LAUNCH_SUPERVISOR_H
#define LAUNCH_SUPERVISOR_H

#include "launch/options.h"

#define LAUNCH_EXIT_OWN_FAILURE 125 /* ours, before exec; 126 and 127 as env(1) has them */

/*
 * Run argv under observation. Returns the exit status to leave with; when the target died of a
 * signal, ends by the same signal instead of returning (128 + signal as pid 1). Whatever of ours
 * fails, the target runs: without shared memory or helpers it is simply executed.
 */
int launch_run(const struct launch_options *options, char *const argv[]);

#endif
