/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the stacked charts over time from the tables of the bundle. */
#include "report/chart.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "report/csv.h"

#define GPUS_MAX 16
#define PROCESSES_MAX 160
#define PROCESSES_LOOKED_AT_MAX 4096 /* with processes of other programs */
#define SMALL_BYTES (64.0 * (1 << 20)) /* a GTT that always held less gets no chart */

/* Columns of telemetry.csv, looked up once. */
struct gpu_columns {
    size_t used, total, others;
};

/* One of the program's own processes. */
struct process_columns {
    size_t kfd_vram, drm_vram, rss;
    long pid;
};

/* The input of the parts: the tables, and the rows of telemetry.csv that are drawn. */
struct sources {
    struct csv telemetry;
    struct csv torch;
    bool is_apu; /* the first GPU is one */
    unsigned gpu_count;
    struct gpu_columns gpus[GPUS_MAX];
    size_t process_count;
    struct process_columns processes[PROCESSES_MAX];
    size_t *rows;
    size_t row_count;
};

static size_t column_of(const struct csv *t, const char *prefix, const char *suffix)
{
    char name[96];
    (void)snprintf(name, sizeof name, "%s%s", prefix, suffix);
    return csv_column(t, name);
}

static void find_gpus(struct sources *s)
{
    for (; s->gpu_count < GPUS_MAX; s->gpu_count++) {
        char prefix[32];
        (void)snprintf(prefix, sizeof prefix, "gpu.%u.", s->gpu_count);
        struct gpu_columns *gpu = &s->gpus[s->gpu_count];
        gpu->used = column_of(&s->telemetry, prefix, "vram.used_bytes");
        gpu->total = column_of(&s->telemetry, prefix, "vram.total_bytes");
        gpu->others = column_of(&s->telemetry, prefix, "others_kfd_vram_bytes");
        if (gpu->used == CSV_NONE)
            return;
    }
}

static bool is_outside(const struct csv *t, size_t column)
{
    for (size_t row = 0; row < t->rows; row++) {
        if (csv_number(t, row, column) == 1)
            return true;
    }
    return false;
}

static void find_processes(struct sources *s)
{
    const struct csv *t = &s->telemetry;
    static const char rss[] = ".rss_bytes";
    size_t looked_at = 0;
    for (size_t i = 0; i < t->columns && s->process_count < PROCESSES_MAX; i++) {
        char prefix[64];
        const char *end = strstr(t->names[i], rss);
        if (strncmp(t->names[i], "proc.", 5) != 0 || end == NULL || end[sizeof rss - 1] != '\0')
            continue;
        if (looked_at++ == PROCESSES_LOOKED_AT_MAX)
            return;
        (void)snprintf(prefix, sizeof prefix, "%.*s", (int)(end - t->names[i]), t->names[i]);
        if (is_outside(t, column_of(t, prefix, ".outside")))
            continue;
        s->processes[s->process_count++] = (struct process_columns){
            column_of(t, prefix, ".kfd_vram_bytes"), column_of(t, prefix, ".drm_vram_bytes"), i,
            strtol(prefix + strlen("proc."), NULL, 10)};
    }
}

/* --- which rows are drawn --- */

static double all_used(const struct sources *s, size_t row)
{
    double sum = 0;
    for (unsigned gpu = 0; gpu < s->gpu_count; gpu++) {
        double used = csv_number(&s->telemetry, row, s->gpus[gpu].used);
        sum += isnan(used) ? 0 : used;
    }
    return sum;
}

static bool is_marked(const struct csv *t, size_t row)
{
    return csv_text(t, row, 1)[0] != ',' && csv_text(t, row, 1)[0] != '\0';
}

/* Takes every marked row and, from each stretch, the row with the most memory in use, so that no peak
 * is lost. */
static int choose_rows(struct sources *s)
{
    const struct csv *t = &s->telemetry;
    size_t stretch = t->rows / CHART_ROWS_MAX + 1;
    s->rows = calloc(t->rows + 1, sizeof *s->rows);
    if (s->rows == NULL)
        return -ENOMEM;
    for (size_t from = 0; from < t->rows; from += stretch) {
        size_t to = from + stretch < t->rows ? from + stretch : t->rows;
        size_t best = from;
        double most = -1;
        for (size_t row = from; row < to; row++) {
            double used = all_used(s, row);
            if (used > most) {
                most = used;
                best = row;
            }
        }
        for (size_t row = from; row < to; row++) {
            if (row == best || is_marked(t, row))
                s->rows[s->row_count++] = row;
        }
    }
    return 0;
}

