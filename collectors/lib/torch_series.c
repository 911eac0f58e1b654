/* SPDX-License-Identifier: Apache-2.0 */
#include "collectors/lib/torch_snapshot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/slope.h"

#define COLUMNS 18
#define TOOK_US 15
#define POINTS_MAX ((size_t)1 << 17)
#define WINDOWS_MAX SLOPE_POINTS_MAX
#define WINDOWS_MIN 4
#define STEADY_WINDOWS_MIN 6
#define SIGNIFICANT_Z 2.576
#define WIDE_WINDOWS 12
#define WIDE_GROWTH 10 /* and at least a tenth: with few windows a small change looks large.
                        * [eng] */
#define GROWING_WINDOWS_MIN 6
#define FLAT_SHARE 0.05      /* of the whole rise: steps of the same height differ by as much */
#define SAMPLES_PER_WINDOW 4 /* a window should hold a step and its release */

/* 12290510677263,0,10656677888,10674503680,...,took_us,small_pool_bytes,blocks: an empty cell stands
 * for what this build of PyTorch does not count, and becomes -1. Returns how many cells there were. */
static int parse_row(const char *line, size_t len, int64_t *cells)
{
    int n = 0;
    const char *end = line + len;
    for (const char *at = line; at <= end && n < COLUMNS; at++) {
        int64_t value = at < end && *at != ',' ? 0 : -1;
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

static struct torch_point point_of(const int64_t *c)
{
    return (struct torch_point){.time_ns = (uint64_t)c[0],
                                .allocated = c[2],
                                .reserved = c[3],
                                .allocated_peak = c[7],
                                .reserved_peak = c[8],
                                .allocated_total = c[9],
                                .freed_total = c[10],
                                .took_us = c[TOOK_US],
                                .small_pool = c[16],
                                .blocks = c[17]};
}

static void add(int64_t *sum, int64_t value)
{
    *sum = *sum < 0 || value < 0 ? -1 : number_sum(*sum, value);
}

/* Adds another device at the same moment. Not the peaks: those of two devices are of different
 * moments. */
static void add_device(struct torch_point *sum, const int64_t *c)
{
    struct torch_point p = point_of(c);
    add(&sum->allocated, p.allocated);
    add(&sum->reserved, p.reserved);
    add(&sum->allocated_total, p.allocated_total);
    add(&sum->freed_total, p.freed_total);
    add(&sum->small_pool, p.small_pool);
    add(&sum->blocks, p.blocks);
    if (p.took_us > sum->took_us)
        sum->took_us = p.took_us;
    sum->allocated_peak = sum->reserved_peak = -1;
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
        if (n != COLUMNS || c[0] < 0 || c[2] < 0 || c[3] < 0)
            continue;
        if (c[TOOK_US] > ret->slowest_us)
            ret->slowest_us = c[TOOK_US];
        struct torch_point *last = ret->count > 0 ? &ret->points[ret->count - 1] : NULL;
        if ((device >= 0 && c[1] != device) || (last != NULL && (uint64_t)c[0] < last->time_ns))
            continue;
        if (device < 0 && last != NULL && (uint64_t)c[0] == last->time_ns) {
            add_device(last, c);
            continue;
        }
        if (!room_for_one(ret, &capacity))
            return ret->count > 0 && capacity >= POINTS_MAX ? 0 : -ENOMEM;
        ret->points[ret->count++] = point_of(c);
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
    size_t at[WINDOWS_MAX]; /* which point it is */
};

static void find_minima(const struct torch_point *points, size_t count, size_t windows,
                        struct minima *ret)
{
    ret->count = windows;
    for (size_t w = 0; w < windows; w++) {
        size_t from = w * count / windows;
        size_t to = (w + 1) * count / windows;
        size_t least = from;
        for (size_t i = from; i < to; i++)
            if (points[i].allocated < points[least].allocated)
                least = i;
        ret->at[w] = least;
        ret->bytes[w] = (double)points[least].allocated;
        size_t middle = (from + to) / 2;
        ret->time_s[w] = (double)(points[middle].time_ns - points[0].time_ns) / 1e9;
    }
}

/*
 * Mann-Kendall: S counts the pairs that rise less those that fall; var(S) = n(n-1)(2n+5)/18, less the
 * same of every group of equal values. z = (S-1)/sqrt(var) >= 2.576 is p < 0.01, two-sided.
 */
static bool trend_is_significant(const struct minima *m)
{
    double n = (double)m->count;
    double s = 0;
    double variance = n * (n - 1) * (2 * n + 5);
    for (size_t i = 0; i < m->count; i++) {
        double equal = 1;
        bool first = true;
        for (size_t k = 0; k < m->count; k++) {
            if (k > i)
                s += m->bytes[k] > m->bytes[i] ? 1 : m->bytes[k] < m->bytes[i] ? -1 : 0;
            if (k != i && m->bytes[k] == m->bytes[i]) {
                equal++;
                first = first && k > i;
            }
        }
        if (first)
            variance -= equal * (equal - 1) * (2 * equal + 5);
    }
    return s > 1 && (s - 1) * (s - 1) >= SIGNIFICANT_Z * SIGNIFICANT_Z * variance / 18;
}

static bool is_steady(const struct minima *m, double slope)
{
    size_t half = m->count / 2;
    return m->count >= STEADY_WINDOWS_MIN && slope > 0 && trend_is_significant(m) &&
           slope_of(m->time_s + half, m->bytes + half, m->count - half) >= slope / 2;
}

static int64_t difference(int64_t before, int64_t after)
{
    return before < 0 || after < 0 ? -1 : after > before ? after - before : 0;
}

static struct torch_growth growth_of(const struct torch_point *points, const struct minima *m,
                                     size_t count)
{
    const struct torch_point *first = &points[m->at[0]];
    const struct torch_point *last = &points[m->at[m->count - 1]];
    struct torch_growth g = {.valid = true, .windows = (int64_t)m->count};
    size_t rising = 0;
    for (size_t i = 1; i < m->count; i++)
        rising += m->bytes[i] > m->bytes[i - 1];
    g.rising_share = (double)rising / (double)(m->count - 1);
    g.slope_per_s = slope_of(m->time_s, m->bytes, m->count);
    g.steady = is_steady(m, g.slope_per_s);
    g.total = number_from_real(m->bytes[m->count - 1] - m->bytes[0]);
    g.duration_ms = (int64_t)((points[count - 1].time_ns - points[0].time_ns) / 1000000u);
    g.plateau = number_from_real(m->bytes[0]);
    g.plateau_blocks = first->blocks;
    g.small_pool = difference(first->small_pool, last->small_pool);
    g.blocks = difference(first->blocks, last->blocks);
    g.allocated = difference(first->allocated_total, last->allocated_total);
    g.freed = difference(first->freed_total, last->freed_total);
    return g;
}

static bool split(const struct torch_point *points, size_t count, size_t per_window,
                  struct minima *ret)
{
    size_t windows = count / per_window;
    if (windows > WINDOWS_MAX)
        windows = WINDOWS_MAX;
    if (windows < WINDOWS_MIN)
        return false;
    find_minima(points, count, windows, ret);
    return true;
}

/*
 * Before the first step libraries and kernels are loaded, and nothing grows; in a short run that
 * takes seconds. Returns how many windows at the start are as low as the first.
 */
static size_t flat_start(const struct minima *m)
{
    double risen = m->bytes[m->count - 1] - m->bytes[0];
    size_t flat = 1;
    while (risen > 0 && flat < m->count && m->bytes[flat] <= m->bytes[0] + risen * FLAT_SHARE)
        flat++;
    return flat;
}

/* During the set-up (weights, optimiser) memory grows, too, but that is no leak. */
static size_t set_up(const struct torch_series *series)
{
    return series->count / 10;
}

static struct torch_growth growth_by(const struct torch_series *series, size_t per_window)
{
    struct torch_growth g = torch_series_trend(series, per_window);
    const struct torch_point *points = series->points + set_up(series);
    size_t count = series->count - set_up(series);
    struct minima m;
    if (!g.valid || !split(points, count, per_window, &m))
        return g;
    size_t flat = flat_start(&m);
    size_t from = flat > 1 ? (flat - 1) * count / m.count : 0; /* the last flat one is its start */
    if (flat == 1 || !split(points + from, count - from, per_window, &m) ||
        m.count < GROWING_WINDOWS_MIN)
        return g;
    g = growth_of(points + from, &m, count - from);
    g.samples = (int64_t)series->count;
    return g;
}

/* If steps are longer than windows, or their lows are short, only wide windows each contain a
 * low. */
struct torch_growth torch_series_growth(const struct torch_series *series)
{
    struct torch_growth g = growth_by(series, SAMPLES_PER_WINDOW);
    size_t wide = series->count / WIDE_WINDOWS;
    if (g.valid && !g.steady && wide > SAMPLES_PER_WINDOW) {
        struct torch_growth by_wide = growth_by(series, wide);
        if (by_wide.valid && by_wide.steady && by_wide.total > by_wide.plateau / WIDE_GROWTH)
            return by_wide;
    }
    return g;
}

struct torch_growth torch_series_trend(const struct torch_series *series, size_t per_window)
{
    struct torch_growth g = {
        .plateau_blocks = -1, .small_pool = -1, .blocks = -1, .allocated = -1, .freed = -1};
    const struct torch_point *points = series->points + set_up(series);
    size_t count = series->count - set_up(series);
    struct minima m;
    if (split(points, count, per_window, &m))
        g = growth_of(points, &m, count);
    g.samples = (int64_t)series->count;
    return g;
}
