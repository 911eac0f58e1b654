/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bundle of a campaign: a copy of the bundle of a failing unchanged run. Its verdict says what the runs
 * have shown; experiment/ has the table, each run, and the files of the deciding run.
 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fs.h"
#include "bundle/bundle.h"
#include "bundle/redact.h"
#include "cli/name_map.h"
#include "cli/stage_page.h"
#include "cli/stage_redact.h"
#include "cli/try_job.h"
#include "experiment/campaign_verdict.h"
#include "report/escape.h"

#define FILE_BYTES_MAX ((size_t)16 << 20)
#define BUNDLE_BYTES_MAX ((size_t)64 << 20)

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

struct cJSON *try_to_json(const struct try_job *job, const struct conclusion *conclusion)
{
    static const char *const ends[] = {"passed", "failed", "lost"};
    cJSON *json = experiment_to_json(&job->experiment, conclusion);
    cJSON *runs = cJSON_AddArrayToObject(json, "runs");
    for (unsigned i = 0; runs != NULL && i < job->count; i++) {
        const struct try_record *r = &job->records[i];
        cJSON *run = cJSON_CreateObject();
        (void)cJSON_AddNumberToObject(run, "cell", (double)r->cell);
        (void)cJSON_AddStringToObject(run, "end", ends[r->outcome.end]);
        if (r->outcome.key[0] != '\0')
            (void)cJSON_AddStringToObject(run, "failure", r->outcome.key);
        if (r->outcome.has_progress)
            (void)cJSON_AddNumberToObject(run, "progress", r->outcome.progress);
        (void)cJSON_AddNumberToObject(run, "seconds", r->outcome.seconds);
        if (r->bundle != NULL)
            (void)cJSON_AddStringToObject(run, "bundle", base_name(r->bundle));
        cJSON_AddItemToArray(runs, run);
    }
    return json;
}

/* --- the stage --- */

struct campaign_bundle {
    struct try_job job; /* with changes that are redacted */
    struct conclusion conclusion;
    const char *deciding; /* bundle of the run that decides, NULL = none */
    const char *name;     /* of the new bundle */
    struct redactor *redactor;
    struct cJSON *names;    /* behind the base's pseudonyms, then of the whole bundle; NULL = not known */
    struct cJSON *deciding_names; /* behind those of the deciding run */
    struct cJSON *shown;    /* of the verdict (experiment/campaign_verdict.h), redacted */
    const char *sentence;   /* of `shown` */
    struct buf headline;    /* empty where the verdict of one run stands */
};

/* As a value with its name: in a text a secret would end at the first quote or blank. */
static int hide_change(struct redactor *redactor, struct change *change)
{
    static const char *const ours[] = {"name", NULL};
    cJSON *pair = cJSON_CreateObject();
    bool ok = cJSON_AddStringToObject(pair, "name", change->name) != NULL &&
              cJSON_AddStringToObject(pair, "value", change->value) != NULL;
    int r = ok ? redact_json(redactor, pair, ours) : -ENOMEM;
    if (r == 0)
        (void)snprintf(change->value, sizeof change->value, "%s",
                       cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(pair, "value")));
    cJSON_Delete(pair);
    return r;
}

/* All sentences about the changes are made again, of redacted ones. */
static int hide_changes(struct campaign_bundle *b)
{
    struct experiment *e = &b->job.experiment;
    int r = 0;
    for (size_t i = 0; r == 0 && i < e->changes.count; i++)
        r = hide_change(b->redactor, &e->changes.change[i]);
    experiment_conclude(e, &b->conclusion);
    return r;
}

/* Without names, and with the pseudonyms that the base's run has. The redactor has numbers of its own. */
static int clean(const struct campaign_bundle *b, const char *text, struct buf *out)
{
    struct buf redacted = BUF_INIT;
    cJSON *own = cJSON_CreateObject();
    int r = redact_text(b->redactor, text, strlen(text), &redacted);
    name_map_add(own, b->redactor);
    if (r == 0)
        name_map_translate(b->names, own, buf_str(&redacted), out);
    cJSON_Delete(own);
    buf_release(&redacted);
    return r == 0 && buf_failed(out) ? -ENOMEM : r;
}

