/* SPDX-License-Identifier: Apache-2.0 */
/* `list [DIR...]`: the bundles here and in the state folder, and runs that nobody has bundled. */
#include <cjson/cJSON.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/say.h"
#include "bundle/bundle.h"
#include "cli/input.h"
#include "cli/json_print.h"
#include "cli/option.h"
#include "cli/prune.h"
#include "cli/rank_record.h"
#include "cli/verbs.h"
#include "diagnose/tree.h"
#include "record/rundir.h"

#define VERDICT_MAX ((size_t)1 << 20)

struct list_line {
    bool json, yes, help;
    const char *prune;      /* NULL = nothing is removed */
    const char *class_name; /* of the bundles that are listed; NULL = of any */
    struct prune_list found;
    size_t rows, rank_records;
    size_t renamed; /* rows whose file has a pseudonym for the program */
};

static const struct option_def list_options[] = {
    {"class", 0, "CLASS", "only bundles with this verdict ('gpu-hang'), and no unfinished runs",
     option_text, offsetof(struct list_line, class_name)},
    {"json", 0, NULL, "a JSON object a line", option_on, offsetof(struct list_line, json)},
    {"prune", 0, "KEEP", "keep the newest KEEP bundles and runs ('20', or '500M'), ask before removing the others",
     option_text, offsetof(struct list_line, prune)},
    {"yes", 'y', NULL, "remove without asking", option_on, offsetof(struct list_line, yes)},
    {"help", 'h', NULL, "print this and exit", option_on, offsetof(struct list_line, help)},
    {NULL, 0, NULL, NULL, NULL, 0},
};

/* The columns of one row, a bundle or a run. Texts are not owned. */
struct row {
    const char *class_name, *subclass, *confidence, *path;
    struct stat st;
    time_t made_s; /* by its name */
    uint64_t bytes;
    bool finished;
};

static void print_json_row(const struct row *row)
{
    cJSON *json = cJSON_CreateObject();
    (void)cJSON_AddStringToObject(json, "path", row->path);
    (void)cJSON_AddBoolToObject(json, "finished", row->finished);
    (void)cJSON_AddNumberToObject(json, "made_s", (double)row->made_s);
    (void)cJSON_AddNumberToObject(json, "modified_s", (double)row->st.st_mtime);
    (void)cJSON_AddNumberToObject(json, "bytes", (double)row->bytes);
    if (row->class_name != NULL)
        (void)cJSON_AddStringToObject(json, "class", row->class_name);
    if (row->subclass != NULL)
        (void)cJSON_AddStringToObject(json, "subclass", row->subclass);
    if (row->confidence != NULL)
        (void)cJSON_AddStringToObject(json, "confidence", row->confidence);
    (void)json_print(json, JSON_LINE);
}

/* "<project1>.py" in a bundle, "project1.py" in its file's name. */
static bool has_pseudonym(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *at = strstr(slash != NULL ? slash : path, "-project");
    return at != NULL && at[8] >= '1' && at[8] <= '9';
}

static void print_row(struct list_line *line, const struct row *row)
{
    char when[32] = "";
    char size[32] = "";
    struct tm utc;
    bool is_unknown = row->class_name != NULL && strcmp(row->class_name, "unknown") == 0;
    if (line->json) {
        print_json_row(row);
        line->rows++;
        return;
    }
    line->renamed += has_pseudonym(row->path);
    if (line->rows++ == 0)
        (void)say_line(stdout, "%-16s  %9s  %-18s  %-7s  %s", "WHEN (UTC)", "SIZE", "CLASS", "SURE", "FILE");
    if (gmtime_r(&row->made_s, &utc) != NULL)
        (void)strftime(when, sizeof when, "%Y-%m-%d %H:%M", &utc);
    (void)snprintf(size, sizeof size, "%" PRIu64 " KiB", (row->bytes + 1023) / 1024);
    /* An unknown class is sure of its subclass only ("killed by SIGKILL"). */
    (void)say_line(stdout, "%-16s  %9s  %-18s  %-7s  %s", when, size,
                   is_unknown && row->subclass != NULL && row->subclass[0] != '\0' ? row->subclass
                   : row->class_name != NULL ? row->class_name
                   : row->finished         ? "(unreadable)"
                                           : "(unfinished)",
                   row->confidence != NULL && !is_unknown ? row->confidence : "", row->path);
}

