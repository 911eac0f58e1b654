/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report.html: one file that fetches nothing. It holds the summary as plain text and the drawn
 * charts, for readers without scripts, and the evidence as JSON, from which page/page.js makes the
 * rest.
 */
#include "report/html.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "report/chart.h"
#include "report/internal.h"
#include "report/page_parts.h"
#include "report/report.h"

#define DRAWINGS_MAX 8
#define PLAIN_COLUMNS 100
#define LEDGER_SIZES_MAX 256
#define SEGMENTS_MAX 600

/* --- out of SUMMARY.md --- */

/* The first code block after the line that begins with `line`; NULL = none. */
static char *block_behind(const char *markdown, const char *line)
{
    static const char fence[] = "```text\n";
    const char *at = strstr(markdown, line);
    const char *next = at != NULL ? strstr(at, "\n## ") : NULL;
    const char *from = at != NULL ? strstr(at, fence) : NULL;
    if (from == NULL || (next != NULL && from > next))
        return NULL;
    from += sizeof fence - 1;
    const char *to = strstr(from, "```");
    return to != NULL ? strndup(from, (size_t)(to - from)) : NULL;
}

static void plain(const char *markdown, bool all, const char *section, struct buf *out)
{
    struct report_style style = {.columns = all ? PLAIN_COLUMNS : 0, .utf8 = true, .keeps_sources = true, .line_end = "\n"};
    report_page(markdown, all, section, &style, out);
}

/* The first line, without its markup. */
static void heading(const char *markdown, struct buf *out)
{
    RC_AUTO_FREE char *line = strndup(markdown, strcspn(markdown, "\n"));
    struct buf page = BUF_INIT;
    if (line != NULL)
        plain(line, false, NULL, &page);
    RC_AUTO_FREE char *first = strndup(buf_str(&page), strcspn(buf_str(&page), "\n"));
    if (first != NULL)
        escape_html(out, first);
    buf_release(&page);
}

/* --- the evidence as JSON --- */

static void add_text(cJSON *object, const char *name, const char *text)
{
    if (text != NULL && text[0] != '\0')
        (void)cJSON_AddStringToObject(object, name, text);
}

static void add(cJSON *object, const char *name, cJSON *item)
{
    if (item != NULL && !cJSON_AddItemToObject(object, name, item))
        cJSON_Delete(item);
}

static cJSON *names(const char *const *list, size_t count)
{
    cJSON *array = cJSON_CreateArray();
    for (size_t i = 0; i < count; i++) {
        cJSON *name = cJSON_CreateString(list[i]);
        if (!cJSON_AddItemToArray(array, name))
            cJSON_Delete(name);
    }
    return array;
}

/* The first entries of a list in a file of the bundle; NULL = no list. */
static cJSON *kept(const char *json, const char *list, int count_max, void (*trim)(cJSON *entry))
{
    cJSON *all = json != NULL ? cJSON_Parse(json) : NULL;
    cJSON *entries = cJSON_GetObjectItemCaseSensitive(all, list);
    cJSON *ret = cJSON_IsArray(entries) ? cJSON_CreateObject() : NULL;
    cJSON *first = cJSON_AddArrayToObject(ret, list);
    for (int n = 0; first != NULL && n < count_max && entries->child != NULL; n++) {
        cJSON *entry = cJSON_DetachItemViaPointer(entries, entries->child);
        trim(entry);
        if (!cJSON_AddItemToArray(first, entry))
            cJSON_Delete(entry);
    }
    cJSON_Delete(all);
    return ret;
}

static void keep_all(cJSON *entry)
{
    (void)entry;
}

static double number_of(const cJSON *object, const char *name)
{
    return cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(object, name));
}

static bool is_of_size(const cJSON *buffer, const cJSON *size)
{
    const char *kind = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(buffer, "kind"));
    const char *wanted = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(size, "kind"));
    return kind != NULL && wanted != NULL && strcmp(kind, wanted) == 0 &&
           number_of(buffer, "bytes") == number_of(size, "bytes");
}

/* The ages of the live buffers of this size. The ledger lists only the largest buffers one by one. */
static void add_ages(cJSON *size, const cJSON *at_failure)
{
    double newest_s = INFINITY;
    double oldest_s = -INFINITY;
    const cJSON *buffer = NULL;
    cJSON_ArrayForEach(buffer, cJSON_GetObjectItemCaseSensitive(at_failure, "largest_live"))
    {
        double age_s = (number_of(at_failure, "time_ns") - number_of(buffer, "time_ns")) / 1e9;
        if (!is_of_size(buffer, size) || isnan(age_s))
            continue;
        newest_s = fmin(newest_s, age_s);
        oldest_s = fmax(oldest_s, age_s);
    }
    if (newest_s > oldest_s)
        return;
    (void)cJSON_AddNumberToObject(size, "newest_s", newest_s);
    (void)cJSON_AddNumberToObject(size, "oldest_s", oldest_s);
}

