/* SPDX-License-Identifier: Apache-2.0 */
#include "telemetry/values.h"

#include <string.h>

#define GPU_FIRST 0
#define PROC_FIRST 20
#define HOST_FIRST 40

_Static_assert(sizeof(struct sample_header) == 16 && sizeof(struct sample_entry) == 16,
               "records lie on disk as they lie in memory");
_Static_assert(METRIC_PROC_RSS == PROC_FIRST && METRIC_HOST_MEM_TOTAL == HOST_FIRST,
               "metric ids are grouped by scope");

static bool set(struct values *v, struct value *slot, enum value_status status, uint64_t value)
{
    if (status != VALUE_OK)
        value = 0;
    if (slot->known && slot->status == status && slot->value == value)
        return false;
    slot->value = value;
    slot->status = (uint8_t)status;
    slot->known = 1;
    v->dirty_count += !slot->dirty;
    slot->dirty = 1;
    return true;
}

bool values_set_gpu(struct values *v, uint32_t gpu, enum metric m, enum value_status status,
                    uint64_t value)
{
    if (gpu >= MACHINE_GPUS_MAX || m >= GPU_FIRST + VALUES_GPU_METRICS)
        return false;
    return set(v, &v->gpus[gpu][m - GPU_FIRST], status, value);
}

const struct value *values_gpu(const struct values *v, uint32_t gpu, enum metric m)
{
    return &v->gpus[gpu][m - GPU_FIRST];
}

bool values_set_host(struct values *v, enum metric m, enum value_status status, uint64_t value)
{
    if (m < HOST_FIRST || m >= HOST_FIRST + VALUES_HOST_METRICS)
        return false;
    return set(v, &v->host[m - HOST_FIRST], status, value);
}

bool values_set_proc(struct values *v, int row, enum metric m, enum value_status status,
                     uint64_t value)
{
    if (row < 0 || row >= VALUES_PROCS_MAX || m < PROC_FIRST ||
        m >= PROC_FIRST + VALUES_PROC_METRICS)
        return false;
    return set(v, &v->procs[row].values[m - PROC_FIRST], status, value);
}

int values_proc_row(struct values *v, int32_t pid)
{
    int free_row = -1;
    for (int i = 0; i < VALUES_PROCS_MAX; i++) {
        /* A process with a reused pid waits until the record that ends its predecessor is
         * written. */
        if (v->procs[i].pid == pid)
            return v->procs[i].ending ? -1 : i;
        if (v->procs[i].pid == 0 && free_row < 0)
            free_row = i;
    }
    if (free_row >= 0)
        v->procs[free_row].pid = pid;
    return free_row;
}

void values_proc_end(struct values *v, int row)
{
    if (row < 0 || row >= VALUES_PROCS_MAX)
        return;
    for (int m = 0; m < VALUES_PROC_METRICS; m++)
        if (v->procs[row].values[m].known)
            (void)set(v, &v->procs[row].values[m], VALUE_ABSENT, 0);
    v->procs[row].ending = true;
}

static void add(struct values *v, struct value *slot, uint32_t metric, uint32_t instance,
                bool full)
{
    if (!slot->known || (!full && !slot->dirty))
        return;
    slot->dirty = 0;
    v->record.entries[v->record.header.entries++] = (struct sample_entry){
        .metric = (uint16_t)metric,
        .status = slot->status,
        .instance = instance,
        .value = slot->value,
    };
}

static void add_procs(struct values *v, bool full)
{
    for (int i = 0; i < VALUES_PROCS_MAX; i++) {
        struct value_proc *p = &v->procs[i];
        if (p->pid == 0)
            continue;
        for (uint32_t m = 0; m < VALUES_PROC_METRICS; m++)
            add(v, &p->values[m], PROC_FIRST + m, (uint32_t)p->pid, full);
        if (p->ending)
            memset(p, 0, sizeof *p);
    }
}

size_t values_record(struct values *v, uint16_t flags, uint64_t time_ns)
{
    bool full = (flags & SAMPLE_FULL) != 0;
    if (!full && v->dirty_count == 0)
        return 0;
    if (time_ns <= v->last_time_ns)
        time_ns = v->last_time_ns + 1;
    v->last_time_ns = time_ns;
    v->record.header = (struct sample_header){
        .magic = SAMPLE_MAGIC,
        .flags = flags,
        .time_ns = time_ns,
    };
    for (uint32_t m = 0; m < VALUES_HOST_METRICS; m++)
        add(v, &v->host[m], HOST_FIRST + m, 0, full);
    /* Stop at the first GPU row without any value: reading further would touch new pages. */
    for (uint32_t g = 0; g < MACHINE_GPUS_MAX && v->gpus[g][METRIC_GPU_VRAM_USED].known; g++)
        for (uint32_t m = 0; m < VALUES_GPU_METRICS; m++)
            add(v, &v->gpus[g][m], GPU_FIRST + m, g, full);
    add_procs(v, full);
    v->dirty_count = 0;
    return sizeof v->record.header + v->record.header.entries * sizeof v->record.entries[0];
}
