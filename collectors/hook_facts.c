/* SPDX-License-Identifier: Apache-2.0 */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/number.h"
#include "collect/collector.h"
#include "collectors/hook.h"
#include "collectors/lib/torch_kept.h"
#include "collectors/lib/torch_snapshot.h"
#include "diagnose/tree.h"

static void put_integer(struct collect_out *out, const char *name, int64_t value, const char *source)
{
    if (value >= 0)
        collect_integer(out, name, FACT_IMPACT, value, source);
}

static void put_log(struct collect_out *out, const char *name, int64_t value, const char *source)
{
    if (value >= 0)
        collect_integer(out, name, FACT_LOG, value, source);
}

static const cJSON *stats_of(const cJSON *record, int64_t device)
{
    char name[24];
    (void)snprintf(name, sizeof name, "%lld", (long long)device);
    return cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(record, "stats"),
                                            name);
}

/* stats.allocated_bytes.all.current */
static int64_t counter(const cJSON *stats, const char *what, const char *which)
{
    const cJSON *pools = cJSON_GetObjectItemCaseSensitive(stats, what);
    return hook_number(cJSON_GetObjectItemCaseSensitive(pools, "all"), which);
}

/*
 * The same names as for the message, whose figures are rounded and which a program may swallow. If
 * only a fraction of the device is allowed, the observer gets less than the device's total.
 */
void hook_facts_of_oom(const cJSON *record, bool caused, const char *source,
                       struct collect_out *out)
{
    int64_t device = hook_number(record, "device");
    int64_t total = hook_number(record, "total");
    int64_t device_total = hook_number(record, "device_total");
    const cJSON *stats = stats_of(record, device);
    int64_t allocated = counter(stats, "allocated_bytes", "current");
    int64_t reserved = counter(stats, "reserved_bytes", "current");
    put_integer(out, "torch.ooms_count", hook_number(record, "count"), source);
    if (!caused)
        return;
    put_integer(out, "torch.requested_bytes", hook_number(record, "requested"), source);
    put_integer(out, "torch.device_free_bytes", hook_number(record, "free"), source);
    put_integer(out, "torch.device_total_bytes", device_total > 0 ? device_total : total, source);
    collect_boolean(out, "oom.seen", FACT_LOG, true, source);
    collect_text(out, "oom.framework", FACT_LOG, "pytorch", source);
    put_log(out, "oom.requested_bytes", hook_number(record, "requested"), source);
    put_log(out, "oom.device", device, source);
    put_log(out, "oom.free_bytes", hook_number(record, "free"), source);
    put_log(out, "oom.total_bytes", device_total > total ? device_total : total, source);
    if (device_total > total)
        put_log(out, "oom.allowed_bytes", total, source);
    put_log(out, "oom.allocated_bytes", allocated, source);
    if (reserved >= allocated && allocated >= 0)
        put_log(out, "oom.reserved_unallocated_bytes", reserved - allocated, source);
    struct buf functions = BUF_INIT;
    hook_functions_text(record, &functions);
    if (!buf_failed(&functions) && functions.len > 0)
        collect_text(out, "torch.oom_functions", FACT_IMPACT, functions.data, source);
    buf_release(&functions);
}

/* ZLUDA and HIP use CUDA's words, too; the name of the device comes from the driver. */
static void put_device(const cJSON *record, const char *source, struct collect_out *out)
{
    const char *name = hook_string(record, "device_name");
    const char *arch = hook_string(record, "device_arch");
    if (name[0] != '\0')
        collect_text(out, "torch.device_name", FACT_STATIC, name, source);
    if (strncmp(arch, "gfx", 3) == 0)
        collect_text(out, "torch.device_arch", FACT_STATIC, arch, source);
    if (strncmp(name, "NVIDIA ", 7) == 0)
        collect_boolean(out, "vendor.nvidia", FACT_LOG, true, source);
    else if (strncmp(name, "AMD ", 4) == 0 || strncmp(arch, "gfx", 3) == 0)
        collect_boolean(out, "vendor.amd", FACT_LOG, true, source);
}

