/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Part of the collector "hook": what inject/python/rocmcrash_pools.py wrote about the allocators of
 * JAX, TensorFlow and CuPy. It becomes facts jax.*, tensorflow.* and cupy.*, and a series in the
 * bundle.
 */
#include <cjson/cJSON.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fs.h"
#include "base/number.h"
#include "collect/collector.h"
#include "collectors/hook.h"
#include "collectors/lib/torch_snapshot.h"

#define RECORD_MAX ((size_t)2 << 20)
#define SERIES_MAX ((size_t)2 << 20)
#define FILES_MAX 4096
#define POINTS_MAX ((size_t)1 << 17)
#define RETRY_MAX_NS UINT64_C(12000000000)
/* If no exception names the cause, a refusal at most this long before the end is the cause. */
#define REFUSAL_TO_END_NS INT64_C(30000000000)

/* Columns of PID.jax.csv; this build does not count an empty one. */
enum column {
    TIME_NS,
    DEVICE,
    IN_USE,
    PEAK,
    LIMIT,
    LARGEST,
    ALLOCATIONS,
    POOL,
    LARGEST_FREE,
    TOOK_US,
    COLUMNS,
};
#define ABSENT (-1)

struct pool {
    const struct collect_ctx *ctx;
    struct collect_out *out;
    const char *dir;
    const char *name; /* "jax", "tensorflow", "cupy" */
    const struct hook_events *events;
    int64_t pid;
    int64_t values[COLUMNS]; /* at the failure, of the device that refused or holds most */
    int64_t refused_ns;      /* time of the refusal that ended the program, ABSENT = not known */
};

/* Totals over the rows of one device. */
struct turnover {
    double allocated; /* a lower bound: memory that comes and goes between two rows is not seen */
    double freed;
    double freed_then; /* until something was last allocated: what goes after that goes because the program ends */
    int64_t pool_first; /* ABSENT: never more than 0 */
    uint64_t last_ns;   /* when something was last allocated */
    int64_t before[COLUMNS];
};

/* --- which process --- */

static bool is_of(const struct pool *x, const char *file, int64_t *ret_pid, bool *ret_record)
{
    char *end;
    long long pid = strtoll(file, &end, 10);
    size_t n = strlen(x->name);
    if (end == file || pid <= 0 || *end != '.' || strncmp(end + 1, x->name, n) != 0)
        return false;
    *ret_pid = pid;
    *ret_record = strcmp(end + 1 + n, ".json") == 0;
    return *ret_record || strcmp(end + 1 + n, ".csv") == 0;
}

/* The process that failed, else one that ended by an exception, else any. */
static int64_t choose_process(const struct pool *x)
{
    RC_AUTO_CLOSEDIR DIR *dir = opendir(x->dir);
    const struct dirent *entry;
    int64_t best = 0;
    int best_rank = 0;
    for (int i = 0; dir != NULL && i < FILES_MAX && (entry = readdir(dir)) != NULL; i++) {
        int64_t pid = 0;
        bool record = false;
        if (!is_of(x, entry->d_name, &pid, &record))
            continue;
        int rank = 1 + (record ? 1 : 0) + (pid == x->ctx->failed_pid ? 2 : 0);
        if (rank > best_rank || (rank == best_rank && pid < best)) {
            best = pid;
            best_rank = rank;
        }
    }
    return best;
}

static ssize_t read_file(const struct pool *x, const char *what, size_t max, char **ret)
{
    char path[FS_PATH_MAX + 64];
    (void)snprintf(path, sizeof path, "%s/%lld.%s.%s", x->dir, (long long)x->pid, x->name, what);
    ssize_t len = fs_read_all(path, max, ret);
    return len < 0 && *ret != NULL ? (ssize_t)strlen(*ret) : len;
}

/* --- facts --- */

static void put_when(const struct pool *x, const char *what, enum fact_when when, int64_t value,
                     const char *source)
{
    char name[64];
    (void)snprintf(name, sizeof name, "%s.%s", x->name, what);
    if (value >= 0)
        collect_integer(x->out, name, when, value, source);
}

