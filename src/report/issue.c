/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contents of a form are made of files that were redacted when the bundle was made. Texts of
 * the program go into code blocks; the summary has the form for an issue already.
 */
#include "report/issue.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "diagnose/fact.h"
#include "diagnose/tree.h"
#include "report/html.h"
#include "report/internal.h"
#include "report/markup.h"
#include "report/report.h"

#define LINK_BYTES_MAX 7000u /* GitHub answers 414 above 8,192 */
#define TITLE_MAX 160
#define LINE_BYTES 400
#define LOG_LINES 60
#define ROCMINFO_LINES 400
#define SUMMARY_LINES 400
#define GPUS_MAX 16
#define REPOSITORY_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
#define VALUE_BYTES_MIN 3 /* a shorter value stands anywhere */

struct issue {
    const struct report_files *in;
    struct facts *facts;
};

static struct issue open_issue(const struct report_files *in)
{
    struct issue issue = {in, facts_new()};
    cJSON *json = in->facts != NULL ? cJSON_Parse(in->facts) : NULL;
    if (issue.facts != NULL && json != NULL)
        (void)facts_from_json(issue.facts, json, NULL);
    cJSON_Delete(json);
    return issue;
}

static const char *text_of(const struct issue *issue, const char *name)
{
    const char *text = NULL;
    return issue->facts != NULL && facts_get_text(issue->facts, name, &text) ? text : NULL;
}

/* --- contents --- */

/* The last `max` lines, escaped so that none of them ends the block. */
static void code_block(const char *text, size_t max, struct buf *out)
{
    size_t lines = 0;
    const char *from = text + strlen(text);
    while (from > text && lines <= max) {
        from--;
        lines += *from == '\n' && from[1] != '\0';
    }
    from += from > text || (*from == '\n' && lines > max);
    buf_puts(out, "```text\n");
    while (*from != '\0') {
        size_t len = strcspn(from, "\n");
        RC_AUTO_FREE char *line = strndup(from, len);
        escape_code(out, line != NULL ? line : "", LINE_BYTES);
        buf_putc(out, '\n');
        from += len + (from[len] == '\n');
    }
    buf_puts(out, "```\n");
}

/* The summary's doubts (against the verdict, also seen, missing) keep a reader from a wrong path. */
static void doubts(const char *summary, struct buf *out)
{
    static const char *const headings[] = {"\n**What speaks against it**\n", "\n**Also seen**\n", "\n**Missing**\n"};
    const char *from = strstr(summary, "\n## Why this verdict\n");
    const char *first = NULL;
    for (size_t i = 0; first == NULL && from != NULL && i < sizeof headings / sizeof headings[0]; i++)
        first = strstr(from, headings[i]);
    if (first == NULL)
        return;
    const char *drawing = strstr(first, "\n```mermaid");
    const char *details = strstr(first, "\n## ");
    const char *end = drawing != NULL && (details == NULL || drawing < details) ? drawing : details;
    buf_append(out, first, end != NULL ? (size_t)(end - first) : strlen(first));
}

/* The summary up to its technical part, and the doubts; the bundle has the rest. A summary that a stranger wrote may
 * hold markup: then all of it stands in a code block. */
static void problem(const struct issue *issue, struct buf *out)
{
    const char *text = issue->in->summary;
    const char *end = strstr(text, "\n## Machine and run");
    text += strcspn(text, "\n");
    text += strspn(text, "\n");
    struct buf whole = BUF_INIT;
    buf_append(&whole, text, end != NULL && end > text ? (size_t)(end - text) : strlen(text));
    if (end != NULL)
        doubts(end, &whole);
    RC_AUTO_FREE char *part = strdup(buf_str(&whole));
    buf_release(&whole);
    if (part == NULL)
        return;
    if (markup_is_foreign(part)) {
        code_block(part, SUMMARY_LINES, out);
        return;
    }
    for (const char *line = part; *line != '\0';) { /* headings one level below those of the form */
        size_t n = strcspn(line, "\n");
        if (strncmp(line, "## ", 3) == 0)
            buf_puts(out, "##");
        buf_append(out, line, n + (line[n] == '\n'));
        line += n + (line[n] == '\n');
    }
    buf_putc(out, '\n');
}

