/* SPDX-License-Identifier: Apache-2.0 */
/* Memory per GPU and process at baseline, peak, impact and after; sparklines. */
#include "report/internal.h"

#include "base/buf.h"
#include "diagnose/fact.h"
#include "diagnose/tree.h"
#include "report/report.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define GPUS_MAX 64
#define SPARK_COLUMNS 60
/* A sparkline whose values differ by a smaller share of the total is not drawn: the table tells more. */
#define DRAWN_FROM_PERCENT 1

static const struct fact *present(const struct facts *facts, const char *name, enum fact_when when)
{
    const struct fact *f = facts_find(facts, name, when);
    return f != NULL && f->status == FACT_PRESENT ? f : NULL;
}

static void cell(struct buf *out, const struct fact *f)
{
    char value[64];
    if (f == NULL) {
        buf_puts(out, " – |");
        return;
    }
    fact_format(f, value, sizeof(value));
    buf_putc(out, ' ');
    escape_markdown(out, value, 60);
    buf_puts(out, " |");
}

/* The cells of the four moments; false when no value is known. */
static bool moment_cells(const struct facts *facts, const char *used, struct buf *cells,
                         const char **ret_source)
{
    static const enum fact_when moments[] = {FACT_BASELINE, FACT_PEAK, FACT_IMPACT, FACT_AFTER};
    const struct fact *any = NULL;
    for (size_t i = 0; i < 4; i++) {
        const struct fact *f = present(facts, used, moments[i]);
        cell(cells, f);
        if (f != NULL)
            any = f;
    }
    *ret_source = any != NULL && any->source != NULL ? any->source : "";
    return any != NULL;
}

static void write_row(const char *label, const struct fact *whole, const struct buf *cells,
                      const char *source, struct buf *out)
{
    buf_puts(out, "| ");
    escape_markdown(out, label, 100);
    buf_puts(out, " |");
    cell(out, whole != NULL && whole->status == FACT_PRESENT ? whole : NULL);
    buf_append(out, buf_str(cells), cells->len);
    buf_putc(out, ' ');
    escape_markdown(out, source, 90);
    buf_puts(out, " |\n");
}

/* One row, or nothing when none of its values is known. */
static void memory_row(const struct facts *facts, const char *label, const char *used,
                       const char *total, struct buf *out)
{
    struct buf cells = BUF_INIT;
    const char *source;
    if (moment_cells(facts, used, &cells, &source))
        write_row(label, total != NULL ? facts_best(facts, total) : NULL, &cells, source, out);
    buf_release(&cells);
}

/* Memory that is free: its low point tells how scarce it was, and stands in the column of the peaks. */
static void left_row(const struct facts *facts, const char *label, const char *left, const char *lowest,
                     const char *total, struct buf *out)
{
    struct buf cells = BUF_INIT;
    char low[64] = "";
    const struct fact *f = present(facts, lowest, FACT_PEAK);
    const struct fact *now = facts_best(facts, left);
    if (f != NULL)
        fact_format(f, low, sizeof(low));
    cell(&cells, present(facts, left, FACT_BASELINE));
    buf_printf(&cells, f != NULL ? " lowest %s |" : " – |", low);
    cell(&cells, present(facts, left, FACT_IMPACT));
    cell(&cells, present(facts, left, FACT_AFTER));
    if (f != NULL || facts_is_present(facts, left))
        write_row(label, facts_best(facts, total), &cells, now != NULL && now->source != NULL ? now->source : "", out);
    buf_release(&cells);
}

struct counter {
    const char *by;
    const char *used;
};

/* Up to three counters of the same quantity: counters that agree share a row. If they differ, the
 * reader should see it. */
static void counted_rows(const struct facts *facts, const char *what,
                         const struct counter *counters, size_t count, struct buf *out)
{
    struct buf cells[3] = {BUF_INIT, BUF_INIT, BUF_INIT};
    const char *sources[3];
    bool open[3];
    for (size_t i = 0; i < count; i++)
        open[i] = moment_cells(facts, counters[i].used, &cells[i], &sources[i]);
    for (size_t i = 0; i < count; i++) {
        char label[120];
        if (!open[i])
            continue;
        (void)snprintf(label, sizeof(label), "%s by %s", what, counters[i].by);
        for (size_t k = i + 1; k < count; k++) {
            if (!open[k] || strcmp(buf_str(&cells[i]), buf_str(&cells[k])) != 0)
                continue;
            (void)snprintf(label + strlen(label), sizeof(label) - strlen(label), ", %s",
                           counters[k].by);
            open[k] = false;
        }
        write_row(label, NULL, &cells[i], sources[i], out);
    }
    for (size_t i = 0; i < count; i++)
        buf_release(&cells[i]);
}

