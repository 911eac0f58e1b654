/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manifest.json: a row for everything that was tried, a row for every file.
 *
 * Built by the finisher. The archive's writer makes "files" from the bytes that it archived
 * (manifest_for_archive), so that the list is true after cuts, and if a collector wrote late.
 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/utf8.h"
#include "bundle/internal.h"
#include "bundle/redact.h"

struct manifest {
    cJSON *doc; /* {"format", "tool", "version", "created", "items": [], ...} */
    char *top;  /* a new name for the top folder, NULL = none */
};

const char *collect_status_name(enum collect_status status)
{
    static const char *const names[] = {
        [COLLECT_OK] = "ok",
        [COLLECT_PARTIAL] = "partial",
        [COLLECT_SKIPPED] = "skipped",
        [COLLECT_FAILED] = "failed",
        [COLLECT_TIMED_OUT] = "timed_out",
        [COLLECT_CRASHED] = "crashed",
        [COLLECT_STUCK] = "stuck",
    };
    return (size_t)status < sizeof names / sizeof names[0] ? names[status] : "unknown";
}

/* Text from programs and drivers may be no UTF-8; JSON must be. */
static cJSON *utf8_string(const char *text)
{
    struct buf clean;
    buf_init(&clean, 64 * 1024);
    size_t len = strlen(text);
    for (size_t i = 0; i < len;) {
        size_t n = utf8_length((const unsigned char *)text + i, len - i);
        if (n > 0)
            buf_append(&clean, text + i, n);
        else
            buf_puts(&clean, "\xef\xbf\xbd");
        i += n > 0 ? n : 1;
    }
    cJSON *string = clean.data == NULL && len > 0 ? NULL : cJSON_CreateString(buf_str(&clean));
    buf_release(&clean);
    return string;
}

static bool add_text(cJSON *object, const char *key, const char *text)
{
    cJSON *string = utf8_string(text);
    if (string != NULL && cJSON_AddItemToObject(object, key, string))
        return true;
    cJSON_Delete(string);
    return false;
}

static bool add_number(cJSON *object, const char *key, uint64_t value)
{
    return cJSON_AddNumberToObject(object, key, (double)value) != NULL;
}

static bool fill_new(cJSON *doc)
{
    char created[32];
    time_t now = time(NULL);
    struct tm utc;
    if (gmtime_r(&now, &utc) == NULL ||
        strftime(created, sizeof created, "%Y-%m-%dT%H:%M:%SZ", &utc) == 0)
        created[0] = '\0';
    return add_number(doc, "format", MANIFEST_FORMAT) && add_text(doc, "tool", "rocmcrash") &&
           add_text(doc, "version", ROCMCRASH_VERSION) && add_text(doc, "created", created) &&
           cJSON_AddArrayToObject(doc, "items") != NULL;
}

struct manifest *manifest_new(void)
{
    struct manifest *manifest = calloc(1, sizeof *manifest);
    if (manifest == NULL)
        return NULL;
    manifest->doc = cJSON_CreateObject();
    if (manifest->doc != NULL && fill_new(manifest->doc))
        return manifest;
    manifest_free(manifest);
    return NULL;
}

void manifest_free(struct manifest *manifest)
{
    if (manifest == NULL)
        return;
    cJSON_Delete(manifest->doc);
    free(manifest->top);
    free(manifest);
}

int manifest_add_item(struct manifest *manifest, const char *name, enum collect_status status,
                      const char *reason, uint64_t milliseconds)
{
    cJSON *items = cJSON_GetObjectItemCaseSensitive(manifest->doc, "items");
    cJSON *row = cJSON_CreateObject();
    if (row != NULL && add_text(row, "name", name) &&
        add_text(row, "status", collect_status_name(status)) &&
        add_text(row, "reason", reason != NULL ? reason : "") &&
        add_number(row, "ms", milliseconds) && cJSON_AddItemToArray(items, row))
        return 0;
    cJSON_Delete(row);
    return -ENOMEM;
}

void manifest_forget_item(struct manifest *manifest, const char *name)
{
    cJSON *items = cJSON_GetObjectItemCaseSensitive(manifest->doc, "items");
    for (cJSON *row = items != NULL ? items->child : NULL; row != NULL;) {
        cJSON *next = row->next;
        const char *own = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(row, "name"));
        if (own != NULL && strcmp(own, name) == 0)
            cJSON_Delete(cJSON_DetachItemViaPointer(items, row));
        row = next;
    }
}

