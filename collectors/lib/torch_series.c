/* SPDX-License-Identifier: Apache-2.0 */
#include "collectors/lib/torch_snapshot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS 16
#define POINTS_MAX ((size_t)1 << 17)
#define WINDOWS_MAX 64
#define WINDOWS_MIN 4
#define SAMPLES_PER_WINDOW 4 /* a window should hold a step and its release */

/* 12290510677263,0,10656677888,10674503680,...,took_us: an empty cell stands for what this build of
 * PyTorch does not count, and becomes 0. Returns how many cells there were. */
static int parse_row(const char *line, size_t len, int64_t *cells)
{
    int n = 0;
    const char *end = line + len;
    for (const char *at = line; at <= end && n < COLUMNS; at++) {
        int64_t value = 0;
        for (; at < end && *at != ','; at++) {
            if (*at < '0' || *at > '9' || value > INT64_MAX / 10 - 1)
                return 0;
            value = value * 10 + (*at - '0');
        }
        cells[n++] = value;
    }
    return n;
}

static bool room_for_one(struct torch_series *s, size_t *capacity)
{
    if (s->count < *capacity)
        return true;
    size_t want = *capacity == 0 ? 1024 : *capacity * 2;
    if (want > POINTS_MAX)
        return false;
    struct torch_point *points = realloc(s->points, want * sizeof *points);
    if (points == NULL)
        return false;
    s->points = points;
    *capacity = want;
    return true;
}

int torch_series_read(const char *text, size_t len, int device, struct torch_series *ret)
{
    size_t capacity = 0;
    *ret = (struct torch_series){0};
    const char *end = text + len;
    while (text < end) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        if (newline == NULL)
            break; /* torn: the process was killed while it wrote */
        int64_t c[COLUMNS];
        int n = parse_row(text, (size_t)(newline - text), c);
        text = newline + 1;
        if (n != COLUMNS)
            continue;
        if (c[15] > ret->slowest_us)
            ret->slowest_us = c[15];
        if (c[1] != device ||
            (ret->count > 0 && (uint64_t)c[0] < ret->points[ret->count - 1].time_ns))
            continue;
        if (!room_for_one(ret, &capacity))
            return ret->count > 0 && capacity >= POINTS_MAX ? 0 : -ENOMEM;
        ret->points[ret->count++] = (struct torch_point){.time_ns = (uint64_t)c[0],
                                                         .allocated = c[2],
                                                         .reserved = c[3],
                                                         .allocated_total = c[9],
                                                         .freed_total = c[10],
                                                         .took_us = c[15]};
    }
    return 0;
}

void torch_series_release(struct torch_series *series)
{
    free(series->points);
    *series = (struct torch_series){0};
}

/* --- growth --- */

struct minima {
    size_t count;
    double time_s[WINDOWS_MAX];
    double bytes[WINDOWS_MAX];
};

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median_slope(const struct minima *m)
{
    static double slopes[WINDOWS_MAX * (WINDOWS_MAX - 1) / 2];
    size_t n = 0;
    for (size_t i = 0; i < m->count; i++)
        for (size_t k = i + 1; k < m->count; k++)
            if (m->time_s[k] > m->time_s[i])
                slopes[n++] = (m->bytes[k] - m->bytes[i]) / (m->time_s[k] - m->time_s[i]);
    if (n == 0)
        return 0;
    qsort(slopes, n, sizeof slopes[0], compare_doubles);
    return n % 2 != 0 ? slopes[n / 2] : (slopes[n / 2 - 1] + slopes[n / 2]) / 2;
}

static void find_minima(const struct torch_point *points, size_t count, size_t windows,
                        struct minima *ret)
{
    ret->count = windows;
    for (size_t w = 0; w < windows; w++) {
        size_t from = w * count / windows;
        size_t to = (w + 1) * count / windows;
        int64_t least = points[from].allocated;
        for (size_t i = from; i < to; i++)
            if (points[i].allocated < least)
                least = points[i].allocated;
        ret->bytes[w] = (double)least;
        size_t middle = (from + to) / 2;
        ret->time_s[w] = (double)(points[middle].time_ns - points[0].time_ns) / 1e9;
    }
}

struct torch_growth torch_series_growth(const struct torch_series *series)
{
    struct torch_growth g = {.samples = (int64_t)series->count};
    struct minima m;
    /* The set-up (weights, optimiser) grows too, but is not the growth that is looked for. */
    size_t skip = series->count / 10;
    size_t count = series->count - skip;
    size_t windows = count / SAMPLES_PER_WINDOW;
    if (windows > WINDOWS_MAX)
        windows = WINDOWS_MAX;
    if (windows < WINDOWS_MIN)
        return g;
    const struct torch_point *points = series->points + skip;
    find_minima(points, count, windows, &m);
    size_t rising = 0;
    for (size_t i = 1; i < m.count; i++)
        rising += m.bytes[i] > m.bytes[i - 1];
    g.valid = true;
    g.windows = (int64_t)m.count;
    g.rising_share = (double)rising / (double)(m.count - 1);
    g.slope_per_s = median_slope(&m);
    g.total = (int64_t)(m.bytes[m.count - 1] - m.bytes[0]);
    g.duration_ms = (int64_t)((points[count - 1].time_ns - points[0].time_ns) / 1000000u);
    return g;
}
