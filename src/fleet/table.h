/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a table and numbers for a monitor: from any number of records, in constant memory. Pure. */
#ifndef FLEET_TABLE_H
#define FLEET_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "fleet/fleet.h"

struct buf;

#define FLEET_CLASSES_MAX 64

struct fleet_class {
    char name[40];
    size_t count;
    int64_t last_us; /* wall clock; FLEET_UNKNOWN = of none the time is known */
};

struct fleet_metrics {
    struct fleet_class classes[FLEET_CLASSES_MAX];
    size_t class_count;
    size_t notes, unreadable;
    int64_t bytes;
};

/* CSV of RFC 4180; times are microseconds since 1970. */
void fleet_table_heading(struct buf *out);
void fleet_table_row(const struct fleet_record *record, struct buf *out);

void fleet_metrics_add(struct fleet_metrics *metrics, const struct fleet_record *record, int64_t bytes);
/* OpenMetrics, which the textfile collector of Prometheus' node exporter reads, too. Sorts the classes. */
void fleet_metrics_text(struct fleet_metrics *metrics, struct buf *out);

#endif
