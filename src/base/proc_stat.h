/* SPDX-License-Identifier: Apache-2.0 */
/* A process' line of /proc/PID/stat (proc_pid_stat(5)). */
#ifndef BASE_PROC_STAT_H
#define BASE_PROC_STAT_H

#include <stdint.h>

/* Field `number` of the line, from 3 on, as it counts in the manual page: the name in field 2 may hold
 * anything. 0 if there is no such field, or if it is no number. */
uint64_t proc_stat_field(const char *line, int number);

#endif
