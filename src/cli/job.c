/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/full_bundles.h"
#include "cli/job.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/memory.h"
#include "base/say.h"
#include "base/target_change.h"
#include "bundle/bundle.h"
#include "bundle/redact.h"
#include "cli/assets.h"
#include "cli/event.h"
#include "cli/job_output.h"
#include "cli/job_rows.h"
#include "cli/own_variables.h"
#include "cli/patience.h"
#include "cli/site.h"
#include "cli/stage_places.h"
#include "cli/stage_redact.h"
#include "collect/runner.h"
#include "collectors/job.h"
#include "record/job_variables.h"
#include "record/rundir.h"
#include "recorder/flush.h"
#include "telemetry/series.h"

#define PERISHABLE_MS 400
#define QUICK_MS 450
#define LATE_MS 2000
#define SITE_COLLECT_MS 2000
#define STAGE_ROOM ((size_t)16 << 20)
#define STAGE_TRIES_MAX 6u
/* Counters settle when the driver's release work has run; the sampler writes its last record then.
 */
#define AFTER_END_MS 1300

static uint64_t ms_to_ns(uint64_t ms)
{
    return ms * NS_PER_MS;
}

static bool cancelled(const struct job *job)
{
    struct pollfd fd = {.fd = job->options->cancel_fd, .events = POLLIN};
    return fd.fd >= 0 && poll(&fd, 1, 0) > 0;
}

static const char *source_of_ours(void)
{
    return target_change_is_variable() ? "environment of rocmcrash, with the change that try made for the process"
                                       : "environment of rocmcrash, which the process inherited";
}

static void fill_context(struct job *job)
{
    const struct run_info *info = &job->info;
    static const char *const no_strings[] = {NULL};
    const struct impact_record *failed = info->failed >= 0 ? &info->impacts[info->failed] : NULL;
    job->maps = failed != NULL ? impact_record_text(failed, CHUNK_MAPS) : NULL;
    job->fds = failed != NULL ? impact_record_text(failed, CHUNK_FDS) : NULL;
    unsigned refused = memory_refusals();
    job->environ_list = failed != NULL ? impact_record_environ(failed, &job->environ_text) : NULL;
    if (job->environ_list != NULL)
        own_variables_remove(job->environ_list, job->environ_text);
    /* Not of a `recover`, which is started in another shell; not if memory was refused. */
    bool inherits_ours =
        job->environ_list == NULL && memory_refusals() == refused && job->shared != NULL;
    if (inherits_ours)
        job->environ_list = target_change_environment();
    job->ctx = (struct collect_ctx){
        .run_dir = info->dir,
        .target_pid = info->target_pid,
        .failed_pid = failed != NULL ? failed->header.pid : 0,
        .argv = info->argv != NULL ? (const char *const *)info->argv : no_strings,
        .cwd = info->cwd,
        .maps = job->maps != NULL ? job->maps : "",
        .fds = job->fds != NULL ? job->fds : "",
        .environ_at_impact = job->environ_list != NULL ? job->environ_list : no_strings,
        .environ_source = inherits_ours ? source_of_ours() : NULL,
        .start_mono_ns = info->start_mono_ns,
        .end_mono_ns = info->target_end_ns,
        .start_wall_ns = info->start_wall_ns,
        .kmsg_start_seq = info->kmsg_start_seq,
        .boot_id = info->restarted ? info->boot_id : NULL,
        .hash_budget_ms = job->options->hash_budget_ms,
        .include = job->options->privacy.include,
        .hook_trouble = info->hook_trouble,
        .stdout_path = info->stdout_path,
        .stdout_inode = info->stdout_inode,
        .stdout_start = info->stdout_start,
        .follows_stdout = info->follows_stdout,
        .stdout_error = info->stdout_error,
        .ledger_error = info->ledger_error,
    };
}

void job_collect(struct job *job, const struct collector *const *list, enum collect_phase phase,
                 uint64_t within_ms)
{
    struct rc_err err = {""};
    struct runner_options options = {
        .stage_dir = job->stage,
        .cancel_fd = phase == COLLECT_SLOW ? job->options->cancel_fd : -1,
        .total_deadline_mono_ns = clock_mono_ns() + ms_to_ns(within_ms),
        .callback_arg = job,
    };
    if (runner_run(list, phase, &job->ctx, &options, job->facts, job_collector_row, &err) < 0)
        job_row(job, "collectors", COLLECT_FAILED, err.msg, 0);
    job_trouble(job, "the hook's tables and stacks", stage_places(job->stage));
}

