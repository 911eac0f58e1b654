/* SPDX-License-Identifier: Apache-2.0 */
#include "telemetry/series.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fs.h"
#include "telemetry/segment.h"

#define SEGMENT_FILES_MAX 256
#define SEGMENT_READ_MAX ((size_t)4 << 20)
#define SERIES_MAX 200000 /* 10,000 short processes of 20 values */

/* --- loading --- */

static uint64_t series_key(uint16_t metric, uint32_t instance)
{
    const struct metric_def *def = metric_find(metric);
    /* GPUs first, then the host, then processes; a record with an unknown metric is invalid. */
    static const uint64_t order[] = {[SCOPE_GPU] = 0, [SCOPE_HOST] = 1, [SCOPE_PROCESS] = 2};
    uint64_t place = def != NULL ? order[def->scope] : 3;
    return place << 56 | (uint64_t)instance << 16 | metric;
}

/* Position of the series, or where to insert it (sorted while loading, for bisection). */
static size_t lower_bound(const struct series_set *set, uint64_t key)
{
    size_t low = 0;
    size_t high = set->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct series *s = &set->series[middle];
        if (series_key(s->metric, s->instance) < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct series *get_series(struct series_set *set, uint16_t metric, uint32_t instance)
{
    size_t at = lower_bound(set, series_key(metric, instance));
    if (at < set->count && set->series[at].metric == metric && set->series[at].instance == instance)
        return &set->series[at];
    if (set->count >= SERIES_MAX)
        return NULL;
    if (set->count == set->capacity) {
        size_t capacity = set->capacity ? set->capacity * 2 : 256;
        struct series *grown = realloc(set->series, capacity * sizeof *grown);
        if (grown == NULL)
            return NULL;
        set->series = grown;
        set->capacity = capacity;
    }
    memmove(&set->series[at + 1], &set->series[at], (set->count - at) * sizeof set->series[0]);
    set->count++;
    set->series[at] = (struct series){.metric = metric, .instance = instance};
    return &set->series[at];
}

static int add_point(struct series *s, uint64_t time_ns, uint8_t status, uint64_t value)
{
    if (s->count > 0) {
        const struct series_point *last = &s->points[s->count - 1];
        if (last->status == status && last->value == value)
            return 0; /* a full record repeats what is known */
    }
    if (s->count == s->capacity) {
        size_t capacity = s->capacity ? s->capacity * 2 : 8;
        struct series_point *grown = realloc(s->points, capacity * sizeof *grown);
        if (grown == NULL)
            return -ENOMEM;
        s->points = grown;
        s->capacity = capacity;
    }
    s->points[s->count++] =
        (struct series_point){time_ns, status == VALUE_OK ? value : 0, status};
    return 0;
}

static int add_record(struct series_set *set, uint64_t time_ns, uint16_t flags)
{
    if (set->record_count == set->record_capacity) {
        size_t capacity = set->record_capacity ? set->record_capacity * 2 : 1024;
        struct series_record *grown = realloc(set->records, capacity * sizeof *grown);
        if (grown == NULL)
            return -ENOMEM;
        set->records = grown;
        set->record_capacity = capacity;
    }
    set->records[set->record_count++] = (struct series_record){time_ns, flags};
    if (set->first_ns == 0)
        set->first_ns = time_ns;
    set->last_ns = time_ns;
    return 0;
}

static bool entry_is_there(const unsigned char *data, size_t at, uint32_t entries, uint16_t metric,
                           uint32_t instance)
{
    for (uint32_t i = 0; i < entries; i++) {
        struct sample_entry e = segment_entry(data, at, i);
        if (e.metric == metric && e.instance == instance)
            return true;
    }
    return false;
}

/* A full record names every process that is followed. The others have ended; their last record may
 * be lost, if the sampler was killed. */
static int end_unnamed(struct series_set *set, const struct sample_header *h,
                       const unsigned char *data, size_t entries_at)
{
    for (size_t i = lower_bound(set, UINT64_C(2) << 56); i < set->count; i++) {
        struct series *s = &set->series[i];
        if (s->count == 0 || s->points[s->count - 1].status != VALUE_OK ||
            entry_is_there(data, entries_at, h->entries, s->metric, s->instance))
            continue;
        int r = add_point(s, h->time_ns, VALUE_ABSENT, 0);
        if (r < 0)
            return r;
    }
    return 0;
}

int series_add(struct series_set *set, const void *data, size_t len)
{
    const unsigned char *bytes = data;
    size_t at = 0;
    size_t entries_at = 0;
    struct sample_header h;
    while (segment_next(bytes, len, &at, &h, &entries_at, &set->skipped_bytes)) {
        if (h.time_ns <= set->last_ns)
            continue; /* seen: a thinned segment and one of its sources are both there */
        int r = add_record(set, h.time_ns, h.flags);
        for (uint32_t i = 0; r == 0 && i < h.entries; i++) {
            struct sample_entry e = segment_entry(bytes, entries_at, i);
            struct series *s = get_series(set, e.metric, e.instance);
            if (s != NULL)
                r = add_point(s, h.time_ns, e.status, e.value);
        }
        if (r == 0 && (h.flags & SAMPLE_FULL) != 0)
            r = end_unnamed(set, &h, bytes, entries_at);
        if (r < 0)
            return r;
    }
    return 0;
}

static int compare_numbers(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static size_t list_segments(DIR *dir, int64_t numbers[SEGMENT_FILES_MAX])
{
    size_t count = 0;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        int64_t number = segment_number(entry->d_name);
        if (number >= 0 && count < SEGMENT_FILES_MAX)
            numbers[count++] = number;
    }
    qsort(numbers, count, sizeof numbers[0], compare_numbers);
    return count;
}

int series_load(struct series_set *ret, const char *run_dir, struct rc_err *err)
{
    memset(ret, 0, sizeof *ret);
    RC_AUTO_CLOSEDIR DIR *dir = opendir(run_dir);
    if (dir == NULL)
        return rc_err_errno(err, -errno, "cannot open run directory '%s'", run_dir);
    int64_t numbers[SEGMENT_FILES_MAX] = {0};
    size_t count = list_segments(dir, numbers);
    for (size_t i = 0; i < count; i++) {
        char path[FS_PATH_MAX];
        RC_AUTO_FREE char *data = NULL;
        (void)snprintf(path, sizeof path, "%s/samples.%04lld", run_dir, (long long)numbers[i]);
        ssize_t len = fs_read_all(path, SEGMENT_READ_MAX, &data);
        if (len == -EFBIG)
            len = (ssize_t)SEGMENT_READ_MAX;
        if (len < 0 && ret->unread == 0)
            ret->unread = (int)len;
        if (len < 0)
            continue; /* the other segments still hold most of the run */
        ret->segments++;
        int r = series_add(ret, data, (size_t)len);
        if (r < 0) {
            series_release(ret);
            return rc_err_errno(err, r, "cannot load '%s'", path);
        }
    }
    return 0;
}

void series_release(struct series_set *set)
{
    for (size_t i = 0; i < set->count; i++)
        free(set->series[i].points);
    free(set->series);
    free(set->records);
    memset(set, 0, sizeof *set);
}

/* --- lookup --- */

const struct series *series_find(const struct series_set *set, enum metric m, uint32_t instance)
{
    size_t at = lower_bound(set, series_key((uint16_t)m, instance));
    if (at < set->count && set->series[at].metric == m && set->series[at].instance == instance)
        return &set->series[at];
    return NULL;
}

const struct series_point *series_at(const struct series *s, uint64_t time_ns)
{
    if (s == NULL || s->count == 0 || s->points[0].time_ns > time_ns)
        return NULL;
    size_t low = 0;
    size_t high = s->count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (s->points[middle].time_ns <= time_ns)
            low = middle;
        else
            high = middle;
    }
    return &s->points[low];
}

const struct series_point *series_peak(const struct series *s)
{
    return s != NULL ? series_peak_until(s, UINT64_MAX) : NULL;
}

const struct series_point *series_peak_until(const struct series *s, uint64_t end_ns)
{
    const struct series_point *peak = NULL;
    for (size_t i = 0; i < s->count && s->points[i].time_ns <= end_ns; i++)
        if (s->points[i].status == VALUE_OK && (peak == NULL || s->points[i].value > peak->value))
            peak = &s->points[i];
    return peak;
}

const struct series_point *series_lowest_until(const struct series *s, uint64_t end_ns)
{
    const struct series_point *lowest = NULL;
    for (size_t i = 0; i < s->count && s->points[i].time_ns <= end_ns; i++)
        if (s->points[i].status == VALUE_OK && (lowest == NULL || s->points[i].value < lowest->value))
            lowest = &s->points[i];
    return lowest;
}

uint64_t series_time_of(const struct series_set *set, enum sample_flags flag)
{
    uint64_t found = 0;
    for (size_t i = 0; i < set->record_count; i++) {
        if ((set->records[i].flags & flag) == 0)
            continue;
        found = set->records[i].time_ns;
        if (flag == SAMPLE_BASELINE)
            break;
    }
    return found;
}

size_t series_downsample(const struct series_set *set, enum metric m, uint32_t instance,
                         uint64_t from_ns, uint64_t to_ns, double *out, size_t n)
{
    const struct series *s = series_find(set, m, instance);
    size_t known = 0;
    for (size_t i = 0; i < n; i++) {
        out[i] = NAN;
        if (s == NULL || to_ns <= from_ns)
            continue;
        uint64_t step_from = from_ns + (uint64_t)((double)(to_ns - from_ns) * (double)i / (double)n);
        uint64_t step_to =
            from_ns + (uint64_t)((double)(to_ns - from_ns) * (double)(i + 1) / (double)n);
        const struct series_point *p = series_at(s, step_from);
        size_t at = p != NULL ? (size_t)(p - s->points) : 0;
        for (; at < s->count && s->points[at].time_ns <= step_to; at++)
            if (s->points[at].status == VALUE_OK &&
                (isnan(out[i]) || (double)s->points[at].value > out[i]))
                out[i] = (double)s->points[at].value;
        known += !isnan(out[i]);
    }
    return known;
}
