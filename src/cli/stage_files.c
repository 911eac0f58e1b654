/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a stage: learned from, renamed, redacted in place, left out when they are not text;
 * and redaction.json, which says how much was hidden where.
 */
#include <cjson/cJSON.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/ending.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/json_bound.h"
#include "base/utf8.h"
#include "bundle/redact.h"
#include "cli/stage_redact.h"

#define STAGED_FILE_MAX ((size_t)64 << 20)
#define REPORT_MAX ((size_t)1 << 20)
#define REPORT_NAME "redaction.json"
#define SAME_NAME_MAX 1000u
#define LOOK_AT ((size_t)64 << 10)
#define DEPTH_MAX 32

/* One of the stage. Not fts(3): it ends silently where memory is refused, and the files that it did not reach
 * would stay unredacted. */
struct entry {
    char *path; /* FS_PATH_MAX bytes */
    const char *name;
    int level; /* 0 = the stage itself */
    bool is_file;
};

struct files {
    struct redactor *redactor;
    const char *stage;
    size_t stage_len;
    enum stage_scope scope;
    const char *include;
    cJSON *left_out;
    bool learning;
    struct rc_err *err;
};

/* Below the stage. */
static const char *below(const struct files *files, const char *path)
{
    const char *name = path + files->stage_len;
    return name + strspn(name, "/");
}

/* Folders and files that we named ourselves keep their names, whatever a user is called. */
static bool is_own_name(const struct files *files, const struct entry *entry)
{
    static const char *const names[] = {"manifest.json", REPORT_NAME,  "facts.json",
                                        "verdict.json",  "SUMMARY.md", "report.html"};
    if (entry->level == 1 && files->scope == STAGE_OWN)
        return true;
    for (size_t i = 0; entry->level == 1 && i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(entry->name, names[i]) == 0)
            return true;
    }
    return false;
}

/* Made of redacted facts, or of rows that are redacted where they are kept. */
static bool is_clean(const struct files *files, const struct entry *entry)
{
    static const char *const always[] = {"manifest.json", REPORT_NAME};
    static const char *const own[] = {"facts.json", "verdict.json", "SUMMARY.md", "report.html"};
    for (size_t i = 0; entry->level == 1 && i < 2; i++) {
        if (strcmp(entry->name, always[i]) == 0)
            return true;
    }
    for (size_t i = 0; entry->level == 1 && files->scope == STAGE_OWN && i < 4; i++) {
        if (strcmp(entry->name, own[i]) == 0)
            return true;
    }
    return false;
}

/* --- text or not --- */

/* One byte in eight that no text has: a dump, a pickle, an image. */
static bool is_binary(const char *text, size_t len)
{
    size_t odd = 0;
    size_t look = len < LOOK_AT ? len : LOOK_AT;
    for (size_t i = 0; i < look;) {
        unsigned char c = (unsigned char)text[i];
        size_t n = utf8_length((const unsigned char *)text + i, look - i);
        odd += n == 0 || (c < 0x20 && c != '\n' && c != '\r' && c != '\t' && c != 0x1b);
        i += n > 0 ? n : 1;
    }
    return odd * 8 > look;
}

/* Formats that hold user data and may look like text. */
static bool is_blob(const char *name)
{
    static const char *const endings[] = {".pickle", ".pkl", ".core", ".bin",
                                          ".raw",    ".npy", ".pt",   ".safetensors"};
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        if (ends_with(name, endings[i]))
            return true;
    }
    return false;
}

/* "devcoredump,*.pickle": a name, a folder, or a pattern. */
static bool is_included(const struct files *files, const char *name)
{
    char word[256];
    for (const char *at = files->include; at != NULL && *at != '\0';) {
        size_t len = strcspn(at, ",");
        if (len > 0 && len < sizeof word) {
            memcpy(word, at, len);
            word[len] = '\0';
            bool folder = strncmp(name, word, len) == 0 && (name[len] == '/' || name[len] == '\0');
            if (folder || strcmp(word, "all") == 0 || fnmatch(word, name, 0) == 0)
                return true;
        }
        at += len + (at[len] == ',');
    }
    return false;
}

