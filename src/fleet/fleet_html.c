/* SPDX-License-Identifier: Apache-2.0 */
/* The story of each job as a page, in the colours of report.html. */
#include <inttypes.h>
#include <string.h>

#include "base/buf.h"
#include "base/say.h"
#include "fleet/internal.h"

static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
    "<title>rocmcrash: many ranks</title>\n<style>\n"
    ":root { --ground: #fff; --text: #1c2024; --faint: #62686f; --line: #dcdfe3; --block: #f5f6f8; --accent: #0b5cad; --bad: #b3261e; }\n"
    "@media (prefers-color-scheme: dark) { :root { --ground: #14171a; --text: #e3e6e9; --faint: #9aa1a9; --line: #343a40;\n"
    "  --block: #1e2226; --accent: #7db4ee; --bad: #ff8a80; } }\n"
    "body { margin: 0 auto; max-width: 70rem; padding: 1.5rem 1rem 4rem; background: var(--ground); color: var(--text);\n"
    "  font: 16px/1.5 system-ui, -apple-system, \"Segoe UI\", \"DejaVu Sans\", sans-serif; overflow-wrap: anywhere; }\n"
    "h1 { font-size: 1.5rem; margin: 0 0 .5rem; }\n"
    "h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; border-bottom: 1px solid var(--line); }\n"
    ".cause { border-left: 4px solid var(--bad); background: var(--block); padding: .5rem .8rem; margin: .6rem 0; }\n"
    ".faint, th { color: var(--faint); font-size: .88rem; font-weight: normal; text-align: left; }\n"
    ".scroll { overflow-x: auto; }\n"
    "table { border-collapse: collapse; width: 100%; font-size: .88rem; }\n"
    "th, td { border-bottom: 1px solid var(--line); padding: .25rem .6rem .25rem 0; vertical-align: top; }\n"
    ".number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }\n"
    ".line { min-width: 8rem; width: 16%; }\n"
    ".mark { width: .6rem; height: .6rem; margin-top: .4rem; border-radius: 50%; background: var(--faint); }\n"
    ".caused .mark { background: var(--bad); } .caused { font-weight: 600; }\n"
    "</style>\n</head>\n<body>\n<h1>Many ranks, one story</h1>\n";

static void put_escaped(const char *text, struct buf *out)
{
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '&': buf_puts(out, "&amp;"); break;
        case '<': buf_puts(out, "&lt;"); break;
        case '>': buf_puts(out, "&gt;"); break;
        case '"': buf_puts(out, "&quot;"); break;
        case '\'': buf_puts(out, "&#39;"); break;
        default: buf_putc(out, *text);
        }
    }
}

/* Takes the words, and leaves their buffer empty for the next ones. */
static void put_words(struct buf *words, struct buf *out)
{
    if (buf_failed(words))
        buf_puts(out, "?");
    else
        put_escaped(buf_str(words), out);
    buf_release(words);
    *words = (struct buf)BUF_INIT;
}

static void put_foreign(const char *text, struct buf *out)
{
    struct buf words = BUF_INIT;
    say_word(&words, text);
    put_words(&words, out);
}

static void put_who_and_class(const struct fleet_record *record, const char *between, struct buf *out)
{
    struct buf words = BUF_INIT;
    fleet_put_who(record, &words);
    put_words(&words, out);
    buf_puts(out, between);
    fleet_put_class(record, &words);
    put_words(&words, out);
}

static void put_when(int64_t us, struct buf *out)
{
    struct buf words = BUF_INIT;
    fleet_put_time(us, &words);
    put_words(&words, out);
}

static void put_cause(const struct fleet_record *record, const char *label, struct buf *out)
{
    buf_printf(out, "<div class=\"cause\"><b>%s: ", label);
    put_who_and_class(record, "</b>, ", out);
    buf_puts(out, ", ");
    put_foreign(record->confidence[0] != '\0' ? record->confidence : "no", out);
    buf_puts(out, " confidence<br>");
    put_foreign(record->sentence, out);
    buf_puts(out, "<br><span class=\"faint\">");
    put_when(record->fell_us, out);
    buf_puts(out, " &middot; ");
    put_foreign(record->path, out);
    buf_puts(out, "</span></div>\n");
}

static void put_sure(const struct fleet_job *job, struct buf *out)
{
    buf_printf(out, "<p class=\"faint\">sure: %s; ", fleet_sure_name(job->sure));
    put_foreign(job->why, out);
    buf_puts(out, "</p>\n");
}

static void put_causes(const struct fleet *fleet, const struct fleet_job *job, size_t rows, struct buf *out)
{
    for (size_t i = 0; i < job->cause_count && i < rows; i++) {
        bool first = i == 0 && job->sure != FLEET_SURE_NOT;
        put_cause(&fleet->records[job->causes[i]], first ? "First" : i == 0 ? "Perhaps first" : "Also", out);
    }
    if (job->cause_count > rows)
        buf_printf(out, "<p>and %zu more</p>\n", job->cause_count - rows);
    if (job->missing_cause != FLEET_UNKNOWN)
        buf_printf(out, "<div class=\"cause\"><b>First: rank %" PRId64 "</b>, which is in no bundle</div>\n", job->missing_cause);
    else if (job->cause_count == 0)
        buf_puts(out, "<div class=\"cause\"><b>First: not known</b></div>\n");
    put_sure(job, out);
    if (job->missing_count == 0)
        return;
    struct buf words = BUF_INIT;
    buf_printf(out, "<p>%zu of %" PRId64 " ranks are in no bundle: ", job->missing_count, job->world_size);
    fleet_put_ranks(job->missing, job->missing_count, &words);
    put_words(&words, out);
    buf_puts(out, ". They ended well, failed by an error of the program itself, ran without rocmcrash, or their machine is gone.</p>\n");
}

