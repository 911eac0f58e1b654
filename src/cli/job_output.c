/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/job_output.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/say.h"
#include "bundle/bundle.h"
#include "bundle/redact.h"
#include "cli/again.h"
#include "cli/assets.h"
#include "cli/job.h"
#include "cli/name_map.h"
#include "cli/sparks.h"
#include "cli/stage_names.h"
#include "cli/stage_page.h"
#include "cli/stage_redact.h"
#include "diagnose/computed.h"
#include "diagnose/doctor.h"
#include "diagnose/signature.h"
#include "record/rundir.h"
#include "report/report.h"

#define CSV_ROWS_MAX 20000
#define OUTPUT_MAX ((size_t)8 << 20)

static const struct shared_impact *failed_impact(const struct run_info *info)
{
    return info->failed >= 0 ? &info->impacts[info->failed].header : NULL;
}

static uint32_t failed_pid(const struct run_info *info)
{
    const struct shared_impact *failed = failed_impact(info);
    return (uint32_t)(failed != NULL ? failed->pid : info->target_pid);
}

void job_series_facts(struct job *job)
{
    const struct run_info *info = &job->info;
    const struct shared_impact *failed = failed_impact(info);
    struct series_facts_options options = {
        .failed_pid = failed_pid(info),
        .impact_ns = failed != NULL ? failed->time_ns : info->target_end_ns,
        .end_ns = info->target_end_ns,
        .ended_by_exit = failed == NULL || failed->signo == 0,
    };
    (void)series_to_facts(job->facts, &job->series, &options);
}

/* --- writing --- */

static int write_text(int dirfd, const char *name, const char *text, size_t len)
{
    return fs_write_file_at(dirfd, name, text, len, false);
}

/* One of many: the others are worth having without it. */
static void stage_text(struct job *job, int dirfd, const char *name, const char *text, size_t len)
{
    job_trouble(job, name, write_text(dirfd, name, text, len));
}

static int write_json(int dirfd, const char *name, cJSON *json)
{
    char *text = json != NULL ? cJSON_Print(json) : NULL;
    cJSON_Delete(json);
    int r = text != NULL ? write_text(dirfd, name, text, strlen(text)) : -ENOMEM;
    free(text);
    return r;
}

static int open_folder(struct job *job, const char *name)
{
    char path[FS_PATH_MAX + 64];
    (void)snprintf(path, sizeof path, "%s/%s", job->stage, name);
    int r = fs_mkdir_p(path);
    int fd = r == 0 ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW) : -1;
    if (r == 0 && fd < 0)
        r = -errno;
    job_trouble(job, name, r);
    return r < 0 ? r : fd;
}

static void write_impact(struct job *job, size_t index)
{
    static const struct {
        enum impact_chunk_type type;
        const char *name;
    } files[] = {
        {CHUNK_STATUS, "status.txt"}, {CHUNK_STAT, "stat.txt"}, {CHUNK_LIMITS, "limits.txt"},
        {CHUNK_MAPS, "maps.txt"},     {CHUNK_FDS, "fds.txt"},   {CHUNK_CGROUP, "cgroup.txt"},
        {CHUNK_IO, "io.txt"},         {CHUNK_EXE, "exe.txt"},
    };
    char name[32];
    (void)snprintf(name, sizeof name, "impact/%zu", index);
    RC_AUTO_CLOSE int dirfd = open_folder(job, name);
    for (size_t i = 0; dirfd >= 0 && i < sizeof files / sizeof files[0]; i++) {
        RC_AUTO_FREE char *text = impact_record_text(&job->info.impacts[index], files[i].type);
        if (text != NULL)
            stage_text(job, dirfd, files[i].name, text, strlen(text));
    }
    const struct shared_impact *impact = &job->info.impacts[index].header;
    uint32_t copied = impact->threads_copied;
    uint32_t seen = impact->threads_seen > copied ? impact->threads_seen : copied; /* less if the copy was cut */
    char line[512];
    int n = snprintf(line, sizeof line,
                     "pid %d (%s), thread %d\n%ssignal %d, code %d, address 0x%llx\nexit status %d\n"
                     "held for %llu us; %u of %u thread%s copied%s\n",
                     impact->pid, impact->comm, impact->tid,
                     impact->kind == IMPACT_SNAPSHOT ? "alive: a snapshot\n" : "", impact->signo,
                     impact->code,
                     (unsigned long long)impact->fault_address, (int)impact->exit_status,
                     (unsigned long long)(impact->held_ns / 1000), copied, seen, seen == 1 ? "" : "s",
                     impact->state == IMPACT_COMPLETE ? "" : "; incomplete: the tracer ended");
    if (dirfd >= 0)
        stage_text(job, dirfd, "impact.txt", line, (size_t)n);
}