/* With a large BAR the CPU sees all of VRAM: the row would repeat VRAM's. */
static bool repeats_vram(const struct facts *facts, int gpu, const char *total)
{
    char vram[64];
    int64_t all = 0;
    int64_t visible = 0;
    (void)snprintf(vram, sizeof(vram), "gpu.%d.vram.total_bytes", gpu);
    return strstr(total, "vram_visible") != NULL && facts_get_integer(facts, vram, &all) &&
           facts_get_integer(facts, total, &visible) && visible >= all;
}

/* True for the GPU that refused memory, if the machine has several. */
static bool has_refused(const struct facts *facts, int gpu)
{
    int64_t count = 0;
    int64_t about = -1;
    int64_t device = -1;
    return facts_get_integer(facts, "gpu.count", &count) && count > 1 &&
           facts_get_integer(facts, "f.gpu", &about) && about == gpu &&
           (facts_get_integer(facts, "oom.device", &device) ||
            facts_get_integer(facts, "ledger.refused.gpu", &device));
}

static void gpu_rows(const struct facts *facts, int gpu, struct buf *out)
{
    static const struct {
        const char *what;
        const char *used;
        const char *total;
    } rows[] = {
        {"VRAM", "vram.used_bytes", "vram.total_bytes"},
        {"GTT", "gtt.used_bytes", "gtt.total_bytes"},
        {"VRAM visible to the CPU", "vram_visible.used_bytes", "vram_visible.total_bytes"},
    };
    char pci_name[48];
    const char *pci = NULL;
    const char *where = has_refused(facts, gpu) ? ", where memory was refused:" : "";
    (void)snprintf(pci_name, sizeof(pci_name), "gpu.%d.pci", gpu);
    for (size_t i = 0; i < 3; i++) {
        char used[64];
        char total[64];
        char label[120];
        (void)snprintf(used, sizeof(used), "gpu.%d.%s", gpu, rows[i].used);
        (void)snprintf(total, sizeof(total), "gpu.%d.%s", gpu, rows[i].total);
        if (repeats_vram(facts, gpu, total))
            continue;
        if (facts_get_text(facts, pci_name, &pci))
            (void)snprintf(label, sizeof(label), "GPU %d (%.40s)%s %s", gpu, pci, where,
                           rows[i].what);
        else
            (void)snprintf(label, sizeof(label), "GPU %d%s %s", gpu, where, rows[i].what);
        where = "";
        memory_row(facts, label, used, total, out);
    }
}

/* Was the value above 0 at any moment? */
static bool was_ever(const struct facts *facts, const char *name)
{
    static const enum fact_when moments[] = {FACT_BASELINE, FACT_PEAK, FACT_IMPACT, FACT_AFTER};
    bool any = false;
    for (size_t i = 0; i < sizeof(moments) / sizeof(moments[0]); i++) {
        const struct fact *f = present(facts, name, moments[i]);
        any = any || (f != NULL && f->integer > 0);
    }
    return any;
}

static bool is_by_nvml(const struct facts *facts)
{
    const struct fact *f = facts_best(facts, "proc.0.kfd_vram_bytes");
    return f != NULL && f->source != NULL && strncmp(f->source, "NVML", 4) == 0;
}

/* Since Linux 6.10 KFD counts an APU's GTT as VRAM: more than the carve-out holds. */
static bool counts_gtt(const struct facts *facts)
{
    double held = 0, total = 0, is_apu = 0;
    return facts_get_number(facts, "f.is_apu", &is_apu) && is_apu != 0 && facts_get_number(facts, "proc.0.kfd_vram_bytes", &held) &&
           facts_get_number(facts, "f.vram_total_bytes", &total) && held > total;
}

const char *report_impact_words(const struct facts *facts)
{
    const struct fact *alive = facts_best(facts, "run.snapshot");
    return alive != NULL && alive->status == FACT_PRESENT ? "at the snapshot" : "at the failure";
}

/* "failed process, RSS"; for a live process only "process, RSS". */
static const char *label(const struct facts *facts, const char *words)
{
    bool alive = strcmp(report_impact_words(facts), "at the snapshot") == 0;
    return alive ? words + strlen("failed ") : words;
}

