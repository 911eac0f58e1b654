/* SPDX-License-Identifier: Apache-2.0 */
/* The charts as JSON for the page's script, and as a drawing for readers without scripts. Titles and
 * labels are our own words: nothing in them needs escaping. */
#include "report/chart.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

#define MIB (1024.0 * 1024.0)
#define SVG_WIDTH 760.0
#define SVG_HEIGHT 190.0
#define SVG_LEFT 8.0   /* of the drawing */
#define SVG_TOP 22.0   /* room for the limit's label */
#define SVG_POINTS 240 /* more cannot be seen */

/* --- JSON --- */

static void number_or_null(double value, int digits, struct buf *out)
{
    if (isfinite(value))
        buf_printf(out, "%.*f", digits, value);
    else
        buf_puts(out, "null");
}

static void numbers(const double *values, size_t count, double unit, int digits, struct buf *out)
{
    buf_putc(out, '[');
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            buf_putc(out, ',');
        number_or_null(values[i] / unit, digits, out);
    }
    buf_putc(out, ']');
}

static void chart_to_json(const struct chart *chart, size_t rows, struct buf *out)
{
    buf_printf(out, "{\"title\":\"%s\",\"limit_mib\":", chart->title);
    number_or_null(chart->limit_bytes / MIB, 1, out);
    buf_puts(out, ",\"parts\":[");
    for (size_t i = 0; i < chart->part_count; i++) {
        buf_printf(out, "%s{\"label\":\"%s\",\"kind\":%d,\"mib\":", i > 0 ? "," : "",
                   chart->parts[i].label, (int)chart->parts[i].kind);
        numbers(chart->parts[i].bytes, rows, MIB, 1, out);
        buf_putc(out, '}');
    }
    buf_puts(out, "]}");
}

void charts_to_json(const struct charts *charts, struct buf *out)
{
    buf_puts(out, "{\"time_s\":");
    numbers(charts->time_s, charts->rows, 1, 3, out);
    buf_puts(out, ",\"marks\":[");
    for (size_t i = 0; i < charts->mark_count; i++) {
        buf_printf(out, "%s{\"time_s\":%.3f,\"label\":\"%s\"}", i > 0 ? "," : "",
                   charts->marks[i].time_s, charts->marks[i].label);
    }
    buf_puts(out, "],\"charts\":[");
    for (size_t i = 0; i < charts->count; i++) {
        if (i > 0)
            buf_putc(out, ',');
        chart_to_json(&charts->charts[i], charts->rows, out);
    }
    buf_puts(out, "]}");
}

/* --- SVG --- */

struct frame {
    const struct charts *charts;
    const struct chart *chart;
    double top_bytes; /* steps of the vertical axis */
    double from_s, to_s;
};

static double sum_to(const struct chart *chart, size_t part, size_t row)
{
    double sum = 0;
    for (size_t i = 0; i <= part && i < chart->part_count; i++)
        sum += isnan(chart->parts[i].bytes[row]) ? 0 : chart->parts[i].bytes[row];
    return sum;
}

static struct frame frame_of(const struct charts *charts, const struct chart *chart)
{
    struct frame f = {charts, chart, isnan(chart->limit_bytes) ? 0 : chart->limit_bytes,
                      charts->time_s[0], charts->time_s[charts->rows - 1]};
    for (size_t row = 0; row < charts->rows; row++)
        f.top_bytes = fmax(f.top_bytes, sum_to(chart, CHART_PARTS_MAX, row));
    return f;
}

static double x_of(const struct frame *f, double time_s)
{
    double share = f->to_s > f->from_s ? (time_s - f->from_s) / (f->to_s - f->from_s) : 0;
    return SVG_LEFT + share * (SVG_WIDTH - 2 * SVG_LEFT);
}

static double y_of(const struct frame *f, double bytes)
{
    return SVG_HEIGHT - (f->top_bytes > 0 ? bytes / f->top_bytes : 0) * (SVG_HEIGHT - SVG_TOP);
}

/* The area from the ground up: the part above was drawn before it. */
static void area(const struct frame *f, size_t part, struct buf *out)
{
    size_t rows = f->charts->rows;
    size_t stride = rows / SVG_POINTS + 1;
    buf_printf(out, "<path class=\"part part%d\" d=\"M%.1f %.1f", (int)f->chart->parts[part].kind, x_of(f, f->from_s),
               SVG_HEIGHT);
    for (size_t row = 0; row < rows; row += stride) {
        double most = 0;
        for (size_t i = row; i < row + stride && i < rows; i++)
            most = fmax(most, sum_to(f->chart, part, i));
        buf_printf(out, "L%.1f %.1f", x_of(f, f->charts->time_s[row]), y_of(f, most));
    }
    buf_printf(out, "L%.1f %.1fZ\"/>", x_of(f, f->to_s), SVG_HEIGHT);
}

static void limit_line(const struct frame *f, struct buf *out)
{
    double y = y_of(f, f->chart->limit_bytes);
    if (isnan(f->chart->limit_bytes))
        return;
    buf_printf(out, "<path class=\"limit\" d=\"M%.1f %.1fH%.1f\"/><text x=\"%.1f\" y=\"%.1f\">%.2f GiB"
                    "</text>",
               SVG_LEFT, y, SVG_WIDTH - SVG_LEFT, SVG_LEFT, y - 6, f->chart->limit_bytes / MIB / 1024);
}

static void marks(const struct frame *f, struct buf *out)
{
    for (size_t i = 0; i < f->charts->mark_count; i++) {
        double x = x_of(f, f->charts->marks[i].time_s);
        bool is_right = x > SVG_WIDTH / 2;
        buf_printf(out, "<path class=\"mark\" d=\"M%.1f %.1fV%.1f\"/><text class=\"%s\" x=\"%.1f\" "
                        "y=\"%.1f\">%s</text>",
                   x, SVG_TOP, SVG_HEIGHT, is_right ? "right" : "left", x + (is_right ? -4 : 4),
                   SVG_TOP + 14 * (double)(i + 1), f->charts->marks[i].label);
    }
}

void chart_to_svg(const struct charts *charts, const struct chart *chart, struct buf *out)
{
    if (charts->rows == 0)
        return;
    struct frame f = frame_of(charts, chart);
    buf_printf(out, "<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"%s over the run\">",
               SVG_WIDTH, SVG_HEIGHT + 2, chart->title);
    for (size_t part = chart->part_count; part-- > 0;)
        area(&f, part, out);
    limit_line(&f, out);
    marks(&f, out);
    buf_puts(out, "</svg>");
}
