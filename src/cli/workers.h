/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One run of a launcher (`rocmcrash -- torchrun ...`): which of its ranks failed, in which order. A process is a
 * rank by its environment at its failure.
 */
#ifndef CLI_WORKERS_H
#define CLI_WORKERS_H

#include <stddef.h>
#include <stdint.h>

#include "record/shared.h"

struct facts;
struct run_info;

struct worker {
    size_t impact; /* of the process that failed: a crash before an exit */
    int64_t rank;
    uint64_t time_ns; /* CLOCK_MONOTONIC of the rank's first failure */
};

/* The ranks that failed, by time; a run with one environment for all of its processes has one at most. */
size_t workers_find(const struct run_info *info, struct worker ret[SHARED_IMPACTS_MAX]);
/* worker.N.*, by time, and worker.story, where two or more ranks ran below the one that was started. */
void workers_to_facts(const struct run_info *info, struct facts *facts);

#endif
