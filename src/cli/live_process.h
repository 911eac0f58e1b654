/* SPDX-License-Identifier: Apache-2.0 */
/* The process that the user of `snap` or `watch` names. */
#ifndef CLI_LIVE_PROCESS_H
#define CLI_LIVE_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

/* The process that the only operand of `verb` names, argv[at]. The number of a thread stands for its process,
 * and that is said on stderr. A process that does not exist is not looked for. False: an error message was
 * printed. */
bool live_process(const char *verb, int argc, char *argv[], int at, pid_t *ret);

#endif