/* --- parts --- */

static double above_zero(double value)
{
    return isnan(value) ? 0 : fmax(value, 0);
}

/* NULL if the chart is full or memory is short. */
static double *add_part(const struct charts *c, struct chart *chart, enum chart_kind kind,
                        const char *label)
{
    if (chart->part_count == CHART_PARTS_MAX)
        return NULL;
    double *bytes = calloc(c->rows, sizeof *bytes);
    if (bytes == NULL)
        return NULL;
    struct chart_part *part = &chart->parts[chart->part_count++];
    *part = (struct chart_part){.kind = kind, .bytes = bytes};
    (void)snprintf(part->label, sizeof part->label, "%s", label);
    return bytes;
}

static struct chart *add_chart(struct charts *c)
{
    struct chart *chart = &c->charts[c->count];
    if (c->count == CHARTS_MAX)
        return NULL;
    *chart = (struct chart){.limit_bytes = NAN};
    c->count++;
    return chart;
}

static double largest(const struct sources *s, size_t column)
{
    double most = NAN;
    for (size_t i = 0; i < s->row_count; i++)
        most = fmax(most, csv_number(&s->telemetry, s->rows[i], column));
    return most;
}

static double add_known(double sum, double value)
{
    return isnan(value) ? sum : isnan(sum) ? value : sum + value;
}

/* The VRAM of a process on all GPUs. fmax() of a number and NAN is the number. */
static double process_vram(const struct sources *s, size_t row, size_t process)
{
    const struct process_columns *p = &s->processes[process];
    return fmax(csv_number(&s->telemetry, row, p->kfd_vram), csv_number(&s->telemetry, row, p->drm_vram));
}

static double process_peak(const struct sources *s, size_t process)
{
    double most = NAN;
    for (size_t i = 0; i < s->row_count; i++)
        most = fmax(most, process_vram(s, s->rows[i], process));
    return above_zero(most);
}

static double own_vram(const struct sources *s, size_t row)
{
    double kfd = NAN;
    double drm = NAN;
    for (size_t i = 0; i < s->process_count; i++) {
        kfd = add_known(kfd, csv_number(&s->telemetry, row, s->processes[i].kfd_vram));
        drm = add_known(drm, csv_number(&s->telemetry, row, s->processes[i].drm_vram));
    }
    return s->is_apu ? drm : fmax(kfd, drm);
}

static double own_rss(const struct sources *s, size_t row)
{
    double sum = NAN;
    for (size_t i = 0; i < s->process_count; i++)
        sum = add_known(sum, csv_number(&s->telemetry, row, s->processes[i].rss));
    return sum;
}

/* --- PyTorch's allocator: its last row before a time; times rise from call to call --- */

struct torch_cursor {
    const struct csv *table;
    unsigned device;
    size_t next, found;
    size_t allocated, reserved;
};

static struct torch_cursor torch_start(const struct csv *t, unsigned device)
{
    return (struct torch_cursor){t, device, 0, CSV_NONE, csv_column(t, "allocated_bytes"),
                                 csv_column(t, "reserved_bytes")};
}

static bool torch_at(struct torch_cursor *c, double time_s, double *live, double *idle)
{
    for (; c->next < c->table->rows && csv_number(c->table, c->next, 0) <= time_s; c->next++) {
        if (csv_number(c->table, c->next, 1) == c->device)
            c->found = c->next;
    }
    if (c->found == CSV_NONE)
        return false;
    *live = csv_number(c->table, c->found, c->allocated);
    *idle = csv_number(c->table, c->found, c->reserved) - *live;
    return !isnan(*live) && !isnan(*idle);
}

static bool has_torch(const struct csv *t, unsigned device)
{
    double live;
    double idle;
    struct torch_cursor cursor = torch_start(t, device);
    return torch_at(&cursor, INFINITY, &live, &idle);
}

/* --- the charts --- */

struct vram_parts {
    double *others, *rest, *own, *live, *idle;
};