static void fact_line(const struct issue *issue, const char *label, const char *name, struct buf *out)
{
    const struct fact *f = issue->facts != NULL ? facts_best(issue->facts, name) : NULL;
    char text[128];
    if (f == NULL || f->status != FACT_PRESENT)
        return;
    buf_puts(out, label);
    if (f->type == FACT_TEXT) {
        escape_markdown(out, f->text, LINE_BYTES);
    } else {
        fact_format(f, text, sizeof text);
        buf_puts(out, text);
    }
    buf_putc(out, '\n');
}

static void os(const struct issue *issue, struct buf *out)
{
    fact_line(issue, "", "host.distribution", out);
    fact_line(issue, "Linux ", "host.kernel", out);
    fact_line(issue, "amdgpu driver: ", "software.amdgpu_version", out);
    fact_line(issue, "in a container: ", "host.container", out);
}

static void cpu(const struct issue *issue, struct buf *out)
{
    fact_line(issue, "", "host.cpu_model", out);
    fact_line(issue, "RAM: ", "host.mem_total_bytes", out);
}

static bool is_no(const struct issue *issue, const char *name)
{
    const struct fact *f = issue->facts != NULL ? facts_best(issue->facts, name) : NULL;
    return f != NULL && f->status == FACT_PRESENT && f->integer == 0;
}

static void gpu(const struct issue *issue, struct buf *out)
{
    if (is_no(issue, "gpu.count")) {
        fact_line(issue, "GPU: none was found. /dev/kfd: ", "host.kfd_access", out);
        if (out->len == 0)
            buf_puts(out, "GPU: none was found.\n");
    }
    for (unsigned i = 0; i < GPUS_MAX; i++) {
        char name[64];
        char label[64];
        (void)snprintf(name, sizeof name, "gpu.%u.gfx", i);
        (void)snprintf(label, sizeof label, "GPU %u architecture: ", i);
        fact_line(issue, label, name, out);
        (void)snprintf(name, sizeof name, "gpu.%u.vram.total_bytes", i);
        (void)snprintf(label, sizeof label, "GPU %u VRAM: ", i);
        fact_line(issue, label, name, out);
    }
}

static void rocm(const struct issue *issue, struct buf *out)
{
    const struct fact *f = issue->facts != NULL ? facts_best(issue->facts, "software.rocm_version") : NULL;
    fact_line(issue, "", "software.rocm_version", out);
    if (f != NULL && f->status == FACT_ABSENT && f->reason != NULL) {
        buf_puts(out, "Not known: ");
        escape_markdown(out, f->reason, LINE_BYTES);
        buf_putc(out, '\n');
    }
    fact_line(issue, "HIP runtime that the system has: ", "software.system_runtime_version", out);
    fact_line(issue, "HIP runtime beside PyTorch: ", "software.wheel_runtime_version", out);
}

static void command(const struct issue *issue, struct buf *out)
{
    static const char mark[] = "- **Command:** `";
    const char *at = strstr(issue->in->summary, mark);
    if (at == NULL)
        return;
    at += sizeof mark - 1;
    RC_AUTO_FREE char *line = strndup(at, strcspn(at, "`\n"));
    if (line == NULL)
        return;
    code_block(line, 1, out);
    if (strstr(line, "<project") != NULL || strstr(line, "<path") != NULL || strstr(line, "<home") != NULL)
        buf_puts(out, "\nNames in angle brackets are replaced.\n");
}

/* The layout of torch.utils.collect_env, which maintainers know. A line without a value is left
 * out. */
