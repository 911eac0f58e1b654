/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of /proc/PID/stat (proc_pid_stat(5)) and /proc/PID/status. Allocates nothing. */
#ifndef BASE_PROC_STAT_H
#define BASE_PROC_STAT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Field `number` of a line of /proc/PID/stat, from 3 on, as it counts in the manual page: the name in
 * field 2 may hold anything. 0 if there is no such field, or if it is no number. */
uint64_t proc_stat_field(const char *line, int number);
/* The same for process `pid`. 0 also if its line cannot be read. */
uint64_t proc_stat_of(pid_t pid, int number);
/* The letter of field 3 ('S' sleeps, 't' is held by who traces it); 0 if it cannot be read. */
char proc_state_of(pid_t pid);
/* The last look at a process that a stranger may hold; {0} before the first. */
struct held_look {
    uint64_t at_ns;
    bool was_held;
};

/* Its tracer holds it now and held it at the look before, 2 s ago or more. Call it as often as you like. */
bool proc_stays_held(struct held_look *look, pid_t pid, uint64_t now_ns);
/* The number after `field` ("Tgid") in /proc/PID/status. 0 if there is none, or the file cannot be read. */
uint64_t proc_status_number(pid_t pid, const char *field);

#endif