/* The evidence is worth keeping when the rules cannot be read: it can be judged later. */
static int verdict_without_tree(struct verdict *verdict)
{
    char **const texts[] = {&verdict->subclass, &verdict->verify};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        *texts[i] = strdup("");
    verdict->class_name = strdup("unknown");
    verdict->vendor = strdup("unknown");
    verdict->confidence = strdup("low");
    verdict->sentence = strdup("The decision tree could not be read: rocmcrash triage judges this "
                               "bundle when it can.");
    verdict->file_at = strdup("the program's own tracker");
    return verdict->class_name != NULL && verdict->sentence != NULL ? 0 : -ENOMEM;
}

/* A copy, because diagnosing adds features, and those of an early look must not outlive it. */
int job_judge(struct job *job, const struct facts *facts, struct facts **ret_judged,
              struct rc_err *err)
{
    struct facts *judged = facts_new();
    cJSON *json = facts_to_json(facts);
    int r = judged == NULL || json == NULL ? -ENOMEM : facts_from_json(judged, json, err);
    cJSON_Delete(json);
    verdict_release(&job->verdict);
    if (r == 0)
        r = job->tree != NULL ? diagnose(judged, job->tree, &job->verdict, err)
                              : verdict_without_tree(&job->verdict);
    if (r == 0)
        *ret_judged = judged;
    else
        facts_free(judged);
    return r;
}

int job_judge_clean(struct job *job, struct facts **ret_judged, struct rc_err *err)
{
    struct facts *clean = NULL;
    int r = stage_redact_facts(job->redactor, job->facts, &clean, err);
    if (r == 0)
        r = job_judge(job, clean, ret_judged, err);
    facts_free(clean);
    return r;
}

/* The end of a value is known here: a password may have blanks and quotes. */
static int learn_values(struct job *job, const char *const *environ_list)
{
    int r = redactor_learn_arguments(job->redactor, job->ctx.argv);
    for (const char *const *entry = environ_list; r == 0 && *entry != NULL; entry++)
        r = redactor_learn_arguments(job->redactor, (const char *const[]){*entry, NULL});
    return r;
}

/* "my zorblatter": a rule for texts ends a name at a blank. If it hides a part, the whole name is hidden as one: a stack has it whole. */
static int learn_whole_program(struct job *job)
{
    const char *program = run_info_program(&job->info);
    RC_AUTO_FREE char *clean = strchr(program, ' ') != NULL ? stage_redact_line(job->redactor, program) : NULL;
    return clean != NULL && strcmp(clean, program) != 0 ? redactor_add(job->redactor, REDACT_PROJECT, program) : 0;
}

/* Secrets in the environment and the command line are searched for in every file: a traceback shows the
 * value of a variable without its name. */
static void learn_about_run(struct job *job)
{
    struct buf text = BUF_INIT;
    const char *const *list = job->environ_list != NULL ? job->environ_list : (const char *const *)environ;
    for (const char *const *entry = list; *entry != NULL; entry++) {
        buf_puts(&text, *entry);
        buf_putc(&text, '\n');
    }
    for (const char *const *word = job->ctx.argv; *word != NULL; word++) {
        buf_puts(&text, *word);
        buf_putc(&text, ' ');
    }
    buf_printf(&text, "\n./%s\n", run_info_program(&job->info)); /* as one starts it: rule identifier-of-program */
    if (redactor_learn(job->redactor, buf_str(&text), text.len) < 0 || learn_values(job, list) < 0 ||
        learn_whole_program(job) < 0)
        job_row(job, "redaction", COLLECT_PARTIAL, "no memory for the names in the environment",
                0);
    if (text.data != NULL)
        explicit_bzero(text.data, text.len);
    buf_release(&text);
}

/* Texts are redacted before facts are read out of them: a fact is a piece of a line, and half a token cannot
 * be recognised. */
static void read_output(struct job *job)
{
    if (job->info.output == NULL)
        return;
    int r = stage_redact_text(job->redactor, "output/stderr.txt", &job->info.output,
                              &job->info.output_len);
    job_trouble(job, "messages on stderr", r);
    job->is_output_clean = r == 0;
    if (!job->is_output_clean)
        return;
    output_to_facts(job->facts, job->info.output, job->info.output_len, "stderr");
    site_messages(job->facts, job->info.output, job->info.output_len, "stderr");
}

