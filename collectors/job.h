/* SPDX-License-Identifier: Apache-2.0 */
/* The rank of a job to which an environment belongs. */
#ifndef COLLECTORS_JOB_H
#define COLLECTORS_JOB_H

#include <stdbool.h>
#include <stdint.h>

/* The number for a fact ("job.rank", "job.world_size", ...), by the variable of the launcher that is nearest to the
 * program. False: no launcher set one. */
bool job_number(const char *const *environ_list, const char *fact, int64_t *ret);

struct facts;
/* All numbers, and job.launcher. */
void job_to_facts(const char *const *environ_list, struct facts *facts);

#endif
