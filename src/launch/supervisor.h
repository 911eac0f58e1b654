/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that the caller started: forwards signals, watches its helpers, waits for the target,
 * has the bundle made, and ends as the target ended. libc only; does nothing that can hang.
 */
#ifndef LAUNCH_SUPERVISOR_H
#define LAUNCH_SUPERVISOR_H

#include <sys/types.h>

#include "launch/options.h"

#define LAUNCH_EXIT_OWN_FAILURE 125 /* ours, before exec; 126 and 127 as env(1) has them */

/*
 * Run argv under observation. Returns the exit status to leave with; when the target died of a
 * signal, ends by the same signal instead of returning (128 + signal as pid 1). Whatever of ours
 * fails, the target runs: without shared memory or helpers it is simply executed.
 */
int launch_run(const struct launch_options *options, char *const argv[]);

#define ATTEND_BAD 1    /* it ended by a signal, with another exit code than 0, or nobody knows how */
#define ATTEND_FAILED 2 /* it could not be watched */

/*
 * Look after a process that somebody else started until it ends; a bundle is left when it ends badly. It is
 * traced where that is allowed, and let go when we end, however we end. A signal that would end us only
 * ends the watching. Returns 0 when it ended well, or a number above.
 */
int launch_attend(const struct launch_options *options, pid_t pid);

#endif
