/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of facts with one row per name, for readers who want the details. */
#include "report/internal.h"

#include "base/buf.h"
#include "diagnose/fact.h"
#include "diagnose/tree.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char *moment_name(const struct facts *facts, enum fact_when when)
{
    const char *const names[] = {"", "before", "peak", report_impact_words(facts), "after", "log"};
    return (size_t)when < sizeof(names) / sizeof(names[0]) ? names[when] : "";
}

static const enum fact_when all_moments[] = {FACT_STATIC, FACT_BASELINE, FACT_PEAK,
                                             FACT_IMPACT, FACT_AFTER,    FACT_LOG};
#define MOMENTS (sizeof(all_moments) / sizeof(all_moments[0]))

#define VALUE_BYTES 1024 /* long, because an exception's text is useful */
#define CELL_BYTES 600
#define OTHER_CELL_BYTES 160

static void value_text(const struct fact *f, char out[VALUE_BYTES])
{
    static const char *const states[] = {"", "absent", "unreadable", "blind"};
    if (f->status == FACT_PRESENT)
        fact_format(f, out, VALUE_BYTES);
    else
        (void)snprintf(out, VALUE_BYTES, "%s: %.150s", states[f->status],
                       f->reason != NULL ? f->reason : "");
}

/* One row for all moments of a name: "32.0 MiB before; 15.91 GiB peak, at the failure". */
static void fact_row(const struct facts *facts, const char *name, struct buf *out)
{
    struct buf when = BUF_INIT; /* the moments of the last value */
    char last[VALUE_BYTES] = "";
    bool several = false;
    const struct fact *best = facts_best(facts, name);
    buf_puts(out, "| ");
    escape_markdown(out, name, 100);
    buf_puts(out, " | ");
    for (size_t i = 0; i < MOMENTS; i++) {
        char value[VALUE_BYTES];
        const struct fact *f = facts_find(facts, name, all_moments[i]);
        if (f == NULL || f->status == FACT_ABSENT)
            continue;
        value_text(f, value);
        if (last[0] != '\0' && strcmp(value, last) != 0) {
            buf_printf(out, "%s%s; ", when.len > 0 ? " " : "", buf_str(&when));
            buf_release(&when);
            several = true;
            last[0] = '\0';
        }
        if (last[0] == '\0' && f->status == FACT_PRESENT && f->type == FACT_TEXT)
            escape_cell(out, value, CELL_BYTES); /* a code span: often it is the program's text */
        else if (last[0] == '\0')
            escape_markdown(out, value, OTHER_CELL_BYTES);
        (void)snprintf(last, sizeof(last), "%s", value);
        const char *moment = moment_name(facts, f->when);
        buf_printf(&when, "%s%s", when.len > 0 && moment[0] != '\0' ? ", " : "", moment);
    }
    if (several)
        buf_printf(out, "%s%s |  | ", when.len > 0 ? " " : "", buf_str(&when));
    else
        buf_printf(out, " | %s | ", buf_str(&when));
    buf_release(&when);
    escape_markdown(out, best != NULL && best->source != NULL ? best->source : "", 120);
    buf_puts(out, " |\n");
}

/* Is it the first fact of its name? The others are in its row. */
static bool is_first(const struct facts *facts, const struct fact *f)
{
    for (size_t i = 0; i < MOMENTS; i++) {
        const struct fact *other = facts_find(facts, f->name, all_moments[i]);
        if (other != NULL && other < f) /* the store keeps the order of insertion */
            return false;
    }
    return true;
}

static bool begins_with(const char *name, const char *const *prefixes)
{
    for (; *prefixes != NULL; prefixes++) {
        if (strncmp(name, *prefixes, strlen(*prefixes)) == 0)
            return true;
    }
    return false;
}

/* Facts of things that do not exist here are left out. Facts that could not be read are shown. */
static bool is_nowhere(const struct facts *facts, const struct fact *f)
{
    for (size_t i = 0; i < MOMENTS; i++) {
        const struct fact *one = facts_find(facts, f->name, all_moments[i]);
        if (one != NULL && one->status != FACT_ABSENT)
            return false;
    }
    return true;
}

/* Figures for rules and for comparing bundles, in units of their own: facts.json has them. */
static bool is_for_rules(const struct fact *f)
{
    static const char *const names[] = {
        "run.wall_offset_us", "run.end_uptime_us", "run.start_uptime_ms", "run.start_time_s", "run.boot_time_s",
        "target.failed_uptime_us", "evidence.weight", "evidence.margin", "err.weight", "err.second_weight",
        "host.kernel_version", "account.tax_bytes", "f.shortfall_about_bytes"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(f->name, names[i]) == 0)
            return true;
    }
    return false;
}

static void fact_rows(const struct facts *facts, const char *const *prefixes, bool others,
                      size_t rows_max, struct buf *out)
{
    size_t rows = 0;
    size_t more = 0;
    size_t absent = 0;
    for (size_t i = 0; i < facts_count(facts); i++) {
        const struct fact *f = facts_at(facts, i);
        if (begins_with(f->name, prefixes) == others || !is_first(facts, f) || is_for_rules(f))
            continue;
        if (is_nowhere(facts, f)) {
            absent++;
            continue;
        }
        if (rows == rows_max) {
            more++;
            continue;
        }
        if (rows++ == 0)
            buf_puts(out, "| fact | value | when | source |\n|---|---|---|---|\n");
        fact_row(facts, f->name, out);
    }
    if (more > 0)
        buf_printf(out, "\n%zu more in facts.json.\n", more);
    if (rows > 0 && absent > 0)
        buf_printf(out, "\n%zu more %s absent; facts.json says why.\n", absent, absent == 1 ? "is" : "are");
}

void report_fact_table(const struct facts *facts, const char *const *prefixes, size_t rows_max,
                       struct buf *out)
{
    fact_rows(facts, prefixes, false, rows_max, out);
}

void report_other_facts(const struct facts *facts, const char *const *prefixes, size_t rows_max,
                        struct buf *out)
{
    fact_rows(facts, prefixes, true, rows_max, out);
}
