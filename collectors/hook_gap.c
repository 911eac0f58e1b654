/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process's memory by the driver less PyTorch's reserve: contexts, libraries, and other
 * allocators in the process. The driver counts all devices together, so PyTorch's devices are
 * summed up.
 */
#include <stdlib.h>

#include "base/err.h"
#include "base/number.h"
#include "collect/collector.h"
#include "collectors/hook.h"
#include "collectors/lib/torch_snapshot.h"
#include "telemetry/series.h"

#define GAP_MIN_POINTS 2
#define GAP_PERIOD_NS UINT64_C(1000000000)
#define GAP_AGE_NS UINT64_C(10000000000)
#define GAP_SLACK ((int64_t)32 << 20)
#define GAP_PROMPT_US 20000

static const struct series_point *driver_at(const struct series_set *set, int64_t pid,
                                            uint64_t time_ns)
{
    static const enum metric metrics[] = {METRIC_PROC_KFD_VRAM, METRIC_PROC_DRM_VRAM};
    for (size_t i = 0; i < sizeof metrics / sizeof metrics[0]; i++) {
        const struct series *s = series_find(set, metrics[i], (uint32_t)pid);
        const struct series_point *p = s != NULL ? series_at(s, time_ns) : NULL;
        if (p != NULL && p->status == VALUE_OK && p->value > 0 && p->value <= INT64_MAX)
            return p;
    }
    return NULL;
}

/* Was the value constant, within the slack, from the point nearest to `from_ns` on? */
static bool was_same(const struct torch_series *series, size_t i, uint64_t from_ns)
{
    const struct torch_point *p = series->points;
    int64_t now = p[i].reserved;
    while (i > 0 && p[i].time_ns > from_ns) {
        i--;
        if (p[i].time_ns < from_ns && p[i + 1].time_ns - from_ns < from_ns - p[i].time_ns)
            break;
        if (p[i].reserved > now + GAP_SLACK || p[i].reserved < now - GAP_SLACK)
            return false;
    }
    return true;
}

/* A sample that waited for the allocator's lock belongs to some moment during the wait. */
static bool is_prompt(const struct torch_point *p)
{
    return p->took_us < GAP_PROMPT_US;
}

/*
 * The driver's figure is older than PyTorch's. If PyTorch's has changed since the driver's was
 * read, the difference means nothing. We know only when the driver's figure changed last, not when
 * it was read last: it is read when the GPU's counter has changed, and each second, less often if
 * that is expensive. So take one point for each change of the driver's figure, else one a second:
 * counting one reading often would make any trend significant.
 */
static size_t find_gaps(const struct torch_series *series, const struct series_set *set,
                        int64_t pid, struct torch_point *ret)
{
    size_t count = 0;
    uint64_t read_ns = 0;
    for (size_t i = 0; i < series->count; i++) {
        const struct torch_point *p = &series->points[i];
        const struct series_point *driver = driver_at(set, pid, p->time_ns);
        if (driver == NULL || !is_prompt(p) || (int64_t)driver->value < p->reserved)
            continue;
        uint64_t oldest_ns = p->time_ns > GAP_AGE_NS ? p->time_ns - GAP_AGE_NS : 0;
        if (driver->time_ns > oldest_ns)
            oldest_ns = driver->time_ns;
        if (!was_same(series, i, oldest_ns) ||
            (count > 0 && driver->time_ns == read_ns &&
             p->time_ns - ret[count - 1].time_ns < GAP_PERIOD_NS))
            continue;
        read_ns = driver->time_ns;
        ret[count++] = (struct torch_point){.time_ns = p->time_ns,
                                            .allocated = (int64_t)driver->value - p->reserved};
    }
    return count;
}

static void put_trend(const struct torch_series *gaps, const char *source, struct collect_out *out)
{
    struct torch_growth g = torch_series_trend(gaps, 1);
    if (!g.valid)
        return;
    collect_integer(out, "torch.gap_growth_bytes", FACT_IMPACT, g.total, source);
    collect_integer(out, "torch.gap_slope_bytes_per_s", FACT_IMPACT,
                    number_from_real(g.slope_per_s), source);
    collect_boolean(out, "torch.gap_steady", FACT_IMPACT, g.steady, source);
    collect_integer(out, "torch.gap_watched_ms", FACT_IMPACT, g.duration_ms, source);
}

/* A trend needs many readings and an even rise. What is enlarged now and then (buffers, plans for new shapes) rises in
 * steps, and stops while PyTorch's cache leaves it no room. */
static void put_rises(const struct torch_series *gaps, const char *source, struct collect_out *out)
{
    const struct torch_point *p = gaps->points;
    int64_t highest = p[0].allocated;
    int64_t rises = 0;
    int64_t largest = 0;
    for (size_t i = 1; i < gaps->count; i++) {
        if (p[i].allocated <= highest + GAP_SLACK)
            continue;
        rises++;
        if (p[i].allocated - highest > largest)
            largest = p[i].allocated - highest;
        highest = p[i].allocated;
    }
    collect_integer(out, "torch.gap_risen_bytes", FACT_IMPACT, p[gaps->count - 1].allocated - p[0].allocated, source);
    collect_integer(out, "torch.gap_rises_count", FACT_IMPACT, rises, source);
    collect_integer(out, "torch.gap_largest_rise_bytes", FACT_IMPACT, largest, source);
}

/* True if the last gap was read shortly before the end. */
static bool is_recent(const struct torch_series *gaps, const struct torch_series *all)
{
    return all->points[all->count - 1].time_ns - gaps->points[gaps->count - 1].time_ns <=
           GAP_AGE_NS;
}

void hook_facts_of_gap(const struct torch_series *all_devices, int64_t pid, const char *run_dir,
                       struct collect_out *out)
{
    static const char source[] =
        "driver's count of the process (kfd, drm or NVML) - reserved by PyTorch";
    struct series_set set = {0};
    struct torch_series gaps = {.points = calloc(all_devices->count + 1, sizeof *gaps.points)};
    if (gaps.points != NULL && series_load(&set, run_dir, NULL) == 0)
        gaps.count = find_gaps(all_devices, &set, pid, gaps.points);
    if (gaps.count >= GAP_MIN_POINTS && is_recent(&gaps, all_devices)) {
        collect_integer(out, "torch.gap_bytes", FACT_IMPACT, gaps.points[gaps.count - 1].allocated,
                        source);
        put_trend(&gaps, source, out);
        put_rises(&gaps, source, out);
    } else {
        collect_missing(out, "torch.gap_bytes", FACT_IMPACT, FACT_ABSENT,
                        "the driver's count of this process was not sampled beside PyTorch's, or "
                        "too seldom for how fast that changed",
                        source);
    }
    series_release(&set);
    torch_series_release(&gaps);
}