static void fill_vram(const struct sources *s, const struct charts *c, unsigned gpu,
                      struct torch_cursor *torch, size_t i, const struct vram_parts *p)
{
    const struct csv *t = &s->telemetry;
    size_t row = s->rows[i];
    double used = csv_number(t, row, s->gpus[gpu].used);
    double others = above_zero(csv_number(t, row, s->gpus[gpu].others));
    double own = s->gpu_count == 1 ? own_vram(s, row) : used - others;
    double live = 0;
    double idle = 0;
    p->others[i] = p->own[i] = p->rest[i] = NAN;
    if (isnan(used))
        return;
    own = isnan(own) ? 0 : above_zero(fmin(own, used - others));
    /* After the program's end the allocator's last row is no longer valid. The driver's count of a
     * process may be seconds older than the allocator's. */
    bool known = p->live != NULL && own > 0 && torch_at(torch, c->time_s[i], &live, &idle);
    if (known)
        own = fmax(own, fmin(live + idle, used - others));
    p->rest[i] = above_zero(used - others - own);
    p->others[i] = others;
    if (known) {
        p->live[i] = fmin(live, own);
        p->idle[i] = fmin(idle, own - p->live[i]);
        own -= p->live[i] + p->idle[i];
    }
    p->own[i] = own;
}

static int vram_chart(struct charts *c, const struct sources *s, unsigned gpu)
{
    struct vram_parts p = {NULL, NULL, NULL, NULL, NULL};
    struct torch_cursor cursor = torch_start(&s->torch, gpu);
    bool torch = has_torch(&s->torch, gpu);
    struct chart *chart = add_chart(c);
    if (chart == NULL)
        return 0;
    (void)snprintf(chart->title, sizeof chart->title, "GPU %u VRAM", gpu);
    chart->limit_bytes = largest(s, s->gpus[gpu].total);
    p.others = add_part(c, chart, CHART_OTHERS, "other processes");
    p.rest = add_part(c, chart, CHART_UNKNOWN, "in use, holder not known");
    p.own = add_part(c, chart, CHART_OWN,
                     torch ? "this program, outside PyTorch's allocator" : "this program");
    if (torch) {
        p.live = add_part(c, chart, CHART_LIVE, "in use in PyTorch's allocator");
        p.idle = add_part(c, chart, CHART_IDLE, "idle in PyTorch's allocator");
    }
    if (p.others == NULL || p.own == NULL || p.rest == NULL ||
        (torch && (p.live == NULL || p.idle == NULL)))
        return -ENOMEM;
    for (size_t i = 0; i < c->rows; i++)
        fill_vram(s, c, gpu, &cursor, i, &p);
    return 0;
}

/* The process with the next lower peak; PROCESSES_MAX when no other process holds much. */
static size_t next_largest(const double *peaks, size_t count, const bool *taken)
{
    size_t best = PROCESSES_MAX;
    for (size_t i = 0; i < count; i++) {
        if (!taken[i] && peaks[i] > SMALL_BYTES && (best == PROCESSES_MAX || peaks[i] > peaks[best]))
            best = i;
    }
    return best;
}

/* GPU memory of each process, for a program with several, such as the ranks of a job. Shows the largest
 * ones; the rest is in the charts of the GPUs. */
static int processes_chart(struct charts *c, const struct sources *s)
{
    double peaks[PROCESSES_MAX] = {0};
    bool taken[PROCESSES_MAX] = {false};
    size_t chosen[CHART_PARTS_MAX];
    size_t count = 0;
    for (size_t i = 0; i < s->process_count; i++)
        peaks[i] = process_peak(s, i);
    for (; count < CHART_PARTS_MAX; count++) {
        chosen[count] = next_largest(peaks, s->process_count, taken);
        if (chosen[count] == PROCESSES_MAX)
            break;
        taken[chosen[count]] = true;
    }
    struct chart *chart = count > 1 ? add_chart(c) : NULL;
    if (chart == NULL)
        return 0;
    (void)snprintf(chart->title, sizeof chart->title, "GPU memory of this program's processes");
    for (size_t k = 0; k < count; k++) {
        char label[sizeof chart->parts[0].label];
        (void)snprintf(label, sizeof label, "process %ld", s->processes[chosen[k]].pid);
        double *bytes = add_part(c, chart, (enum chart_kind)((CHART_OWN + k) % CHART_KINDS), label);
        if (bytes == NULL)
            return -ENOMEM;
        for (size_t i = 0; i < c->rows; i++)
            bytes[i] = process_vram(s, s->rows[i], chosen[k]);
    }
    return 0;
}

/* A chart of one column, if it has a limit and is large enough. */
static int plain_chart(struct charts *c, const struct sources *s, const char *title,
                       const char *label, const char *used, const char *limit)
{
    size_t column = csv_column(&s->telemetry, used);
    double most = column != CSV_NONE ? largest(s, column) : NAN;
    size_t total = csv_column(&s->telemetry, limit);
    if (isnan(most) || most < SMALL_BYTES || total == CSV_NONE)
        return 0;
    struct chart *chart = add_chart(c);
    if (chart == NULL)
        return 0;
    (void)snprintf(chart->title, sizeof chart->title, "%s", title);
    chart->limit_bytes = largest(s, total);
    double *bytes = add_part(c, chart, CHART_OWN, label);
    if (bytes == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < c->rows; i++)
        bytes[i] = csv_number(&s->telemetry, s->rows[i], column);
    return 0;
}