static void put_text(const struct pool *x, const char *what, const char *value, const char *source)
{
    char name[64];
    (void)snprintf(name, sizeof name, "%s.%s", x->name, what);
    if (value[0] != '\0')
        collect_text(x->out, name, FACT_STATIC, value, source);
}

static void put_values(const struct pool *x, const char *source)
{
    const int64_t *v = x->values;
    put_when(x, "in_use_bytes", FACT_IMPACT, v[IN_USE], source);
    put_when(x, "in_use_bytes", FACT_PEAK, v[PEAK], source);
    put_when(x, "limit_bytes", FACT_IMPACT, v[LIMIT], source);
    put_when(x, "pool_bytes", FACT_IMPACT, v[POOL], source);
    put_when(x, "largest_allocation_bytes", FACT_IMPACT, v[LARGEST], source);
    put_when(x, "allocations_count", FACT_IMPACT, v[ALLOCATIONS], source);
    /* Builds that do not keep it report 0, however much is free. */
    if (v[LARGEST_FREE] > 0)
        put_when(x, "largest_free_bytes", FACT_IMPACT, v[LARGEST_FREE], source);
    put_when(x, "device", FACT_IMPACT, v[DEVICE], source);
}

/* The platform's name comes from the build; the device's name from the driver. */
static void put_vendor(const struct pool *x, const char *kind, const char *source)
{
    if (strncmp(kind, "NVIDIA ", 7) == 0)
        collect_boolean(x->out, "vendor.nvidia", FACT_LOG, true, source);
    else if (strncmp(kind, "AMD ", 4) == 0 || strncmp(kind, "gfx", 3) == 0)
        collect_boolean(x->out, "vendor.amd", FACT_LOG, true, source);
}

static void values_of_stats(const cJSON *stats, int64_t values[COLUMNS])
{
    static const char *const keys[COLUMNS] = {
        [IN_USE] = "bytes_in_use",       [PEAK] = "peak_bytes_in_use",
        [LIMIT] = "bytes_limit",         [LARGEST] = "largest_alloc_size",
        [ALLOCATIONS] = "num_allocs",    [POOL] = "pool_bytes",
        [LARGEST_FREE] = "largest_free_block_bytes"};
    for (int i = 0; i < COLUMNS; i++)
        values[i] = keys[i] != NULL ? hook_number(stats, keys[i]) : ABSENT;
    values[DEVICE] = stats->string != NULL ? strtoll(stats->string, NULL, 10) : ABSENT;
}

/* The device that `refused` names, else the one that holds most. */
static bool choose_values(struct pool *x, const cJSON *record, const cJSON *refused)
{
    int64_t device = hook_number(refused, "device");
    int64_t values[COLUMNS];
    const cJSON *stats = NULL;
    bool any = false;
    cJSON_ArrayForEach(stats, cJSON_GetObjectItemCaseSensitive(record, "stats"))
    {
        values_of_stats(stats, values);
        if (values[IN_USE] < 0 || (device >= 0 && values[DEVICE] != device))
            continue;
        if (!any || values[IN_USE] > x->values[IN_USE])
            memcpy(x->values, values, sizeof values);
        any = true;
    }
    return any;
}

static bool refusal_is_the_cause(const struct pool *x, const cJSON *refused)
{
    int64_t end_ns = (int64_t)x->ctx->end_mono_ns;
    if (x->events->exception != NULL)
        return hook_exception_is_oom(x->events->exception);
    if (x->events->thread_exception != NULL && hook_exception_is_oom(x->events->thread_exception))
        return true;
    return end_ns == 0 || end_ns - hook_number(refused, "t") < REFUSAL_TO_END_NS;
}

static void put_log(const struct pool *x, const char *name, int64_t value, const char *source)
{
    if (value >= 0)
        collect_integer(x->out, name, FACT_LOG, value, source);
}