static void versions(const struct issue *issue, struct buf *out)
{
    static const struct {
        const char *label, *fact;
    } lines[] = {
        {"PyTorch version", "software.torch_version"},
        {"ROCM used to build PyTorch", "software.torch_hip_version"},
        {"CUDA used to build PyTorch", "software.torch_cuda_version"},
        {"OS", "host.distribution"},
        {"Kernel", "host.kernel"},
        {"Libc version", "software.libc"},
        {"Python version", "software.python_version"},
        {"ROCm runtime version", "software.rocm_version"},
        {"amdgpu driver version", "software.amdgpu_version"},
        {"CPU", "host.cpu_model"},
    };
    buf_puts(out, "```text\n");
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        const char *text = text_of(issue, lines[i].fact);
        if (text == NULL)
            continue;
        buf_printf(out, "%s: ", lines[i].label);
        escape_code(out, text, LINE_BYTES);
        buf_putc(out, '\n');
    }
    buf_puts(out, "\nVersions of relevant libraries:\n");
    for (size_t i = 0; issue->facts != NULL && i < facts_count(issue->facts); i++) {
        static const char suffix[] = "_version";
        const struct fact *f = facts_at(issue->facts, i);
        size_t len = strlen(f->name);
        if (strncmp(f->name, "software.", 9) != 0 || len < 9 + sizeof suffix ||
            strcmp(f->name + len - (sizeof suffix - 1), suffix) != 0 ||
            f->status != FACT_PRESENT || f->type != FACT_TEXT)
            continue;
        buf_printf(out, "%.*s==", (int)(len - 9 - (sizeof suffix - 1)), f->name + 9);
        escape_code(out, f->text, LINE_BYTES);
        buf_putc(out, '\n');
    }
    buf_puts(out, "```\n");
}

static void file_block(const char *text, size_t lines, struct buf *out)
{
    if (text != NULL && text[0] != '\0')
        code_block(text, lines, out);
}

static void rocminfo(const struct issue *issue, struct buf *out)
{
    file_block(issue->in->rocminfo, ROCMINFO_LINES, out);
}

static void log_lines(const struct issue *issue, struct buf *out)
{
    file_block(issue->in->output, LOG_LINES, out);
}

static void kernel_log(const struct issue *issue, struct buf *out)
{
    file_block(issue->in->kernel_log, LOG_LINES, out);
}

static bool has_text(const char *text)
{
    return text != NULL && text[0] != '\0';
}

/* A heading and one row are no course. */
static bool has_samples(const char *csv)
{
    const char *first = csv != NULL ? strchr(csv, '\n') : NULL;
    const char *second = first != NULL ? strchr(first + 1, '\n') : NULL;
    return second != NULL && second[1] != '\0';
}

static void more(const struct issue *issue, struct buf *out)
{
    cJSON *verdict = issue->in->verdict != NULL ? cJSON_Parse(issue->in->verdict) : NULL;
    const char *id = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(
        cJSON_GetObjectItemCaseSensitive(verdict, "signature"), "id"));
    if (id != NULL) {
        buf_puts(out, "Signature, to search for duplicates: `");
        escape_code(out, id, LINE_BYTES);
        buf_puts(out, "`\n\n");
    }
    cJSON_Delete(verdict);
    buf_puts(out, "Attached: `");
    escape_code(out, issue->in->bundle_name != NULL ? issue->in->bundle_name : "", LINE_BYTES);
    buf_puts(out, ".tar.gz`. It holds every figure with its source, ");
    buf_puts(out, has_samples(issue->in->telemetry) ? "the memory over the run, " : "");
    buf_puts(out, has_text(issue->in->stacks) ? "stacks, " : "");
    buf_puts(out, has_text(issue->in->kernel_log) ? "lines of the kernel log, " : "");
    buf_puts(out, "and versions. `report.html` in it is a page for a browser; `rocmcrash triage` judges it again.\n");
}

static void none(const struct issue *issue, struct buf *out)
{
    (void)issue;
    buf_puts(out, "Not known.\n");
}

/* `is_public`: what this part of the issue makes public, apart from the facts in public_facts[]; NULL = nothing. */
static const struct {
    const char *name;
    void (*write)(const struct issue *, struct buf *);
    const char *is_public;
} contents[] = {
    {"problem", problem, "the last messages of the program and the paths in them"},
    {"os", os, NULL},
    {"cpu", cpu, NULL},
    {"gpu", gpu, NULL},
    {"rocm", rocm, NULL},
    {"command", command, "the command line"},
    {"versions", versions, NULL},
    {"rocminfo", rocminfo, "what rocminfo says of processors and GPUs"},
    {"log", log_lines, "the end of the program's output"},
    {"kernel_log", kernel_log, "lines of the kernel log"},
    {"more", more, "the bundle's name, with the program and the time of the failure"},
    {"none", none, NULL},
};
#define CONTENTS (sizeof contents / sizeof contents[0])