/* A target may have laid a link in its place: it is not followed. */
static void copy_run_file(struct job *job, int dirfd, const char *from, const char *to)
{
    char path[FS_PATH_MAX + 64];
    RC_AUTO_FREE char *text = NULL;
    (void)snprintf(path, sizeof path, "%s/%s", job->info.dir, from);
    RC_AUTO_CLOSE int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    ssize_t len = fd < 0 ? -errno : fs_read_all_fd(fd, 1u << 20, &text);
    if (len != -ENOENT && len != -EFBIG)
        job_trouble(job, from, (int)len);
    if (text != NULL)
        stage_text(job, dirfd, to, text, len >= 0 ? (size_t)len : strlen(text));
}

static void write_run(struct job *job)
{
    RC_AUTO_CLOSE int run_fd = open_folder(job, "run");
    if (run_fd >= 0) {
        copy_run_file(job, run_fd, "run.json", "run.json");
        copy_run_file(job, run_fd, "events", "events.txt");
    }
    RC_AUTO_CLOSE int output_fd = job->info.output_len > 0 ? open_folder(job, "output") : -1;
    if (output_fd >= 0)
        stage_text(job, output_fd, "stderr.txt", job->info.output, job->info.output_len);
    for (size_t i = 0; i < job->info.impact_count; i++)
        write_impact(job, i);
}

/* Tells in the manifest what telemetry.csv lacks. */
static void add_telemetry_row(const struct job *job, int result)
{
    char reason[96];
    if (result < 0)
        (void)snprintf(reason, sizeof reason, "telemetry.csv: %s", strerror(-result));
    else
        (void)snprintf(reason, sizeof reason,
                       "telemetry.csv leaves out %d processes, those with least memory", result);
    (void)manifest_add_item(job->manifest, "telemetry", COLLECT_PARTIAL, reason, 0);
}

static void write_telemetry(struct job *job)
{
    static struct sparks sparks;
    struct buf csv = BUF_INIT;
    if (!job->has_series || job->series.record_count == 0)
        return;
    RC_AUTO_CLOSE int dirfd = open_folder(job, "telemetry");
    int left_out = series_to_csv(&job->series, job->info.start_mono_ns, CSV_ROWS_MAX,
                                 failed_pid(&job->info), &csv);
    int r = left_out < 0 ? left_out : dirfd < 0 ? -EIO : 0;
    if (r == 0 && buf_failed(&csv))
        r = -ENOMEM;
    if (r == 0)
        r = write_text(dirfd, "telemetry.csv", buf_str(&csv), csv.len);
    buf_release(&csv);
    if (r < 0 || left_out > 0)
        add_telemetry_row(job, r < 0 ? r : left_out);
    sparks_fill(&sparks, &job->series);
    if (dirfd >= 0)
        job_trouble(job, SPARK_FILE, write_json(dirfd, SPARK_FILE, sparks_to_json(&sparks)));
}

void job_stage_run(struct job *job)
{
    write_run(job);
    write_telemetry(job);
}

/* As a shell takes it: only a word that it would read otherwise is quoted. */
static void put_word(struct buf *out, const char *word)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./=:,@%+-";
    if (word[0] != '\0' && word[strspn(word, plain)] == '\0')
        buf_puts(out, word);
    else
        again_quote(out, word);
}

/* Redacted as a list, as in run.json: the end of a word shows where a prompt ends. */
static int command_line(const struct job *job, struct buf *out)
{
    int count = 0;
    while (job->info.argv[count] != NULL)
        count++;
    cJSON *words = cJSON_CreateStringArray((const char *const *)job->info.argv, count);
    int r = words != NULL ? redact_json(job->redactor, words, NULL) : -ENOMEM;
    const cJSON *word;
    cJSON_ArrayForEach(word, words)
    {
        if (word != words->child)
            buf_putc(out, ' ');
        put_word(out, cJSON_IsString(word) ? word->valuestring : "");
    }
    cJSON_Delete(words);
    return r;
}

static struct report_input report_base(const struct job *job, const struct facts *judged)
{
    return (struct report_input){
        .facts = judged,
        .verdict = &job->verdict,
        .items = job->items,
        .tool_version = ROCMCRASH_VERSION,
    };
}

static void load_sparks(struct sparks *sparks, const struct job *job)
{
    char path[FS_PATH_MAX + 64];
    RC_AUTO_FREE char *text = NULL;
    (void)snprintf(path, sizeof path, "%s/telemetry/" SPARK_FILE, job->stage);
    ssize_t len = fs_read_all(path, 1u << 20, &text);
    cJSON *json = len > 0 ? cJSON_ParseWithLength(text, (size_t)len) : NULL;
    sparks_from_json(sparks, json);
    cJSON_Delete(json);
}