static int gtt_chart(struct charts *c, const struct sources *s, unsigned gpu)
{
    char title[64];
    char used[64];
    char limit[64];
    (void)snprintf(title, sizeof title, "GPU %u GTT (the GPU's share of the host's memory)", gpu);
    (void)snprintf(used, sizeof used, "gpu.%u.gtt.used_bytes", gpu);
    (void)snprintf(limit, sizeof limit, "gpu.%u.gtt.total_bytes", gpu);
    return plain_chart(c, s, title, "in use", used, limit);
}

static int host_chart(struct charts *c, const struct sources *s)
{
    const struct csv *t = &s->telemetry;
    struct chart *chart = NULL;
    size_t total = csv_column(t, "host.mem_total_bytes");
    size_t available = csv_column(t, "host.mem_available_bytes");
    if (total == CSV_NONE || (chart = add_chart(c)) == NULL)
        return 0;
    (void)snprintf(chart->title, sizeof chart->title, "Host memory");
    chart->limit_bytes = largest(s, total);
    double *own = add_part(c, chart, CHART_OWN, "this program (RSS)");
    double *others = add_part(c, chart, CHART_OTHERS, "all others");
    if (own == NULL || others == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < c->rows; i++) {
        double used = csv_number(t, s->rows[i], total) - csv_number(t, s->rows[i], available);
        own[i] = fmin(above_zero(own_rss(s, s->rows[i])), above_zero(used));
        others[i] = isnan(used) ? NAN : above_zero(used - own[i]);
    }
    return 0;
}

static void add_marks(struct charts *c, const struct sources *s)
{
    static const struct {
        const char *flag, *label;
    } marks[] = {{"impact", "failure"}, {"after", "after the end"}};
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        for (size_t k = 0; k < c->rows && c->mark_count < CHART_MARKS_MAX; k++) {
            const char *flags = csv_text(&s->telemetry, s->rows[k], 1);
            size_t len = strcspn(flags, ",\n"); /* the table goes on behind it */
            if (memmem(flags, len, marks[i].flag, strlen(marks[i].flag)) == NULL)
                continue;
            c->marks[c->mark_count++] = (struct chart_mark){c->time_s[k], marks[i].label};
            break;
        }
    }
}

static int make(struct charts *c, const struct sources *s)
{
    c->rows = s->row_count;
    c->time_s = calloc(c->rows + 1, sizeof *c->time_s);
    if (c->time_s == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < c->rows; i++)
        c->time_s[i] = csv_number(&s->telemetry, s->rows[i], 0);
    int r = 0;
    for (unsigned gpu = 0; gpu < s->gpu_count && r == 0; gpu++)
        r = vram_chart(c, s, gpu);
    for (unsigned gpu = 0; gpu < s->gpu_count && r == 0; gpu++)
        r = gtt_chart(c, s, gpu);
    if (r == 0)
        r = processes_chart(c, s);
    if (r == 0)
        r = host_chart(c, s);
    if (r == 0)
        r = plain_chart(c, s, "Memory of the control group", "in use", "host.cgroup_used_bytes",
                        "host.cgroup_limit_bytes");
    add_marks(c, s);
    return r;
}

int charts_read(struct charts *ret, const char *telemetry, const char *torch, bool is_apu)
{
    RC_AUTO_FREE struct sources *s = calloc(1, sizeof *s);
    *ret = (struct charts){.rows = 0};
    if (s == NULL)
        return -ENOMEM;
    s->is_apu = is_apu;
    int r = csv_read(&s->telemetry, telemetry != NULL ? telemetry : "");
    if (r == 0)
        r = csv_read(&s->torch, torch != NULL ? torch : "");
    find_gpus(s);
    find_processes(s);
    if (r == 0 && s->telemetry.rows > 0)
        r = choose_rows(s);
    if (r == 0 && s->row_count > 0)
        r = make(ret, s);
    free(s->rows);
    csv_release(&s->telemetry);
    csv_release(&s->torch);
    return r;
}

void charts_release(struct charts *c)
{
    for (size_t i = 0; i < c->count; i++) {
        for (size_t k = 0; k < c->charts[i].part_count; k++)
            free(c->charts[i].parts[k].bytes);
    }
    free(c->time_s);
    *c = (struct charts){.rows = 0};
}
