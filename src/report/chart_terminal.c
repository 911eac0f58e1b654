/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The charts for a terminal. With UTF-8 a cell of text holds 2 x 4 dots of braille (U+2800 and the
 * bits of the dots). Without it a cell is one letter, as in the bar of the account. Titles and labels
 * are our own words.
 */
#include "report/chart.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "report/report.h"

#define GIB (1024.0 * 1024.0 * 1024.0)
#define LABEL_COLUMNS 11u /* "140.40 GiB " */
#define TAKEN_COLUMNS (LABEL_COLUMNS + 4u) /* label, axis, the indent of a block, one blank column */
#define CELLS_MAX 100u
#define CELLS_MIN 20u
#define COLUMNS_WITHOUT_TERMINAL 80u
#define ROWS 6u
#define DOTS_ACROSS 2u
#define DOTS_UP 4u
#define CHANGE_MIN 0.02   /* a chart that changes by a smaller share of its limit is not drawn */
#define SHARE_MIN 0.25    /* the peak's share of the limit from which a chart is worth drawing */
#define LIMIT_SHOWN_MAX 5 /* a limit of more than 5 times the peak would flatten the drawing */
#define PLAIN "\x1b[0m"

/* Each holder has the same dot pattern, letter and colour in every chart. The patterns differ, so
 * that parts can be told apart without colours. */
static const struct look {
    unsigned dots;
    char letter;
    const char *colour;
} looks[] = {
    [CHART_OTHERS] = {0xd2, 'o', "\x1b[33m"},  [CHART_UNKNOWN] = {0x42, '?', "\x1b[90m"},
    [CHART_OWN] = {0x6a, 'c', "\x1b[34m"},     [CHART_LIVE] = {0xff, 'U', "\x1b[36m"},
    [CHART_IDLE] = {0x47, '-', "\x1b[35m"},
};

struct canvas {
    const struct charts *charts;
    const struct chart *chart;
    const struct report_style *style;
    unsigned across, up; /* width and height in dots; without UTF-8 in cells */
    size_t *row_of;      /* the row of the table that each column of dots shows */
    double top_bytes;
};

static double sum_of(const struct chart *chart, size_t parts, size_t row)
{
    double sum = 0;
    for (size_t i = 0; i < parts && i < chart->part_count; i++)
        sum += isnan(chart->parts[i].bytes[row]) ? 0 : chart->parts[i].bytes[row];
    return sum;
}

static void range_of(const struct charts *charts, const struct chart *chart, double *ret_low,
                     double *ret_high)
{
    *ret_low = INFINITY;
    *ret_high = 0;
    for (size_t row = 0; row < charts->rows; row++) {
        double sum = sum_of(chart, chart->part_count, row);
        *ret_low = fmin(*ret_low, sum);
        *ret_high = fmax(*ret_high, sum);
    }
}

/* A chart that hardly changes is not drawn. A chart that stays far below its limit is drawn only if
 * no chart was drawn before it. */
static bool is_worth_drawing(const struct charts *charts, const struct chart *chart, bool is_first)
{
    double low = 0;
    double high = 0;
    range_of(charts, chart, &low, &high);
    double scale = isnan(chart->limit_bytes) ? high : chart->limit_bytes;
    return charts->rows > 1 && high > 0 && high - low > scale * CHANGE_MIN &&
           (is_first || high > scale * SHARE_MIN);
}

static unsigned column_of(const struct canvas *c, double time_s)
{
    double from = c->charts->time_s[0];
    double to = c->charts->time_s[c->charts->rows - 1];
    double share = to > from ? (time_s - from) / (to - from) : 0;
    return (unsigned)(fmin(fmax(share, 0), 1) * (c->across - 1) + 0.5);
}

/* Several rows may fall on one column. The one with most memory is drawn, so that no peak is lost. A
 * column without a row repeats the one before it. */