static size_t content_of(const cJSON *section)
{
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(section, "content"));
    size_t i = 0;
    while (i < CONTENTS && (name == NULL || strcmp(contents[i].name, name) != 0))
        i++;
    return i;
}

static const char *string_of(const cJSON *object, const char *key)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
    return text != NULL ? text : "";
}

/* --- the issue --- */

void issue_title(const struct report_files *in, const cJSON *tracker, struct buf *out)
{
    struct buf page = BUF_INIT;
    struct report_style style = {.line_end = "\n"};
    RC_AUTO_FREE char *line = strndup(in->summary, strcspn(in->summary, "\n"));
    if (line != NULL)
        report_page(line, false, NULL, &style, &page);
    RC_AUTO_FREE char *first = strndup(buf_str(&page), strcspn(buf_str(&page), "\n"));
    buf_puts(out, string_of(tracker, "title"));
    if (first != NULL)
        escape_terminal(out, first, TITLE_MAX);
    buf_release(&page);
}

void issue_body(const struct report_files *in, const cJSON *tracker, struct buf *out)
{
    struct issue issue = open_issue(in);
    const cJSON *section = NULL;
    cJSON_ArrayForEach(section, cJSON_GetObjectItemCaseSensitive(tracker, "sections"))
    {
        struct buf text = BUF_INIT;
        size_t i = content_of(section);
        const char *heading = string_of(section, "heading");
        if (i < CONTENTS)
            contents[i].write(&issue, &text);
        if (heading[0] != '\0')
            buf_printf(out, "### %s\n\n", heading);
        if (text.len > 0)
            buf_printf(out, "%s\n", buf_str(&text));
        else if (heading[0] != '\0')
            buf_puts(out, "Not known.\n\n");
        buf_release(&text);
    }
    facts_free(issue.facts);
}

static void percent_encoded(const char *text, struct buf *out)
{
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (isalnum(c) || strchr("-._~", c) != NULL)
            buf_putc(out, (char)c);
        else
            buf_printf(out, "%%%02X", c);
    }
}

static void add_field(const char *name, const char *value, struct buf *link)
{
    struct buf field = BUF_INIT;
    buf_putc(&field, strchr(buf_str(link), '?') != NULL ? '&' : '?');
    buf_printf(&field, "%s=", name);
    percent_encoded(value, &field);
    if (link->len + field.len <= LINK_BYTES_MAX)
        buf_puts(link, buf_str(&field));
    buf_release(&field);
}

/* The first words of file_at that lead to the tracker; NULL = none. */
static const char *named_at(const cJSON *tracker, const char *file_at)
{
    const char *first = NULL;
    const cJSON *word = NULL;
    cJSON_ArrayForEach(word, cJSON_GetObjectItemCaseSensitive(tracker, "at"))
    {
        const char *found = cJSON_IsString(word) ? strstr(file_at, word->valuestring) : NULL;
        first = found != NULL && (first == NULL || found < first) ? found : first;
    }
    return first;
}

/* The form of the repository that file_at names, else that of the tracker. */
static void put_form(const struct report_files *in, const cJSON *tracker, struct buf *out)
{
    cJSON *verdict = in->verdict != NULL ? cJSON_Parse(in->verdict) : NULL;
    const cJSON *ends = cJSON_GetObjectItemCaseSensitive(tracker, "of_repository");
    const char *form = string_of(tracker, "new"), *named = named_at(tracker, string_of(verdict, "file_at"));
    const char *front = cJSON_GetStringValue(cJSON_GetArrayItem(ends, 0)), *back = cJSON_GetStringValue(cJSON_GetArrayItem(ends, 1));
    struct buf place = BUF_INIT;
    if (front != NULL && back != NULL && named != NULL) {
        size_t owner = strcspn(named, "/") + 1;
        buf_printf(&place, "%s%.*s/", front, (int)(owner + strspn(named + owner, REPOSITORY_LETTERS)), named);
    }
    if (place.len > 0 && strncmp(form, buf_str(&place), place.len) != 0)
        buf_printf(out, "%.*s%s", (int)place.len - 1, buf_str(&place), back);
    else
        buf_puts(out, form);
    buf_release(&place);
    cJSON_Delete(verdict);
}