static int leave_out(struct files *files, const char *path)
{
    cJSON *row = cJSON_CreateObject();
    RC_AUTO_FREE char *name = stage_redact_line(files->redactor, below(files, path));
    (void)cJSON_AddStringToObject(row, "file", name != NULL ? name : "?");
    (void)cJSON_AddStringToObject(row, "why", "not text; --include keeps it");
    if (!cJSON_AddItemToArray(files->left_out, row))
        cJSON_Delete(row);
    return unlink(path) == 0 ? 0 : rc_err_errno(files->err, -errno, "cannot remove '%s'", path);
}

/* --- one file --- */

/* Keys whose values are ours. The tree's questions are, too; elsewhere a "question" is one that
 * somebody asked a model. */
static const char *const *own_keys(const char *path)
{
    static const char *const keys[] = {"question",   "name",   "when", "status", "type", "class",
                                       "confidence", "answer", "node", NULL};
    return ends_with(path, "/verdict.json") ? keys : keys + 1;
}

/* The packages as requirements.txt lists them. */
static void list_packages(const cJSON *packages, struct buf *out)
{
    const cJSON *package;
    cJSON_ArrayForEach(package, packages)
    {
        const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(package, "name"));
        const char *version = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(package, "version"));
        buf_printf(out, "%s==%s\n", name != NULL ? name : "", version != NULL ? version : "");
    }
}

/* Names of packages are hidden in packages.json as they are in requirements.txt, where names of public ones stay. */
static int redact_packages(const struct files *files, cJSON *packages)
{
    static const char *const ours[] = {"name", NULL};
    struct buf list = BUF_INIT;
    struct buf clean = BUF_INIT;
    cJSON *package;
    list_packages(packages, &list);
    int r = buf_failed(&list) ? -ENOMEM : redact_text(files->redactor, buf_str(&list), list.len, &clean);
    char *line = r == 0 && clean.len > 0 ? clean.data : NULL;
    cJSON_ArrayForEach(package, packages)
    {
        cJSON *name = cJSON_GetObjectItemCaseSensitive(package, "name");
        char *end = line != NULL ? strchr(line, '\n') : NULL;
        char *sign = end != NULL ? memmem(line, (size_t)(end - line), "==", 2) : NULL;
        if (sign != NULL)
            *sign = '\0';
        if (cJSON_IsString(name) && cJSON_SetValuestring(name, sign != NULL ? line : "") == NULL)
            r = -ENOMEM;
        line = end != NULL ? end + 1 : NULL;
    }
    buf_release(&list);
    buf_release(&clean);
    return r == 0 ? redact_json(files->redactor, packages, ours) : r;
}

static int handle_document(const struct files *files, const char *path, cJSON *document,
                           struct buf *out)
{
    if (files->learning)
        return redactor_learn_json(files->redactor, document);
    bool of_python = strcmp(below(files, path), "python/packages.json") == 0;
    cJSON *packages = of_python ? cJSON_DetachItemFromObjectCaseSensitive(document, "packages") : NULL;
    int r = packages != NULL ? redact_packages(files, packages) : 0;
    if (r == 0)
        r = redact_json(files->redactor, document, files->scope == STAGE_OWN ? NULL : own_keys(path));
    if (packages != NULL && !cJSON_AddItemToObject(document, "packages", packages)) {
        cJSON_Delete(packages);
        r = -ENOMEM;
    }
    char *printed = r == 0 ? cJSON_Print(document) : NULL;
    if (printed != NULL)
        buf_puts(out, printed);
    else if (r == 0)
        r = -ENOMEM;
    cJSON_free(printed);
    return r;
}

static int learn_text(const struct files *files, const char *path, const char *text, size_t len)
{
    int r = ends_with(path, "/maps.txt") ? redactor_learn_maps(files->redactor, text, len) : 0;
    return r == 0 ? redactor_learn(files->redactor, text, len) : r;
}

/* A document that parses stays well-formed. Any other file is treated as text. */
static int handle_text(const struct files *files, const char *path, const char *text, size_t len,
                       struct buf *out)
{
    bool is_document = json_is_named(path) && json_file_is_bounded(path, text, len);
    cJSON *document = is_document ? cJSON_ParseWithLength(text, len) : NULL;
    int r;
    if (document != NULL)
        r = handle_document(files, path, document, out);
    else if (files->learning)
        r = learn_text(files, path, text, len);
    else
        r = redact_text(files->redactor, text, len, out);
    cJSON_Delete(document);
    return r;
}