static cJSON *ledger_sizes(const char *json)
{
    cJSON *ret = kept(json, "sizes", LEDGER_SIZES_MAX, keep_all);
    cJSON *all = ret != NULL ? cJSON_Parse(json) : NULL;
    cJSON *size = NULL;
    cJSON_ArrayForEach(size, cJSON_GetObjectItemCaseSensitive(ret, "sizes"))
    {
        add_ages(size, cJSON_GetObjectItemCaseSensitive(all, "at_failure"));
    }
    cJSON_Delete(all);
    return ret;
}

/* The page's map needs only the sizes of blocks; their call sites and addresses are in the
 * bundle. */
static void keep_sizes(cJSON *segment)
{
    static const char *const dropped[] = {"frames", "history", "address", "addr", "requested_size",
                                          "real_size", "stream", "device", "user_metadata"};
    cJSON *block = NULL;
    cJSON_ArrayForEach(block, cJSON_GetObjectItemCaseSensitive(segment, "blocks"))
    {
        for (size_t i = 0; i < sizeof dropped / sizeof dropped[0]; i++)
            cJSON_DeleteItemFromObjectCaseSensitive(block, dropped[i]);
    }
    cJSON_DeleteItemFromObjectCaseSensitive(segment, "frames");
}

static void add_block(cJSON *data, const char *name, const char *summary, const char *line)
{
    RC_AUTO_FREE char *text = block_behind(summary, line);
    add_text(data, name, text);
}

/* Everything except the charts, which are too long for a tree of objects. */
static void evidence(const struct report_files *in, const cJSON *facts, struct buf *out)
{
    cJSON *data = cJSON_CreateObject();
    add_block(data, "program_said", in->summary, "## What the program said");
    add_block(data, "frames", in->summary, ", innermost first:\n");
    struct buf machine = BUF_INIT;
    plain(in->summary, false, "Machine and run", &machine);
    add_text(data, "machine", buf_str(&machine));
    buf_release(&machine);
    add_text(data, "bundle", in->bundle_name);
    add_text(data, "tool_version", in->tool_version);
    add_text(data, "output", in->output);
    add_text(data, "stacks", in->stacks);
    add_text(data, "kernel_log", in->kernel_log);
    add(data, "verdict", in->verdict != NULL ? cJSON_Parse(in->verdict) : NULL);
    add(data, "facts", cJSON_Duplicate(cJSON_GetObjectItemCaseSensitive(facts, "facts"), true));
    add(data, "ledger", ledger_sizes(in->ledger));
    add(data, "snapshot", kept(in->snapshot, "segments", SEGMENTS_MAX, keep_sizes));
    add(data, "files", names(in->names, in->name_count));
    char *json = cJSON_PrintUnformatted(data);
    escape_script(out, json != NULL ? json : "{}");
    cJSON_free(json);
    cJSON_Delete(data);
}

/* --- charts --- */

static void drawings(const struct charts *charts, struct buf *out)
{
    for (size_t i = 0; i < charts->count && i < DRAWINGS_MAX; i++) {
        const struct chart *chart = &charts->charts[i];
        buf_printf(out, "<figure><figcaption>%s</figcaption>", chart->title);
        chart_to_svg(charts, chart, out);
        buf_puts(out, "<ul class=\"legend\">");
        for (size_t k = 0; k < chart->part_count; k++)
            buf_printf(out, "<li class=\"part%d\">%s</li>", (int)chart->parts[k].kind,
                       chart->parts[k].label);
        buf_puts(out, "</ul></figure>");
    }
}

static void summary_text(const struct report_files *in, struct buf *out)
{
    struct buf page = BUF_INIT;
    plain(in->summary, true, NULL, &page);
    escape_html(out, buf_str(&page));
    buf_release(&page);
}

void report_html(const struct report_files *in, struct buf *out)
{
    struct charts charts;
    cJSON *facts = in->facts != NULL ? cJSON_Parse(in->facts) : NULL;
    (void)charts_of_bundle(&charts, facts, in->telemetry, in->torch_stats);
    for (size_t i = 0; i < page_part_count; i++) {
        const char *mark = page_parts[i].mark != NULL ? page_parts[i].mark : "";
        buf_puts(out, page_parts[i].text);
        if (strcmp(mark, "title") == 0)
            heading(in->summary, out);
        else if (strcmp(mark, "plain") == 0)
            summary_text(in, out);
        else if (strcmp(mark, "drawings") == 0)
            drawings(&charts, out);
        else if (strcmp(mark, "charts") == 0)
            charts_to_json(&charts, out);
        else if (strcmp(mark, "data") == 0)
            evidence(in, facts, out);
    }
    charts_release(&charts);
    cJSON_Delete(facts);
}