void issue_link(const struct report_files *in, const cJSON *tracker, struct buf *out)
{
    struct buf title = BUF_INIT;
    const cJSON *section = NULL;
    put_form(in, tracker, out);
    if (out->len == 0)
        return;
    struct issue issue = open_issue(in);
    issue_title(in, tracker, &title);
    add_field(strstr(buf_str(out), "gitlab") != NULL ? "issue[title]" : "title", buf_str(&title), out);
    cJSON_ArrayForEach(section, cJSON_GetObjectItemCaseSensitive(tracker, "sections"))
    {
        struct buf text = BUF_INIT;
        size_t i = content_of(section);
        const char *field = string_of(section, "field");
        if (field[0] != '\0' && i < CONTENTS)
            contents[i].write(&issue, &text);
        if (text.len > 0)
            add_field(field, buf_str(&text), out);
        buf_release(&text);
    }
    buf_release(&title);
    facts_free(issue.facts);
}

/* Facts that a text of any section may hold, by the beginning of their names. */
static const struct {
    const char *fact, *is_public;
} public_facts[] = {
    {"host.distribution", "the distribution"},
    {"host.kernel", "the kernel's version"},
    {"host.container", "that it runs in a container"},
    {"host.cpu_model", "the processor"},
    {"host.mem_total_bytes", "how much RAM the machine has"},
    {"gpu.", "the GPUs"},
    {"software.", "versions of libraries"},
};

/* As it is, or as it stands in a text of Markdown. */
static bool is_in(const char *body, const char *value)
{
    struct buf escaped = BUF_INIT;
    escape_markdown(&escaped, value, LINE_BYTES);
    bool found = strstr(body, value) != NULL || strstr(body, buf_str(&escaped)) != NULL;
    buf_release(&escaped);
    return found;
}

static bool holds_fact(const char *body, const struct facts *facts, const char *name)
{
    for (size_t i = 0; facts != NULL && i < facts_count(facts); i++) {
        const struct fact *f = facts_at(facts, i);
        char text[128];
        if (f->status != FACT_PRESENT || f->type == FACT_BOOLEAN || strncmp(f->name, name, strlen(name)) != 0)
            continue;
        fact_format(f, text, sizeof text);
        const char *value = f->type == FACT_TEXT ? f->text : text;
        if (strlen(value) >= VALUE_BYTES_MIN && is_in(body, value))
            return true;
    }
    return false;
}

void issue_makes_public(const struct report_files *in, const cJSON *tracker, struct buf *out)
{
    struct issue issue = open_issue(in);
    struct buf body = BUF_INIT;
    const cJSON *section = NULL;
    issue_body(in, tracker, &body);
    cJSON_ArrayForEach(section, cJSON_GetObjectItemCaseSensitive(tracker, "sections"))
    {
        struct buf text = BUF_INIT;
        size_t i = content_of(section);
        if (i < CONTENTS && contents[i].is_public != NULL)
            contents[i].write(&issue, &text);
        if (text.len > 0)
            buf_printf(out, "%s\n", contents[i].is_public);
        buf_release(&text);
    }
    for (size_t i = 0; i < sizeof public_facts / sizeof public_facts[0]; i++)
        if (holds_fact(buf_str(&body), issue.facts, public_facts[i].fact))
            buf_printf(out, "%s\n", public_facts[i].is_public);
    buf_release(&body);
    facts_free(issue.facts);
}

const cJSON *issue_tracker(const struct report_files *in, const cJSON *trackers)
{
    cJSON *verdict = in->verdict != NULL ? cJSON_Parse(in->verdict) : NULL;
    const char *file_at = string_of(verdict, "file_at"), *first = NULL;
    const cJSON *tracker = NULL;
    const cJSON *found = NULL;
    const cJSON *last = NULL;
    cJSON_ArrayForEach(tracker, cJSON_GetObjectItemCaseSensitive(trackers, "trackers"))
    {
        const char *named = named_at(tracker, file_at);
        if (named != NULL && (first == NULL || named < first)) {
            first = named;
            found = tracker;
        }
        last = tracker;
    }
    cJSON_Delete(verdict);
    return found != NULL ? found : last;
}