static int write_clean(const struct campaign_bundle *b, int dir, const char *name, const char *text)
{
    struct buf out = BUF_INIT;
    int r = clean(b, text, &out);
    if (r == 0)
        r = fs_write_file_at(dir, name, buf_str(&out), out.len, false);
    buf_release(&out);
    return r;
}

/* Verdict, facts and summary of the changed run beside those of the run as it is. Each bundle numbers its
 * pseudonyms for itself. */
static int write_pair(const struct campaign_bundle *b, int dir, struct rc_err *err)
{
    static const char *const names[] = {"verdict.json", "facts.json", "SUMMARY.md"};
    int r = 0;
    for (size_t i = 0; b->deciding != NULL && r == 0 && i < sizeof names / sizeof names[0]; i++) {
        RC_AUTO_FREE char *text = NULL;
        char name[64];
        struct buf same = BUF_INIT;
        ssize_t len = bundle_read_file(b->deciding, names[i], FILE_BYTES_MAX, &text, err);
        (void)snprintf(name, sizeof name, "changed.%s", names[i]);
        if (len >= 0)
            name_map_translate(b->names, b->deciding_names, text, &same);
        r = len < 0            ? (int)len
            : buf_failed(&same) ? -ENOMEM
                               : fs_write_file_at(dir, name, buf_str(&same), same.len, false);
        buf_release(&same);
    }
    return r;
}

static int open_experiment(const char *stage, struct rc_err *err)
{
    char folder[FS_PATH_MAX];
    (void)snprintf(folder, sizeof folder, "%s/experiment", stage);
    int r = fs_mkdir_p(folder);
    int dir = r == 0 ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    return dir >= 0 ? dir : rc_err_errno(err, r < 0 ? r : -errno, "cannot write the experiment");
}

static int write_experiment(const struct campaign_bundle *b, int dir, struct rc_err *err)
{
    struct buf table = BUF_INIT;
    cJSON *json = try_to_json(&b->job, &b->conclusion);
    RC_AUTO_FREE char *text = cJSON_Print(json);
    cJSON_Delete(json);
    experiment_table(&b->job.experiment, &table);
    int r = text == NULL || buf_failed(&table) ? -ENOMEM : write_clean(b, dir, "experiment.json", text);
    if (r == 0)
        r = write_clean(b, dir, "table.md", buf_str(&table));
    buf_release(&table);
    return r == 0 ? 0 : rc_err_errno(err, r, "cannot write the experiment");
}

/* Only what the runs have shown changes the verdict. */
static int rewrite_verdict(struct campaign_bundle *b, const char *stage, int stage_fd)
{
    char path[FS_PATH_MAX];
    RC_AUTO_FREE char *text = NULL;
    (void)snprintf(path, sizeof path, "%s/verdict.json", stage);
    ssize_t len = fs_read_all(path, FILE_BYTES_MAX, &text);
    cJSON *verdict = len > 0 ? cJSON_Parse(text) : NULL;
    if (verdict == NULL)
        return -EBADMSG;
    campaign_verdict_apply(verdict, b->shown);
    if (campaign_decides(b->shown))
        campaign_headline(verdict, &b->headline);
    RC_AUTO_FREE char *judged = cJSON_Print(verdict);
    cJSON_Delete(verdict);
    return judged == NULL ? -ENOMEM : fs_write_file_at(stage_fd, "verdict.json", judged, strlen(judged), false);
}

/* The sections of one run's summary, without its advice where the runs have decided. */
static void add_sections(const char *text, bool decided, struct buf *out)
{
    static const char advice[] = "## What to try";
    static const char why[] = "## Why this verdict";
    bool in_block = false; /* of the program's words */
    bool dropped = false;
    for (const char *line = text; *line != '\0';) {
        size_t len = strcspn(line, "\n");
        in_block ^= strncmp(line, "```", 3) == 0;
        bool heading = decided && !in_block && strncmp(line, "## ", 3) == 0;
        if (heading)
            dropped = len == sizeof advice - 1 && strncmp(line, advice, len) == 0;
        if (heading && len == sizeof why - 1 && strncmp(line, why, len) == 0)
            buf_puts(out, "## Why one run is judged so\n");
        else if (!dropped)
            buf_append(out, line, len + (line[len] == '\n'));
        line += len + (line[len] == '\n');
    }
}

