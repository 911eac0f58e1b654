/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory over time, stacked by holder. Made only from the tables of the bundle, so it can be made
 * again from the bundle. Pure.
 *
 * Parts were sampled one after the other, microseconds to seconds apart. A part that would be
 * negative for that reason is 0. NAN = not sampled.
 */
#ifndef REPORT_CHART_H
#define REPORT_CHART_H

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct cJSON;
struct report_style;

#define CHART_PARTS_MAX 6
#define CHARTS_MAX 35 /* VRAM and GTT of 16 GPUs, the program's processes, the host, the control group */
#define CHART_MARKS_MAX 16
#define CHART_ROWS_MAX 800

/* The owner of the memory. Each has the same colour in every chart. */
enum chart_kind { CHART_OTHERS, CHART_UNKNOWN, CHART_OWN, CHART_LIVE, CHART_IDLE, CHART_KINDS };

struct chart_part {
    enum chart_kind kind;
    char label[48]; /* "in use in PyTorch's allocator" */
    double *bytes;     /* a value for each row */
};

struct chart {
    char title[96]; /* "GPU 0 VRAM" */
    double limit_bytes; /* NAN = not known */
    size_t part_count;
    struct chart_part parts[CHART_PARTS_MAX]; /* the lowest first */
};

struct chart_mark {
    double time_s;
    const char *label; /* "failure" */
};

struct charts {
    size_t rows;
    double *time_s; /* since the start of the run */
    size_t count;
    struct chart charts[CHARTS_MAX];
    size_t mark_count;
    struct chart_mark marks[CHART_MARKS_MAX];
};

/* Makes the charts from telemetry/telemetry.csv and telemetry/torch-stats.csv (either may be NULL). `is_apu`:
 * KFD's figure for a process includes its GTT, so it is not used as its VRAM. *ret has no rows if there is
 * nothing to draw. 0 or -ENOMEM; the caller releases *ret in both cases. */
int charts_read(struct charts *ret, const char *telemetry, const char *torch, bool is_apu);
void charts_release(struct charts *charts);
/* The same for a bundle. PyTorch's table is left out if it is not known which GPU its device 0 is.
 * `facts`: facts.json, or NULL. */
int charts_of_bundle(struct charts *ret, const struct cJSON *facts, const char *telemetry,
                     const char *torch);

/* JSON: {"time_s": [...], "marks": [...], "charts": [{"title","limit_mib","parts":[{"label","kind","mib"}]}]} */
void charts_to_json(const struct charts *charts, struct buf *out);
/* One chart as <svg>, for readers without scripts. */
void chart_to_svg(const struct charts *charts, const struct chart *chart, struct buf *out);

/* Draws up to `charts_max` charts that change over the run, as text. Returns their number. */
size_t charts_to_terminal(const struct charts *charts, size_t charts_max,
                          const struct report_style *style, struct buf *out);

#endif