void hook_facts_of_stats(const cJSON *record, int64_t device, const char *source,
                         struct collect_out *out)
{
    static const struct {
        const char *fact, *what, *which;
    } counters[] = {
        {"torch.allocated_bytes", "allocated_bytes", "current"},
        {"torch.reserved_bytes", "reserved_bytes", "current"},
        {"torch.active_bytes", "active_bytes", "current"},
        {"torch.inactive_split_bytes", "inactive_split_bytes", "current"},
        {"torch.requested_live_bytes", "requested_bytes", "current"},
        {"torch.allocated_peak_bytes", "allocated_bytes", "peak"},
        {"torch.reserved_peak_bytes", "reserved_bytes", "peak"},
        {"torch.allocated_total_bytes", "allocated_bytes", "allocated"},
        {"torch.freed_total_bytes", "allocated_bytes", "freed"},
        {"torch.allocations_count", "allocation", "allocated"},
        {"torch.frees_count", "allocation", "freed"},
        {"torch.segments_count", "segment", "current"},
    };
    const cJSON *stats = stats_of(record, device);
    put_device(record, source, out);
    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++)
        put_integer(out, counters[i].fact, counter(stats, counters[i].what, counters[i].which), source);
    put_integer(out, "torch.retries_count", hook_number(stats, "num_alloc_retries"), source);
    put_integer(out, "torch.ooms_count", hook_number(stats, "num_ooms"), source);
}

/* "3.75 GiB in 60 blocks up to 100 MiB, 12.0 MiB in 9000 blocks up to 1 MiB" */
static void put_classes(const struct torch_class *classes, const char *name, const char *source,
                        struct collect_out *out)
{
    char text[512];
    char amount[32];
    int n = 0;
    for (size_t i = 0; i < TORCH_CLASSES && n >= 0 && (size_t)n < sizeof text; i++) {
        if (classes[i].blocks <= 0 || classes[i].bytes <= 0)
            continue;
        fact_format_bytes((double)classes[i].bytes, amount, sizeof amount);
        n += snprintf(text + n, sizeof text - (size_t)n, "%s%s in %lld block%s %s", n > 0 ? ", " : "",
                      amount, (long long)classes[i].blocks, classes[i].blocks == 1 ? "" : "s",
                      classes[i].name);
    }
    if (n > 0)
        collect_text(out, name, FACT_IMPACT, text, source);
}

void hook_facts_of_snapshot(const struct torch_snapshot *s, const char *source,
                            struct collect_out *out)
{
    put_integer(out, "torch.inactive_bytes", s->idle_bytes, source);
    put_integer(out, "torch.largest_inactive_bytes", s->largest_idle_bytes, source);
    put_integer(out, "torch.split_idle_bytes", s->split_bytes, source);
    put_integer(out, "torch.free_segments_bytes", s->free_segment_bytes, source);
    put_integer(out, "torch.private_pools_bytes", s->private_bytes, source);
    put_integer(out, "torch.private_pools_idle_bytes", s->private_idle_bytes, source);
    put_integer(out, "torch.expandable_bytes", s->expandable_bytes, source);
    put_integer(out, "torch.streams_count", s->streams, source);
    put_integer(out, "torch.largest_stream_idle_bytes", s->largest_stream_idle_bytes, source);
    put_integer(out, "torch.fragmentation_percent", (int64_t)(s->fragmentation_percent + 0.5), source);
    put_classes(s->classes, "torch.live_by_size", source, out);
    if (s->largest_site[0] != '\0') {
        collect_text(out, "torch.largest_site", FACT_IMPACT, s->largest_site, source);
        put_integer(out, "torch.largest_site_bytes", s->largest_site_bytes, source);
    }
}