/* A mark on a line as long as the cascade. */
static void put_moment(int64_t from, int64_t to, const struct fleet_record *record, struct buf *out)
{
    if (record->fell_us == FLEET_UNKNOWN || from == FLEET_UNKNOWN) {
        buf_puts(out, "<td class=\"number\">?</td><td></td>");
        return;
    }
    double share = to > from ? 95.0 * (double)(record->fell_us - from) / (double)(to - from) : 0;
    buf_printf(out, "<td class=\"number\">%+.3f s</td><td class=\"line\"><div class=\"mark\" style=\"margin-left:%.1f%%\"></div></td>",
               (double)(record->fell_us - from) / 1e6, share);
}

static void put_time_line(const struct fleet *fleet, const struct fleet_job *job, size_t rows, struct buf *out)
{
    int64_t from = fleet->records[job->members[0]].fell_us;
    int64_t to = from;
    size_t shown = job->count < rows ? job->count : rows;
    for (size_t i = 0; i < shown; i++) {
        int64_t us = fleet->records[job->members[i]].fell_us;
        to = us != FLEET_UNKNOWN && us > to ? us : to;
    }
    buf_puts(out, "<div class=\"scroll\"><table>\n<tr><th class=\"number\">after</th><th></th><th>who</th><th>class</th><th>part in it</th><th>why</th></tr>\n");
    for (size_t i = 0; i < shown; i++) {
        const struct fleet_record *record = &fleet->records[job->members[i]];
        buf_puts(out, record->role == FLEET_CAUSED ? "<tr class=\"caused\">" : "<tr>");
        put_moment(from, to, record, out);
        buf_puts(out, "<td>");
        put_who_and_class(record, "</td><td>", out);
        buf_printf(out, "</td><td>%s</td><td>", fleet_role_name(record->role));
        put_foreign(record->reason, out);
        buf_puts(out, "</td></tr>\n");
    }
    buf_puts(out, "</table></div>\n");
    if (job->count > shown)
        buf_printf(out, "<p class=\"faint\">and %zu more (--rows)</p>\n", job->count - shown);
}

static void put_groups(const struct fleet *fleet, size_t rows, struct buf *out)
{
    if (fleet->count < 2)
        return;
    buf_puts(out, "<h2>Same failures</h2>\n<div class=\"scroll\"><table>\n"
                  "<tr><th class=\"number\">bundles</th><th>signature</th><th>class</th><th class=\"number\">machines</th><th>since</th></tr>\n");
    for (size_t i = 0; i < fleet->group_count && i < rows; i++) {
        const struct fleet_group *group = &fleet->groups[i];
        struct buf words = BUF_INIT;
        buf_printf(out, "<tr><td class=\"number\">%zu</td><td>", group->count);
        put_foreign(group->signature, out);
        buf_puts(out, "</td><td>");
        fleet_put_class(&fleet->records[group->first], &words);
        put_words(&words, out);
        buf_printf(out, "</td><td class=\"number\">%zu</td><td>", group->nodes);
        put_when(group->from_us, out);
        buf_puts(out, "</td></tr>\n");
    }
    buf_puts(out, "</table></div>\n");
}

static void put_outliers(const struct fleet *fleet, size_t rows, struct buf *out)
{
    if (fleet->outlier_count == 0)
        return;
    buf_puts(out, "<h2>Different</h2>\n<div class=\"scroll\"><table>\n<tr><th>who</th><th>what</th><th>has</th><th>usual</th></tr>\n");
    for (size_t i = 0; i < fleet->outlier_count && i < rows; i++) {
        const struct fleet_outlier *odd = &fleet->outliers[i];
        const struct fleet_record *record = &fleet->records[odd->record];
        struct buf words = BUF_INIT;
        buf_puts(out, "<tr><td>");
        fleet_put_who(record, &words);
        put_words(&words, out);
        buf_puts(out, "</td><td>");
        put_foreign(record->values[odd->value].name, out);
        buf_puts(out, "</td><td>");
        put_foreign(record->values[odd->value].text, out);
        buf_puts(out, "</td><td>");
        put_foreign(odd->usual, out);
        buf_printf(out, " (%zu of %zu)</td></tr>\n", odd->usual_count, odd->asked);
    }
    buf_puts(out, "</table></div>\n");
}

void fleet_to_html(const struct fleet *fleet, size_t rows, struct buf *out)
{
    buf_puts(out, head);
    for (size_t i = 0; i < fleet->job_count; i++) {
        const struct fleet_job *job = &fleet->jobs[i];
        struct buf words = BUF_INIT;
        buf_puts(out, "<section>\n<h2>");
        fleet_put_heading(fleet, job, &words);
        put_words(&words, out);
        buf_puts(out, "</h2>\n");
        put_causes(fleet, job, rows, out);
        put_time_line(fleet, job, rows, out);
        buf_puts(out, "</section>\n");
    }
    put_groups(fleet, rows, out);
    put_outliers(fleet, rows, out);
    buf_puts(out, "</body>\n</html>\n");
}
