/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does the minimum of used memory grow? Training moves between a low and a high mark at every step,
 * so the maxima say little; a leak raises the minima. Finisher.
 */
#include <math.h>
#include <string.h>

#include "base/slope.h"
#include "telemetry/machine.h"
#include "telemetry/series.h"

#define WINDOWS_MAX SLOPE_POINTS_MAX
#define WINDOWS_MIN 4
#define WINDOW_MIN_NS UINT64_C(500000000)

struct minima {
    size_t count;
    double time_s[WINDOWS_MAX]; /* middle of the window */
    double bytes[WINDOWS_MAX];
};

static void find_minima(const struct series *s, uint64_t from_ns, uint64_t window_ns,
                        size_t windows, struct minima *ret)
{
    ret->count = 0;
    for (size_t w = 0; w < windows; w++) {
        uint64_t start = from_ns + w * window_ns;
        const struct series_point *p = series_at(s, start);
        size_t at = p != NULL ? (size_t)(p - s->points) : 0;
        double smallest = INFINITY;
        for (; at < s->count && s->points[at].time_ns < start + window_ns; at++)
            if (s->points[at].status == VALUE_OK && (double)s->points[at].value < smallest)
                smallest = (double)s->points[at].value;
        if (!isfinite(smallest))
            continue;
        ret->time_s[ret->count] = ((double)(start - from_ns) + (double)window_ns / 2) / 1e9;
        ret->bytes[ret->count++] = smallest;
    }
}

static struct growth growth_of(const struct series *s, uint64_t from_ns, uint64_t to_ns)
{
    struct growth g = {0};
    struct minima m;
    /* The set-up (libraries, weights) also makes memory grow, but is no leak. */
    uint64_t span = to_ns - from_ns;
    uint64_t start = from_ns + span / 10;
    span = to_ns - start;
    size_t windows = (size_t)(span / WINDOW_MIN_NS);
    if (windows > WINDOWS_MAX)
        windows = WINDOWS_MAX;
    if (windows < WINDOWS_MIN)
        return g;
    uint64_t window_ns = span / windows;
    find_minima(s, start, window_ns, windows, &m);
    if (m.count < WINDOWS_MIN)
        return g;
    size_t rising = 0;
    for (size_t i = 1; i < m.count; i++)
        rising += m.bytes[i] > m.bytes[i - 1];
    g.valid = true;
    g.windows = m.count;
    g.window_s = (double)window_ns / 1e9;
    g.rising_share = (double)rising / (double)(m.count - 1);
    g.slope_per_s = slope_of(m.time_s, m.bytes, m.count);
    g.total = (int64_t)(m.bytes[m.count - 1] - m.bytes[0]);
    return g;
}

struct growth series_growth(const struct series_set *set, uint64_t from_ns, uint64_t to_ns)
{
    struct growth best = {0};
    if (to_ns <= from_ns)
        return best;
    for (uint32_t gpu = 0; gpu < MACHINE_GPUS_MAX; gpu++) {
        /* An APU has its HIP memory in GTT, so that is where it grows; its VRAM is the
         * carve-out. */
        const enum metric metrics[] = {METRIC_GPU_VRAM_USED, METRIC_GPU_GTT_USED};
        for (size_t i = 0; i < 2; i++) {
            const struct series *s = series_find(set, metrics[i], gpu);
            if (s == NULL || (i == 1 && best.valid && best.gpu == gpu && best.total > 0))
                continue;
            struct growth g = growth_of(s, from_ns, to_ns);
            g.gpu = gpu;
            if (g.valid && (!best.valid || g.total > best.total))
                best = g;
        }
    }
    return best;
}
