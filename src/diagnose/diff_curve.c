/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The curves of two runs never match point by point: they were sampled at other moments. So their
 * height, the time to the peak and the slope are compared. The table may come from anybody:
 * everything is bounded.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diagnose/diff.h"
#include "diagnose/fact.h"
#include "diagnose/text.h"

#define COLUMNS_MAX 64
#define HEADER_MAX 8192
#define NEAR_PEAK 0.98 /* counts as reached at this share: the last percent comes at random */

struct column {
    size_t index;  /* in the line */
    char name[64]; /* "gpu.0.vram.used" */
    double first_s, first, peak, peak_s;
    bool any;
};

struct table {
    size_t count;
    struct column columns[COLUMNS_MAX];
};

/* "gpu.0.vram.used_bytes": the memory in use of every GPU. */
static bool is_wanted(struct text name)
{
    static const char *const ends[] = {".vram.used_bytes", ".gtt.used_bytes"};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        size_t n = strlen(ends[i]);
        if (text_starts(name, "gpu.") && name.len > n && name.len < 56 &&
            memcmp(name.at + name.len - n, ends[i], n) == 0)
            return true;
    }
    return false;
}

static struct text next_cell(struct text *line)
{
    struct text cell = text_until(*line, ",");
    *line = text_skip(*line, cell.len + 1);
    return cell;
}

static void read_header(struct table *t, struct text line)
{
    for (size_t i = 0; line.len > 0 && i < HEADER_MAX; i++) {
        struct text cell = next_cell(&line);
        if (!is_wanted(cell) || t->count == COLUMNS_MAX)
            continue;
        struct column *c = &t->columns[t->count++];
        *c = (struct column){.index = i};
        (void)text_copy(text_first(cell, cell.len - strlen("_bytes")), c->name, sizeof c->name);
    }
}

/* pass 0 finds the peak, pass 1 the first time near it. */
static void take_value(struct column *c, double time_s, double value, int pass)
{
    if (pass == 0) {
        if (!c->any) {
            c->first = value;
            c->first_s = time_s;
        }
        c->any = true;
        c->peak = value > c->peak ? value : c->peak;
        c->peak_s = -1;
    } else if (c->peak_s < 0 && value >= NEAR_PEAK * c->peak) {
        c->peak_s = time_s;
    }
}

static void read_row(struct table *t, struct text line, int pass)
{
    double time_s = 0;
    struct text time = next_cell(&line);
    struct text flags = next_cell(&line);
    size_t at = 0;
    /* The sample a second after the end is not part of the curve. */
    if (!text_take_real(&time, &time_s) || text_has(flags, "after"))
        return;
    for (size_t i = 2; line.len > 0 && at < t->count; i++) {
        struct text cell = next_cell(&line);
        double value = 0;
        if (i != t->columns[at].index)
            continue;
        if (text_take_real(&cell, &value))
            take_value(&t->columns[at], time_s, value, pass);
        at++;
    }
}

static int put_feature(struct facts *facts, const struct column *c, const char *what, double value)
{
    char name[128];
    (void)snprintf(name, sizeof name, "curve.%s.%s", c->name, what);
    return facts_set_integer(facts, name, FACT_STATIC, (int64_t)value, "telemetry.csv");
}

static int put_column(struct facts *facts, const struct column *c)
{
    double seconds = c->peak_s - c->first_s;
    if (!c->any || c->peak < 0 || c->peak > 1e18 || seconds < 0 || seconds > 1e9)
        return 0;
    int r = put_feature(facts, c, "peak_bytes", c->peak);
    if (r == 0)
        r = put_feature(facts, c, "time_to_peak_ms", seconds * 1000);
    if (r == 0 && seconds >= 0.5)
        r = put_feature(facts, c, "growth_bytes_per_s", (c->peak - c->first) / seconds);
    return r;
}

int diff_curve_facts(struct facts *facts, const char *csv, size_t len)
{
    struct table *t = calloc(1, sizeof *t);
    int r = t == NULL ? -ENOMEM : 0;
    for (int pass = 0; r == 0 && pass < 2; pass++) {
        struct text rest = {csv, len};
        struct text line;
        if (text_next_line(&rest, &line) && pass == 0)
            read_header(t, line);
        while (t->count > 0 && text_next_line(&rest, &line))
            read_row(t, line, pass);
    }
    for (size_t i = 0; r == 0 && i < t->count; i++)
        r = put_column(facts, &t->columns[i]);
    free(t);
    return r;
}
