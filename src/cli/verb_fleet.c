/* SPDX-License-Identifier: Apache-2.0 */
/* `fleet DIR|BUNDLE...`: what the bundles of many ranks say together. The bundles may be a stranger's. */
#include <cjson/cJSON.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/say.h"
#include "base/wrap.h"
#include "bundle/bundle.h"
#include "cli/input.h"
#include "cli/json_print.h"
#include "cli/option.h"
#include "cli/pager.h"
#include "cli/rank_record.h"
#include "cli/verbs.h"
#include "diagnose/fact.h"
#include "fleet/fleet.h"
#include "fleet/table.h"

#define FACTS_MAX ((size_t)16 << 20)
#define VERDICT_MAX ((size_t)4 << 20)
#define RECORD_MAX ((size_t)1 << 20)
#define TEXT_MAX ((size_t)64 << 20)
#define ROWS_DEFAULT 12
#define ROWS_MOST 1000000
#define USAGE "rocmcrash fleet [OPTIONS] DIR|BUNDLE..."

struct fleet_line {
    bool json, html, csv, openmetrics, no_pager, help;
    unsigned rows;
    struct fleet fleet;
    struct fleet_metrics metrics;
    size_t read, unreadable;
};

static int set_rows(const struct option_def *option, void *field, const char *value, struct rc_err *err)
{
    return option_number(option, field, value, 1, ROWS_MOST, err);
}

static const struct option_def fleet_options[] = {
    {"rows", 0, "N", "longest time line of a job (12)", set_rows, offsetof(struct fleet_line, rows)},
    {"json", 0, NULL, "everything as one JSON object", option_on, offsetof(struct fleet_line, json)},
    {"html", 0, NULL, "the story as a page, on stdout", option_on, offsetof(struct fleet_line, html)},
    {"csv", 0, NULL, "instead of the story: a table with a row for each bundle",
     option_on, offsetof(struct fleet_line, csv)},
    {"openmetrics", 0, NULL, "instead of the story: numbers for a monitor (failures by class, bytes)",
     option_on, offsetof(struct fleet_line, openmetrics)},
    {"no-pager", 0, NULL, "never through $PAGER (or less), also on a terminal",
     option_on, offsetof(struct fleet_line, no_pager)},
    {"help", 'h', NULL, "print this and exit", option_on, offsetof(struct fleet_line, help)},
    {NULL, 0, NULL, NULL, NULL, 0},
};

static cJSON *parse(const struct bundle_file *file)
{
    return file->len > 0 ? cJSON_ParseWithLength(file->data, (size_t)file->len) : NULL;
}

static int add_parts(struct fleet_line *line, const char *path, const struct bundle_file parts[2], struct rc_err *err)
{
    cJSON *document = parse(&parts[0]);
    cJSON *verdict = parse(&parts[1]);
    struct facts *facts = facts_new();
    int r = facts == NULL ? -ENOMEM : 0;
    if (r == 0 && document == NULL)
        r = rc_err_set(err, -EBADMSG, "facts.json in it cannot be read");
    if (r == 0)
        r = facts_from_json(facts, document, err);
    if (r == 0)
        r = fleet_add(&line->fleet, path, facts, verdict);
    if (r == -ENOMEM)
        (void)rc_err_errno(err, r, "cannot read it");
    facts_free(facts);
    cJSON_Delete(document);
    cJSON_Delete(verdict);
    return r;
}

/* A record of a rank that was asked to end is a facts.json alone. */
static int read_parts(const char *path, struct bundle_file parts[2], struct rc_err *err)
{
    size_t len = 0;
    if (!rank_record_is_name(path))
        return bundle_read_files(path, parts, 2, err);
    int r = input_read(path, RECORD_MAX, &parts[0].data, &len, err);
    parts[0].len = (ssize_t)len;
    return r;
}

static bool merges(const struct fleet_line *line)
{
    return !line->csv && !line->openmetrics;
}

/* A table or the numbers of a bundle's records, which are not kept. */
static int pass_on(struct fleet_line *line, const char *path)
{
    struct buf out = BUF_INIT;
    struct stat st;
    int64_t bytes = stat(path, &st) == 0 ? (int64_t)st.st_size : 0;
    for (size_t i = 0; i < line->fleet.count; i++) {
        if (line->csv)
            fleet_table_row(&line->fleet.records[i], &out);
        else
            fleet_metrics_add(&line->metrics, &line->fleet.records[i], i == 0 ? bytes : 0);
    }
    bool ok = !buf_failed(&out) && (out.len == 0 || fwrite(out.data, 1, out.len, stdout) == out.len);
    buf_release(&out);
    fleet_release(&line->fleet);
    return ok ? 0 : -EIO;
}

/* A bundle that cannot be read is reported and counted. The others are still judged. */
static int add_bundle(struct fleet_line *line, const char *path)
{
    struct rc_err err = {""};
    struct bundle_file parts[2] = {{.name = "facts.json", .max = FACTS_MAX},
                                   {.name = "verdict.json", .max = VERDICT_MAX}};
    int r = read_parts(path, parts, &err);
    if (r == 0)
        r = add_parts(line, path, parts, &err);
    if (r < 0) {
        verb_complain(path, &err);
        line->unreadable++;
    } else {
        line->read++;
        if (parts[1].len < 0 && !rank_record_is_name(path)) /* not for each bundle: it reads the whole file */
            verb_tell_damage(path);
    }
    free(parts[0].data);
    free(parts[1].data);
    return r == 0 && !merges(line) ? pass_on(line, path) : 0;
}

