/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/stage_page.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/fs.h"
#include "bundle/bundle.h"
#include "cli/stage_names.h"
#include "cli/version.h"
#include "report/html.h"

#define FILE_MAX ((size_t)8 << 20)

/* Where the files are: a folder, or else an archive. */
struct source {
    const char *stage;
    const char *bundle;
};

/* NULL where there is none; the caller's to free. */
static char *read_file(const struct source *from, const char *name)
{
    char path[FS_PATH_MAX];
    char *text = NULL;
    struct rc_err err = {""};
    if (from->stage == NULL)
        return bundle_read_file(from->bundle, name, FILE_MAX, &text, &err) >= 0 ? text : NULL;
    if ((size_t)snprintf(path, sizeof path, "%s/%s", from->stage, name) >= sizeof path ||
        fs_read_all(path, FILE_MAX, &text) >= 0)
        return text;
    free(text);
    return NULL;
}

/* "stacks/stacks.2.txt": the fact stack.top says in which file it was found. */
static char *read_stacks(const struct source *from, const char *facts_text)
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

/* False: there is no summary. */
static bool make(const struct source *from, const struct stage_names *names,
                 const char *bundle_name, struct buf *out)
{
    RC_AUTO_FREE char *summary = read_file(from, "SUMMARY.md");
    RC_AUTO_FREE char *verdict = read_file(from, "verdict.json");
    RC_AUTO_FREE char *facts = read_file(from, "facts.json");
    RC_AUTO_FREE char *telemetry = read_file(from, "telemetry/telemetry.csv");
    RC_AUTO_FREE char *torch_stats = read_file(from, "hook/torch-stats.csv");
    RC_AUTO_FREE char *snapshot = read_file(from, "hook/snapshot.json");
    RC_AUTO_FREE char *ledger = read_file(from, "ledger/ledger.json");
    RC_AUTO_FREE char *kernel_log = read_file(from, "kernel_log/kernel.log");
    RC_AUTO_FREE char *output = read_file(from, "output/stderr.txt");
    RC_AUTO_FREE char *stacks = read_stacks(from, facts);
    if (summary == NULL)
        return false;
    report_html(&(struct report_files){.summary = summary,
                                       .verdict = verdict,
                                       .facts = facts,
                                       .telemetry = telemetry,
                                       .torch_stats = torch_stats,
                                       .snapshot = snapshot,
                                       .ledger = ledger,
                                       .kernel_log = kernel_log,
                                       .output = output,
                                       .stacks = stacks,
                                       .bundle_name = bundle_name,
                                       .tool_version = ROCMCRASH_VERSION,
                                       .names = names->list,
                                       .name_count = names->count},
                out);
    return true;
}

int stage_write_page(const char *stage, int stage_fd, const char *bundle_name)
{
    static struct stage_names names;
    struct source from = {.stage = stage};
    struct buf page = BUF_INIT;
    int r = 0;
    stage_names_read(stage, &names);
    stage_names_add(&names, "report.html");
    stage_names_add(&names, "redaction.json");
    stage_names_add(&names, "manifest.json");
    if (make(&from, &names, bundle_name, &page))
        r = buf_failed(&page) ? -ENOMEM
                              : fs_write_file_at(stage_fd, "report.html", buf_str(&page), page.len, false);
    stage_names_release(&names);
    buf_release(&page);
    return r;
}

static int add_name(void *context, const char *name, uint64_t bytes)
{
    (void)bytes;
    stage_names_add(context, name);
    return 0;
}

int bundle_page(const char *bundle, struct buf *out, struct rc_err *err)
{
    static struct stage_names names;
    struct source from = {.bundle = bundle};
    const char *slash = strrchr(bundle, '/');
    char name[256];
    (void)snprintf(name, sizeof name, "%s", slash != NULL ? slash + 1 : bundle);
    char *end = strstr(name, ".tar.gz");
    if (end != NULL)
        *end = '\0';
    int r = bundle_list(bundle, add_name, &names, err);
    if (r == 0 && !make(&from, &names, name, out))
        r = rc_err_set(err, -ENOENT, "the bundle has no SUMMARY.md");
    if (r == 0 && buf_failed(out))
        r = rc_err_set(err, -ENOMEM, "no memory for the page");
    stage_names_release(&names);
    return r;
}
