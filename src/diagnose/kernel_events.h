/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small grammar of kernel log lines, subject and event ("ring vcn reset succeeded", "DQM update queue
 * failed"). It covers fragments that no message rule knows: consequences, inner parts of a dump. Pure; kernel_log_to_facts() asks it for each record.
 */
#ifndef DIAGNOSE_KERNEL_EVENTS_H
#define DIAGNOSE_KERNEL_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "diagnose/text.h"

struct scan;

enum kernel_event {
    EVENT_HANG,
    EVENT_SDMA,
    EVENT_QUEUE_REFUSED,
    EVENT_SDMA_QUEUE_REFUSED,
    EVENT_FAULT,
    EVENT_HARDWARE,
    EVENT_START,
    EVENT_FIRMWARE,
    EVENT_HOST_OOM,
    EVENT_PARAMETER,
    EVENT_MEMORY,
    KERNEL_EVENTS, /* none */
};

/* Reads one record. *ret_follows: such a record comes only after a hang or a fault (a reset, a queue
 * that cannot be evicted). */
enum kernel_event kernel_event_read(struct text record, bool *ret_follows);
/* Sets event.*: the first line of each kind, and event.first. */
void kernel_event_emit(const struct scan *, enum kernel_event, struct text record);
#endif