/* A text of the stage, redacted; NULL where there is none. The stage's files are redacted later. */
static char *read_staged(const struct job *job, const char *name, bool is_clean)
{
    char path[FS_PATH_MAX + 64];
    RC_AUTO_FREE char *text = NULL;
    (void)snprintf(path, sizeof path, "%s/%s", job->stage, name);
    if (fs_read_all(path, OUTPUT_MAX, &text) <= 0)
        return NULL;
    return is_clean ? rc_take(&text) : stage_redact_line(job->redactor, text);
}

/* The file with the stacks of the process that failed first: "stacks.2.txt, failed thread, frame #0"
 * names it. */
static char *read_stacks(const struct job *job, const struct facts *facts)
{
    char name[64];
    const struct fact *top = facts_best(facts, "stack.top");
    if (top == NULL || top->source == NULL || strncmp(top->source, "stacks.", 7) != 0)
        return NULL;
    (void)snprintf(name, sizeof name, "stacks/%.*s", (int)strcspn(top->source, ","), top->source);
    return strchr(name + 7, '/') == NULL ? read_staged(job, name, false) : NULL;
}

static void list_stage(const struct job *job, struct stage_names *names)
{
    static const char *const made_later[] = {"SUMMARY.md", "report.html", "manifest.json",
                                             "redaction.json"};
    stage_names_read(job->stage, names);
    for (size_t i = 0; i < sizeof made_later / sizeof made_later[0]; i++)
        if (!job->small || strcmp(made_later[i], "report.html") != 0)
            stage_names_add(names, made_later[i]);
}

/* Failure costs the summary its lines about odd settings, nothing else. */
static void examine_machine(const struct facts *judged, struct doctor_report *ret)
{
    struct rc_err err = {""};
    RC_AUTO_FREE char *text = NULL;
    ssize_t len = asset_read("doctor.json", &text, &err);
    struct doctor_rules *rules = len < 0 ? NULL : doctor_rules_parse(text, (size_t)len, "doctor.json", &err);
    struct computed *computed = asset_computed(&err);
    struct facts *facts = facts_new();
    if (rules == NULL || computed == NULL || facts == NULL || doctor_facts_before(facts, judged) < 0 ||
        doctor_examine(facts, computed, rules, ret, &err) < 0)
        doctor_report_release(ret);
    facts_free(facts);
    computed_free(computed);
    doctor_rules_free(rules);
}

static int write_summary(const struct job *job, const struct facts *judged, const char *name,
                         int stage_fd, struct rc_err *err)
{
    static struct sparks sparks;
    static struct stage_names names;
    RC_AUTO_FREE char *template_text = NULL;
    struct buf command = BUF_INIT;
    struct buf summary = BUF_INIT;
    ssize_t len = asset_read("summary.md", &template_text, err);
    if (len < 0)
        return (int)len;
    load_sparks(&sparks, job);
    bool is_clean = command_line(job, &command) == 0;
    struct report_input input = report_base(job, judged);
    input.series = sparks.list;
    input.series_count = sparks.count;
    input.command = is_clean ? buf_str(&command) : NULL;
    input.bundle_name = name;
    input.template_text = template_text;
    RC_AUTO_FREE char *output = read_staged(job, "output/stderr.txt", job->is_output_clean);
    RC_AUTO_FREE char *stacks = read_stacks(job, judged);
    struct doctor_report machine = {.rules = 0};
    examine_machine(judged, &machine);
    list_stage(job, &names);
    input.output = output;
    input.stacks = stacks;
    input.files = names.list;
    input.file_count = names.count;
    input.machine = &machine;
    report_summary(&input, &summary);
    stage_names_release(&names);
    doctor_report_release(&machine);
    int r = buf_failed(&summary)
                ? -ENOMEM
                : write_text(stage_fd, "SUMMARY.md", buf_str(&summary), summary.len);
    buf_release(&command);
    buf_release(&summary);
    return r;
}

int job_write_judgement(const struct job *job, const struct facts *judged, const char *name,
                        int stage_fd, struct rc_err *err)
{
    int r = write_json(stage_fd, "facts.json", facts_to_json(judged));
    if (r == 0)
        r = write_json(stage_fd, "verdict.json", verdict_to_json(&job->verdict, judged));
    if (r == 0)
        r = write_summary(job, judged, name, stage_fd, err);
    return r;
}

static int write_manifest(struct job *job, int stage_fd, struct rc_err *err)
{
    struct buf text = BUF_INIT;
    int r = job_tell_troubles(job); /* of what happened since */
    if (r == 0)
        r = manifest_render(job->manifest, job->stage, &text, err);
    if (r == 0)
        r = write_text(stage_fd, "manifest.json", buf_str(&text), text.len);
    buf_release(&text);
    return r;
}

