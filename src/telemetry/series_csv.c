/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of series and telemetry.csv. Finisher.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "telemetry/series.h"

/* Names that are not "metric name + unit" (templates/facts.tsv). */
static const struct {
    enum metric metric;
    const char *name;
} special_names[] = {
    {METRIC_HOST_MEM_TOTAL, "host.mem_total_bytes"},
    {METRIC_HOST_MEM_AVAILABLE, "host.mem_available_bytes"},
    {METRIC_HOST_SWAP_TOTAL, "host.swap_total_bytes"},
    {METRIC_HOST_SWAP_FREE, "host.swap_free_bytes"},
    {METRIC_HOST_SHMEM, "host.mem_shmem_bytes"},
    {METRIC_HOST_PSI_MEM_SOME, "host.psi_memory_some_us"},
    {METRIC_HOST_PSI_MEM_FULL, "host.psi_memory_full_us"},
    {METRIC_CGROUP_MEM_LIMIT, "host.cgroup_limit_bytes"},
    {METRIC_CGROUP_MEM_USED, "host.cgroup_used_bytes"},
    {METRIC_CGROUP_OOM_KILLS, "host.cgroup_oom_kills"},
    {METRIC_HOST_TTM_PAGES_LIMIT, "host.ttm_pages_limit"},
    {METRIC_HOST_PID_NAMESPACE, "host.pid_namespace_initial"},
    {METRIC_PROC_FDS_LIMIT, "fds_limit"},
    {METRIC_PROC_THREADS, "threads"},
    {METRIC_PROC_OUTSIDE, "outside"},
};

static const char *special_name(enum metric m)
{
    for (size_t i = 0; i < sizeof special_names / sizeof special_names[0]; i++)
        if (special_names[i].metric == m)
            return special_names[i].name;
    return NULL;
}

bool series_name(char *out, size_t size, enum metric m, uint32_t instance, const char *proc)
{
    const struct metric_def *def = metric_find((uint16_t)m);
    if (def == NULL)
        return false;
    const char *special = special_name(m);
    char plain[96];
    (void)snprintf(plain, sizeof plain, "%s_%s", def->name, def->unit);
    const char *name = special != NULL ? special : plain;
    if (def->scope == SCOPE_HOST)
        (void)snprintf(out, size, "%s%s", special != NULL ? "" : "host.", name);
    else if (def->scope == SCOPE_GPU)
        (void)snprintf(out, size, "gpu.%u.%s", instance, name);
    else if (proc != NULL)
        (void)snprintf(out, size, "proc.%s.%s", proc, name);
    else
        (void)snprintf(out, size, "proc.%u.%s", instance, name);
    return true;
}

/* A cell has at most 14 bytes (a counter of terabytes), so all cells fit into a buffer of 64
 * MiB. */
#define CELLS_MAX 4000000u

struct column {
    const struct series *series;
    size_t at; /* next point */
};

static bool has_value(const struct series *s)
{
    const struct metric_def *def = metric_find(s->metric);
    if (def == NULL || strcmp(def->unit, "text") == 0)
        return false;
    for (size_t i = 0; i < s->count; i++)
        if (s->points[i].status == VALUE_OK)
            return true;
    return false;
}

/* --- whose columns --- */

struct process {
    uint32_t pid;
    uint64_t weight; /* 0 = it gets no columns */
};

struct processes {
    struct process *list; /* ascending by pid, as the series are */
    size_t count;
};

static bool is_process(const struct series *s)
{
    const struct metric_def *def = metric_find(s->metric);
    return def != NULL && def->scope == SCOPE_PROCESS;
}

static uint64_t weight_of(const struct series *s)
{
    const struct series_point *peak = series_peak(s);
    bool is_memory = s->metric == METRIC_PROC_RSS || s->metric == METRIC_PROC_KFD_VRAM ||
                     s->metric == METRIC_PROC_DRM_VRAM || s->metric == METRIC_PROC_DRM_GTT;
    return is_memory && peak != NULL && peak->value < UINT64_MAX ? peak->value : 0;
}

static int find_processes(const struct series_set *set, uint32_t keep_pid, struct processes *ret)
{
    ret->list = calloc(set->count + 1, sizeof *ret->list);
    if (ret->list == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < set->count; i++) {
        const struct series *s = &set->series[i];
        if (!is_process(s) || !has_value(s))
            continue;
        if (ret->count == 0 || ret->list[ret->count - 1].pid != s->instance)
            ret->list[ret->count++] = (struct process){.pid = s->instance, .weight = 1};
        struct process *p = &ret->list[ret->count - 1];
        uint64_t weight = p->pid == keep_pid ? UINT64_MAX : weight_of(s);
        if (weight > p->weight)
            p->weight = weight;
    }
    return 0;
}