/* A text that a collector wrote. */
static void read_collected(struct job *job, const char *name, const char *source,
                           void (*read)(struct facts *, const char *, size_t, const char *))
{
    char path[FS_PATH_MAX + 64];
    RC_AUTO_FREE char *text = NULL;
    (void)snprintf(path, sizeof path, "%s/%s", job->stage, name);
    ssize_t n = fs_read_all(path, 8u << 20, &text);
    size_t len = n >= 0 ? (size_t)n : text != NULL ? strlen(text) : 0;
    int r = text != NULL ? stage_redact_text(job->redactor, name, &text, &len)
            : n != -ENOENT ? (int)n : 0;
    job_trouble(job, name, r);
    if (text == NULL || r < 0)
        return;
    if (n >= 0)
        (void)fs_write_file_at(AT_FDCWD, path, text, len, false);
    read(job->facts, text, len, source);
}

static void read_kernel_log(struct job *job)
{
    read_collected(job, "kernel_log/kernel.log", "kernel log", kernel_log_to_facts);
}

static void read_stdout(struct job *job)
{
    read_collected(job, "stdout/stdout.txt", "stdout", output_to_facts);
}

/* The last words of a Python program whose stderr was not read. */
static void read_exception(struct job *job)
{
    if (job->info.follow_error[0] != '\0')
        read_collected(job, "hook/exception.txt", "Python's exception", output_to_facts);
}

/* Runs the collectors that the first verdict could not wait for, on a machine that is slow, perhaps because
 * it is out of memory. */
static void collect_late(struct job *job)
{
    const struct collector *late[JOB_LATE_MAX + 1] = {NULL};
    size_t count = 0;
    bool kernel_log = false;
    bool has_stdout = false;
    for (const struct collector *const *c = collectors; *c != NULL; c++) {
        for (size_t i = 0; i < job->late_count && count < JOB_LATE_MAX; i++) {
            if (strcmp((*c)->name, job->late[i]) == 0) {
                late[count++] = *c;
                kernel_log = kernel_log || strcmp((*c)->name, "kernel_log") == 0;
                has_stdout = has_stdout || strcmp((*c)->name, "stdout") == 0;
            }
        }
    }
    uint64_t end_ns = clock_mono_ns() + ms_to_ns(LATE_MS);
    for (enum collect_phase phase = COLLECT_PERISHABLE; count > 0 && phase <= COLLECT_QUICK; phase++) {
        uint64_t now_ns = clock_mono_ns();
        job_collect(job, late, phase, now_ns < end_ns ? (end_ns - now_ns) / NS_PER_MS : 0);
    }
    if (kernel_log)
        read_kernel_log(job);
    if (has_stdout)
        read_stdout(job);
}

static void read_series(struct job *job)
{
    struct rc_err err = {""};
    series_release(&job->series);
    job->series_error = series_load(&job->series, job->info.dir, &err);
    job->has_series = job->series_error == 0;
    if (job->has_series)
        job_series_facts(job);
    else
        (void)facts_set_missing(job->facts, "run.telemetry", FACT_STATIC, FACT_UNREADABLE, err.msg,
                                "the sampler");
}

static bool first_verdict(struct job *job, struct rc_err *err)
{
    struct facts *judged = NULL;
    if (job_judge(job, job->facts, &judged, err) < 0)
        return false;
    if (!job->options->quiet && !job->told) {
        job_print_verdict(job, judged, NULL);
        job->has_printed = true;
    }
    facts_free(judged);
    return true;
}

/* After the verdict, because a rank that fails of something else has a story of its own. */
static void choose_size(struct job *job)
{
    char cause[160];
    if (job->info.snapshot_wall_ns != 0)
        return;
    (void)snprintf(cause, sizeof cause, "%s/%s", job->verdict.class_name,
                   job->verdict.subclass != NULL ? job->verdict.subclass : "");
    job->small = !full_bundles_claim(job->environ_list, cause, job->options->full_bundles);
    if (job->small)
        job_row(job, "full bundle", COLLECT_SKIPPED,
                "another rank of this machine that failed alike has it (--full-bundles)", 0);
}

/* The last sample is written a second after the end of the target. */
static void wait_for_after(struct job *job)
{
    uint64_t end_ns = job->info.target_end_ns;
    if (job->shared == NULL || end_ns == 0)
        return;
    while (clock_mono_ns() < end_ns + ms_to_ns(AFTER_END_MS) && !cancelled(job))
        (void)poll(NULL, 0, 20);
    (void)recorder_flush(job->shared, job->info.dir, NULL);
}

