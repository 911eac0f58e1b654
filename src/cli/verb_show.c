/* SPDX-License-Identifier: Apache-2.0 */
/* `show BUNDLE...`: the bundle may be a stranger's. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/say.h"
#include "base/wrap.h"
#include "bundle/bundle.h"
#include "cli/input.h"
#include "cli/json_print.h"
#include "cli/option.h"
#include "cli/pager.h"
#include "cli/stage_places.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "report/chart.h"

#define SUMMARY_MAX (4u << 20)
#define FACTS_MAX ((size_t)16 << 20)
#define TABLE_MAX ((size_t)64 << 20)
#define CHARTS_SHOWN_MAX 4

struct show_line {
    bool all, raw, json, no_pager, help;
    const char *section, *colour;
};

static const struct option_def show_options[] = {
    {"all", 'a', NULL, "with the tables of facts", option_on, offsetof(struct show_line, all)},
    {"section", 0, "WORD", "only sections whose heading has this word",
     option_text, offsetof(struct show_line, section)},
    {"raw", 0, NULL, "the Markdown as it is, to paste it",
     option_on, offsetof(struct show_line, raw)},
    {"json", 0, NULL, "the verdict as JSON, a line for each bundle",
     option_on, offsetof(struct show_line, json)},
    {"color", 0, "WHEN", "auto (default), always or never",
     option_colour, offsetof(struct show_line, colour)},
    {"no-pager", 0, NULL, "never through $PAGER (or less), also on a terminal",
     option_on, offsetof(struct show_line, no_pager)},
    {"help", 'h', NULL, "print this and exit", option_on, offsetof(struct show_line, help)},
    {NULL, 0, NULL, NULL, NULL, 0},
};

/* Files that cannot be read give no chart. */
static void charts_of(const char *path, const struct report_style *style, struct buf *out)
{
    RC_AUTO_FREE char *facts_text = NULL;
    RC_AUTO_FREE char *telemetry = NULL;
    RC_AUTO_FREE char *torch = NULL;
    struct charts charts;
    struct rc_err err = {""};
    (void)bundle_read_file(path, "facts.json", FACTS_MAX, &facts_text, &err);
    (void)stage_read_table(path, "telemetry.csv", TABLE_MAX, &telemetry);
    (void)stage_read_table(path, "torch-stats.csv", TABLE_MAX, &torch);
    cJSON *facts = facts_text != NULL ? cJSON_Parse(facts_text) : NULL;
    (void)charts_of_bundle(&charts, facts, telemetry, torch);
    (void)charts_to_terminal(&charts, CHARTS_SHOWN_MAX, style, out);
    charts_release(&charts);
    cJSON_Delete(facts);
}

/* Our own characters that an ASCII terminal does not show. */
static void put_ascii(const char *text, struct buf *out)
{
    static const char dash[] = "\xe2\x80\x93"; /* U+2013: a value that is not known */
    for (const char *at = text; *at != '\0';) {
        bool is_dash = strncmp(at, dash, sizeof dash - 1) == 0;
        buf_putc(out, is_dash ? '-' : *at);
        at += is_dash ? sizeof dash - 1 : 1;
    }
}

static void add_page(const char *path, const char *text, const struct show_line *line,
                     struct buf *out)
{
    struct buf clean = BUF_INIT;
    struct buf charts = BUF_INIT;
    struct buf whole = BUF_INIT;
    struct buf page = BUF_INIT;
    struct report_style style = terminal_style(STDOUT_FILENO, line->colour);
    say_clean(&clean, text, strlen(text));
    charts_of(path, &style, &charts);
    if (charts.len > 0)
        report_with_charts(buf_str(&clean), buf_str(&charts), &whole);
    report_page(buf_str(charts.len > 0 ? &whole : &clean), line->all, line->section, &style, &page);
    if (style.utf8)
        buf_append(out, buf_str(&page), page.len);
    else
        put_ascii(buf_str(&page), out);
    buf_release(&clean);
    buf_release(&charts);
    buf_release(&whole);
    buf_release(&page);
}

/* {"path":...,"verdict":{...}} on a line, or "error" as 'verify' has it. */
static int print_json(const char *path)
{
    struct rc_err err = {""};
    RC_AUTO_FREE char *text = NULL;
    ssize_t len = bundle_read_file(path, "verdict.json", SUMMARY_MAX, &text, &err);
    cJSON *verdict = len >= 0 ? cJSON_ParseWithLength(text, (size_t)len) : NULL;
    if (len >= 0 && !cJSON_IsObject(verdict))
        (void)rc_err_set(&err, -EBADMSG, "verdict.json in it is no JSON object");
    cJSON *row = cJSON_CreateObject();
    (void)cJSON_AddStringToObject(row, "path", path);
    if (!cJSON_IsObject(verdict)) {
        cJSON_Delete(verdict);
        (void)cJSON_AddStringToObject(row, "error", err.msg);
        (void)json_print(row, JSON_LINE);
        return VERB_EXIT_FAILED;
    }
    if (!cJSON_AddItemToObject(row, "verdict", verdict))
        cJSON_Delete(verdict);
    bool ok = json_print(row, JSON_LINE) == 0;
    verb_tell_damage(path);
    return ok ? VERB_EXIT_OK : VERB_EXIT_FAILED;
}