int manifest_set(struct manifest *manifest, const char *key, struct cJSON *value)
{
    /* Our own entries: the rows, and what is computed. */
    static const char *const own[] = {"format", "items", "files", "cut", "name"};
    int r = value == NULL ? -ENOMEM : 0;
    for (size_t i = 0; r == 0 && i < sizeof own / sizeof own[0]; i++) {
        if (strcmp(key, own[i]) == 0)
            r = -EINVAL;
    }
    if (r == 0 && cJSON_GetObjectItemCaseSensitive(manifest->doc, key) != NULL) {
        if (!cJSON_ReplaceItemInObjectCaseSensitive(manifest->doc, key, value))
            r = -ENOMEM;
    } else if (r == 0 && !cJSON_AddItemToObject(manifest->doc, key, value)) {
        r = -ENOMEM;
    }
    if (r < 0)
        cJSON_Delete(value);
    return r;
}

int manifest_redact(struct manifest *manifest, struct redactor *redactor)
{
    static const char *const ours[] = {"name", "status",  "sha256",  "how", "format",
                                       "tool", "version", "created", NULL};
    return redact_json(redactor, manifest->doc, ours);
}

int manifest_rename(struct manifest *manifest, const char *top)
{
    if (!top_name_ok(top))
        return -EINVAL;
    free(manifest->top);
    manifest->top = strdup(top);
    return manifest->top != NULL ? 0 : -ENOMEM;
}

const char *manifest_top(const struct manifest *manifest)
{
    return manifest->top;
}

const char *manifest_name(const struct manifest *manifest)
{
    const char *name =
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(manifest->doc, "name"));
    return name != NULL ? name : "";
}

int manifest_set_name(struct manifest *manifest, const char *name)
{
    cJSON_DeleteItemFromObjectCaseSensitive(manifest->doc, "name");
    return add_text(manifest->doc, "name", name) ? 0 : -ENOMEM;
}

/* A usable document from the text of a manifest.json, or NULL. */
static cJSON *parse_document(const char *text)
{
    cJSON *doc = cJSON_ParseWithLength(text, strlen(text));
    const cJSON *format = cJSON_GetObjectItemCaseSensitive(doc, "format");
    const cJSON *items = cJSON_GetObjectItemCaseSensitive(doc, "items");
    if (cJSON_IsObject(doc) && cJSON_IsNumber(format) && format->valueint == MANIFEST_FORMAT &&
        cJSON_IsArray(items))
        return doc;
    cJSON_Delete(doc);
    return NULL;
}

