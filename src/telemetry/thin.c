/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Thins two segments into one. Recorder process. Works in memory that it maps for the time of the
 * call (two segments hold at most some 34,000 values).
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "telemetry/segment.h"
#include "telemetry/values.h"

#define SERIES_SLOTS 16384u /* a power of two; open addressing */
#define KEEP_FLAGS (SAMPLE_BASELINE | SAMPLE_IMPACT | SAMPLE_AFTER)
#define NONE UINT32_MAX
#define IMPACTS_FIRST 1 /* kept whole in one thinned segment */
#define IMPACTS_LAST 3

struct thin_series {
    uint64_t key;    /* metric << 32 | instance, 0 = free slot */
    uint64_t bucket; /* interval that min, max and last belong to */
    uint32_t min, max, last; /* points; NONE = nothing in this interval */
    uint32_t kept;           /* last point that was kept, NONE = none yet */
};

struct thin_point {
    uint64_t value;
    uint32_t series;
    uint8_t status;
    uint8_t keep;
};

struct thin_record {
    uint64_t time_ns;
    uint32_t first_point;
    uint32_t points;
    uint16_t flags;
};

struct thinner {
    struct thin_series *series;
    struct thin_point *points;
    struct thin_record *records;
    uint32_t series_count, point_count, record_count;
};

static uint32_t series_slot(struct thinner *t, uint16_t metric, uint32_t instance)
{
    uint64_t key = (uint64_t)metric << 32 | instance;
    uint32_t at = (uint32_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 50);
    for (uint32_t i = 0; i < SERIES_SLOTS; i++, at = (at + 1) & (SERIES_SLOTS - 1)) {
        if (t->series[at].key == key)
            return at;
        if (t->series[at].key == 0) {
            if (t->series_count >= SERIES_SLOTS * 3 / 4)
                return NONE;
            t->series_count++;
            t->series[at].key = key;
            return at;
        }
    }
    return NONE;
}

static void load(struct thinner *t, const unsigned char *data, size_t len)
{
    size_t at = 0;
    size_t entries_at = 0;
    uint64_t last_ns = 0;
    struct sample_header h;
    while (segment_next(data, len, &at, &h, &entries_at, NULL)) {
        if (h.time_ns <= last_ns)
            continue;
        last_ns = h.time_ns;
        struct thin_record *r = &t->records[t->record_count++];
        *r = (struct thin_record){.time_ns = h.time_ns, .flags = h.flags,
                                  .first_point = t->point_count};
        for (uint32_t i = 0; i < h.entries; i++) {
            struct sample_entry e = segment_entry(data, entries_at, i);
            uint32_t series = series_slot(t, e.metric, e.instance);
            if (series == NONE)
                continue; /* more than 12,000 series, because of short-lived processes */
            t->points[t->point_count++] =
                (struct thin_point){.value = e.value, .series = series, .status = e.status};
        }
        r->points = t->point_count - r->first_point;
    }
}

static bool same_value(const struct thin_point *a, const struct thin_point *b)
{
    return a->status == b->status && (a->status != VALUE_OK || a->value == b->value);
}

static void keep_point(struct thinner *t, struct thin_series *s, uint32_t point)
{
    if (point == NONE)
        return;
    t->points[point].keep = 1;
    s->kept = point;
}

/* Keeps the smallest, the largest and the last value of the interval, but none that equals the
 * value kept before it. */
static void close_bucket(struct thinner *t, struct thin_series *s)
{
    if (s->last == NONE)
        return;
    uint32_t first = s->min < s->max ? s->min : s->max;
    uint32_t second = s->min < s->max ? s->max : s->min;
    const uint32_t order[] = {first, second, s->last};
    for (int i = 0; i < 3; i++) {
        if (order[i] == NONE)
            continue;
        if (s->kept == NONE || (order[i] > s->kept &&
                                !same_value(&t->points[order[i]], &t->points[s->kept])))
            keep_point(t, s, order[i]);
    }
    s->min = s->max = s->last = NONE;
}

static void take_point(struct thinner *t, uint32_t index, uint64_t bucket, bool whole)
{
    struct thin_point *p = &t->points[index];
    struct thin_series *s = &t->series[p->series];
    if (bucket != s->bucket || whole)
        close_bucket(t, s);
    s->bucket = bucket;
    if (whole || s->kept == NONE) {
        keep_point(t, s, index);
        return;
    }
    s->last = index;
    if (p->status != VALUE_OK)
        return;
    if (s->min == NONE || p->value < t->points[s->min].value)
        s->min = index;
    if (s->max == NONE || p->value > t->points[s->max].value)
        s->max = index;
}

static bool is_process(const struct thinner *t, const struct thin_point *p)
{
    const struct metric_def *def = metric_find((uint16_t)(t->series[p->series].key >> 32));
    return def != NULL && def->scope == SCOPE_PROCESS;
}

