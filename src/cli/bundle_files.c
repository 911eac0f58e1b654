/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bundle_files.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fs.h"
#include "base/json_bound.h"
#include "bundle/bundle.h"
#include "cli/version.h"

#define FILE_MAX ((size_t)8 << 20)

/* The place of the files: a folder, or else an archive. */
struct source {
    const char *stage;
    const char *bundle;
    int refused; /* the first file of the stage that is there and could not be read: -errno */
};

/* NULL where there is none; the caller's to free. */
static char *read_file(struct source *from, const char *name)
{
    char path[FS_PATH_MAX];
    char *text = NULL;
    struct rc_err err = {""};
    if (from->stage == NULL)
        return bundle_read_file(from->bundle, name, FILE_MAX, &text, &err) >= 0 ? text : NULL;
    if ((size_t)snprintf(path, sizeof path, "%s/%s", from->stage, name) >= sizeof path)
        return NULL;
    ssize_t len = fs_read_all(path, FILE_MAX, &text);
    if (len >= 0 && json_file_is_bounded(name, text, (size_t)len))
        return text;
    if (len < 0 && len != -ENOENT && len != -EFBIG && from->refused == 0)
        from->refused = (int)len;
    free(text);
    return NULL;
}

/* "stacks/stacks.2.txt": the fact stack.top says in which file it was found. */
static char *read_stacks(struct source *from, const char *facts_text)
{
    cJSON *facts = facts_text != NULL ? cJSON_Parse(facts_text) : NULL;
    const cJSON *fact = NULL;
    char name[64] = "";
    cJSON_ArrayForEach(fact, cJSON_GetObjectItemCaseSensitive(facts, "facts"))
    {
        const char *its = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(fact, "name"));
        const char *file = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(fact, "source"));
        if (its != NULL && file != NULL && strcmp(its, "stack.top") == 0 &&
            strncmp(file, "stacks.", 7) == 0)
            (void)snprintf(name, sizeof name, "stacks/%.*s", (int)strcspn(file, ",/"), file);
    }
    cJSON_Delete(facts);
    return name[0] != '\0' ? read_file(from, name) : NULL;
}

static int read_all(struct bundle_files *ret, struct source *from, struct rc_err *err)
{
    struct report_files *view = &ret->view;
    const struct {
        const char **text;
        const char *name;
    } files[] = {
        {&view->summary, "SUMMARY.md"},
        {&view->verdict, "verdict.json"},
        {&view->facts, "facts.json"},
        {&view->telemetry, "telemetry/telemetry.csv"},
        {&view->torch_stats, "telemetry/torch-stats.csv"},
        {&view->snapshot, "hook/snapshot.json"},
        {&view->ledger, "ledger/ledger.json"},
        {&view->kernel_log, "kernel_log/kernel.log"},
        {&view->output, "output/stderr.txt"},
        {&view->rocminfo, "hsa/rocminfo.txt"},
    };
    size_t n = 0;
    for (; n < sizeof files / sizeof files[0]; n++)
        *files[n].text = ret->texts[n] = read_file(from, files[n].name);
    if (view->torch_stats == NULL) /* a bundle that was made before 0.2.0 */
        view->torch_stats = ret->texts[n++] = read_file(from, "hook/torch-stats.csv");
    view->stacks = ret->texts[n] = read_stacks(from, view->facts);
    stage_names_sort(&ret->names);
    view->names = ret->names.list;
    view->name_count = ret->names.count;
    view->bundle_name = ret->name;
    view->tool_version = ROCMCRASH_VERSION;
    if (from->refused < 0)
        return rc_err_errno(err, from->refused, "cannot read its files");
    return view->summary != NULL ? 0 : rc_err_set(err, -ENOENT, "it has no SUMMARY.md");
}

int bundle_files_of_stage(struct bundle_files *ret, const char *stage, const char *name,
                          struct rc_err *err)
{
    static const char *const made_later[] = {"report.html", "redaction.json", "manifest.json"};
    *ret = (struct bundle_files){.texts = {NULL}};
    (void)snprintf(ret->name, sizeof ret->name, "%s", name);
    stage_names_read(stage, &ret->names);
    for (size_t i = 0; i < sizeof made_later / sizeof made_later[0]; i++)
        stage_names_add(&ret->names, made_later[i]);
    return read_all(ret, &(struct source){.stage = stage}, err);
}

static int add_name(void *context, const char *name, uint64_t bytes)
{
    (void)bytes;
    stage_names_add(context, name);
    return 0;
}

int bundle_files_of_archive(struct bundle_files *ret, const char *path, struct rc_err *err)
{
    const char *slash = strrchr(path, '/');
    *ret = (struct bundle_files){.texts = {NULL}};
    (void)snprintf(ret->name, sizeof ret->name, "%s", slash != NULL ? slash + 1 : path);
    char *end = strstr(ret->name, ".tar.gz");
    if (end != NULL)
        *end = '\0';
    /* If the archive is damaged, its intact files are used. read_all() fails if they are not enough. */
    struct rc_err unused = {""};
    int listed = bundle_list(path, add_name, &ret->names, err);
    int r = read_all(ret, &(struct source){.bundle = path}, listed < 0 ? &unused : err);
    return r < 0 && listed < 0 ? listed : r;
}

void bundle_files_release(struct bundle_files *files)
{
    for (size_t i = 0; i < BUNDLE_FILES_MAX; i++)
        free(files->texts[i]);
    stage_names_release(&files->names);
    *files = (struct bundle_files){.texts = {NULL}};
}