struct manifest *manifest_load(const char *stage_dir, struct rc_err *err)
{
    char path[FS_PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%s", stage_dir, MANIFEST_NAME);
    if (n < 0 || (size_t)n >= sizeof path) {
        (void)rc_err_set(err, -ENAMETOOLONG, "path too long");
        return NULL;
    }
    RC_AUTO_FREE char *text = NULL;
    ssize_t len = fs_read_all(path, BUNDLE_MAX_MANIFEST, &text);
    if (len < 0) {
        (void)rc_err_errno(err, (int)len, "cannot read '%s'", path);
        return NULL;
    }
    struct manifest *manifest = calloc(1, sizeof *manifest);
    if (manifest != NULL)
        manifest->doc = parse_document(text);
    if (manifest != NULL && manifest->doc != NULL)
        return manifest;
    manifest_free(manifest);
    (void)rc_err_set(err, -EBADMSG, "'%s' is not a manifest of format %d", path, MANIFEST_FORMAT);
    return NULL;
}

static bool add_file_row(cJSON *files, const char *path, uint64_t bytes, const char *sha256)
{
    cJSON *row = cJSON_CreateObject();
    if (row != NULL && add_text(row, "path", path) && add_number(row, "bytes", bytes) &&
        add_text(row, "sha256", sha256) && cJSON_AddItemToArray(files, row))
        return true;
    cJSON_Delete(row);
    return false;
}

static cJSON *fresh_array(cJSON *doc, const char *key)
{
    cJSON_DeleteItemFromObjectCaseSensitive(doc, key);
    return cJSON_AddArrayToObject(doc, key);
}

static int print_document(const cJSON *doc, struct buf *out, struct rc_err *err)
{
    char *text = cJSON_Print(doc);
    if (text == NULL)
        return rc_err_errno(err, -ENOMEM, "cannot write the manifest");
    buf_puts(out, text);
    buf_putc(out, '\n');
    cJSON_free(text);
    if (buf_failed(out))
        return rc_err_errno(err, -ENOMEM, "cannot write the manifest");
    return 0;
}

int manifest_render(struct manifest *manifest, const char *stage_dir, struct buf *out,
                    struct rc_err *err)
{
    struct stage stage;
    int r = stage_open(&stage, stage_dir, err);
    if (r < 0)
        return r;
    cJSON *files = fresh_array(manifest->doc, "files");
    if (files == NULL)
        r = rc_err_errno(err, -ENOMEM, "cannot write the manifest");
    for (size_t i = 0; r == 0 && i < stage.count; i++) {
        struct stage_file *file = &stage.files[i];
        if (file->plan == PLAN_DROP)
            continue;
        r = stage_hash_file(&stage, file->path, file->sha256, &file->bytes, err);
        if (r == -ENOENT) { /* gone since it was listed */
            r = 0;
            continue;
        }
        if (r == 0 && !add_file_row(files, file->path, file->bytes, file->sha256))
            r = rc_err_errno(err, -ENOMEM, "cannot write the manifest");
    }
    stage_release(&stage);
    return r < 0 ? r : print_document(manifest->doc, out, err);
}

static const char *const plan_names[] = {
    [PLAN_KEEP] = "changed while it was archived",
    [PLAN_SHORTEN] = "shortened",
    [PLAN_THIN] = "thinned",
    [PLAN_DROP] = "left out",
};

static bool add_cut_row(cJSON *cut, const struct stage_file *file)
{
    cJSON *row = cJSON_CreateObject();
    char name[2 * BUNDLE_NAME_MAX];
    if (row != NULL && add_text(row, "path", printable_name(name, sizeof name, file->path)) &&
        add_text(row, "how", plan_names[file->plan]) &&
        add_text(row, "reason", file->why != NULL ? file->why : "") &&
        add_number(row, "bytes_before", file->bytes) &&
        add_number(row, "bytes_cut", file->plan == PLAN_DROP ? file->bytes : file->lost) &&
        cJSON_AddItemToArray(cut, row))
        return true;
    cJSON_Delete(row);
    return false;
}

static bool fill_from_stage(cJSON *doc, const struct stage *stage, const char *name)
{
    cJSON_DeleteItemFromObjectCaseSensitive(doc, "name");
    /* Keeps the cuts that an earlier writing of this bundle has listed. */
    cJSON *cut = cJSON_GetObjectItemCaseSensitive(doc, "cut");
    if (!cJSON_IsArray(cut))
        cut = fresh_array(doc, "cut");
    cJSON *files = fresh_array(doc, "files");
    if (files == NULL || cut == NULL || !add_text(doc, "name", name))
        return false;
    for (size_t i = 0; i < stage->count; i++) {
        const struct stage_file *file = &stage->files[i];
        if (file->plan != PLAN_DROP &&
            !add_file_row(files, file->path, file->archived, file->sha256))
            return false;
        if ((file->plan != PLAN_KEEP || file->lost > 0) && !add_cut_row(cut, file))
            return false;
    }
    struct stage_file rest = {.path = (char *)(uintptr_t) "(more files)", .plan = PLAN_DROP};
    char why[80];
    (void)snprintf(why, sizeof why, "%llu files beyond the limit of %u",
                   (unsigned long long)stage->unlisted, BUNDLE_MAX_FILES);
    rest.why = why;
    return stage->unlisted == 0 || add_cut_row(cut, &rest);
}

int manifest_for_archive(const char *base, const struct stage *stage, const char *name,
                         struct buf *out, struct rc_err *err)
{
    struct manifest *manifest = calloc(1, sizeof *manifest);
    if (manifest != NULL && base != NULL)
        manifest->doc = parse_document(base);
    bool lost_base = base != NULL && manifest != NULL && manifest->doc == NULL;
    if (manifest != NULL && manifest->doc == NULL) {
        free(manifest);
        manifest = manifest_new();
    }
    int r = manifest == NULL ? -ENOMEM : 0;
    if (r == 0 && lost_base)
        r = manifest_add_item(manifest, "manifest", COLLECT_FAILED,
                              "the staged manifest.json was not valid; its rows are lost", 0);
    if (r == 0 && !fill_from_stage(manifest->doc, stage, name))
        r = -ENOMEM;
    r = r < 0 ? rc_err_errno(err, r, "cannot make the manifest")
              : print_document(manifest->doc, out, err);
    manifest_free(manifest);
    if (r == 0 && out->len > BUNDLE_MAX_MANIFEST)
        return rc_err_set(err, -EFBIG, "the manifest is larger than %zu bytes",
                          BUNDLE_MAX_MANIFEST);
    return r;
}
