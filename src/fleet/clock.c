/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When did it happen? On one boot of one machine CLOCK_MONOTONIC orders exactly. Between machines there are the
 * wall clocks, and what each kernel says of how far its own may be off.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/internal.h"

static const struct fleet_record *sorted; /* qsort() has no argument for its order */

static int by_boot(const void *a, const void *b)
{
    const struct fleet_record *x = &sorted[*(const size_t *)a];
    const struct fleet_record *y = &sorted[*(const size_t *)b];
    int r = strcmp(x->boot, y->boot);
    return r != 0 ? r : (x->start_us > y->start_us) - (x->start_us < y->start_us);
}

static bool has_offset(const struct fleet_record *record)
{
    return record->fell_us != FLEET_UNKNOWN && record->fell_uptime_us != FLEET_UNKNOWN;
}

int fleet_align_clocks(struct fleet *fleet)
{
    size_t *order = calloc(fleet->count + 1, sizeof *order);
    if (order == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < fleet->count; i++)
        order[i] = i;
    sorted = fleet->records;
    qsort(order, fleet->count, sizeof *order, by_boot);
    const struct fleet_record *first = NULL;
    for (size_t i = 0; i < fleet->count; i++) {
        struct fleet_record *record = &fleet->records[order[i]];
        if (record->boot[0] == '\0' || !has_offset(record))
            continue;
        if (first == NULL || strcmp(first->boot, record->boot) != 0)
            first = record;
        record->fell_us = record->fell_uptime_us + (first->fell_us - first->fell_uptime_us);
    }
    free(order);
    return 0;
}

bool fleet_between(const struct fleet_record *a, const struct fleet_record *b, int64_t *ret_us, int64_t *ret_error_us)
{
    bool one_boot = a->boot[0] != '\0' && strcmp(a->boot, b->boot) == 0;
    if (one_boot && a->fell_uptime_us != FLEET_UNKNOWN && b->fell_uptime_us != FLEET_UNKNOWN) {
        *ret_us = b->fell_uptime_us - a->fell_uptime_us;
        *ret_error_us = 0;
        return true;
    }
    if (a->fell_us == FLEET_UNKNOWN || b->fell_us == FLEET_UNKNOWN)
        return false;
    bool known = a->clock_error_us != FLEET_UNKNOWN && b->clock_error_us != FLEET_UNKNOWN;
    *ret_us = b->fell_us - a->fell_us;
    *ret_error_us = known ? a->clock_error_us + b->clock_error_us : FLEET_UNKNOWN;
    return true;
}