static void tell_headings(const char *path, const char *markdown, const char *word)
{
    struct buf names = BUF_INIT;
    for (const char *at = markdown; at != NULL && *at != '\0'; at = strchr(at, '\n') != NULL ? strchr(at, '\n') + 1 : NULL)
        if (strncmp(at, "## ", 3) == 0)
            buf_printf(&names, "%s%.*s", names.len > 0 ? ", " : "", (int)strcspn(at + 3, "\n"), at + 3);
    (void)say_line(stderr, "rocmcrash: '%s': no heading has '%s'; the headings: %s", path, word, buf_str(&names));
    buf_release(&names);
}

/* Rules change from version to version: 'triage' may judge otherwise than what is shown. */
static void tell_version(const char *path, struct buf *out)
{
    struct rc_err err = {""};
    struct buf line = BUF_INIT;
    RC_AUTO_FREE char *text = NULL;
    ssize_t len = bundle_read_file(path, "manifest.json", FACTS_MAX, &text, &err);
    cJSON *manifest = len > 0 ? cJSON_ParseWithLength(text, (size_t)len) : NULL;
    const char *version = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(manifest, "version"));
    if (version != NULL && strcmp(version, ROCMCRASH_VERSION) != 0) {
        buf_puts(&line, "(judged by rocmcrash ");
        say_word(&line, version);
        buf_puts(&line, "; 'rocmcrash triage' judges it by " ROCMCRASH_VERSION ")\n");
        wrap_lines(out, buf_str(&line), wrap_columns(STDOUT_FILENO));
    }
    cJSON_Delete(manifest);
    buf_release(&line);
}

static int show_one(const char *path, const struct show_line *line, struct buf *out)
{
    struct rc_err err = {""};
    RC_AUTO_FREE char *text = NULL;
    if (bundle_read_file(path, "SUMMARY.md", SUMMARY_MAX, &text, &err) < 0) {
        verb_complain(path, &err);
        return VERB_EXIT_FAILED;
    }
    size_t before = out->len;
    if (line->raw)
        say_clean(out, text, strlen(text));
    else
        add_page(path, text, line, out);
    if (line->section != NULL && out->len == before) {
        tell_headings(path, text, line->section);
        return VERB_EXIT_FAILED;
    }
    if (out->len > before && out->data[out->len - 1] != '\n')
        buf_putc(out, '\n');
    if (!line->raw && line->section == NULL)
        tell_version(path, out);
    if (!line->all && !line->raw && line->section == NULL)
        wrap_lines(out, "('rocmcrash show --all' has the tables of facts)\n", wrap_columns(STDOUT_FILENO));
    verb_tell_damage(path);
    return VERB_EXIT_OK;
}

static int show_all(int count, char *paths[], const struct show_line *line)
{
    int worst = VERB_EXIT_OK;
    struct buf out = BUF_INIT;
    for (int i = 0; i < count && line->json; i++) {
        int status = print_json(paths[i]);
        worst = status > worst ? status : worst;
    }
    for (int i = 0; i < count && !line->json; i++) {
        struct buf name = BUF_INIT;
        say_word(&name, paths[i]);
        if (count > 1)
            buf_printf(&out, "%s==> %s <==\n", i > 0 ? "\n" : "", buf_str(&name));
        buf_release(&name);
        int status = show_one(paths[i], line, &out);
        worst = status > worst ? status : worst;
    }
    bool ok = pager_print(buf_str(&out), !line->no_pager);
    buf_release(&out);
    return ok ? worst : VERB_EXIT_FAILED;
}

int verb_show(int argc, char *argv[])
{
    struct show_line line = {.all = false};
    struct rc_err err = {""};
    int at = options_parse_around(show_options, &line, argc, argv, &err);
    if (at < 0)
        (void)say_line(stderr, "rocmcrash: %s", err.msg);
    if (at >= 0 && line.help) {
        help_text("Usage: rocmcrash show [OPTIONS] [BUNDLE...]\n\n"
                  "Prints the summary of a bundle; without BUNDLE, of the newest in this folder.\n\nOptions:\n");
        options_help(show_options);
        return VERB_EXIT_OK;
    }
    if (at < 0)
        return VERB_EXIT_USAGE;
    if (at < argc)
        return show_all(argc - at, argv + at, &line);
    RC_AUTO_FREE char *newest = input_newest_bundle("rocmcrash show [OPTIONS] [BUNDLE...]");
    return newest != NULL ? show_all(1, &newest, &line) : VERB_EXIT_FAILED;
}
