/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PyTorch's peak of used memory earlier in the run: in an earlier step, in the first half, and in the first
 * three quarters. If a request fails although as much was in use before, the reason is not demand.
 */
#include "collectors/lib/torch_snapshot.h"

#include <stdlib.h>

#include "base/number.h"
#include "base/slope.h"

#define FALL_MIN ((int64_t)64 << 20)
#define POINTS_MIN 6 /* for parts of the run */
#define USUAL_POINTS_MIN 20
#define PARTS 4           /* of the run, each with as many bytes handed out */
#define PART_POINTS_MIN 2
#define SPREAD_POINTS_MIN 24 /* after the load. [eng] */
#define LOADED_SHARE 10   /* after 1/10 of the bytes handed out the program is loaded. [eng] */
#define FALL_SHARE 20 /* a fall by 1/20 of the highest use ends a step. [eng] */

static int64_t peak_at(const struct torch_point *p, int64_t before)
{
    int64_t own = p->allocated_peak > p->allocated ? p->allocated_peak : p->allocated;
    return own > before ? own : before; /* a program may reset PyTorch's own peak */
}

/* The clock of the run: bytes handed out so far, else time. */
static uint64_t clock_of(const struct torch_point *p, bool by_bytes)
{
    return by_bytes ? (uint64_t)p->allocated_total : p->time_ns;
}

static bool counts_bytes(const struct torch_series *series)
{
    const struct torch_point *first = &series->points[0];
    return first->allocated_total >= 0 &&
           series->points[series->count - 1].allocated_total > first->allocated_total;
}

static int64_t peak_of_first(const struct torch_series *series, uint64_t quarters)
{
    const struct torch_point *points = series->points;
    const struct torch_point *last = &points[series->count - 1];
    bool by_bytes = counts_bytes(series);
    uint64_t first = clock_of(&points[0], by_bytes);
    uint64_t until = first + (clock_of(last, by_bytes) - first) / 4 * quarters;
    int64_t peak = -1;
    for (size_t i = 0; i < series->count && clock_of(&points[i], by_bytes) <= until; i++)
        peak = peak_at(&points[i], peak);
    return peak;
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int64_t usual_of(const struct torch_point *points, size_t count, size_t count_min)
{
    int64_t *in_use = count < count_min ? NULL : calloc(count, sizeof *in_use);
    if (in_use == NULL)
        return -1;
    for (size_t i = 0; i < count; i++)
        in_use[i] = points[i].allocated;
    qsort(in_use, count, sizeof *in_use, by_size);
    int64_t usual = in_use[count * 9 / 10];
    free(in_use);
    return usual;
}

/* The highest peak of a run without a trend comes by chance, what is usual does not. The halves of a steady
 * rise differ by half of it; each half is the mean of two parts. */
static int64_t usual_rise_of(const struct torch_series *series)
{
    const struct torch_point *points = series->points;
    bool by_bytes = counts_bytes(series);
    uint64_t first = clock_of(&points[0], by_bytes);
    uint64_t last = clock_of(&points[series->count - 1], by_bytes);
    uint64_t loaded = first + (last - first) / LOADED_SHARE;
    int64_t rise = 0;
    size_t i = 0;
    while (i < series->count && clock_of(&points[i], by_bytes) < loaded)
        i++;
    for (uint64_t part = 1; part <= PARTS; part++) {
        uint64_t until = part < PARTS ? loaded + (last - loaded) / PARTS * part : UINT64_MAX;
        size_t begin = i;
        while (i < series->count && clock_of(&points[i], by_bytes) <= until)
            i++;
        int64_t usual = usual_of(points + begin, i - begin, PART_POINTS_MIN);
        if (usual < 0)
            return -1;
        rise += part > PARTS / 2 ? usual : -usual;
    }
    return rise > 0 ? rise : 0;
}

static double time_s_of(const struct torch_point *points, size_t i)
{
    return (double)(points[i].time_ns - points[0].time_ns) / 1e9;
}

static double trend_of(const struct torch_point *points, size_t count)
{
    double x[SLOPE_POINTS_MAX];
    double y[SLOPE_POINTS_MAX];
    size_t n = count < SLOPE_POINTS_MAX ? count : SLOPE_POINTS_MAX;
    for (size_t i = 0; i < n; i++) {
        size_t at = i * count / n;
        x[i] = time_s_of(points, at);
        y[i] = (double)points[at].allocated;
    }
    return slope_of(x, y, n);
}

/* Nine of ten samples lie so close together, once the trend is taken away; -1: no memory. */
static int64_t spread_of(const struct torch_point *points, size_t count)
{
    double slope = trend_of(points, count);
    int64_t *beside = calloc(count, sizeof *beside);
    if (beside == NULL)
        return -1;
    for (size_t i = 0; i < count; i++)
        beside[i] = points[i].allocated - number_from_real(slope * time_s_of(points, i));
    qsort(beside, count, sizeof *beside, by_size);
    int64_t spread = beside[count * 19 / 20] - beside[count / 20];
    free(beside);
    return spread;
}

/* The samples lie as far apart as a step takes and gives back. If steps need more, that rises; memory that stays from step to
 * step lifts all samples alike. */
static int64_t spread_rise_of(const struct torch_series *series)
{
    bool by_bytes = counts_bytes(series);
    uint64_t first = clock_of(&series->points[0], by_bytes);
    uint64_t loaded = first + (clock_of(&series->points[series->count - 1], by_bytes) - first) / LOADED_SHARE;
    size_t begin = 0;
    while (begin < series->count && clock_of(&series->points[begin], by_bytes) < loaded)
        begin++;
    size_t third = (series->count - begin) / 3;
    if (series->count - begin < SPREAD_POINTS_MIN)
        return -1;
    int64_t early = spread_of(series->points + begin, third);
    int64_t late = spread_of(series->points + series->count - third, third);
    return early < 0 || late < 0 ? -1 : late > early ? late - early : 0;
}

static int64_t highest(const struct torch_series *series)
{
    int64_t peak = 0;
    for (size_t i = 0; i < series->count; i++)
        peak = peak_at(&series->points[i], peak);
    return peak;
}

struct torch_demand torch_series_demand(const struct torch_series *series)
{
    struct torch_demand d = {
        .earlier_peak = -1, .half_peak = -1, .late_peak = -1, .usual_rise = -1,
        .spread_rise = -1,
        .usual = usual_of(series->points, series->count, USUAL_POINTS_MIN)};
    if (series->count == 0)
        return d;
    int64_t fall = highest(series) / FALL_SHARE;
    int64_t peak = 0;   /* of all points so far */
    int64_t top = 0;    /* of this step */
    int64_t bottom = 0; /* since it fell */
    bool fallen = false;
    if (fall < FALL_MIN)
        fall = FALL_MIN;
    for (size_t i = 0; i < series->count; i++) {
        int64_t now = series->points[i].allocated;
        peak = peak_at(&series->points[i], peak);
        if (!fallen && now <= top - fall) {
            d.steps++;
            d.earlier_peak = peak;
            fallen = true;
            bottom = now;
        } else if (fallen && now <= bottom) {
            d.earlier_peak = peak; /* still falling: the next rise has not begun */
            bottom = now;
        } else if (fallen && now >= bottom + fall) {
            fallen = false;
            top = now;
        }
        if (!fallen && now > top)
            top = now;
    }
    if (series->count >= POINTS_MIN) {
        d.half_peak = peak_of_first(series, 2);
        d.late_peak = peak_of_first(series, 3);
        d.usual_rise = usual_rise_of(series);
        d.spread_rise = spread_rise_of(series);
    }
    return d;
}
