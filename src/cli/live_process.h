/* SPDX-License-Identifier: Apache-2.0 */
/* The process that the user of `snap` or `watch` names. */
#ifndef CLI_LIVE_PROCESS_H
#define CLI_LIVE_PROCESS_H

#include <sys/types.h>

struct rc_err;

/* The process that has the number `word`. The number of a thread stands for its process, and that is said
 * on stderr. 0; -EINVAL where it is no number; -ENOTSUP for a thread of the kernel. A process that does not
 * exist is not looked for. */
int live_process(const char *word, pid_t *ret, struct rc_err *err);

#endif