static int heavier_first(const void *a, const void *b)
{
    const struct process *x = a;
    const struct process *y = b;
    return x->weight != y->weight ? (x->weight < y->weight) - (x->weight > y->weight)
                                  : (x->pid > y->pid) - (x->pid < y->pid);
}

static int by_pid(const void *a, const void *b)
{
    const struct process *x = a;
    const struct process *y = b;
    return (x->pid > y->pid) - (x->pid < y->pid);
}

/* How many are left out. */
static size_t keep_the_heaviest(struct processes *processes)
{
    if (processes->count <= SERIES_CSV_PROCESSES_MAX)
        return 0;
    qsort(processes->list, processes->count, sizeof processes->list[0], heavier_first);
    for (size_t i = SERIES_CSV_PROCESSES_MAX; i < processes->count; i++)
        processes->list[i].weight = 0;
    qsort(processes->list, processes->count, sizeof processes->list[0], by_pid);
    return processes->count - SERIES_CSV_PROCESSES_MAX;
}

static bool is_left_out(const struct processes *processes, const struct series *s)
{
    struct process key = {.pid = s->instance};
    const struct process *found = is_process(s) ? bsearch(&key, processes->list, processes->count,
                                                          sizeof key, by_pid)
                                                : NULL;
    return found != NULL && found->weight == 0;
}

/* --- the table --- */

static size_t make_columns(const struct series_set *set, const struct processes *processes,
                           struct column *columns, struct buf *out)
{
    size_t count = 0;
    buf_puts(out, "time_s,flags");
    for (size_t i = 0; i < set->count; i++) {
        const struct series *s = &set->series[i];
        char name[128];
        if (!has_value(s) || is_left_out(processes, s) ||
            !series_name(name, sizeof name, s->metric, s->instance, NULL))
            continue;
        columns[count++] = (struct column){.series = s};
        buf_printf(out, ",%s", name);
    }
    buf_putc(out, '\n');
    return count;
}

static const char *flag_name(uint16_t flags)
{
    return (flags & SAMPLE_IMPACT) != 0     ? "impact"
           : (flags & SAMPLE_BASELINE) != 0 ? "baseline"
           : (flags & SAMPLE_AFTER) != 0    ? "after"
                                            : "";
}

static void put_row(const struct series_record *record, uint64_t zero_ns, struct column *columns,
                    size_t count, struct buf *out)
{
    double seconds = (double)(int64_t)(record->time_ns - zero_ns) / 1e9;
    buf_printf(out, "%.3f,%s", seconds, flag_name(record->flags));
    for (size_t i = 0; i < count; i++) {
        struct column *c = &columns[i];
        const struct series *s = c->series;
        while (c->at < s->count && s->points[c->at].time_ns <= record->time_ns)
            c->at++;
        buf_putc(out, ',');
        if (c->at > 0 && s->points[c->at - 1].status == VALUE_OK)
            buf_printf(out, "%llu", (unsigned long long)s->points[c->at - 1].value);
    }
    buf_putc(out, '\n');
}

/* M writes its last record twice: the second one has the error counters, too. */
static bool is_again(const struct series_record *record, const struct series_record *next)
{
    return (record->flags & next->flags & SAMPLE_AFTER) != 0;
}

/* Thins evenly by rows, not by time: older data stays sparse, recent data stays dense. */
static void put_rows(const struct series_set *set, uint64_t zero_ns, size_t max_rows,
                     struct column *columns, size_t count, struct buf *out)
{
    size_t room = CELLS_MAX / (count + 2);
    if (max_rows == 0 || max_rows > room)
        max_rows = room;
    double step = set->record_count > max_rows ? (double)set->record_count / (double)max_rows : 1;
    double next = 0;
    for (size_t i = 0; i < set->record_count; i++) {
        bool flagged = flag_name(set->records[i].flags)[0] != '\0';
        bool turn = (double)i >= next;
        if (turn)
            next += step;
        bool is_last = i + 1 == set->record_count;
        if (!is_last && is_again(&set->records[i], &set->records[i + 1]))
            continue;
        if (turn || flagged || is_last)
            put_row(&set->records[i], zero_ns, columns, count, out);
    }
}

int series_to_csv(const struct series_set *set, uint64_t zero_ns, size_t max_rows,
                  uint32_t keep_pid, struct buf *out)
{
    struct processes processes = {.count = 0};
    int r = find_processes(set, keep_pid, &processes);
    RC_AUTO_FREE struct process *list = processes.list;
    RC_AUTO_FREE struct column *columns = calloc(set->count + 1, sizeof *columns);
    if (r < 0 || columns == NULL)
        return -ENOMEM;
    size_t left_out = keep_the_heaviest(&processes);
    size_t count = make_columns(set, &processes, columns, out);
    put_rows(set, zero_ns, max_rows, columns, count, out);
    return buf_failed(out) ? -ENOMEM : (int)left_out;
}