/* The order does not matter: the records are sorted. A table keeps that of the folder, which may hold 100,000. */
static int add_folder(struct fleet_line *line, const char *folder, struct rc_err *err)
{
    DIR *dir = opendir(folder);
    int r = 0;
    if (dir == NULL)
        return rc_err_errno(err, -errno, "cannot read the folder '%s'", folder);
    for (const struct dirent *entry; r == 0 && (entry = readdir(dir)) != NULL;) {
        char path[FS_PATH_MAX];
        struct stat st;
        int n = snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (n > 0 && (size_t)n < sizeof path && (input_has_bundle_name(path) || rank_record_is_name(path)) &&
            stat(path, &st) == 0 && S_ISREG(st.st_mode))
            r = add_bundle(line, path);
    }
    (void)closedir(dir);
    return r;
}

static int add_all(struct fleet_line *line, int count, char *paths[], struct rc_err *err)
{
    for (int i = 0; i < count; i++) {
        struct stat st;
        bool folder = stat(paths[i], &st) == 0 && S_ISDIR(st.st_mode);
        int r = folder ? add_folder(line, paths[i], err) : add_bundle(line, paths[i]);
        if (r < 0)
            return r;
    }
    if (line->read == 0 && line->unreadable == 0 && !line->openmetrics)
        return rc_err_set(err, -ENOENT, "there is no bundle (*.tar.gz)");
    return line->read == 0 && !line->openmetrics ? -EIO : 0; /* why has been said of each */
}

static int print_json(const struct fleet_line *line)
{
    cJSON *json = fleet_to_json(&line->fleet);
    (void)cJSON_AddNumberToObject(json, "unreadable", (double)line->unreadable);
    return json_print(json, JSON_PAGES);
}

static int print_html(const struct fleet_line *line)
{
    struct buf out = BUF_INIT;
    buf_init(&out, TEXT_MAX);
    fleet_to_html(&line->fleet, line->rows, &out);
    bool ok = !buf_failed(&out) && fwrite(buf_str(&out), 1, out.len, stdout) == out.len && fflush(stdout) == 0;
    buf_release(&out);
    return ok ? 0 : -EIO;
}

static int print_text(const struct fleet_line *line)
{
    struct buf out = BUF_INIT;
    buf_init(&out, TEXT_MAX);
    fleet_to_text(&line->fleet, line->rows, &out);
    if (line->unreadable > 0)
        buf_printf(&out, "%zu bundle%s could not be read\n", line->unreadable, line->unreadable == 1 ? "" : "s");
    struct buf lines = BUF_INIT;
    wrap_lines(&lines, buf_str(&out), wrap_columns(STDOUT_FILENO));
    bool ok = !buf_failed(&out) && !buf_failed(&lines) && pager_print(buf_str(&lines), !line->no_pager);
    buf_release(&out);
    buf_release(&lines);
    return ok ? 0 : -EIO;
}

/* An empty folder has numbers, too: none failed. */
static int print_metrics(struct fleet_line *line)
{
    struct buf out = BUF_INIT;
    line->metrics.unreadable = line->unreadable;
    fleet_metrics_text(&line->metrics, &out);
    bool ok = !buf_failed(&out) && fwrite(buf_str(&out), 1, out.len, stdout) == out.len && fflush(stdout) == 0;
    buf_release(&out);
    return ok ? 0 : -EIO;
}

static int print_heading(void)
{
    struct buf out = BUF_INIT;
    fleet_table_heading(&out);
    bool ok = !buf_failed(&out) && fwrite(buf_str(&out), 1, out.len, stdout) == out.len;
    buf_release(&out);
    return ok ? 0 : -EIO;
}

static int print_fleet(struct fleet_line *line, int count, char *paths[], struct rc_err *err)
{
    int r = line->csv ? print_heading() : 0;
    if (r == 0)
        r = add_all(line, count, paths, err);
    if (line->openmetrics)
        return r == 0 ? print_metrics(line) : r;
    if (line->csv)
        return r == 0 && fflush(stdout) != 0 ? -errno : r;
    if (r == 0 && (r = fleet_merge(&line->fleet)) < 0)
        return rc_err_errno(err, r, "cannot merge the bundles");
    if (r == 0)
        r = line->json ? print_json(line) : line->html ? print_html(line) : print_text(line);
    return r;
}

static void print_help(void)
{
    help_text("Usage: rocmcrash fleet [OPTIONS] DIR|BUNDLE...\n\n"
              "Merges the bundles of many ranks: which rank fell first and why, which ones only\n"
              "followed, which left nothing, and what is different about one of them.\n\nOptions:\n");
    options_help(fleet_options);
    help_text("\nExit status: 0 printed, 2 no bundle could be read, 125 wrong option.\n");
}

int verb_fleet(int argc, char *argv[])
{
    struct fleet_line line = {.rows = ROWS_DEFAULT};
    struct rc_err err = {""};
    int at = options_parse_around(fleet_options, &line, argc, argv, &err);
    if (at >= 0 && line.help) {
        print_help();
        return VERB_EXIT_OK;
    }
    bool two = line.json + line.html + line.csv + line.openmetrics > 1;
    if (at < 0 || at == argc || two) {
        (void)say_line(stderr, "rocmcrash: %s", at < 0 ? err.msg : two ? "--json, --html, --csv and --openmetrics are alternatives" : "usage: " USAGE);
        return VERB_EXIT_USAGE;
    }
    int r = print_fleet(&line, argc - at, argv + at, &err);
    if (r < 0 && err.msg[0] != '\0')
        verb_complain(NULL, &err);
    fleet_release(&line.fleet);
    return r < 0 ? VERB_EXIT_FAILED : VERB_EXIT_OK;
}