static void choose_rows(struct canvas *c)
{
    for (unsigned x = 0; x < c->across; x++)
        c->row_of[x] = SIZE_MAX;
    for (size_t row = 0; row < c->charts->rows; row++) {
        size_t *chosen = &c->row_of[column_of(c, c->charts->time_s[row])];
        if (*chosen == SIZE_MAX || sum_of(c->chart, SIZE_MAX, row) > sum_of(c->chart, SIZE_MAX, *chosen))
            *chosen = row;
    }
    for (unsigned x = 1; x < c->across; x++)
        c->row_of[x] = c->row_of[x] == SIZE_MAX ? c->row_of[x - 1] : c->row_of[x];
}

static unsigned height_of(const struct canvas *c, size_t parts, size_t row)
{
    double share = sum_of(c->chart, parts, row) / c->top_bytes;
    return (unsigned)(fmin(share, 1) * c->up + 0.5);
}

/* The part at height `y`; NULL = none. */
static const struct look *look_at(const struct canvas *c, unsigned x, unsigned y)
{
    size_t row = c->row_of[x];
    for (size_t part = 0; part < c->chart->part_count; part++) {
        if (y < height_of(c, part + 1, row))
            return &looks[c->chart->parts[part].kind];
    }
    return NULL;
}

static void put_coloured(const struct canvas *c, const struct look *look, const char *text,
                         struct buf *out)
{
    bool coloured = c->style->colour && look != NULL;
    buf_puts(out, coloured ? look->colour : "");
    buf_puts(out, text);
    buf_puts(out, coloured ? PLAIN : "");
}

static void put_letter(const struct canvas *c, unsigned x, unsigned y, struct buf *out)
{
    const struct look *look = look_at(c, x, y);
    char text[2] = {look != NULL ? look->letter : ' ', '\0'};
    put_coloured(c, look, text, out);
}

static void put_cell(const struct canvas *c, const struct look *look, unsigned dots, struct buf *out)
{
    const char utf8[] = {(char)0xe2, (char)(0xa0 | (dots >> 6)), (char)(0x80 | (dots & 0x3f)), '\0'};
    put_coloured(c, look, dots != 0 ? utf8 : " ", out);
}

/* A cell has the colour of the highest part in it. The upper edge is always drawn: a part may be
 * thinner than the pattern of its dots. */
static void put_braille(const struct canvas *c, unsigned left, unsigned bottom, struct buf *out)
{
    static const unsigned char bits[DOTS_ACROSS][DOTS_UP] = {{0x40, 0x04, 0x02, 0x01},
                                                             {0x80, 0x20, 0x10, 0x08}};
    const struct look *top = NULL;
    unsigned dots = 0;
    for (unsigned y = 0; y < DOTS_UP; y++) {
        for (unsigned x = 0; x < DOTS_ACROSS; x++) {
            const struct look *look = look_at(c, left + x, bottom + y);
            bool is_edge = look != NULL && look_at(c, left + x, bottom + y + 1) == NULL;
            top = look != NULL ? look : top;
            if (look != NULL)
                dots |= is_edge ? bits[x][y] : bits[x][y] & look->dots;
        }
    }
    put_cell(c, top, dots, out);
}

static void put_row(const struct canvas *c, unsigned row, struct buf *out)
{
    char label[LABEL_COLUMNS + 1] = "";
    if (row == 0)
        (void)snprintf(label, sizeof label, "%.2f GiB", c->top_bytes / GIB);
    else if (row == ROWS - 1)
        (void)snprintf(label, sizeof label, "0");
    buf_printf(out, "%*s %s", (int)LABEL_COLUMNS - 1, label, c->style->utf8 ? "│" : "|");
    unsigned bottom = ROWS - 1 - row;
    struct buf cells = BUF_INIT;
    for (unsigned x = 0; c->style->utf8 && x < c->across; x += DOTS_ACROSS)
        put_braille(c, x, bottom * DOTS_UP, &cells);
    for (unsigned x = 0; !c->style->utf8 && x < c->across; x++)
        put_letter(c, x, bottom, &cells);
    size_t len = cells.len;
    while (len > 0 && cells.data[len - 1] == ' ')
        len--;
    buf_append(out, buf_str(&cells), len);
    buf_putc(out, '\n');
    buf_release(&cells);
}