/* "# What happened", with the sentence of the campaign in its place where that decides. */
static void add_heading(const struct campaign_bundle *b, const char *text, size_t len, struct buf *out)
{
    const cJSON *change = cJSON_GetObjectItemCaseSensitive(b->shown, "change");
    if (b->headline.len > 0) {
        buf_puts(out, "# ");
        escape_markdown(out, buf_str(&b->headline), b->headline.len);
    } else {
        buf_append(out, text, len);
    }
    buf_puts(out, "\n\n**");
    escape_markdown(out, b->sentence, strlen(b->sentence));
    buf_puts(out, "**\n\n");
    if (cJSON_IsString(change)) {
        buf_puts(out, "## What to try\n\n**Try first:** Keep this change: ");
        escape_markdown(out, change->valuestring, strlen(change->valuestring));
        buf_puts(out, "\n\n");
    }
}

/* The campaign's result comes first, then the findings of the single run. */
static int rewrite_summary(const struct campaign_bundle *b, const char *stage, int stage_fd)
{
    char path[FS_PATH_MAX];
    RC_AUTO_FREE char *text = NULL;
    RC_AUTO_FREE char *table = NULL;
    struct buf out = BUF_INIT;
    (void)snprintf(path, sizeof path, "%s/experiment/table.md", stage);
    ssize_t len = fs_read_all(path, FILE_BYTES_MAX, &table);
    (void)snprintf(path, sizeof path, "%s/SUMMARY.md", stage);
    if (len >= 0)
        len = fs_read_all(path, FILE_BYTES_MAX, &text);
    if (len < 0)
        return (int)len;
    size_t heading = strcspn(text, "\n");
    size_t mark = strspn(text, "# ");
    bool decided = b->headline.len > 0;
    add_heading(b, text, heading, &out);
    buf_printf(&out, "## What was tried\n\n%s\n## What one run without a change shows\n", table);
    if (decided && mark < heading)
        buf_printf(&out, "\n%.*s\n", (int)(heading - mark), text + mark);
    add_sections(text + heading, decided, &out);
    int r = buf_failed(&out) ? -ENOMEM : fs_write_file_at(stage_fd, "SUMMARY.md", buf_str(&out), out.len, false);
    buf_release(&out);
    return r;
}

/* Without names, as all of the bundle. */
static int clean_shown(struct campaign_bundle *b)
{
    struct buf text = BUF_INIT;
    cJSON *shown = campaign_shown(&b->job.experiment, &b->conclusion);
    RC_AUTO_FREE char *raw = shown != NULL ? cJSON_Print(shown) : NULL;
    int r = raw != NULL ? clean(b, raw, &text) : -ENOMEM;
    b->shown = r == 0 ? cJSON_Parse(buf_str(&text)) : NULL;
    b->sentence = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(b->shown, "sentence"));
    cJSON_Delete(shown);
    buf_release(&text);
    return r == 0 && b->sentence == NULL ? -ENOMEM : r;
}

