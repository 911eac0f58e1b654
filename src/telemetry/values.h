/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last value of every metric, and the record of the changed values. Sampler only. Fixed size;
 * only pages for existing GPUs and processes are touched.
 */
#ifndef TELEMETRY_VALUES_H
#define TELEMETRY_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "telemetry/machine.h"
#include "telemetry/metric.h"

#define VALUES_PROCS_MAX 72 /* 64 of the tree, the largest other holder of VRAM, some ending */
#define VALUES_GPU_METRICS 18
#define VALUES_PROC_METRICS 20
#define VALUES_HOST_METRICS 16
#define VALUES_ENTRIES_MAX                                                                         \
    (MACHINE_GPUS_MAX * VALUES_GPU_METRICS + VALUES_PROCS_MAX * VALUES_PROC_METRICS +              \
     VALUES_HOST_METRICS)

struct value {
    uint64_t value;
    uint8_t status;
    uint8_t known; /* has been set since the row was taken */
    uint8_t dirty; /* differs from the last record */
};

struct value_proc {
    int32_t pid; /* 0 = free */
    bool ending; /* every value becomes absent in the next record, then the row is free */
    struct value values[VALUES_PROC_METRICS];
};

struct values {
    uint32_t dirty_count;
    uint64_t last_time_ns;
    struct value host[VALUES_HOST_METRICS];
    struct value_proc procs[VALUES_PROCS_MAX];
    struct value gpus[MACHINE_GPUS_MAX][VALUES_GPU_METRICS];
    struct {
        struct sample_header header;
        struct sample_entry entries[VALUES_ENTRIES_MAX];
    } record;
};

/* Each returns whether the value is new or differs. `value` is ignored unless VALUE_OK. */
bool values_set_gpu(struct values *v, uint32_t gpu, enum metric m, enum value_status status,
                    uint64_t value);
bool values_set_host(struct values *v, enum metric m, enum value_status status, uint64_t value);
/* The value that was last set. */
const struct value *values_gpu(const struct values *v, uint32_t gpu, enum metric m);
/* row = index from values_proc_row(). */
bool values_set_proc(struct values *v, int row, enum metric m, enum value_status status,
                     uint64_t value);

/* Row of a process, taken when there is none yet; -1 when all are in use. */
int values_proc_row(struct values *v, int32_t pid);
/* The process is gone (or no longer followed). */
void values_proc_end(struct values *v, int row);

/*
 * Build v->record: every known value when flags has SAMPLE_FULL, else the changed ones. Times go
 * up strictly, so that a reader can drop what it has seen. Returns its bytes, 0 = nothing changed.
 */
size_t values_record(struct values *v, uint16_t flags, uint64_t time_ns);

#endif