/* The same names as for the message, which a program may swallow. */
static void put_refusal(struct pool *x, const cJSON *refused, const char *source)
{
    int64_t limit = hook_number(refused, "limit");
    put_when(x, "refusals_count", FACT_IMPACT, hook_number(refused, "count"), source);
    if (!refusal_is_the_cause(x, refused))
        return;
    x->refused_ns = hook_number(refused, "t");
    collect_boolean(x->out, "oom.seen", FACT_LOG, true, source);
    collect_text(x->out, "oom.framework", FACT_LOG, x->name, source);
    put_log(x, "oom.requested_bytes", hook_number(refused, "requested"), source);
    put_log(x, "oom.reserved_bytes", hook_number(refused, "pool_bytes"), source);
    put_log(x, "oom.device", hook_number(refused, "device"), source);
    if (limit > 0)
        put_log(x, "oom.allowed_bytes", limit, source);
    /* The sampled pool may differ from the one that refused. Its values are used only if it is the same. */
    if (x->values[POOL] == hook_number(refused, "pool_bytes"))
        put_log(x, "oom.allocated_bytes", x->values[IN_USE], source);
}

static void put_files(const struct pool *x, const cJSON *record, const char *text, size_t len)
{
    char name[40];
    struct buf stacks = BUF_INIT;
    hook_stacks_text(record, &stacks);
    (void)snprintf(name, sizeof name, "%s-stacks.txt", x->name);
    if (!buf_failed(&stacks) && stacks.len > 0)
        (void)collect_write(x->out, name, stacks.data, stacks.len);
    (void)snprintf(name, sizeof name, "%s-exit.json", x->name);
    (void)collect_write(x->out, name, text, len);
    buf_release(&stacks);
}

static bool put_record(struct pool *x)
{
    char source[96];
    RC_AUTO_FREE char *text = NULL;
    ssize_t len = read_file(x, "json", RECORD_MAX, &text);
    cJSON *record = len > 0 ? cJSON_ParseWithLength(text, (size_t)len) : NULL;
    const cJSON *refused = cJSON_GetObjectItemCaseSensitive(record, "refused");
    bool any = choose_values(x, record, refused);
    (void)snprintf(source, sizeof source, "%s in process %lld, at the %s", x->name,
                   (long long)x->pid, refused != NULL ? "refusal" : "uncaught exception");
    if (any) {
        put_values(x, source);
        put_when(x, "devices_count", FACT_IMPACT, hook_number(record, "devices"), source);
        put_text(x, "device_kind", hook_string(record, "kind"), source);
        put_text(x, "allocator", hook_string(record, "allocator"), source);
        put_vendor(x, hook_string(record, "kind"), source);
        put_files(x, record, text, (size_t)len);
    }
    if (refused != NULL)
        put_refusal(x, refused, source);
    cJSON_Delete(record);
    return any;
}

/* --- what came and went --- */

/* A peak that rose between two rows was reached between them: that much was in use, and was freed since. */
static void turnover_add(struct turnover *t, const int64_t c[COLUMNS])
{
    const int64_t *before = t->before;
    int64_t in_use = before[IN_USE] > 0 ? before[IN_USE] : 0;
    int64_t grown = c[IN_USE] - in_use;
    int64_t taken = grown > 0 ? grown : 0;
    if (c[PEAK] > before[PEAK] && before[PEAK] >= 0 && c[PEAK] - in_use > taken)
        taken = c[PEAK] - in_use;
    t->allocated += (double)taken;
    t->freed += (double)(taken - grown);
    if (t->pool_first <= 0)
        t->pool_first = c[POOL] > 0 ? c[POOL] : ABSENT;
    if (c[ALLOCATIONS] != before[ALLOCATIONS] || c[ALLOCATIONS] == ABSENT) {
        t->last_ns = (uint64_t)c[TIME_NS];
        t->freed_then = t->freed;
    }
    memcpy(t->before, c, sizeof t->before);
}