static void mark(struct thinner *t, uint64_t interval_ns, bool drop_processes)
{
    for (uint32_t i = 0; i < SERIES_SLOTS; i++) {
        struct thin_series *s = &t->series[i];
        s->bucket = 0;
        s->min = s->max = s->last = s->kept = NONE;
    }
    for (uint32_t i = 0; i < t->point_count; i++)
        t->points[i].keep = 0;
    for (uint32_t r = 0; r < t->record_count; r++) {
        const struct thin_record *record = &t->records[r];
        bool whole = (record->flags & KEEP_FLAGS) != 0;
        for (uint32_t i = 0; i < record->points; i++) {
            uint32_t index = record->first_point + i;
            if (drop_processes && !whole && is_process(t, &t->points[index]))
                continue;
            take_point(t, index, record->time_ns / interval_ns, whole);
        }
    }
    for (uint32_t i = 0; i < SERIES_SLOTS; i++)
        if (t->series[i].key != 0)
            close_bucket(t, &t->series[i]);
}

/* A program that goes on after refusals can ask for an IMPACT record every second. The first and
 * the last ones stay whole; the others are samples like any other. */
static void demote_impacts(struct thinner *t)
{
    uint32_t later = 0;
    for (uint32_t r = t->record_count; r-- > 0;)
        later += (t->records[r].flags & SAMPLE_IMPACT) != 0;
    for (uint32_t r = 0, seen = 0; r < t->record_count; r++) {
        if ((t->records[r].flags & SAMPLE_IMPACT) == 0)
            continue;
        later--;
        if (seen++ >= IMPACTS_FIRST && later >= IMPACTS_LAST)
            t->records[r].flags &= (uint16_t)~(SAMPLE_IMPACT | SAMPLE_FULL);
    }
}

/* Bytes written, or -ENOSPC. */
static int64_t render(const struct thinner *t, unsigned char *out, size_t max)
{
    size_t len = 0;
    for (uint32_t r = 0; r < t->record_count; r++) {
        const struct thin_record *record = &t->records[r];
        bool whole = (record->flags & KEEP_FLAGS) != 0;
        struct sample_header h = {.magic = SAMPLE_MAGIC, .time_ns = record->time_ns};
        h.flags = whole ? record->flags : SAMPLE_THINNED;
        for (uint32_t i = 0; i < record->points; i++)
            h.entries += t->points[record->first_point + i].keep;
        if (h.entries == 0 && !whole)
            continue;
        if (max - len < sizeof h + h.entries * sizeof(struct sample_entry))
            return -ENOSPC;
        memcpy(out + len, &h, sizeof h);
        len += sizeof h;
        for (uint32_t i = 0; i < record->points; i++) {
            const struct thin_point *p = &t->points[record->first_point + i];
            if (!p->keep)
                continue;
            uint64_t key = t->series[p->series].key;
            struct sample_entry e = {.metric = (uint16_t)(key >> 32), .status = p->status,
                                     .instance = (uint32_t)key, .value = p->value};
            memcpy(out + len, &e, sizeof e);
            len += sizeof e;
        }
    }
    return (int64_t)len;
}

static int64_t thin_until_it_fits(struct thinner *t, unsigned char *out, size_t max)
{
    if (t->record_count == 0)
        return 0;
    demote_impacts(t);
    uint64_t span = t->records[t->record_count - 1].time_ns - t->records[0].time_ns + 1;
    for (int processes = 0; processes < 2; processes++)
        for (uint64_t interval = span / 16384 + 1; interval < span * 4; interval *= 2) {
            mark(t, interval, processes == 1);
            int64_t len = render(t, out, max);
            if (len >= 0)
                return len;
        }
    /* The marked records alone exceed the size: keep the first ones, which hold the baseline. */
    while (t->record_count > 1) {
        t->record_count /= 2;
        int64_t len = render(t, out, max);
        if (len >= 0)
            return len;
    }
    return -ENOSPC;
}

int64_t segment_thin(const unsigned char *data, size_t len, unsigned char *out, size_t max)
{
    size_t points = len / sizeof(struct sample_entry) + 1;
    size_t series_bytes = SERIES_SLOTS * sizeof(struct thin_series);
    size_t points_bytes = points * sizeof(struct thin_point);
    size_t bytes = series_bytes + points_bytes + points * sizeof(struct thin_record);
    unsigned char *memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return -errno;
    struct thinner t = {
        .series = (struct thin_series *)(void *)memory,
        .points = (struct thin_point *)(void *)(memory + series_bytes),
        .records = (struct thin_record *)(void *)(memory + series_bytes + points_bytes),
    };
    load(&t, data, len);
    int64_t r = thin_until_it_fits(&t, out, max);
    (void)munmap(memory, bytes);
    return r;
}