void hook_facts_of_kept(const cJSON *record, struct hook_text snapshot, int64_t device,
                        const char *source, struct collect_out *out)
{
    struct torch_kept k;
    const cJSON *stats = stats_of(record, device);
    if (!torch_kept_read(snapshot.data, snapshot.len, (int)device,
                         counter(stats, "allocated_bytes", "allocated"),
                         counter(stats, "allocated_bytes", "current"), &k))
        return;
    put_integer(out, "torch.kept.marks_count", k.marks, source);
    put_integer(out, "torch.kept.before_bytes", k.before, source);
    put_integer(out, "torch.kept.growth_bytes", k.growth, source);
    put_integer(out, "torch.kept.replaced_percent", k.replaced_percent, source);
    put_integer(out, "torch.kept.faster_percent", k.faster_percent, source);
    put_integer(out, "torch.kept.retaken_percent", k.retaken_percent, source);
    put_integer(out, "torch.kept.freed_percent", k.freed_percent, source);
    put_integer(out, "torch.kept.watched_percent", k.watched_percent, source);
    put_integer(out, "torch.kept.outlasting_change_bytes", k.outlasting, source);
    collect_boolean(out, "torch.kept.steady", FACT_IMPACT, k.steady, source);
}

void hook_facts_of_growth(const struct torch_growth *g, const char *name_of, const char *source,
                          struct collect_out *out)
{
    const struct {
        const char *name;
        int64_t value;
    } values[] = {
        {"samples", g->windows},
        {"total_bytes", g->total},
        {"plateau_bytes", g->plateau},
        {"rising_share_percent", (int64_t)(g->rising_share * 100.0 + 0.5)},
        {"slope_bytes_per_s", number_from_real(g->slope_per_s)},
        {"duration_ms", g->duration_ms},
    };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "%s.%s", name_of, values[i].name);
        collect_integer(out, name, FACT_IMPACT, values[i].value, source);
    }
}

/* The demand earlier in the run. account.* (src/diagnose/account.c) compares it with that at the
 * end. */
static void put_demand(const struct torch_series *series, const char *source,
                       struct collect_out *out)
{
    struct torch_demand d = torch_series_demand(series);
    put_integer(out, "torch.steps_count", d.steps, source);
    put_integer(out, "torch.earlier_peak_bytes", d.earlier_peak, source);
    put_integer(out, "torch.half_run_peak_bytes", d.half_peak, source);
    put_integer(out, "torch.late_run_peak_bytes", d.late_peak, source);
    put_integer(out, "torch.usual_bytes", d.usual, source);
    put_integer(out, "torch.usual_rise_bytes", d.usual_rise, source);
    put_integer(out, "torch.spread_rise_bytes", d.spread_rise, source);
}

void hook_facts_of_series(const struct torch_series *series, const char *source,
                          struct collect_out *out)
{
    if (series->count == 0)
        return;
    put_demand(series, source, out);
    const struct torch_point *last = &series->points[series->count - 1];
    put_integer(out, "torch.allocated_bytes", last->allocated, source);
    put_integer(out, "torch.reserved_bytes", last->reserved, source);
    put_integer(out, "torch.allocated_total_bytes", last->allocated_total, source);
    put_integer(out, "torch.freed_total_bytes", last->freed_total, source);
    struct torch_growth g = torch_series_growth(series);
    if (!g.valid)
        return;
    hook_facts_of_growth(&g, "torch.growth", source, out);
    collect_boolean(out, "torch.growth.steady", FACT_IMPACT, g.steady, source);
    put_integer(out, "torch.growth.allocated_bytes", g.allocated, source);
    put_integer(out, "torch.growth.freed_bytes", g.freed, source);
    put_integer(out, "torch.growth.plateau_blocks_count", g.plateau_blocks, source);
    if (g.total > 0) {
        put_integer(out, "torch.growth.small_blocks_bytes", g.small_pool, source);
        put_integer(out, "torch.growth.blocks_count", g.blocks, source);
    }
    /* The allocator's counters are nearer to the cause than the device's. But if PyTorch does not
     * grow, something beside it may. */
    if (g.total > 0 && g.slope_per_s > 0)
        hook_facts_of_growth(&g, "f.growth", source, out);
}