/* XLA's allocator waits 10 s for memory before it gives up (AllocatorRetry; seen with jaxlib 0.11).
 * Nothing grows during that time, which does not speak against a leak. */
static void drop_the_wait(const struct turnover *t, struct torch_series *series)
{
    size_t count = series->count;
    if (count == 0 || series->points[count - 1].time_ns - t->last_ns > RETRY_MAX_NS)
        return;
    while (count > 0 && series->points[count - 1].time_ns > t->last_ns)
        count--;
    series->count = count;
}

static void put_turnover(const struct pool *x, const struct turnover *t, const char *source)
{
    put_when(x, "allocated_seen_bytes", FACT_IMPACT, number_from_real(t->allocated), source);
    put_when(x, "freed_seen_bytes", FACT_IMPACT, number_from_real(t->freed_then), source);
    if (strcmp(x->name, "cupy") != 0) /* includes the pending request */
        put_when(x, "pool_bytes", FACT_BASELINE, t->pool_first, source);
}

/* Memory freed after a refusal does not make the low of a step. */
static void drop_after_refusal(const struct pool *x, struct torch_series *series)
{
    while (x->refused_ns >= 0 && series->count > 1 &&
           series->points[series->count - 1].time_ns > (uint64_t)x->refused_ns)
        series->count--;
}

/* --- the series --- */

/* 12290510677263,0,10656677888,10674503680,...,83. False: the line is no such row. */
static bool parse_row(const char *line, const char *end, int64_t cells[COLUMNS])
{
    for (int i = 0; i < COLUMNS; i++) {
        cells[i] = ABSENT;
        for (; line < end && *line >= '0' && *line <= '9'; line++) {
            int64_t before = cells[i] < 0 ? 0 : cells[i];
            if (before > INT64_MAX / 10 - 1)
                return false;
            cells[i] = before * 10 + (*line - '0');
        }
        if (i + 1 < COLUMNS ? line == end || *line != ',' : line != end)
            return false;
        line++;
    }
    return cells[TIME_NS] >= 0 && cells[DEVICE] >= 0 && cells[IN_USE] >= 0;
}

/* One clock: seconds since the start of the run, as in telemetry.csv. */
static void write_csv(const struct pool *x, const char *text)
{
    char name[40];
    struct buf csv = BUF_INIT;
    int64_t c[COLUMNS];
    buf_puts(&csv, "time_s,device,in_use_bytes,in_use_peak_bytes,limit_bytes,"
                   "largest_allocation_bytes,allocations,pool_bytes,largest_free_bytes,took_us\n");
    for (const char *end; (end = strchr(text, '\n')) != NULL; text = end + 1) {
        const char *rest = memchr(text, ',', (size_t)(end - text));
        if (!parse_row(text, end, c) || (uint64_t)c[TIME_NS] < x->ctx->start_mono_ns)
            continue;
        buf_printf(&csv, "%.6f%.*s\n", (double)((uint64_t)c[TIME_NS] - x->ctx->start_mono_ns) / 1e9,
                   (int)(end - rest), rest);
    }
    (void)snprintf(name, sizeof name, "%s-stats.csv", x->name);
    if (!buf_failed(&csv))
        (void)collect_write(x->out, name, csv.data, csv.len);
    buf_release(&csv);
}

