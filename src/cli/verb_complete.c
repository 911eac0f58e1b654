/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sudo rocmcrash complete BUNDLE`: add what only root may read of the run's window (kernel log,
 * devcoredump within its five minutes) to a bundle that a user made, and judge again.
 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/json_bound.h"
#include "base/own_folder.h"
#include "base/say.h"
#include "bundle/bundle.h"
#include "cli/assets.h"
#include "cli/job.h"
#include "cli/job_output.h"
#include "cli/outcome.h"
#include "cli/stage_page.h"
#include "cli/stage_redact.h"
#include "cli/verbs.h"
#include "diagnose/fact.h"
#include "diagnose/features.h"

#define DOCUMENT_MAX ((size_t)8 << 20)
#define COMPLETE_MS 5000
#define BOOT_TIME_SLACK_S 5 /* the wall clock may be corrected in between */

static const char *const completed[] = {"kernel_log", "devcoredump"};

static bool is_completed(const char *name)
{
    for (size_t i = 0; i < sizeof completed / sizeof completed[0]; i++)
        if (strcmp(name, completed[i]) == 0)
            return true;
    return false;
}

static cJSON *read_document(const char *stage, const char *name)
{
    char path[FS_PATH_MAX + 64];
    RC_AUTO_FREE char *text = NULL;
    (void)snprintf(path, sizeof path, "%s/%s", stage, name);
    ssize_t len = fs_read_all(path, DOCUMENT_MAX, &text);
    return len > 0 && json_file_is_bounded(name, text, (size_t)len) ? cJSON_ParseWithLength(text, (size_t)len) : NULL;
}

/* Facts of the kernel log and derived facts are made again, so old ones are dropped. */
static bool is_stale(const char *name)
{
    return name == NULL || strncmp(name, "kmsg.", 5) == 0 || strncmp(name, "event.", 6) == 0 ||
           feature_is_derived(name);
}

/* A log that was read before is kept: by now the kernel may have less of it. */
static bool has_kernel_log(const cJSON *facts)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, facts)
    {
        const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "name"));
        if (name != NULL && strcmp(name, "kmsg.readable") == 0)
            return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(item, "value"));
    }
    return false;
}

static int load_facts(struct job *job, struct rc_err *err)
{
    cJSON *document = read_document(job->stage, "facts.json");
    cJSON *list = cJSON_GetObjectItemCaseSensitive(document, "facts");
    if (has_kernel_log(list)) {
        cJSON_Delete(document);
        return rc_err_set(err, -EALREADY, "it has its kernel log already");
    }
    for (cJSON *item = list != NULL ? list->child : NULL; item != NULL;) {
        cJSON *next = item->next;
        if (is_stale(cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "name"))))
            cJSON_Delete(cJSON_DetachItemViaPointer(list, item));
        item = next;
    }
    job->facts = facts_new();
    int r = document == NULL ? rc_err_set(err, -EBADMSG, "the bundle holds no readable facts")
                             : facts_from_json(job->facts, document, err);
    cJSON_Delete(document);
    return r;
}

/* Rows of the first time, but for what is tried again; and the bundle's name. */
static void load_manifest(struct job *job, char *ret_name, size_t size)
{
    cJSON *document = read_document(job->stage, "manifest.json");
    const char *own_name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(document, "name"));
    (void)snprintf(ret_name, size, "%s", own_name != NULL ? own_name : "this bundle");
    job->items = cJSON_DetachItemFromObjectCaseSensitive(document, "items");
    cJSON_Delete(document);
    if (!cJSON_IsArray(job->items)) {
        cJSON_Delete(job->items);
        job->items = cJSON_CreateArray();
    }
    for (cJSON *item = job->items->child; item != NULL;) {
        cJSON *next = item->next;
        const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "name"));
        if (name == NULL || is_completed(name))
            cJSON_Delete(cJSON_DetachItemViaPointer(job->items, item));
        item = next;
    }
}

static int check_boot(const struct job *job, struct rc_err *err)
{
    struct facts *now = facts_new();
    int64_t then_s = 0;
    int64_t now_s = 0;
    if (now != NULL)
        run_boot_time_fact(now);
    bool known = now != NULL && facts_get_integer(job->facts, "run.boot_time_s", &then_s) &&
                 facts_get_integer(now, "run.boot_time_s", &now_s);
    facts_free(now);
    if (known && llabs(now_s - then_s) > BOOT_TIME_SLACK_S)
        return rc_err_set(err, -ESTALE, "this machine was restarted since, or it is another one");
    return 0;
}

static void collect_again(struct job *job)
{
    static const struct collector *list[3];
    size_t count = 0;
    for (const struct collector *const *c = collectors; *c != NULL && count < 2; c++) {
        char path[FS_PATH_MAX + 64];
        if (!is_completed((*c)->name))
            continue;
        list[count++] = *c;
        manifest_forget_item(job->manifest, (*c)->name);
        (void)snprintf(path, sizeof path, "%s/%s", job->stage, (*c)->name);
        (void)fs_remove_tree(AT_FDCWD, path);
    }
    static const char *const no_strings[] = {NULL};
    job->ctx = (struct collect_ctx){
        .run_dir = job->info.dir,
        .argv = no_strings,
        .cwd = "",
        .maps = "",
        .fds = "",
        .environ_at_impact = no_strings,
        .start_mono_ns = job->info.start_mono_ns,
        .end_mono_ns = job->info.target_end_ns,
        .start_wall_ns = job->info.start_wall_ns,
        .kmsg_start_seq = job->info.kmsg_start_seq,
        .window_is_claimed = true,
    };
    job_collect(job, list, COLLECT_PERISHABLE, COMPLETE_MS);
}

/* "[  412.334455] amdgpu ...": 412.334455; 0 for a line of another form. */
static double seconds_of(const char *line)
{
    return line[0] == '[' ? strtod(line + 1, NULL) : 0;
}

/* The user sees what root adds to the bundle before the bundle is written. */
static void announce_lines(const char *log, struct outcome *outcome)
{
    size_t count = 0;
    double first_s = 0, last_s = 0;
    for (const char *line = log; *line != '\0';) {
        const char *end = strchr(line, '\n');
        if (line[0] != '#') {
            last_s = seconds_of(line);
            first_s = count++ == 0 ? last_s : first_s;
        }
        if (end == NULL)
            break;
        line = end + 1;
    }
    outcome_number(outcome, "kernel_lines", (double)count);
    if (count == 0)
        (void)printf("rocmcrash: the kernel log has no line about GPUs or memory from the run\n");
    else
        (void)printf("rocmcrash: adding %zu lines about GPUs and memory from the kernel log, of "
                     "seconds %.0f to %.0f since boot\n",
                     count, first_s, last_s);
    (void)fflush(stdout);
}

static void read_kernel_log(struct job *job, struct outcome *outcome)
{
    char path[FS_PATH_MAX + 64];
    RC_AUTO_FREE char *log = NULL;
    (void)snprintf(path, sizeof path, "%s/kernel_log/kernel.log", job->stage);
    ssize_t len = fs_read_all(path, DOCUMENT_MAX, &log);
    if (log == NULL)
        return;
    announce_lines(log, outcome);
    kernel_log_to_facts(job->facts, log, len >= 0 ? (size_t)len : strlen(log), "kernel log");
}

/* Without the log there is nothing to complete, and the bundle stays what it was. */
static int check_read(const struct job *job, struct rc_err *err)
{
    const struct fact *log = facts_best(job->facts, "kmsg.readable");
    if (log == NULL || log->status == FACT_PRESENT)
        return 0;
    return rc_err_set(err, -EPERM, "the kernel log cannot be read: %s", log->reason);
}

struct completion {
    struct job *job;
    struct outcome *outcome;
};

static int change_bundle(void *context, const char *stage_dir, struct manifest *manifest,
                         struct rc_err *err)
{
    static const struct job_options options = {.cancel_fd = -1};
    const struct completion *completion = context;
    struct job *job = completion->job;
    struct facts *judged = NULL;
    char path[FS_PATH_MAX + 64];
    char name[256];
    struct rc_err why = {""}; /* of the rules: the built-in ones do */
    *job = (struct job){.options = &options,
                        .manifest = manifest,
                        .redactor = stage_redactor(&options.privacy, &why)};
    (void)snprintf(job->stage, sizeof job->stage, "%s", stage_dir);
    (void)snprintf(path, sizeof path, "%s/run", stage_dir);
    RC_AUTO_CLOSE int stage_fd = open(stage_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = stage_fd < 0 ? -errno : job->redactor == NULL ? -ENOMEM : 0;
    if (r == 0)
        r = run_info_load(&job->info, path, err);
    if (r == 0)
        r = stage_reserve(job->redactor, stage_dir, err);
    if (r == 0)
        r = load_facts(job, err);
    if (r == 0)
        r = check_boot(job, err);
    if (r == 0 && (job->tree = asset_tree(NULL, err)) == NULL)
        r = -ENOENT;
    if (r == 0) {
        load_manifest(job, name, sizeof name);
        collect_again(job);
        r = check_read(job, err);
    }
    if (r == 0) {
        read_kernel_log(job, completion->outcome);
        r = stage_learn(job->redactor, stage_dir, err);
    }
    if (r == 0) {
        r = job_judge_clean(job, &judged, err);
    }
    if (r == 0)
        r = job_write_judgement(job, judged, name, stage_fd, err);
    if (r == 0)
        r = stage_redact_files(job->redactor, stage_dir, stage_fd, STAGE_OWN, &options.privacy,
                               err);
    if (r == 0)
        r = stage_write_page(stage_dir, stage_fd, manifest_name(manifest));
    if (r == 0)
        job_print_verdict(job, judged, NULL);
    facts_free(judged);
    job->manifest = NULL; /* the caller's */
    return r;
}

/* `sudo -E` keeps the caller's variable: root reads no other user's folder, and no link in it, in place of the machine.
 * The bundle belongs to that user. */
static void leave_a_strangers_sysroot(void)
{
    if (geteuid() != 0 || getenv("ROCMCRASH_SYSROOT") == NULL || own_folder_from("ROCMCRASH_SYSROOT") != NULL)
        return;
    say_line(stderr, "rocmcrash: ROCMCRASH_SYSROOT is not root's own folder: not used");
    (void)unsetenv("ROCMCRASH_SYSROOT");
}

int verb_complete(int argc, char *argv[])
{
    static const struct plain_verb verb = {
        .name = "complete", .usage = "complete [--json] BUNDLE", .has_operand = true,
        .help = "As root: adds the kernel log of the run and the GPU's core dump to a bundle, and\n"
                "judges it again. Run it before you restart the machine."};
    static struct job job;
    struct outcome outcome;
    struct completion completion = {&job, &outcome};
    struct rc_err err = {""};
    const char *path = NULL;
    bool json = false;
    int status = plain_verb_parse(&verb, argc, argv, &json, &path);
    if (status != OUTCOME_GOES_ON)
        return status;
    leave_a_strangers_sysroot();
    outcome_begin(&outcome, verb.name, json);
    int r = bundle_rewrite(path, BUNDLE_MODE_PRIVATE, change_bundle, &completion, &err);
    job_close(&job);
    outcome_bundle(&outcome, path);
    if (r == 0 && !json)
        (void)say_whole(stdout, "rocmcrash: completed: %s", path);
    return outcome_end(&outcome, r < 0 ? VERB_EXIT_FAILED : VERB_EXIT_OK, path, &err);
}
