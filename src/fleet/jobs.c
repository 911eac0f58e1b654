/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups the records of a job: ranks that ran at the same time.
 *
 * A scheduler's number of the job decides where there is one. Without one, ranks of one job start together:
 * each number of a rank once, one world size, one launcher, started within two minutes. A rank that comes twice has
 * been started again, and belongs to another job.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/internal.h"

#define STARTS_WITHIN_US ((int64_t)120 * 1000000)

static int compare_numbers(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int compare_verdicts(const struct fleet_record *a, const struct fleet_record *b)
{
    return (a->confidence[0] == '\0') - (b->confidence[0] == '\0');
}

/* By job, then by start; what one run left stands together, a damaged copy behind the intact one. Ties by path, so that
 * the order of the files does not matter. */
static int compare_records(const struct fleet_record *a, const struct fleet_record *b)
{
    int r = strcmp(a->job, b->job);
    r = r != 0 ? r : strcmp(a->launcher, b->launcher);
    r = r != 0 ? r : compare_numbers(a->world_size, b->world_size);
    r = r != 0 ? r : compare_numbers(a->start_us, b->start_us);
    r = r != 0 ? r : strcmp(a->boot, b->boot);
    r = r != 0 ? r : compare_numbers(a->pid, b->pid);
    r = r != 0 ? r : compare_numbers(a->fell_uptime_us, b->fell_uptime_us);
    r = r != 0 ? r : compare_verdicts(a, b);
    return r != 0 ? r : strcmp(a->path, b->path);
}

static bool same_launch(const struct fleet_record *a, const struct fleet_record *b)
{
    return strcmp(a->job, b->job) == 0 && strcmp(a->launcher, b->launcher) == 0 &&
           a->world_size == b->world_size;
}

/* The same moment of the same process. */
static bool is_one_failure(const struct fleet_record *a, const struct fleet_record *b)
{
    return a->boot[0] != '\0' && strcmp(a->boot, b->boot) == 0 && a->pid != FLEET_UNKNOWN && a->pid == b->pid &&
           a->fell_uptime_us != FLEET_UNKNOWN && a->fell_uptime_us == b->fell_uptime_us && a->rank == b->rank &&
           same_launch(a, b);
}

/* A copy of a bundle, or the second one of a rank whose process group was killed when its first one was begun. It would
 * look like a rank that was started again, in a job of its own. */
static void drop_copies(struct fleet *fleet)
{
    size_t kept = fleet->count > 0 ? 1 : 0;
    for (size_t i = 1; i < fleet->count; i++) {
        if (is_one_failure(&fleet->records[kept - 1], &fleet->records[i]))
            fleet_release_record(&fleet->records[i]);
        else
            fleet->records[kept++] = fleet->records[i];
    }
    fleet->count = kept;
}

static int compare_pointers(const void *a, const void *b)
{
    return compare_records(a, b);
}

/* The ranks that the job at hand has: a bit for a bundle of its end, one for a snapshot. */
struct seen {
    unsigned char *ranks;
    size_t size;
};

static unsigned char bit_of(const struct fleet_record *record)
{
    return record->snapshot ? 2 : 1;
}

static bool is_seen(const struct seen *seen, const struct fleet_record *record)
{
    return record->rank >= 0 && (uint64_t)record->rank < seen->size &&
           (seen->ranks[record->rank] & bit_of(record)) != 0;
}

static int note_seen(struct seen *seen, const struct fleet_record *record)
{
    if (record->rank < 0 || record->rank >= FLEET_RANKS_MAX)
        return 0;
    size_t rank = (size_t)record->rank;
    if (rank >= seen->size) {
        size_t size = rank * 2 + 64;
        unsigned char *grown = realloc(seen->ranks, size);
        if (grown == NULL)
            return -ENOMEM;
        memset(grown + seen->size, 0, size - seen->size);
        seen->ranks = grown;
        seen->size = size;
    }
    seen->ranks[rank] |= bit_of(record);
    return 0;
}

/* `first` is the earliest of the job, and the records are sorted. */
static bool belongs(const struct fleet_record *first, const struct seen *seen, const struct fleet_record *record)
{
    if (record->rank == FLEET_UNKNOWN || first->rank == FLEET_UNKNOWN || !same_launch(first, record))
        return false;
    if (is_seen(seen, record))
        return false;
    return record->job[0] != '\0' || first->start_us == FLEET_UNKNOWN || record->start_us == FLEET_UNKNOWN ||
           record->start_us - first->start_us <= STARTS_WITHIN_US;
}

static int divide(struct fleet *fleet, struct seen *seen)
{
    struct fleet_job *job = NULL;
    for (size_t i = 0, first = 0; i < fleet->count; i++) {
        const struct fleet_record *record = &fleet->records[i];
        if (job == NULL || !belongs(&fleet->records[first], seen, record)) {
            job = &fleet->jobs[fleet->job_count++];
            job->members = fleet->order + i;
            job->world_size = record->world_size;
            first = i;
            if (seen->size > 0)
                memset(seen->ranks, 0, seen->size);
        }
        if (note_seen(seen, record) < 0)
            return -ENOMEM;
        fleet->order[i] = i;
        job->count++;
    }
    return 0;
}

int fleet_divide(struct fleet *fleet)
{
    struct seen seen = {NULL, 0};
    fleet->order = calloc(fleet->count + 1, sizeof *fleet->order);
    fleet->jobs = calloc(fleet->count + 1, sizeof *fleet->jobs);
    if (fleet->order == NULL || fleet->jobs == NULL)
        return -ENOMEM;
    if (fleet->count > 0)
        qsort(fleet->records, fleet->count, sizeof *fleet->records, compare_pointers);
    drop_copies(fleet);
    int r = divide(fleet, &seen);
    free(seen.ranks);
    return r;
}
