/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of a bundle's manifest: each part of the bundle, whether it is complete, and why not.
 */
#ifndef CLI_JOB_ROWS_H
#define CLI_JOB_ROWS_H

#include <stdint.h>

#include "collect/collector.h"

struct job;
struct runner_row;

/* Adds a row. `why` (NULL = "") is redacted first. */
void job_row(struct job *job, const char *name, enum collect_status status, const char *why, uint64_t ms);
/* For runner_run(), with the job as context. A collector that had no time before the first verdict is
 * noted in job->late instead. */
void job_collector_row(const struct runner_row *row, void *context);
/* Adds the rows of the run itself: tracing, the copy of the failing process, its output. */
void job_run_rows(struct job *job);

#endif