/* In the run directory; where its disk takes no more, in another of the folders for runs. */
static int find_stage(struct job *job, struct rc_err *err)
{
    const char *dir = job->info.dir;
    const char *name = strrchr(dir, '/');
    char other[FS_PATH_MAX];
    struct rc_err why = {""};
    if ((size_t)snprintf(job->stage, sizeof job->stage, "%s/stage", dir) >= sizeof job->stage ||
        (size_t)snprintf(other, sizeof other, "%s.stage", name != NULL ? name + 1 : dir) >=
            sizeof other)
        return rc_err_set(err, -ENAMETOOLONG, "run directory name is too long");
    (void)fs_remove_tree(AT_FDCWD, job->stage);
    int r = job->stage_place > 0 ? -ENOSPC : fs_mkdir_p(job->stage);
    if (r == 0)
        r = rundir_has_room(job->stage, STAGE_ROOM, &why);
    if (r == 0 || (job->stage_place == 0 && !rundir_is_disk_error(r)))
        return r == 0 ? 0 : rc_err_errno(err, r, "cannot make '%s'", job->stage);
    (void)fs_remove_tree(AT_FDCWD, job->stage);
    r = rundir_make(job->stage, sizeof job->stage, &job->stage_place, other, STAGE_ROOM, &why);
    job->stage_place++;
    if (r == 0) { /* what a finisher left that was killed */
        (void)fs_remove_tree(AT_FDCWD, job->stage);
        r = fs_mkdir_p(job->stage);
    }
    return r == 0 ? 0
                  : rc_err_errno(err, -ENOSPC, "no room for the bundle in '%s' or elsewhere", dir);
}

static int make_stage(struct job *job, struct rc_err *err)
{
    int r = find_stage(job, err);
    if (r < 0)
        return r;
    job->manifest = manifest_new();
    job->items = cJSON_CreateArray();
    job->facts = facts_new();
    struct rc_err why = {""};
    struct privacy privacy = job->options->privacy;
    privacy.cwd = job->info.cwd;
    job->redactor = stage_redactor(&privacy, &why);
    if (job->redactor == NULL || job->manifest == NULL || job->items == NULL || job->facts == NULL)
        return rc_err_errno(err, -ENOMEM, "cannot make a bundle");
    if (site_trouble(site_get()) != NULL)
        job_row(job, "site", COLLECT_PARTIAL, site_trouble(site_get()), 0);
    if (why.msg[0] != '\0')
        job_row(job, "redaction", COLLECT_PARTIAL, why.msg, 0);
    return 0;
}

static int job_open(struct job *job, const char *run_dir, struct rc_err *err)
{
    struct rc_err no_tree = {""};
    int r = run_info_load(&job->info, run_dir, err);
    job->tree = r == 0 ? asset_tree(NULL, &no_tree) : NULL; /* also what is wrong with the site's */
    if (r == 0)
        r = make_stage(job, err);
    if (r == 0 && job->tree == NULL)
        job_row(job, "verdict", COLLECT_FAILED, no_tree.msg, 0);
    return r;
}

void job_close(struct job *job)
{
    verdict_release(&job->verdict);
    tree_free(job->tree);
    facts_free(job->facts);
    manifest_free(job->manifest);
    redactor_free(job->redactor);
    cJSON_Delete(job->items);
    series_release(&job->series);
    free(job->maps);
    free(job->fds);
    free(job->environ_text);
    free((void *)job->environ_list);
    run_info_release(&job->info);
}

/* A snapshot of a live process is no failure. */
static void tell_event(const struct job *job, const struct facts *judged, const char *bundle_path)
{
    struct rc_err err = {""};
    if (job->options->event_to == NULL || job->info.snapshot_wall_ns != 0)
        return;
    RC_AUTO_FREE char *sentence = stage_redact_line(job->redactor, job->verdict.sentence);
    if (event_send(job->options->event_to, sentence, &job->verdict, judged, bundle_path, &err) < 0 && !job->options->quiet)
        (void)say_line(stdout, "rocmcrash: no event was sent: %s", err.msg);
}

static int finish_bundle(struct job *job, char *ret_path, size_t ret_size, struct rc_err *err)
{
    struct facts *judged = NULL;
    char *first_class = job->verdict.class_name != NULL ? strdup(job->verdict.class_name) : NULL;
    job_stage_run(job);
    if (job->small)
        job_trouble(job, "the small bundle", full_bundles_reduce(job->stage));
    int r = stage_learn(job->redactor, job->stage, err);
    if (r == 0)
        r = stage_redact_rows(job->redactor, job->manifest, job->items);
    if (r == 0)
        r = job_judge_clean(job, &judged, err);
    if (r == 0)
        r = job_tell_troubles(job);
    if (r == 0)
        r = job_write(job, judged, ret_path, ret_size, err);
    if (r == 0 && !job->options->quiet) {
        bool revised = first_class == NULL || strcmp(first_class, job->verdict.class_name) != 0;
        job_print_bundle(job, judged, revised, ret_path);
    }
    if (r == 0)
        tell_event(job, judged, ret_path);
    free(first_class);
    facts_free(judged);
    return r;
}