static uint64_t total_count(const struct redactor *redactor)
{
    uint64_t sum = 0;
    for (unsigned kind = 0; kind < REDACT_KIND_MAX; kind++)
        sum += redactor_count(redactor, kind);
    return sum;
}

/* Files of numbers, states and versions that collectors read of the machine and of the process. */
static bool is_measured(const char *name)
{
    static const char *const folders[] = {"cgroup/", "drm/",    "gpu/",    "host/",     "hsa/",
                                          "impact/", "ledger/", "limits/", "nvml/",
                                          "software/", "stacks/", "telemetry/", "waits/"};
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        if (strncmp(name, folders[i], strlen(folders[i])) == 0)
            return true;
    }
    return false;
}

static int handle_file(struct files *files, const char *path)
{
    RC_AUTO_FREE char *text = NULL;
    struct buf clean;
    const char *name = below(files, path);
    uint64_t before = total_count(files->redactor);
    buf_init(&clean, 2 * STAGED_FILE_MAX);
    ssize_t len = fs_read_all(path, STAGED_FILE_MAX, &text);
    bool blob = len >= 0 && (is_blob(path) || is_binary(text, (size_t)len));
    if ((blob || len == -EFBIG) && (files->learning || is_included(files, name)))
        return 0;
    if (blob || len == -EFBIG) /* too long to be searched */
        return leave_out(files, path);
    redactor_begin_file(files->redactor, name);
    redactor_measured(files->redactor, is_measured(name));
    int r = len < 0 ? (int)len : handle_text(files, path, text, (size_t)len, &clean);
    redactor_measured(files->redactor, false);
    if (r == 0 && buf_failed(&clean))
        r = -ENOMEM;
    if (r == 0 && total_count(files->redactor) != before)
        r = fs_write_file_at(AT_FDCWD, path, buf_str(&clean), clean.len, false);
    redactor_begin_file(files->redactor, NULL);
    buf_release(&clean);
    return r < 0 ? rc_err_errno(files->err, r, "cannot redact '%s'", path) : 0;
}

/* --- names --- */

/* "<user1>.txt" as "_user1_.txt", which every system can unpack. */
static void as_file_name(char *name)
{
    for (char *p = name; *p != '\0'; p++) {
        if (!isalnum((unsigned char)*p) && strchr("._-+", *p) == NULL)
            *p = '_';
    }
}