static bool is_wanted(const struct list_line *line, const char *class_name)
{
    return line->class_name == NULL || (class_name != NULL && strcmp(class_name, line->class_name) == 0);
}

static bool has_bundle_prefix(const char *path)
{
    const char *slash = strrchr(path, '/');
    return strncmp(slash != NULL ? slash + 1 : path, "rocmcrash-", 10) == 0;
}

static void list_bundle(struct list_line *line, const char *path)
{
    RC_AUTO_FREE char *text = NULL;
    struct rc_err err = {""};
    struct row row = {.path = path, .finished = true};
    if (stat(path, &row.st) != 0 || !S_ISREG(row.st.st_mode))
        return;
    ssize_t len = bundle_read_file(path, "verdict.json", VERDICT_MAX, &text, &err);
    row.bytes = (uint64_t)row.st.st_size;
    cJSON *json = len > 0 ? cJSON_ParseWithLength(text, (size_t)len) : NULL;
    row.class_name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "class"));
    row.subclass = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "subclass"));
    row.made_s = input_bundle_time_s(path, &row.st);
    row.confidence = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "confidence"));
    if (is_wanted(line, row.class_name)) {
        print_row(line, &row);
        /* An unreadable file may be anything, and one that somebody renamed is his: it is never removed. */
        if (row.class_name != NULL && has_bundle_prefix(path) && input_has_bundle_name(path))
            prune_add(&line->found, path, row.bytes, row.made_s, PRUNE_BUNDLE);
    }
    cJSON_Delete(json);
}

/* One row a rank would hide the bundles. */
static void count_rank_record(struct list_line *line, const char *path)
{
    struct stat st;
    if (line->class_name != NULL || lstat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return;
    line->rank_records++;
    prune_add(&line->found, path, (uint64_t)st.st_size, st.st_mtime, PRUNE_RANK_RECORD);
}

static int list_folder(struct list_line *line, const char *folder)
{
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, NULL, alphasort);
    if (count < 0)
        return -errno;
    for (int i = 0; i < count; i++) {
        char path[FS_PATH_MAX];
        const char *name = entries[i]->d_name;
        int n = strcmp(folder, ".") == 0 ? snprintf(path, sizeof path, "%s", name)
                                         : snprintf(path, sizeof path, "%s/%s", folder, name);
        bool fits = n > 0 && (size_t)n < sizeof path;
        if (fits && input_is_bundle_of_ours(path))
            list_bundle(line, path);
        else if (fits && rank_record_is_name(path))
            count_rank_record(line, path);
        free(entries[i]);
    }
    free(entries);
    return 0;
}

static void on_unfinished(void *context, const char *run_dir)
{
    struct list_line *line = context;
    struct row row = {.path = run_dir};
    if (stat(run_dir, &row.st) != 0)
        return;
    row.bytes = rundir_bytes(run_dir);
    row.made_s = row.st.st_mtime;
    print_row(line, &row);
    prune_add(&line->found, run_dir, row.bytes, row.made_s, PRUNE_RUN);
}