/* The rows of one device; the last row of all devices decides which, when no record did. */
static size_t read_points(struct pool *x, const char *text, bool have_device,
                          struct torch_point *points, size_t max, struct turnover *turnover)
{
    int64_t c[COLUMNS];
    int64_t last_ns = 0;
    size_t count = 0;
    for (const char *at = text, *end; !have_device && (end = strchr(at, '\n')) != NULL;
         at = end + 1) {
        if (!parse_row(at, end, c))
            continue;
        if (c[TIME_NS] > last_ns || c[IN_USE] > x->values[IN_USE])
            memcpy(x->values, c, sizeof c);
        last_ns = c[TIME_NS];
    }
    for (const char *end; (end = strchr(text, '\n')) != NULL && count < max; text = end + 1) {
        if (!parse_row(text, end, c) || c[DEVICE] != x->values[DEVICE] ||
            (count > 0 && (uint64_t)c[TIME_NS] < points[count - 1].time_ns))
            continue;
        turnover_add(turnover, c);
        points[count++] = (struct torch_point){.time_ns = (uint64_t)c[TIME_NS],
                                               .allocated = c[IN_USE],
                                               .allocated_peak = c[PEAK],
                                               .reserved = c[POOL] > 0 ? c[POOL] : c[IN_USE],
                                               .took_us = c[TOOK_US]};
    }
    return count;
}

static void put_trend(const struct pool *x, const struct torch_series *series, const char *source)
{
    char name[40];
    struct torch_demand demand = torch_series_demand(series);
    struct torch_growth growth = torch_series_growth(series);
    if (strcmp(x->name, "cupy") == 0) /* the other devices are not needed */
        put_when(x, "earlier_peak_bytes", FACT_IMPACT, demand.earlier_peak, source);
    if (!growth.valid)
        return;
    (void)snprintf(name, sizeof name, "%s.growth", x->name);
    hook_facts_of_growth(&growth, name, source, x->out);
    (void)snprintf(name, sizeof name, "%s.growth.steady", x->name);
    collect_boolean(x->out, name, FACT_IMPACT, growth.steady, source);
    /* The driver cannot see growth within the pool. */
    if (growth.total > 0 && growth.slope_per_s > 0)
        hook_facts_of_growth(&growth, "f.growth", source, x->out);
}

static void put_series(struct pool *x, bool have_record)
{
    char source[48];
    RC_AUTO_FREE char *text = NULL;
    if (read_file(x, "csv", SERIES_MAX, &text) <= 0)
        return;
    struct torch_series series = {.points = calloc(POINTS_MAX / 8, sizeof *series.points)};
    if (series.points == NULL)
        return;
    struct turnover turnover = {.pool_first = ABSENT, .before = {[PEAK] = ABSENT}};
    series.count = read_points(x, text, have_record, series.points, POINTS_MAX / 8, &turnover);
    (void)snprintf(source, sizeof source, "telemetry/%s-stats.csv", x->name);
    if (!have_record && series.count > 0)
        put_values(x, source);
    if (series.count > 0) {
        put_turnover(x, &turnover, source);
        write_csv(x, text);
    }
    drop_the_wait(&turnover, &series);
    drop_after_refusal(x, &series);
    put_trend(x, &series, source);
    torch_series_release(&series);
}

/* {"what":"jax backend","platform":"rocm"}: "rocm,cpu" */
static void put_platforms(const struct pool *x)
{
    char all[128] = "";
    const cJSON *event;
    cJSON_ArrayForEach(event, x->events->list)
    {
        const char *platform = hook_string(event, "platform");
        size_t n = strlen(all);
        if (strcmp(hook_string(event, "what"), "jax backend") != 0 || platform[0] == '\0' ||
            (x->pid != 0 && hook_number(event, "pid") != x->pid) || strstr(all, platform) != NULL)
            continue;
        (void)snprintf(all + n, sizeof all - n, "%s%s", n > 0 ? "," : "", platform);
    }
    put_text(x, "platforms", all, "hook/events.jsonl");
}

void hook_pools(const struct collect_ctx *ctx, const char *dir, const struct hook_events *events,
                struct collect_out *out)
{
    static const char *const names[] = {"jax", "tensorflow", "cupy"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct pool x = {.ctx = ctx,
                         .out = out,
                         .dir = dir,
                         .name = names[i],
                         .events = events,
                         .refused_ns = ABSENT};
        x.pid = choose_process(&x);
        if (i == 0)
            put_platforms(&x);
        if (x.pid == 0)
            continue;
        put_series(&x, put_record(&x));
    }
}
