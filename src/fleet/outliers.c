/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds ranks that differ: nearly all ranks of a job share a value, and one or few have another. Each GPU is
 * compared with all GPUs of the job, whatever its number.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/internal.h"

#define ASKED_MIN 3          /* of two that differ none is the odd one */
#define USUAL_SHARE_PERCENT 75
#define OUTLIERS_MAX 1000

struct seen_value {
    const char *key, *text; /* of a record */
    size_t record, value;
};

/* "gpu.3.vbios" -> ".vbios": the same of every GPU. */
static const char *key_of(const char *name)
{
    return strncmp(name, "gpu.", 4) == 0 ? name + 4 + strspn(name + 4, "0123456789") : name;
}

static int by_key_and_text(const void *a, const void *b)
{
    const struct seen_value *x = a;
    const struct seen_value *y = b;
    int r = strcmp(x->key, y->key);
    r = r != 0 ? r : strcmp(x->text, y->text);
    r = r != 0 ? r : (x->record > y->record) - (x->record < y->record);
    return r != 0 ? r : (x->value > y->value) - (x->value < y->value);
}

/* Eight ranks of a machine see the same eight GPUs: each is listed once. */
static bool is_told(const struct fleet *fleet, const struct fleet_record *record, const struct fleet_value *value)
{
    for (size_t i = 0; i < fleet->outlier_count; i++) {
        const struct fleet_record *other = &fleet->records[fleet->outliers[i].record];
        const struct fleet_value *told = &other->values[fleet->outliers[i].value];
        if (record->boot[0] != '\0' && strcmp(other->boot, record->boot) == 0 && strcmp(told->name, value->name) == 0 &&
            strcmp(told->text, value->text) == 0)
            return true;
    }
    return false;
}

static void add_outliers(struct fleet *fleet, const struct seen_value *seen, size_t count, const char *usual,
                         size_t usual_count)
{
    for (size_t i = 0; i < count && fleet->outlier_count < OUTLIERS_MAX; i++) {
        const struct fleet_record *record = &fleet->records[seen[i].record];
        if (strcmp(seen[i].text, usual) == 0 || is_told(fleet, record, &record->values[seen[i].value]))
            continue;
        fleet->outliers[fleet->outlier_count++] = (struct fleet_outlier){
            .record = seen[i].record, .value = seen[i].value, .usual = usual, .usual_count = usual_count, .asked = count};
    }
}

/* Values of one key, equal ones side by side. */
static void compare(struct fleet *fleet, const struct seen_value *seen, size_t count)
{
    size_t best = 0, best_at = 0;
    for (size_t i = 0, run = 0; i < count; i++) {
        run = i > 0 && strcmp(seen[i].text, seen[i - 1].text) == 0 ? run + 1 : 1;
        if (run > best) {
            best = run;
            best_at = i;
        }
    }
    bool usual = best * 100 >= count * USUAL_SHARE_PERCENT || best + 1 == count; /* two of three */
    if (count >= ASKED_MIN && best < count && usual)
        add_outliers(fleet, seen, count, seen[best_at].text, best);
}

static void look_at_job(struct fleet *fleet, const struct fleet_job *job, struct seen_value *seen)
{
    size_t count = 0;
    for (size_t i = 0; i < job->count; i++) {
        const struct fleet_record *record = &fleet->records[job->members[i]];
        for (size_t v = 0; v < record->value_count; v++)
            seen[count++] = (struct seen_value){key_of(record->values[v].name), record->values[v].text,
                                                job->members[i], v};
    }
    if (count > 0)
        qsort(seen, count, sizeof *seen, by_key_and_text);
    for (size_t from = 0, to = 0; from < count; from = to) {
        while (to < count && strcmp(seen[to].key, seen[from].key) == 0)
            to++;
        compare(fleet, seen + from, to - from);
    }
}

int fleet_find_outliers(struct fleet *fleet)
{
    size_t most = 1;
    for (size_t i = 0; i < fleet->count; i++)
        most += fleet->records[i].value_count;
    struct seen_value *seen = calloc(most, sizeof *seen);
    fleet->outliers = calloc(OUTLIERS_MAX, sizeof *fleet->outliers);
    for (size_t i = 0; seen != NULL && fleet->outliers != NULL && i < fleet->job_count; i++)
        look_at_job(fleet, &fleet->jobs[i], seen);
    bool ok = seen != NULL && fleet->outliers != NULL;
    free(seen);
    return ok ? 0 : -ENOMEM;
}
