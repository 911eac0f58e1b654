/* SPDX-License-Identifier: Apache-2.0 */
/* The charts of a bundle. Its facts about the devices decide which tables are used. */
#include "report/chart.h"

#include <cjson/cJSON.h>
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

int charts_of_bundle(struct charts *ret, const cJSON *facts, const char *telemetry,
                     const char *torch)
{
    return charts_read(ret, telemetry, knows_devices(facts) ? torch : NULL,
                       cJSON_IsTrue(value_of(facts, "gpu.0.is_apu")));
}
