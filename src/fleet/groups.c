/* SPDX-License-Identifier: Apache-2.0 */
/* Failures that look alike, over all jobs: by signature, or by class where a bundle has none. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/internal.h"

static const struct fleet_record *of; /* qsort() has no argument for its order */

static const char *key_of(const struct fleet_record *record)
{
    return record->signature[0] != '\0' ? record->signature : record->class_name;
}

static int by_key(const void *a, const void *b)
{
    const struct fleet_record *x = &of[*(const size_t *)a];
    const struct fleet_record *y = &of[*(const size_t *)b];
    int r = strcmp(key_of(x), key_of(y));
    r = r != 0 ? r : strcmp(x->boot, y->boot);
    return r != 0 ? r : strcmp(x->path, y->path);
}

static int by_count(const void *a, const void *b)
{
    const struct fleet_group *x = a;
    const struct fleet_group *y = b;
    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    return strcmp(x->signature, y->signature);
}

static void add_to(struct fleet_group *group, size_t index)
{
    const struct fleet_record *record = &of[index];
    group->count++;
    if (record->fell_us == FLEET_UNKNOWN)
        return;
    if (group->from_us == FLEET_UNKNOWN || record->fell_us < group->from_us) {
        group->from_us = record->fell_us;
        group->first = index;
    }
    if (group->to_us == FLEET_UNKNOWN || record->fell_us > group->to_us)
        group->to_us = record->fell_us;
}

int fleet_group_records(struct fleet *fleet)
{
    size_t *order = calloc(fleet->count + 1, sizeof *order);
    fleet->groups = calloc(fleet->count + 1, sizeof *fleet->groups);
    if (order == NULL || fleet->groups == NULL) {
        free(order);
        return -ENOMEM;
    }
    size_t count = 0;
    for (size_t i = 0; i < fleet->count; i++)
        if (!fleet->records[i].is_note) /* it did not fail */
            order[count++] = i;
    of = fleet->records;
    qsort(order, count, sizeof *order, by_key);
    for (size_t i = 0; i < count; i++) {
        const struct fleet_record *record = &of[order[i]];
        const struct fleet_record *before = i > 0 ? &of[order[i - 1]] : NULL;
        bool is_new = before == NULL || strcmp(key_of(before), key_of(record)) != 0;
        if (is_new)
            fleet->groups[fleet->group_count++] = (struct fleet_group){
                .signature = key_of(record), .first = order[i], .from_us = FLEET_UNKNOWN, .to_us = FLEET_UNKNOWN};
        struct fleet_group *group = &fleet->groups[fleet->group_count - 1];
        group->nodes += record->boot[0] != '\0' && (is_new || strcmp(before->boot, record->boot) != 0);
        add_to(group, order[i]);
    }
    free(order);
    if (fleet->group_count > 0)
        qsort(fleet->groups, fleet->group_count, sizeof *fleet->groups, by_count);
    return 0;
}