static int handle_name(struct files *files, const struct entry *entry)
{
    char to[FS_PATH_MAX];
    RC_AUTO_FREE char *clean = stage_redact_line(files->redactor, entry->name);
    if (clean == NULL)
        return -ENOMEM;
    if (strcmp(clean, entry->name) == 0)
        return 0;
    as_file_name(clean);
    int folder = (int)(strlen(entry->path) - strlen(entry->name));
    for (unsigned number = 1; number < SAME_NAME_MAX; number++) {
        char suffix[16] = "";
        if (number > 1)
            (void)snprintf(suffix, sizeof suffix, "-%u", number);
        int n = snprintf(to, sizeof to, "%.*s%s%s", folder, entry->path, clean, suffix);
        if (n < 0 || (size_t)n >= sizeof to)
            return rc_err_set(files->err, -ENAMETOOLONG, "a file's name is too long");
        if (renameat2(AT_FDCWD, entry->path, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
            return 0;
        if (errno != EEXIST)
            return rc_err_errno(files->err, -errno, "cannot rename '%s'", entry->path);
    }
    return rc_err_set(files->err, -EEXIST, "no free name for '%s'", to);
}

typedef int (*entry_fn)(struct files *files, const struct entry *entry);

static int walk(struct files *files, const struct entry *folder, dev_t device,
                entry_fn handle); /* NOLINT(misc-no-recursion) */

static int walk_entry(struct files *files, const struct entry *folder, const char *name,
                      dev_t device, entry_fn handle) /* NOLINT(misc-no-recursion) */
{
    char path[FS_PATH_MAX];
    struct stat st;
    int n = snprintf(path, sizeof path, "%s/%s", folder->path, name);
    if (n < 0 || (size_t)n >= sizeof path)
        return rc_err_set(files->err, -ENAMETOOLONG, "a file's name is too long");
    if (lstat(path, &st) != 0)
        return errno == ENOENT ? 0 : rc_err_errno(files->err, -errno, "cannot look at '%s'", path);
    const struct entry entry = {.path = path,
                                .name = path + n - strlen(name),
                                .level = folder->level + 1,
                                .is_file = S_ISREG(st.st_mode)};
    if (!S_ISDIR(st.st_mode))
        return entry.is_file ? handle(files, &entry) : 0;
    int r = st.st_dev == device && entry.level < DEPTH_MAX ? walk(files, &entry, device, handle) : 0;
    return r == 0 ? handle(files, &entry) : r;
}

/* Handles the contents of a folder, then the folder itself, which may get another name. An entry that
 * cannot be read is an error: it could not be redacted. */
static int walk(struct files *files, const struct entry *folder, dev_t device,
                entry_fn handle) /* NOLINT(misc-no-recursion) */
{
    struct dirent **names = NULL;
    int count = scandir(folder->path, &names, NULL, alphasort);
    int r = count < 0 ? rc_err_errno(files->err, -errno, "cannot walk '%s'", folder->path) : 0;
    for (int i = 0; i < count; i++) {
        const char *name = names[i]->d_name;
        if (r == 0 && strcmp(name, ".") != 0 && strcmp(name, "..") != 0)
            r = walk_entry(files, folder, name, device, handle);
        free(names[i]);
    }
    free(names);
    return r;
}

static int each_entry(struct files *files, entry_fn handle)
{
    char path[FS_PATH_MAX];
    struct stat st;
    const struct entry root = {.path = path, .name = path};
    if (strlen(files->stage) >= sizeof path || lstat(files->stage, &st) != 0)
        return rc_err_errno(files->err, -errno, "cannot walk '%s'", files->stage);
    memcpy(path, files->stage, strlen(files->stage) + 1);
    return walk(files, &root, st.st_dev, handle);
}

static int content_of(struct files *files, const struct entry *entry)
{
    if (!entry->is_file || (!files->learning && is_clean(files, entry)))
        return 0;
    return handle_file(files, entry->path);
}

static int name_of(struct files *files, const struct entry *entry)
{
    return is_own_name(files, entry) ? 0 : handle_name(files, entry);
}

/* redaction.json of the stage; NULL = there is none. */
static cJSON *earlier_report(const struct files *files)
{
    char path[FS_PATH_MAX];
    RC_AUTO_FREE char *text = NULL;
    (void)snprintf(path, sizeof path, "%s/" REPORT_NAME, files->stage);
    ssize_t len = fs_read_all(path, REPORT_MAX, &text);
    return len > 0 ? cJSON_ParseWithLength(text, (size_t)len) : NULL;
}

static int reserve_of(struct files *files, const struct entry *entry)
{
    RC_AUTO_FREE char *text = NULL;
    if (!entry->is_file)
        return 0;
    ssize_t len = fs_read_all(entry->path, STAGED_FILE_MAX, &text);
    if (len > 0)
        redactor_reserve(files->redactor, text, (size_t)len);
    return len == -ENOMEM ? -ENOMEM : 0;
}

int stage_reserve(struct redactor *redactor, const char *stage, struct rc_err *err)
{
    struct files files = {.redactor = redactor, .stage = stage, .err = err};
    return each_entry(&files, reserve_of);
}

void stage_resume(struct redactor *redactor, const char *stage)
{
    const struct files files = {.redactor = redactor, .stage = stage};
    cJSON *earlier = earlier_report(&files);
    redactor_guessed(redactor, redactor_made(redactor, earlier));
    cJSON_Delete(earlier);
}

int stage_learn(struct redactor *redactor, const char *stage, struct rc_err *err)
{
    struct files files = {.redactor = redactor,
                          .stage = stage,
                          .stage_len = strlen(stage),
                          .learning = true,
                          .err = err};
    return each_entry(&files, content_of);
}

/* --- redaction.json --- */

static void add_counts(cJSON *to, const cJSON *from)
{
    const cJSON *old;
    cJSON_ArrayForEach(old, from)
    {
        cJSON *now = cJSON_GetObjectItemCaseSensitive(to, old->string);
        if (cJSON_IsObject(old)) {
            now = now != NULL ? now : cJSON_AddObjectToObject(to, old->string);
            const cJSON *inner;
            cJSON_ArrayForEach(inner, old)
            {
                cJSON *count = cJSON_GetObjectItemCaseSensitive(now, inner->string);
                if (count != NULL)
                    cJSON_SetNumberValue(count, count->valuedouble + inner->valuedouble);
                else
                    (void)cJSON_AddNumberToObject(now, inner->string, inner->valuedouble);
            }
        } else if (now != NULL) {
            cJSON_SetNumberValue(now, now->valuedouble + old->valuedouble);
        } else {
            (void)cJSON_AddNumberToObject(to, old->string, old->valuedouble);
        }
    }
}

/* `complete` and `redact` redact a second time: the counts of the first time are added. */
static void add_earlier_report(cJSON *report, const struct files *files)
{
    cJSON *earlier = earlier_report(files);
    static const char *const parts[] = {"counts", "secrets", "files"};
    /* Names of files, in somebody else's report. */
    const char *kinds[REDACT_KIND_MAX + 1] = {NULL};
    for (int kind = 0; kind < REDACT_KIND_MAX; kind++)
        kinds[kind] = redact_kind_name((enum redact_kind)kind);
    cJSON *names = cJSON_GetObjectItemCaseSensitive(earlier, "files");
    cJSON *left_out = cJSON_DetachItemFromObjectCaseSensitive(earlier, "left_out");
    bool clean = files->scope != STAGE_EVERYTHING ||
                 ((names == NULL || redact_json(files->redactor, names, kinds) == 0) &&
                  (left_out == NULL || redact_json(files->redactor, left_out, NULL) == 0));
    if (!clean || !cJSON_IsArray(left_out) || !cJSON_AddItemToObject(report, "left_out", left_out))
        cJSON_Delete(left_out);
    if (!clean) {
        cJSON_Delete(earlier);
        return;
    }
    for (size_t i = 0; earlier != NULL && i < 3; i++)
        add_counts(cJSON_GetObjectItemCaseSensitive(report, parts[i]),
                   cJSON_GetObjectItemCaseSensitive(earlier, parts[i]));
    cJSON_Delete(earlier);
}

static int write_report(struct files *files, int stage_fd)
{
    cJSON *report = redactor_report(files->redactor);
    if (report != NULL) {
        add_earlier_report(report, files);
        cJSON *rows = cJSON_GetObjectItemCaseSensitive(report, "left_out");
        if (rows == NULL)
            rows = cJSON_AddArrayToObject(report, "left_out");
        for (cJSON *row; (row = cJSON_DetachItemFromArray(files->left_out, 0)) != NULL;)
            if (!cJSON_AddItemToArray(rows, row))
                cJSON_Delete(row);
    }
    char *printed = report != NULL ? cJSON_Print(report) : NULL;
    int r = printed != NULL
                ? fs_write_file_at(stage_fd, REPORT_NAME, printed, strlen(printed), false)
                : -ENOMEM;
    cJSON_free(printed);
    cJSON_Delete(report);
    return r < 0 ? rc_err_errno(files->err, r, "cannot write " REPORT_NAME) : 0;
}

int stage_redact_files(struct redactor *redactor, const char *stage, int stage_fd,
                       enum stage_scope scope, const struct privacy *privacy, struct rc_err *err)
{
    struct files files = {.redactor = redactor,
                          .stage = stage,
                          .stage_len = strlen(stage),
                          .scope = scope,
                          .include = privacy->include,
                          .left_out = cJSON_CreateArray(),
                          .err = err};
    int r = files.left_out != NULL ? 0 : -ENOMEM;
    if (r == 0)
        r = each_entry(&files, name_of);
    if (r == 0)
        r = each_entry(&files, content_of);
    if (r == 0)
        r = write_report(&files, stage_fd);
    cJSON_Delete(files.left_out);
    return r;
}