static bool is_same(const char *folder, const char *other)
{
    struct stat a, b;
    return stat(folder, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* The folders that take bundles when the wanted one takes none: "bundles" beside the runs; /tmp/rocmcrash-UID has no "bundles". */
static void list_fallback(struct list_line *line, const char *runs)
{
    static const char *const tails[] = {"", "/bundles"};
    for (size_t i = 0; i < sizeof tails / sizeof tails[0]; i++) {
        char folder[FS_PATH_MAX + 32];
        (void)snprintf(folder, sizeof folder, "%.*s%s", (int)(strrchr(runs, '/') - runs), runs, tails[i]);
        if (!is_same(".", folder))
            (void)list_folder(line, folder);
    }
}

/* If somebody has taken our name in /tmp, runs and bundles lie in different folders. */
static void list_shared(struct list_line *line)
{
    char folder[FS_PATH_MAX];
    if (bundle_shared_folder(folder, sizeof folder) == 0 && !is_same(".", folder))
        (void)list_folder(line, folder);
}

static int list_own_folders(struct list_line *line, struct rc_err *err)
{
    char base[FS_PATH_MAX];
    if (rundir_base(base, sizeof base, err) == 0)
        list_fallback(line, base);
    list_shared(line);
    if (line->class_name != NULL) /* an unfinished run has no verdict */
        return 0;
    size_t before = line->rows;
    int r = rundir_unfinished(on_unfinished, line, err);
    if (line->rows > before && !line->json)
        (void)printf("'rocmcrash recover' makes bundles of the unfinished runs. At most %d runs and %d GiB\n"
                     "are kept, the oldest go first. No bundle is removed by itself: see --prune.\n",
                     RUNDIR_KEPT_MAX, (int)(RUNDIR_KEPT_BYTES >> 30));
    return r < 0 ? r : 0;
}

static void tell_classes(const char *wrong)
{
    struct buf classes = BUF_INIT;
    tree_class_names(&classes);
    (void)say_line(stderr, "rocmcrash: --class is one of %s; not '%s'", buf_str(&classes), wrong);
    buf_release(&classes);
}

int verb_list(int argc, char *argv[])
{
    struct list_line line = {.rows = 0};
    struct rc_err err = {""};
    int failed = 0;
    int at = options_parse_around(list_options, &line, argc, argv, &err);
    struct prune_limit limit = {0, 0, 0};
    if (at >= 0 && line.prune != NULL && prune_limit_read(line.prune, &limit, &err) < 0)
        at = -EINVAL;
    if (at >= 0 && line.class_name != NULL && !tree_is_class(line.class_name)) {
        tell_classes(line.class_name);
        return VERB_EXIT_USAGE;
    }
    if (at < 0) {
        (void)say_line(stderr, "rocmcrash: %s", err.msg);
        return VERB_EXIT_USAGE;
    }
    if (line.help) {
        help_text("Usage: rocmcrash list [OPTIONS] [DIR...]\n\n"
                  "Lists the bundles of the folders, and unfinished runs. Default: the current\n"
                  "folder, and the one that takes a bundle when its own folder takes no files.\n"
                  "WHEN is the time in a bundle's name: the run began, or the snapshot was made.\n"
                  "Bundles are yours: rocmcrash removes none unless you say so.\n"
                  "\nOptions:\n");
        options_help(list_options);
        return VERB_EXIT_OK;
    }
    for (int i = at; i < argc; i++) {
        int r = list_folder(&line, argv[i]);
        if (r < 0) {
            (void)rc_err_errno(&err, r, "cannot read the folder '%s'", argv[i]);
            verb_complain(NULL, &err);
            failed++;
        }
    }
    if (at == argc) {
        (void)list_folder(&line, ".");
        if (list_own_folders(&line, &err) < 0) {
            verb_complain(NULL, &err);
            failed++;
        }
    }
    if (line.rank_records > 0 && !line.json)
        (void)printf("%zu records of ranks that were asked to end, for 'rocmcrash fleet'\n", line.rank_records);
    if (line.renamed > 1)
        (void)say_line(stdout, "project1 of two bundles may be two programs: each numbers its pseudonyms on its own");
    (void)fflush(stdout);
    if (line.prune != NULL && failed == 0 && prune_ask(&line.found, &limit, line.yes, &err) < 0) {
        verb_complain(NULL, &err);
        failed++;
    }
    prune_release(&line.found);
    if (line.rows == 0 && line.rank_records == 0 && failed == 0 && !line.json)
        (void)say_line(stdout, "%s", line.class_name != NULL ? "no bundle of this class"
                                     : at < argc             ? "no bundles in there; unfinished runs are listed without a folder"
                                                             : "no bundles, no unfinished runs");
    return failed > 0 || fflush(stdout) != 0 ? VERB_EXIT_FAILED : VERB_EXIT_OK;
}
