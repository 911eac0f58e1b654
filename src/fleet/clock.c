/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When did it happen? On one boot of one machine CLOCK_MONOTONIC orders exactly. Between machines there are the
 * wall clocks, and what each kernel says of how far its own may be off; and events that both machines saw.
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

/* --- events that several machines saw --- */

/* Within this time the peers on all machines notice that a rank is gone, and a launcher ends all ranks. */
#define SEEN_TOGETHER_US 2000000

static const enum fleet_role shared_events[] = {FLEET_LOST_PEER, FLEET_ENDED, FLEET_WAITED};
#define SHARED_EVENTS (sizeof shared_events / sizeof shared_events[0])

/* The members of one boot: order[from] to order[to - 1]. */
struct node {
    size_t from, to;
    int64_t earliest[SHARED_EVENTS]; /* of each kind */
    int64_t error_us;                /* the largest that its kernel reported */
};

static void look_at_node(const struct fleet *fleet, const size_t *order, struct node *node)
{
    node->error_us = 0;
    for (size_t k = 0; k < SHARED_EVENTS; k++)
        node->earliest[k] = FLEET_UNKNOWN;
    for (size_t i = node->from; i < node->to; i++) {
        const struct fleet_record *record = &fleet->records[order[i]];
        if (record->clock_error_us == FLEET_UNKNOWN || node->error_us == FLEET_UNKNOWN)
            node->error_us = FLEET_UNKNOWN;
        else if (record->clock_error_us > node->error_us)
            node->error_us = record->clock_error_us;
        for (size_t k = 0; k < SHARED_EVENTS; k++)
            if (record->role == shared_events[k] && record->fell_us != FLEET_UNKNOWN &&
                (node->earliest[k] == FLEET_UNKNOWN || record->fell_us < node->earliest[k]))
                node->earliest[k] = record->fell_us;
    }
}

static bool is_known_well(const struct node *node)
{
    return node->error_us != FLEET_UNKNOWN && node->error_us < SEEN_TOGETHER_US / 4;
}

static void shift(struct fleet *fleet, const size_t *order, const struct node *node, int64_t by_us)
{
    for (size_t i = node->from; i < node->to; i++) {
        struct fleet_record *record = &fleet->records[order[i]];
        record->is_aligned = true;
        if (record->fell_us != FLEET_UNKNOWN)
            record->fell_us += by_us;
    }
}

/* By the first kind of event that both machines saw. */
static void align(struct fleet *fleet, const size_t *order, const struct node *to, const struct node *node)
{
    for (size_t k = 0; k < SHARED_EVENTS; k++) {
        if (to->earliest[k] == FLEET_UNKNOWN || node->earliest[k] == FLEET_UNKNOWN)
            continue;
        shift(fleet, order, to, 0);
        shift(fleet, order, node, to->earliest[k] - node->earliest[k]);
        return;
    }
}

void fleet_align_nodes(struct fleet *fleet, struct fleet_job *job)
{
    struct node first = {.to = 0}, node;
    sorted = fleet->records;
    qsort(job->members, job->count, sizeof *job->members, by_boot);
    for (node.from = 0; node.from < job->count; node.from = node.to) {
        const char *boot = fleet->records[job->members[node.from]].boot;
        for (node.to = node.from; node.to < job->count && strcmp(fleet->records[job->members[node.to]].boot, boot) == 0;)
            node.to++;
        if (boot[0] == '\0')
            continue;
        look_at_node(fleet, job->members, &node);
        if (first.to == 0)
            first = node;
        else if (!is_known_well(&first) || !is_known_well(&node))
            align(fleet, job->members, &first, &node);
    }
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
    *ret_error_us = a->is_aligned && b->is_aligned ? SEEN_TOGETHER_US
                    : known                          ? a->clock_error_us + b->clock_error_us
                                                     : FLEET_UNKNOWN;
    return true;
}