static int change_stage(void *context, const char *stage, struct manifest *manifest, struct rc_err *err)
{
    static const struct privacy nothing_kept = {.keep = NULL};
    struct campaign_bundle *b = context;
    struct rc_err why = {""}; /* about the rules' file: the built-in rules are good enough */
    RC_AUTO_CLOSE int stage_fd = open(stage, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    b->redactor = stage_redactor(&nothing_kept, &why);
    if (stage_fd < 0 || b->redactor == NULL)
        return rc_err_errno(err, stage_fd < 0 ? -errno : -ENOMEM, "cannot open the bundle's files");
    RC_AUTO_CLOSE int dir = open_experiment(stage, err);
    int r = dir < 0 ? dir : stage_learn(b->redactor, stage, err);
    if (r == 0)
        r = hide_changes(b);
    if (r == 0)
        r = clean_shown(b);
    if (r == 0)
        r = write_pair(b, dir, err);
    if (r == 0)
        r = write_experiment(b, dir, err);
    if (r == 0)
        r = rewrite_verdict(b, stage, stage_fd);
    if (r == 0)
        r = rewrite_summary(b, stage, stage_fd);
    if (r == 0)
        r = manifest_add_item(manifest, "experiment", COLLECT_OK, "", (uint64_t)(b->job.experiment.seconds * 1000));
    if (r == 0)
        r = manifest_rename(manifest, b->name);
    if (r == 0)
        r = stage_write_page(stage, stage_fd, b->name);
    if (r == 0)
        name_map_save(b->names, b->name, stage);
    redactor_free(b->redactor);
    buf_release(&b->headline);
    cJSON_Delete(b->shown);
    return r < 0 && err->msg[0] == '\0' ? rc_err_errno(err, r, "cannot write the experiment") : r;
}

/* --- which runs --- */

/* The last bundle of a run of that cell that ended so. NULL = none. */
static const char *last_bundle(const struct try_job *job, size_t cell, enum run_end end)
{
    for (unsigned i = job->count; i > 0; i--) {
        const struct try_record *r = &job->records[i - 1];
        if (r->cell == cell && r->outcome.end == end && r->bundle != NULL)
            return r->bundle;
    }
    return NULL;
}

static const char *any_bundle(const struct try_job *job)
{
    const char *found = last_bundle(job, 0, RUN_FAILED);
    for (size_t cell = 0; found == NULL && cell < job->experiment.campaign.count; cell++)
        if ((found = last_bundle(job, cell, RUN_FAILED)) == NULL)
            found = last_bundle(job, cell, RUN_PASSED);
    return found;
}

static int copy_file(const char *from, const char *to, struct rc_err *err)
{
    RC_AUTO_FREE char *data = NULL;
    ssize_t len = fs_read_all(from, BUNDLE_BYTES_MAX, &data);
    if (len < 0)
        return rc_err_errno(err, (int)len, "cannot read '%s'", from);
    RC_AUTO_CLOSE int fd = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int r = fd < 0 ? -errno : fs_write_all(fd, data, (size_t)len);
    return r < 0 ? rc_err_errno(err, r, "cannot write '%s'", to) : 0;
}

int try_write_bundle(const struct try_job *job, const struct conclusion *conclusion, char *ret_path,
                     size_t size, struct rc_err *err)
{
    char name[200];
    char kind[64];
    struct campaign_bundle b = {.job = *job, .name = name, .headline = BUF_INIT};
    const char *base = any_bundle(job);
    ret_path[0] = '\0';
    if (base == NULL)
        return 0;
    if (conclusion->cell > 0) {
        b.deciding = last_bundle(job, (size_t)conclusion->cell, RUN_PASSED);
        if (b.deciding == NULL)
            b.deciding = last_bundle(job, (size_t)conclusion->cell, RUN_FAILED);
    }
    (void)snprintf(kind, sizeof kind, "%s-%s",
                   conclusion->class_name[0] != '\0'         ? conclusion->class_name
                   : job->experiment.class_name[0] != '\0' ? job->experiment.class_name
                                                             : "try",
                   conclusion_name(conclusion->status));
    bundle_name(name, sizeof name,
                &(struct bundle_title){
                    .wall_ns = clock_wall_ns(), .program = job->again.command[0], .verdict_class = kind});
    if (snprintf(ret_path, size, "%s/%s.tar.gz", job->output_dir, name) >= (int)size)
        return rc_err_set(err, -ENAMETOOLONG, "the path of the bundle is too long");
    struct rc_err unknown = {""}; /* without the map, a pseudonym of the other run loses its number */
    b.names = name_map_of_file(base, &unknown);
    b.deciding_names = b.deciding != NULL ? name_map_of_file(b.deciding, &unknown) : NULL;
    int r = copy_file(base, ret_path, err);
    if (r == 0)
        r = bundle_rewrite(ret_path, BUNDLE_MODE_PRIVATE, change_stage, &b, err);
    cJSON_Delete(b.names);
    cJSON_Delete(b.deciding_names);
    if (r < 0)
        (void)unlink(ret_path);
    return r;
}
