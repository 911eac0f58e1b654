/* SPDX-License-Identifier: Apache-2.0 */
/* The variables by which launchers tell a program its rank and its job. They are kept with the run: when everything is killed,
 * nobody is left who had them in his environment, and `recover` is called in another one. */
#ifndef RECORD_JOB_VARIABLES_H
#define RECORD_JOB_VARIABLES_H

#include <stddef.h>

#define JOB_RANKS_HERE_MAX 65536
#define JOB_NUMBERS 13
#define JOB_LAUNCHERS 10

struct job_number {
    const char *fact;
    const char *variables[8]; /* NULL-terminated */
};
extern const struct job_number job_numbers[JOB_NUMBERS];

struct job_launcher {
    const char *name;
    const char *variable;
};
extern const struct job_launcher job_launchers[JOB_LAUNCHERS];

/* Those of our environment, as lines "NAME=NUMBER", "NAME=" where the value is no number. A line that does not fit is left out. */
void job_variables_keep(char *out, size_t size);

/* The lines as a NULL-terminated list of strings in `lines`, which is changed. The caller frees the list. NULL: no memory. */
const char **job_variables_list(char *lines);

/* How many ranks of the job are on this machine, by the launcher's word; 1: it says nothing of others. */
unsigned job_ranks_here(void);

#endif