/* When everything was killed at once, the environment is gone; what the launcher had said in it was kept. */
static void job_to_kept_facts(struct job *job)
{
    RC_AUTO_FREE char *lines = job->info.job_variables != NULL ? strdup(job->info.job_variables) : NULL;
    RC_AUTO_FREE const char **list = lines != NULL ? job_variables_list(lines) : NULL;
    if (list != NULL)
        job_to_facts(list, job->facts);
}

/* One attempt. -ENOSPC or a similar error with job->stage_failed set: try again on another disk. */
static int make_bundle(struct job *job, const char *run_dir, char *ret_path, size_t ret_size,
                       struct rc_err *err)
{
    const struct job_options *options = job->options;
    uint64_t start_ns = clock_mono_ns();
    int r = job_open(job, run_dir, err);
    if (r < 0)
        return r;
    run_info_to_facts(&job->info, job->facts);
    fill_context(job);
    /* The rank says whose words the output holds. On a busy machine the collector is too late for that. */
    job_to_facts(job->ctx.environ_at_impact, job->facts);
    if (job->environ_list == NULL)
        job_to_kept_facts(job);
    learn_about_run(job);
    job_run_rows(job);
    job->early = true;
    job_collect(job, collectors, COLLECT_PERISHABLE, PERISHABLE_MS);
    read_output(job);
    read_kernel_log(job);
    read_series(job);
    job_collect(job, collectors, COLLECT_QUICK, QUICK_MS);
    read_stdout(job);
    read_exception(job);
    if (first_verdict(job, err))
        choose_size(job);
    job->early = false;
    job_be_patient(job);
    collect_late(job);
    if (job->small)
        return finish_bundle(job, ret_path, ret_size, err);
    uint64_t spent_ms = (clock_mono_ns() - start_ns) / 1000000u;
    uint64_t left_ms =
        options->finish_within_ms > spent_ms ? options->finish_within_ms - spent_ms : 0;
    job_collect(job, site_get()->collectors, COLLECT_SLOW, left_ms + SITE_COLLECT_MS);
    spent_ms = (clock_mono_ns() - start_ns) / NS_PER_MS;
    left_ms = options->finish_within_ms > spent_ms ? options->finish_within_ms - spent_ms : 0;
    job_collect(job, collectors, COLLECT_SLOW, left_ms + options->hash_budget_ms);
    wait_for_after(job);
    patience_end();
    read_series(job);
    job_trouble(job, "telemetry",
                job->has_series                ? job->series.unread
                : job->series_error == -ENOENT ? 0
                                               : job->series_error);
    return finish_bundle(job, ret_path, ret_size, err);
}

int job_run(const char *run_dir, struct shared *shared, const struct job_options *options,
            char *ret_path, size_t ret_size, struct rc_err *err)
{
    static struct job job;
    RC_AUTO_CLOSE int lock = rundir_lock(run_dir);
    if (lock == -EWOULDBLOCK && shared == NULL)
        return rc_err_set(err, -EBUSY, "the run in '%s' is not over", run_dir);
    if (lock < 0 && shared == NULL && !rundir_is_disk_error(lock))
        return rc_err_errno(err, lock, "cannot tell whether the run in '%s' is over", run_dir);
    unsigned place = 0;
    bool again = false;
    int r;
    do {
        job =
            (struct job){.options = options, .shared = shared, .stage_place = place, .told = again,
                         .has_printed = again, .memory_refusals = memory_refusals()};
        *err = (struct rc_err){""}; /* the error of the previous attempt */
        r = make_bundle(&job, run_dir, ret_path, ret_size, err);
        again = r < 0 && job.stage_failed;
        /* In a run directory that goes it goes with it; one elsewhere, or a failed one, is ours. */
        if (job.stage[0] != '\0')
            (void)fs_remove_tree(AT_FDCWD, job.stage);
        place = job.stage_place > place ? job.stage_place : place + 1;
        job_close(&job);
    } while (again && place < STAGE_TRIES_MAX);
    if (r < 0 && err->msg[0] == '\0')
        (void)rc_err_errno(err, r, "cannot make the bundle of '%s'", run_dir);
    if (r == 0)
        (void)fs_remove_tree(AT_FDCWD, run_dir);
    return r;
}
