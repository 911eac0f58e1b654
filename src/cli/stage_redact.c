/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/stage_redact.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/fs.h"
#include "bundle/redact.h"
#include "diagnose/fact.h"

#define STAGED_FILE_MAX ((size_t)64 << 20)
#define REPORT_MAX ((size_t)64 << 10)
#define REPORT_NAME "redaction.json"

struct redactor *stage_redactor(void)
{
    struct redactor *redactor = redactor_new();
    if (redactor != NULL && redactor_add_machine(redactor) < 0) {
        redactor_free(redactor);
        redactor = NULL;
    }
    return redactor;
}

char *stage_redact_line(struct redactor *redactor, const char *line)
{
    struct buf clean = BUF_INIT;
    char *copy = NULL;
    if (redact_text(redactor, line, strlen(line), &clean) == 0)
        copy = strdup(buf_str(&clean));
    buf_release(&clean);
    return copy;
}

int stage_redact_facts(struct redactor *redactor, const struct facts *facts,
                       struct facts **ret_clean, struct rc_err *err)
{
    static const char *const ours[] = {"name", "when", "status", "type", NULL};
    struct facts *clean = facts_new();
    cJSON *json = facts_to_json(facts);
    int r = clean == NULL || json == NULL ? -ENOMEM : redact_json(redactor, json, ours);
    if (r == 0)
        r = facts_from_json(clean, json, err);
    cJSON_Delete(json);
    if (r == 0)
        *ret_clean = clean;
    else
        facts_free(clean);
    return r;
}

/* --- files --- */

static uint64_t total_count(const struct redactor *redactor)
{
    uint64_t sum = 0;
    for (unsigned kind = 0; kind < REDACT_KIND_MAX; kind++)
        sum += redactor_count(redactor, kind);
    return sum;
}

static bool ends_with(const char *text, const char *ending)
{
    size_t len = strlen(text);
    size_t want = strlen(ending);
    return len >= want && strcmp(text + len - want, ending) == 0;
}

/* A document that parses stays one; what does not is text. *ret_done tells which it was. */
static int redact_document(struct redactor *redactor, const char *text, size_t len, struct buf *out,
                           bool *ret_done)
{
    cJSON *document = cJSON_ParseWithLength(text, len);
    *ret_done = document != NULL;
    int r = document != NULL ? redact_json(redactor, document, NULL) : 0;
    char *printed = document != NULL && r == 0 ? cJSON_Print(document) : NULL;
    if (printed != NULL)
        buf_puts(out, printed);
    else if (document != NULL)
        r = -ENOMEM;
    cJSON_free(printed);
    cJSON_Delete(document);
    return r;
}

static int redact_file(struct redactor *redactor, const char *path, struct rc_err *err)
{
    RC_AUTO_FREE char *text = NULL;
    struct buf clean;
    bool done = false;
    uint64_t before = total_count(redactor);
    buf_init(&clean, 2 * STAGED_FILE_MAX);
    ssize_t len = fs_read_all(path, STAGED_FILE_MAX, &text);
    int r = len < 0 ? (int)len : 0;
    if (r == 0 && ends_with(path, ".json"))
        r = redact_document(redactor, text, (size_t)len, &clean, &done);
    if (r == 0 && !done)
        r = redact_text(redactor, text, (size_t)len, &clean);
    if (r == 0 && buf_failed(&clean))
        r = -ENOMEM;
    if (r == 0 && total_count(redactor) != before)
        r = fs_write_file_at(AT_FDCWD, path, buf_str(&clean), clean.len, false);
    buf_release(&clean);
    return r < 0 ? rc_err_errno(err, r, "cannot redact '%s'", path) : 0;
}

/* Made of redacted facts, or of rows that were redacted when they were added. */
static bool is_clean(const FTSENT *entry)
{
    static const char *const names[] = {"facts.json", "verdict.json", "SUMMARY.md", "manifest.json",
                                        REPORT_NAME};
    for (size_t i = 0; entry->fts_level == 1 && i < sizeof names / sizeof names[0]; i++)
        if (strcmp(entry->fts_name, names[i]) == 0)
            return true;
    return false;
}

static int redact_tree(struct redactor *redactor, const char *stage, struct rc_err *err)
{
    char *roots[] = {(char *)(uintptr_t)stage, NULL};
    FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, NULL);
    int r = walk == NULL ? rc_err_errno(err, -errno, "cannot walk '%s'", stage) : 0;
    for (FTSENT *entry; r == 0 && (entry = fts_read(walk)) != NULL;) {
        if (entry->fts_info == FTS_F && !is_clean(entry))
            r = redact_file(redactor, entry->fts_path, err);
        else if (entry->fts_info == FTS_ERR || entry->fts_info == FTS_DNR)
            r = rc_err_errno(err, -entry->fts_errno, "cannot walk '%s'", entry->fts_path);
    }
    if (walk != NULL)
        (void)fts_close(walk);
    return r;
}

/* --- redaction.json --- */

static void add_counts(cJSON *to, const cJSON *from)
{
    const cJSON *old;
    cJSON_ArrayForEach(old, from)
    {
        cJSON *now = cJSON_GetObjectItemCaseSensitive(to, old->string);
        if (now != NULL)
            cJSON_SetNumberValue(now, now->valuedouble + old->valuedouble);
        else
            (void)cJSON_AddNumberToObject(to, old->string, old->valuedouble);
    }
}

/* `complete` redacts a second time: what was removed the first time still was. */
static void add_earlier_report(cJSON *report, const char *stage)
{
    char path[FS_PATH_MAX];
    RC_AUTO_FREE char *text = NULL;
    (void)snprintf(path, sizeof path, "%s/" REPORT_NAME, stage);
    ssize_t len = fs_read_all(path, REPORT_MAX, &text);
    cJSON *earlier = len > 0 ? cJSON_ParseWithLength(text, (size_t)len) : NULL;
    static const char *const parts[] = {"counts", "secrets"};
    for (size_t i = 0; earlier != NULL && i < 2; i++)
        add_counts(cJSON_GetObjectItemCaseSensitive(report, parts[i]),
                   cJSON_GetObjectItemCaseSensitive(earlier, parts[i]));
    cJSON_Delete(earlier);
}

static int write_report(const struct redactor *redactor, const char *stage, int stage_fd)
{
    int r;
    cJSON *report = redactor_report(redactor);
    if (report != NULL)
        add_earlier_report(report, stage);
    char *printed = report != NULL ? cJSON_Print(report) : NULL;
    r = printed != NULL ? fs_write_file_at(stage_fd, REPORT_NAME, printed, strlen(printed), false)
                        : -ENOMEM;
    cJSON_free(printed);
    cJSON_Delete(report);
    return r;
}

int stage_redact_files(struct redactor *redactor, const char *stage, int stage_fd,
                       struct rc_err *err)
{
    int r = redact_tree(redactor, stage, err);
    if (r == 0 && (r = write_report(redactor, stage, stage_fd)) < 0)
        (void)rc_err_errno(err, r, "cannot write " REPORT_NAME);
    return r;
}