/* --- the memory table --- */

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t peak_of_series(const struct torch_series *series, bool reserved)
{
    int64_t peak = -1;
    for (size_t i = 0; i < series->count; i++) {
        const struct torch_point *p = &series->points[i];
        /* PyTorch's own peak, too: it includes peaks between two samples, but a program may reset
         * it */
        peak = larger(peak, larger(reserved ? p->reserved : p->allocated,
                                   reserved ? p->reserved_peak : p->allocated_peak));
    }
    return peak;
}

void hook_facts_of_moments(const struct torch_series *series, const cJSON *record,
                           const cJSON *initialised, int64_t device, int64_t pid,
                           struct collect_out *out)
{
    static const struct {
        const char *fact, *what;
    } rows[] = {{"torch.allocated_bytes", "allocated_bytes"},
                {"torch.reserved_bytes", "reserved_bytes"}};
    char source[96];
    (void)snprintf(source, sizeof source, "PyTorch in process %lld", (long long)pid);
    for (size_t i = 0; i < 2; i++) {
        int64_t peak = peak_of_series(series, i == 1);
        if (record != NULL)
            peak = larger(peak, counter(stats_of(record, device), rows[i].what, "peak"));
        if (peak < 0)
            continue; /* nothing about the failure is known either */
        collect_integer(out, rows[i].fact, FACT_PEAK, peak, source);
        const cJSON *list = cJSON_GetObjectItemCaseSensitive(initialised, rows[i].what);
        const cJSON *item = cJSON_GetArrayItem(list, (int)device);
        if (cJSON_IsNumber(item) && item->valuedouble >= 0 && item->valuedouble < 9e15)
            collect_integer(out, rows[i].fact, FACT_BASELINE, (int64_t)item->valuedouble, source);
    }
}

/* --- who grew --- */

static void put_grown(const struct torch_grown *g, int64_t ms, const char *source,
                      struct collect_out *out)
{
    put_integer(out, "torch.grown_ms", ms, source);
    collect_integer(out, "torch.grown_bytes", FACT_IMPACT, g->bytes, source);
    if (g->bytes <= 0)
        return;
    put_classes(g->classes, "torch.grown_by_size", source, out);
    if (g->site[0] == '\0')
        return;
    collect_text(out, "torch.grown_site", FACT_IMPACT, g->site, source);
    put_integer(out, "torch.grown_site_bytes", g->site_bytes, source);
    put_integer(out, "torch.grown_site_blocks_count", g->site_blocks, source);
}

void hook_facts_of_live(struct hook_text marks, struct hook_text snapshot, int64_t snapshot_ns,
                        int64_t device, struct collect_out *out)
{
    struct torch_live before;
    struct torch_live after;
    uint64_t first = 0;
    uint64_t last = 0;
    bool by_snapshot = snapshot.len > 0 && snapshot_ns > 0 &&
                       torch_live_of_snapshot(snapshot.data, snapshot.len, (int)device, &after) == 0;
    if (by_snapshot)
        after.time_ns = (uint64_t)snapshot_ns;
    else if (!torch_live_of_marks(marks.data, marks.len, (int)device, UINT64_MAX, &after))
        return;
    /* Compares with the middle of the time: loading is before it, and half of the growth after
     * it. */
    if (torch_live_times(marks.data, marks.len, (int)device, &first, &last) &&
        first < after.time_ns &&
        torch_live_of_marks(marks.data, marks.len, (int)device,
                            first + (after.time_ns - first) / 2, &before)) {
        struct torch_grown g = torch_live_growth(&before, &after);
        put_grown(&g, (int64_t)((after.time_ns - before.time_ns) / 1000000u),
                  by_snapshot ? "hook/live.csv and hook/snapshot.json" : "hook/live.csv", out);
        torch_live_release(&before);
    }
    torch_live_release(&after);
}
