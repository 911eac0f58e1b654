/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/rank_record.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fs.h"
#include "bundle/bundle.h"
#include "cli/run_info.h"
#include "collectors/job.h"
#include "diagnose/fact.h"

#define SAME_NAME_MAX 1000
#define NAME_MIDDLE "-rank-ended-r"

extern char **environ;

/* Texts that name nobody; all others would have to be redacted. */
static bool is_kept_text(const char *name)
{
    static const char *const kept[] = {"run.boot", "job.launcher", "target.signal_name"};
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
        if (strcmp(name, kept[i]) == 0)
            return true;
    return false;
}

static struct facts *kept_facts(const struct facts *facts)
{
    struct facts *kept = facts_new();
    for (size_t i = 0; kept != NULL && i < facts_count(facts); i++) {
        const struct fact *f = facts_at(facts, i);
        if (f->status != FACT_PRESENT)
            continue;
        if (f->type == FACT_INTEGER)
            (void)facts_set_integer(kept, f->name, f->when, f->integer, f->source);
        else if (f->type == FACT_BOOLEAN)
            (void)facts_set_boolean(kept, f->name, f->when, f->integer != 0, f->source);
        else if (f->type == FACT_TEXT && is_kept_text(f->name))
            (void)facts_set_text(kept, f->name, f->when, f->text, f->source);
    }
    if (kept != NULL)
        (void)facts_set_boolean(kept, "run.asked_to_end", FACT_STATIC, true, "SIGTERM or SIGHUP to rocmcrash");
    return kept;
}

/* A job that was started again in the same second took the name: "...-r3-2.json". */
static int create(const char *folder, const char *name, char path[FS_PATH_MAX], struct rc_err *err)
{
    int fd = -EEXIST;
    for (unsigned number = 1; fd == -EEXIST && number < SAME_NAME_MAX; number++) {
        char again[16] = "";
        if (number > 1)
            (void)snprintf(again, sizeof again, "-%u", number);
        int n = snprintf(path, FS_PATH_MAX, "%s/%s%s.json", folder, name, again);
        if (n < 0 || (size_t)n >= FS_PATH_MAX)
            return rc_err_set(err, -ENAMETOOLONG, "'%s' is too long", folder);
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        fd = fd < 0 ? -errno : fd;
    }
    return fd < 0 ? rc_err_errno(err, fd, "cannot write to '%s'", folder) : fd;
}

static int write_record(const struct facts *facts, const char *folder, const char *name, struct rc_err *err)
{
    struct facts *kept = kept_facts(facts);
    cJSON *json = kept != NULL ? facts_to_json(kept) : NULL;
    RC_AUTO_FREE char *text = json != NULL ? cJSON_PrintUnformatted(json) : NULL;
    cJSON_Delete(json);
    facts_free(kept);
    if (text == NULL)
        return rc_err_errno(err, -ENOMEM, "cannot write a record");
    char path[FS_PATH_MAX];
    RC_AUTO_CLOSE int fd = create(folder, name, path, err);
    if (fd < 0)
        return fd;
    int r = fs_write_all(fd, text, strlen(text));
    if (r < 0)
        (void)unlink(path); /* a part of it cannot be read */
    return r < 0 ? rc_err_errno(err, r, "cannot write a record to '%s'", folder) : 0;
}

int rank_record_write(const char *run_dir, const char *folder, struct rc_err *err)
{
    struct run_info info;
    int64_t rank, world_size;
    const char *const *list = (const char *const *)environ;
    if (!job_number(list, "job.rank", &rank) || !job_number(list, "job.world_size", &world_size) || world_size < 2)
        return 0;
    int r = run_info_load(&info, run_dir, err);
    if (r < 0)
        return r;
    struct facts *facts = facts_new();
    if (facts != NULL) {
        char name[160], number[24];
        run_info_to_facts(&info, facts);
        job_to_facts(list, facts);
        (void)snprintf(number, sizeof number, "%" PRId64, rank);
        bundle_name(name, sizeof name,
                    &(struct bundle_title){.wall_ns = info.start_wall_ns, .program = "rank", .verdict_class = "ended", .rank = number});
        r = write_record(facts, folder != NULL ? folder : info.output_dir, name, err);
    }
    facts_free(facts);
    run_info_release(&info);
    return r;
}

bool rank_record_is_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    size_t len = strlen(name);
    return strncmp(name, "rocmcrash-", 10) == 0 && strstr(name, NAME_MIDDLE) != NULL && len > 5 &&
           strcmp(name + len - 5, ".json") == 0;
}