/* A maintainer who looks for a dump sees that there was one. */
static void add_left_out_row(struct job *job)
{
    char path[FS_PATH_MAX + 64];
    char reason[96];
    RC_AUTO_FREE char *text = NULL;
    (void)snprintf(path, sizeof path, "%s/redaction.json", job->stage);
    ssize_t len = fs_read_all(path, 1u << 20, &text);
    cJSON *report = len > 0 ? cJSON_ParseWithLength(text, (size_t)len) : NULL;
    int count = cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(report, "left_out"));
    (void)snprintf(reason, sizeof reason, "%d files are not text and were left out (--include)",
                   count);
    if (count > 0)
        (void)manifest_add_item(job->manifest, "redaction", COLLECT_PARTIAL, reason, 0);
    cJSON_Delete(report);
}

/* "" = not a rank of a job. */
static const char *rank_of(const struct facts *facts, char *text, size_t size)
{
    int64_t rank;
    text[0] = '\0';
    if (facts_get_integer(facts, "job.rank", &rank))
        (void)snprintf(text, size, "%" PRId64, rank);
    return text;
}

/* To the rules "10.1.2.3.py" is not an address, because of the ending. So they also read the name without it, after
 * a blank, as in a text. NULL: no memory. */
static char *clean_program(const struct job *job)
{
    RC_AUTO_FREE char *whole = stage_redact_line(job->redactor, run_info_program(&job->info));
    const char *ending = whole != NULL ? strrchr(whole, '.') : NULL;
    if (ending == NULL || !isalpha((unsigned char)ending[1]))
        return rc_take(&whole);
    struct buf text = BUF_INIT;
    buf_printf(&text, " %.*s", (int)(ending - whole), whole);
    RC_AUTO_FREE char *stem =
        buf_failed(&text) ? NULL : stage_redact_line(job->redactor, buf_str(&text));
    buf_release(&text);
    char *clean = NULL;
    if (stem == NULL || asprintf(&clean, "%s%s", stem + (stem[0] == ' '), ending) < 0)
        return NULL;
    return clean;
}

static void name_bundle(const struct job *job, const struct facts *judged, char *out, size_t size)
{
    RC_AUTO_FREE char *program = clean_program(job);
    bool alive = job->info.snapshot_wall_ns != 0;
    char rank[24];
    char signature[SIGNATURE_ID_SIZE] = "";
    if (!alive)
        signature_id(&job->verdict, judged, signature);
    bundle_name(out, size,
                &(struct bundle_title){
                    .wall_ns = alive ? job->info.snapshot_wall_ns : job->info.start_wall_ns,
                    .program = program,
                    .verdict_class = alive ? "snapshot" : job->verdict.class_name,
                    .rank = rank_of(judged, rank, sizeof rank),
                    .signature = signature,
                });
}

/* A page that cannot be made does not cost the bundle; a full disk does, as with every other file. */
static int write_page(struct job *job, int stage_fd, const char *name)
{
    int r = stage_write_page(job->stage, stage_fd, name);
    job_trouble(job, "report.html", r);
    return rundir_is_disk_error(r) ? r : 0;
}

int job_write(struct job *job, const struct facts *judged, char *ret_path, size_t ret_size,
              struct rc_err *err)
{
    char name[256];
    bool elsewhere = false;
    const char *folder =
        job->options->output_dir != NULL ? job->options->output_dir : job->info.output_dir;
    RC_AUTO_CLOSE int stage_fd = open(job->stage, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (stage_fd < 0)
        return rc_err_errno(err, -errno, "cannot open '%s'", job->stage);
    name_bundle(job, judged, name, sizeof name);
    int r = job_write_judgement(job, judged, name, stage_fd, err);
    if (r == 0)
        r = stage_redact_files(job->redactor, job->stage, stage_fd, STAGE_OWN,
                               &job->options->privacy, err);
    if (r == 0 && !job->small)
        r = write_page(job, stage_fd, name);
    if (r == 0 && job->options->privacy.preview)
        stage_print_preview_end(job->redactor);
    if (r == 0)
        add_left_out_row(job);
    if (r == 0)
        r = write_manifest(job, stage_fd, err);
    job->stage_failed = rundir_is_disk_error(r);
    if (job->stage_failed)
        (void)rc_err_errno(err, r, "cannot write to '%s'", job->stage);
    if (r == 0)
        name_map_write(job->redactor, name, job->stage); /* before the bundle can be seen: its owner may reveal it at once */
    if (r == 0)
        r = bundle_write(job->stage, name, folder, ret_path, ret_size, &elsewhere, err);
    if (r == 0 && job->shared != NULL) {
        (void)snprintf(job->shared->bundle_path, sizeof job->shared->bundle_path, "%s", ret_path);
        job->shared->finished = 1;
    }
    if (r == 0 && elsewhere && !job->options->quiet)
        (void)say_line(stdout, "rocmcrash: the bundle is not where it was asked for: %s", err->msg);
    return r;
}
