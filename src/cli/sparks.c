/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/sparks.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>

#include "telemetry/series.h"

static void add_spark(struct sparks *sparks, const struct series_set *set, enum metric used,
                      enum metric total, uint32_t gpu)
{
    double points[SPARK_POINTS];
    if (sparks->count >= SPARK_SERIES || series_find(set, used, gpu) == NULL ||
        series_downsample(set, used, gpu, set->first_ns, set->last_ns, points, SPARK_POINTS) == 0)
        return;
    size_t n = sparks->count++;
    for (size_t i = 0; i < SPARK_POINTS; i++)
        sparks->values[n][i] = isnan(points[i]) ? UINT64_MAX : (uint64_t)points[i];
    const struct series *all = series_find(set, total, gpu);
    const struct series_point *size = all != NULL ? series_peak(all) : NULL;
    (void)snprintf(sparks->labels[n], sizeof sparks->labels[n], "GPU %u %s used", gpu,
                   used == METRIC_GPU_VRAM_USED ? "VRAM" : "GTT");
    sparks->list[n] = (struct report_series){
        .label = sparks->labels[n],
        .total_bytes = size != NULL ? size->value : 0,
        .count = SPARK_POINTS,
        .values = sparks->values[n],
        .duration_ms = (set->last_ns - set->first_ns) / 1000000u,
    };
}

void sparks_fill(struct sparks *sparks, const struct series_set *set)
{
    sparks->count = 0;
    for (uint32_t gpu = 0; gpu < SPARK_SERIES / 2; gpu++) {
        add_spark(sparks, set, METRIC_GPU_VRAM_USED, METRIC_GPU_VRAM_TOTAL, gpu);
        add_spark(sparks, set, METRIC_GPU_GTT_USED, METRIC_GPU_GTT_TOTAL, gpu);
    }
}

cJSON *sparks_to_json(const struct sparks *sparks)
{
    cJSON *list = cJSON_CreateArray();
    for (size_t n = 0; n < sparks->count; n++) {
        const struct report_series *series = &sparks->list[n];
        cJSON *item = cJSON_CreateObject();
        cJSON *values = cJSON_AddArrayToObject(item, "values_bytes");
        (void)cJSON_AddStringToObject(item, "label", series->label);
        (void)cJSON_AddNumberToObject(item, "total_bytes", (double)series->total_bytes);
        (void)cJSON_AddNumberToObject(item, "duration_ms", (double)series->duration_ms);
        for (size_t i = 0; i < series->count; i++)
            (void)cJSON_AddItemToArray(values, series->values[i] == UINT64_MAX
                                                   ? cJSON_CreateNull()
                                                   : cJSON_CreateNumber((double)series->values[i]));
        (void)cJSON_AddItemToArray(list, item);
    }
    return list;
}

static uint64_t json_bytes(const cJSON *number)
{
    return cJSON_IsNumber(number) && number->valuedouble >= 0 && number->valuedouble < 1e18
               ? (uint64_t)number->valuedouble
               : UINT64_MAX;
}

static void spark_from_json(struct sparks *sparks, const cJSON *item)
{
    size_t n = sparks->count;
    const char *label = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "label"));
    const cJSON *values = cJSON_GetObjectItemCaseSensitive(item, "values_bytes");
    if (n >= SPARK_SERIES || label == NULL || cJSON_GetArraySize(values) != SPARK_POINTS)
        return;
    uint64_t total = json_bytes(cJSON_GetObjectItemCaseSensitive(item, "total_bytes"));
    uint64_t duration = json_bytes(cJSON_GetObjectItemCaseSensitive(item, "duration_ms"));
    for (int i = 0; i < SPARK_POINTS; i++)
        sparks->values[n][i] = json_bytes(cJSON_GetArrayItem(values, i));
    (void)snprintf(sparks->labels[n], sizeof sparks->labels[n], "%s", label);
    sparks->list[n] = (struct report_series){
        .label = sparks->labels[n],
        .total_bytes = total == UINT64_MAX ? 0 : total,
        .count = SPARK_POINTS,
        .values = sparks->values[n],
        .duration_ms = duration == UINT64_MAX ? 0 : duration,
    };
    sparks->count++;
}

void sparks_from_json(struct sparks *sparks, const cJSON *json)
{
    const cJSON *item;
    sparks->count = 0;
    cJSON_ArrayForEach(item, json) spark_from_json(sparks, item);
}
