/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Growth of a memory series: minima of equal windows, their robust slope (median of all pairs,
 * Theil-Sen), the share of windows that rose. A minimum is what a step could not give back, so a
 * steady sawtooth has no growth.
 */
#include "diagnose/features.h"

#include "diagnose/fact.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define WINDOWS_MAX 40 /* 780 pairs: enough for a slope, nothing to wait for */

struct minima {
    size_t count;
    double value[WINDOWS_MAX];
};

static void take_minima(const uint64_t *values, size_t count, struct minima *m)
{
    size_t windows = count < WINDOWS_MAX ? count : WINDOWS_MAX;
    for (size_t w = 0; w < windows; w++) {
        uint64_t lowest = UINT64_MAX;
        for (size_t i = w * count / windows; i < (w + 1) * count / windows; i++) {
            if (values[i] < lowest)
                lowest = values[i];
        }
        if (lowest != UINT64_MAX)
            m->value[m->count++] = (double)lowest;
    }
}

static int compare_double(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median_slope(const struct minima *m)
{
    double slopes[WINDOWS_MAX * (WINDOWS_MAX - 1) / 2];
    size_t n = 0;
    for (size_t i = 0; i < m->count; i++) {
        for (size_t k = i + 1; k < m->count; k++)
            slopes[n++] = (m->value[k] - m->value[i]) / (double)(k - i);
    }
    qsort(slopes, n, sizeof(slopes[0]), compare_double);
    return n > 0 ? slopes[n / 2] : 0;
}

void features_add_growth(struct facts *facts, const char *source, const uint64_t *values,
                         size_t count, uint64_t duration_ms)
{
    struct minima m = {0};
    char from[300];
    size_t rising = 0;
    (void)snprintf(from, sizeof(from), "computed from %s (%zu samples)", source, count);
    take_minima(values, count, &m);
    (void)facts_set_integer(facts, "f.growth.samples", FACT_IMPACT, (int64_t)count, from);
    if (m.count < 3) {
        (void)facts_set_missing(facts, "f.growth.total_bytes", FACT_IMPACT, FACT_ABSENT,
                                "fewer than three samples", from);
        return;
    }
    for (size_t i = 1; i < m.count; i++)
        rising += m.value[i] > m.value[i - 1];
    double slope = median_slope(&m);
    double per_second =
        duration_ms > 0 ? slope * (double)m.count * 1000.0 / (double)duration_ms : 0;
    (void)facts_set_integer(facts, "f.growth.total_bytes", FACT_IMPACT,
                            (int64_t)(m.value[m.count - 1] - m.value[0]), from);
    (void)facts_set_integer(facts, "f.growth.slope_bytes_per_s", FACT_IMPACT,
                            (int64_t)llround(per_second), from);
    (void)facts_set_real(facts, "f.growth.rising_share_percent", FACT_IMPACT,
                         100.0 * (double)rising / (double)(m.count - 1), from);
    (void)facts_set_integer(facts, "f.growth.duration_ms", FACT_IMPACT, (int64_t)duration_ms,
                            from);
}