static unsigned cells_of(const struct report_style *style)
{
    unsigned columns = style->columns > 0 ? style->columns : COLUMNS_WITHOUT_TERMINAL;
    unsigned cells = columns - TAKEN_COLUMNS;
    return cells > CELLS_MAX ? CELLS_MAX : cells;
}

static void put_title(const struct canvas *c, struct buf *out)
{
    double low = 0;
    double high = 0;
    range_of(c->charts, c->chart, &low, &high);
    buf_printf(out, "%s: peak %.2f GiB", c->chart->title, high / GIB);
    if (!isnan(c->chart->limit_bytes))
        buf_printf(out, ", limit %.2f GiB%s", c->chart->limit_bytes / GIB,
                   c->chart->limit_bytes > c->top_bytes ? " (above the drawing)" : "");
    buf_putc(out, '\n');
}

/* Below the drawing: the time axis and the marks. */
static void put_axis(const struct canvas *c, unsigned cells, struct buf *out)
{
    char from[32];
    char to[32];
    (void)snprintf(from, sizeof from, "%.1f s", c->charts->time_s[0]);
    (void)snprintf(to, sizeof to, "%.1f s", c->charts->time_s[c->charts->rows - 1]);
    buf_printf(out, "%*s %s%*s\n", (int)LABEL_COLUMNS, "", from, (int)(cells - strlen(from)), to);
    for (size_t i = 0; i < c->charts->mark_count; i++) {
        const char *label = c->charts->marks[i].label;
        unsigned per_cell = c->across / cells;
        unsigned cell = column_of(c, c->charts->marks[i].time_s) / per_cell;
        bool is_left = strlen(label) < cell;
        buf_printf(out, "%*s %*s%s%s%s\n", (int)LABEL_COLUMNS, "",
                   (int)(is_left ? cell - strlen(label) - 1 : cell), "", is_left ? label : "^",
                   " ", is_left ? "^" : label);
    }
}

static void put_legend(const struct canvas *c, struct buf *out)
{
    for (size_t i = 0; i < c->chart->part_count; i++) {
        const struct look *look = &looks[c->chart->parts[i].kind];
        char letter[2] = {look->letter, '\0'};
        buf_printf(out, "%*s ", (int)LABEL_COLUMNS, "");
        if (c->style->utf8)
            put_cell(c, look, look->dots, out);
        else
            put_coloured(c, look, letter, out);
        buf_printf(out, " %s\n", c->chart->parts[i].label);
    }
}

static void draw(const struct charts *charts, const struct chart *chart,
                 const struct report_style *style, struct buf *out)
{
    double low = 0;
    unsigned cells = cells_of(style);
    struct canvas c = {.charts = charts,
                       .chart = chart,
                       .style = style,
                       .across = style->utf8 ? cells * DOTS_ACROSS : cells,
                       .up = style->utf8 ? ROWS * DOTS_UP : ROWS};
    range_of(charts, chart, &low, &c.top_bytes);
    if (!isnan(chart->limit_bytes) && chart->limit_bytes <= c.top_bytes * LIMIT_SHOWN_MAX)
        c.top_bytes = fmax(c.top_bytes, chart->limit_bytes);
    RC_AUTO_FREE size_t *row_of = calloc(c.across, sizeof *row_of);
    c.row_of = row_of;
    if (row_of == NULL)
        return;
    choose_rows(&c);
    put_title(&c, out);
    for (unsigned row = 0; row < ROWS; row++)
        put_row(&c, row, out);
    put_axis(&c, cells, out);
    put_legend(&c, out);
}

size_t charts_to_terminal(const struct charts *charts, size_t charts_max,
                          const struct report_style *style, struct buf *out)
{
    size_t drawn = 0;
    if (style->columns > 0 && style->columns < CELLS_MIN + TAKEN_COLUMNS)
        return 0;
    for (size_t i = 0; i < charts->count && drawn < charts_max; i++) {
        if (!is_worth_drawing(charts, &charts->charts[i], drawn == 0))
            continue;
        if (drawn++ > 0)
            buf_putc(out, '\n');
        draw(charts, &charts->charts[i], style, out);
    }
    return drawn;
}
