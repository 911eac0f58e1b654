/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sparklines of a summary: used memory of the first GPUs over the run. Kept in the bundle as
 * telemetry/sparkline.json, so that a summary can be written again without the samples.
 */
#ifndef CLI_SPARKS_H
#define CLI_SPARKS_H

#include <stddef.h>
#include <stdint.h>

#include "report/report.h"

#define SPARK_POINTS 48
#define SPARK_SERIES 8
#define SPARK_FILE "sparkline.json"

struct cJSON;
struct series_set;

struct sparks {
    struct report_series list[SPARK_SERIES];
    uint64_t values[SPARK_SERIES][SPARK_POINTS];
    char labels[SPARK_SERIES][96];
    size_t count;
};

void sparks_fill(struct sparks *sparks, const struct series_set *set);
struct cJSON *sparks_to_json(const struct sparks *sparks);
/* Members of the wrong shape are left out. NULL gives no series. */
void sparks_from_json(struct sparks *sparks, const struct cJSON *json);

#endif
