/* SPDX-License-Identifier: Apache-2.0 */
#include "telemetry/metric.h"

#include <stddef.h>

static const struct metric_def metric_defs[METRIC_MAX] = {
#define X(id, symbol, name, unit, scope, where) [id] = {id, name, unit, scope, where},
    METRIC_TABLE(X)
#undef X
};

const struct metric_def *metric_find(uint16_t id)
{
    if (id >= METRIC_MAX || metric_defs[id].name == NULL)
        return NULL;
    return &metric_defs[id];
}
