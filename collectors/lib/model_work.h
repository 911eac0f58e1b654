/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads headers and hashes of many model files with all cores. Worker processes share a table, so
 * that a hostile header or a file on a dead network mount costs only its own row.
 */
#ifndef COLLECTORS_LIB_MODEL_WORK_H
#define COLLECTORS_LIB_MODEL_WORK_H

#include <stddef.h>
#include <stdint.h>

#include "collectors/lib/hash_cache.h"
#include "collectors/lib/model_find.h"

struct model_work {
    struct model *models; /* in memory from model_table_new() */
    size_t count;
    const struct hash_cache *cache;
    uint64_t budget_mono_ns; /* whole files are hashed until then */
    uint64_t end_mono_ns;    /* everything stops then; workers that do not are killed */
    unsigned workers;        /* 0 = one per core that we may run on */
};

/* Zeroed memory for MODEL_MAX files that children share. NULL when there is none. */
struct model *model_table_new(void);
void model_table_free(struct model *models);

/* Forks, waits at most until end_mono_ns + 0.3 s, and leaves the known values in every row. Returns
 * the number of workers that did not finish (killed or abandoned), or -errno when none could start.
 */
int model_work_run(const struct model_work *work);

#endif