void report_memory_table(const struct facts *facts, struct buf *out)
{
    struct counter vram[] = {{"KFD", "proc.0.kfd_vram_bytes"},
                                          {"DRM", "proc.0.drm_vram_bytes"},
                                          {"the ledger", "ledger.vram.live_bytes"}};
    static const struct counter gtt[] = {{"DRM", "proc.0.drm_gtt_bytes"},
                                         {"the ledger", "ledger.gtt.live_bytes"}};
    struct buf rows = BUF_INIT;
    vram[0].by = is_by_nvml(facts) ? "NVML" : counts_gtt(facts) ? "KFD, which counts GTT as VRAM on an APU" : "KFD";
    for (int gpu = 0; gpu < GPUS_MAX; gpu++)
        gpu_rows(facts, gpu, &rows);
    counted_rows(facts, label(facts, "failed process, VRAM"), vram, sizeof(vram) / sizeof(vram[0]), &rows);
    counted_rows(facts, label(facts, "failed process, GTT"), gtt, sizeof(gtt) / sizeof(gtt[0]), &rows);
    memory_row(facts, "failed process, pinned for the GPU, by the ledger",
               "ledger.userptr.live_bytes", NULL, &rows);
    memory_row(facts, "PyTorch, allocated", "torch.allocated_bytes", "torch.device_total_bytes",
               &rows);
    memory_row(facts, "PyTorch, reserved", "torch.reserved_bytes", "torch.device_total_bytes",
               &rows);
    memory_row(facts, "JAX, in use of its pool", "jax.in_use_bytes", "jax.limit_bytes", &rows);
    memory_row(facts, "TensorFlow, in use", "tensorflow.in_use_bytes", "msg.tensorflow_pool_bytes",
               &rows);
    memory_row(facts, label(facts, "failed process, RSS"), "proc.0.rss_bytes", NULL, &rows);
    if (was_ever(facts, "proc.0.pinned_bytes")) /* nearly all programs have 0 */
        memory_row(facts, label(facts, "failed process, VmPin"), "proc.0.pinned_bytes", NULL, &rows);
    memory_row(facts, "other processes, VRAM", "others.vram_bytes", NULL, &rows);
    left_row(facts, "host, available", "host.mem_available_bytes", "host.mem_available_lowest_bytes",
             "host.mem_total_bytes", &rows);
    memory_row(facts, present(facts, "host.cgroup_used_bytes", FACT_AFTER) != NULL
                          ? "cgroup, used (after: with rocmcrash, which makes the bundle)" : "cgroup, used",
               "host.cgroup_used_bytes", "host.cgroup_limit_bytes", &rows);
    if (rows.len > 0) {
        buf_printf(out, "| memory | total | before | peak | %s | 1 s after | source |\n"
                        "|---|---|---|---|---|---|---|\n",
                   report_impact_words(facts));
        buf_append(out, buf_str(&rows), rows.len);
    }
    buf_release(&rows);
}

static uint64_t column_peak(const struct report_series *s, size_t column, size_t columns)
{
    uint64_t peak = UINT64_MAX;
    for (size_t i = column * s->count / columns; i < (column + 1) * s->count / columns; i++) {
        if (s->values[i] != UINT64_MAX && (peak == UINT64_MAX || s->values[i] > peak))
            peak = s->values[i];
    }
    return peak;
}

static uint64_t largest_of(const struct report_series *s)
{
    uint64_t largest = 0;
    for (size_t i = 0; i < s->count; i++) {
        if (s->values[i] != UINT64_MAX && s->values[i] > largest)
            largest = s->values[i];
    }
    return largest;
}

static void sparkline(const struct report_series *s, struct buf *out)
{
    static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    size_t columns = s->count < SPARK_COLUMNS ? s->count : SPARK_COLUMNS;
    uint64_t top = s->total_bytes;
    uint64_t largest = largest_of(s);
    if (top < largest || top == 0)
        top = largest > 0 ? largest : 1;
    for (size_t c = 0; c < columns; c++) {
        uint64_t v = column_peak(s, c, columns);
        if (v == UINT64_MAX)
            buf_puts(out, "·");
        else
            buf_puts(out, blocks[(size_t)((double)v / (double)top * 7.0 + 0.5)]);
    }
    buf_printf(out, " peak %.2f of %.2f GiB%s, %.1f s  ", (double)largest / 1073741824.0,
               (double)top / 1073741824.0, s->total_bytes == 0 ? " (scaled to the peak)" : "",
               (double)s->duration_ms / 1000.0);
    escape_code(out, s->label != NULL ? s->label : "", 80);
    buf_putc(out, '\n');
}

static bool is_worth_drawing(const struct report_series *s)
{
    uint64_t smallest = UINT64_MAX;
    for (size_t i = 0; i < s->count; i++)
        smallest = s->values[i] < smallest ? s->values[i] : smallest;
    return smallest != UINT64_MAX &&
           largest_of(s) - smallest > s->total_bytes / 100 * DRAWN_FROM_PERCENT;
}

void report_sparklines(const struct report_input *in, struct buf *out)
{
    for (size_t i = 0; i < in->series_count; i++) {
        if (is_worth_drawing(&in->series[i]))
            sparkline(&in->series[i], out);
    }
}
