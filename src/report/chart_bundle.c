/* SPDX-License-Identifier: Apache-2.0 */
/* The charts of a bundle. Its facts about the devices decide which tables are used. */
#include "report/chart.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

static const cJSON *value_of(const cJSON *facts, const char *name)
{
    const cJSON *fact = NULL;
    cJSON_ArrayForEach(fact, cJSON_GetObjectItemCaseSensitive(facts, "facts"))
    {
        const char *its = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(fact, "name"));
        const cJSON *value = cJSON_GetObjectItemCaseSensitive(fact, "value");
        if (its != NULL && strcmp(its, name) == 0 && value != NULL)
            return value;
    }
    return NULL;
}

static bool is_known(const cJSON *facts, const char *name)
{
    return value_of(facts, name) != NULL;
}

/* The allocator's device 0 is GPU 0, unless only some of several GPUs were visible to the
 * program. */
static bool knows_devices(const cJSON *facts)
{
    static const char *const hiding[] = {"env.HIP_VISIBLE_DEVICES", "env.ROCR_VISIBLE_DEVICES",
                                         "env.CUDA_VISIBLE_DEVICES", "env.GPU_DEVICE_ORDINAL"};
    bool hidden = false;
    for (size_t i = 0; i < sizeof hiding / sizeof hiding[0]; i++)
        hidden = hidden || is_known(facts, hiding[i]);
    return !hidden || !is_known(facts, "gpu.1.vram.total_bytes");
}

/* Only the failed process has a known rank, so only its name gets one. */
static void name_failed_process(struct charts *charts, const cJSON *facts)
{
    const cJSON *pid = value_of(facts, "target.failed_pid");
    const cJSON *rank = value_of(facts, "job.rank");
    char name[sizeof charts->charts[0].parts[0].label];
    if (!cJSON_IsNumber(pid))
        return;
    (void)snprintf(name, sizeof name, "process %d", pid->valueint);
    for (size_t i = 0; i < charts->count; i++)
        for (size_t k = 0; k < charts->charts[i].part_count; k++) {
            char *label = charts->charts[i].parts[k].label;
            if (strcmp(label, name) != 0)
                continue;
            if (cJSON_IsNumber(rank))
                (void)snprintf(label, sizeof name, "process %d, rank %d, failed", pid->valueint, rank->valueint);
            else
                (void)snprintf(label, sizeof name, "process %d, failed", pid->valueint);
        }
}

int charts_of_bundle(struct charts *ret, const cJSON *facts, const char *telemetry,
                     const char *torch)
{
    int r = charts_read(ret, telemetry, knows_devices(facts) ? torch : NULL,
                        cJSON_IsTrue(value_of(facts, "gpu.0.is_apu")));
    name_failed_process(ret, facts);
    return r;
}
