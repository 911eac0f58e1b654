/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of the sampler: the value that it wrote last for a metric. */
#ifndef TEST_TELEMETRY_EXPECT_H
#define TEST_TELEMETRY_EXPECT_H

#include <stdint.h>

#include "telemetry/series.h"

struct shared;

void expect_metric(struct shared *shared, enum metric metric, uint32_t instance,
                   enum value_status status, uint64_t value);

#endif
