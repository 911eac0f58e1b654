/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does a bundle hold what its manifest says, and nothing else? Also: lists it, and reads one file.
 *
 * One pass: each file is hashed as it comes, and compared with the manifest at the end, because the
 * manifest may stand anywhere in the archive.
 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/json_bound.h"
#include "bundle/internal.h"

struct found {
    char *name;
    uint64_t bytes;
    char sha256[SHA256_HEX];
    bool listed;
};

struct check {
    struct found *files;
    size_t count, capacity;
    char *manifest; /* its text */
};

/* The data of the entry into memory of at most max bytes. -EFBIG: longer, the beginning is there.
 */
static ssize_t read_entry(struct reader *reader, const struct reader_entry *entry, size_t max,
                          char **ret_data, struct rc_err *err)
{
    size_t want = entry->bytes < max ? (size_t)entry->bytes : max;
    RC_AUTO_FREE char *data = malloc(want + 1);
    if (data == NULL)
        return rc_err_errno(err, -ENOMEM, "cannot read '%s'", entry->name);
    size_t len = 0;
    while (len < want) {
        ssize_t n = reader_data(reader, data + len, want - len, err);
        if (n < 0)
            return n;
        if (n == 0)
            break;
        len += (size_t)n;
    }
    data[len] = '\0';
    *ret_data = rc_take(&data);
    if (entry->bytes > max)
        return rc_err_errno(err, -EFBIG, "'%s' is larger than %zu bytes", entry->name, max);
    return (ssize_t)len;
}

/* `begun`: a file whose beginning has been read already; NULL = none was. */
static int hash_entry(struct reader *reader, struct found *file, const struct bundle_file *begun, struct rc_err *err)
{
    char data[64 * 1024];
    SHA256_CTX sha;
    ssize_t n;
    (void)SHA256_Init(&sha);
    if (begun != NULL && begun->data != NULL) {
        file->bytes = begun->len == -EFBIG ? begun->max : (uint64_t)begun->len;
        (void)SHA256_Update(&sha, begun->data, (size_t)file->bytes);
    }
    while ((n = reader_data(reader, data, sizeof data, err)) > 0) {
        (void)SHA256_Update(&sha, data, (size_t)n);
        file->bytes += (uint64_t)n;
    }
    sha256_to_hex(&sha, file->sha256);
    return (int)n;
}

static int take_file(struct check *check, struct reader *reader, const struct reader_entry *entry,
                     const struct bundle_file *begun, struct rc_err *err)
{
    if (check->count == check->capacity) {
        size_t capacity = check->capacity ? check->capacity * 2 : 64;
        struct found *grown = realloc(check->files, capacity * sizeof *grown);
        if (grown == NULL)
            return rc_err_errno(err, -ENOMEM, "cannot verify");
        check->files = grown;
        check->capacity = capacity;
    }
    struct found *file = &check->files[check->count];
    size_t len = strlen(entry->name);
    *file = (struct found){.name = malloc(len + 1)};
    if (file->name == NULL)
        return rc_err_errno(err, -ENOMEM, "cannot verify");
    memcpy(file->name, entry->name, len + 1);
    check->count++;
    return hash_entry(reader, file, begun, err);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct found *)a)->name, ((const struct found *)b)->name);
}

static int check_row(struct check *check, const cJSON *row, struct rc_err *err)
{
    const char *path = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(row, "path"));
    const char *sha256 = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(row, "sha256"));
    const cJSON *bytes = cJSON_GetObjectItemCaseSensitive(row, "bytes");
    if (path == NULL || sha256 == NULL || !cJSON_IsNumber(bytes))
        return rc_err_set(err, -EBADMSG, "manifest.json has a row of 'files' that is not complete");
    struct found key = {.name = (char *)(uintptr_t)path};
    struct found *file = NULL;
    if (check->count > 0)
        file = bsearch(&key, check->files, check->count, sizeof key, by_name);
    if (file == NULL)
        return entry_refuse(path, "is in the manifest but not in the archive", err);
    if (file->listed)
        return entry_refuse(path, "is in the manifest twice", err);
    file->listed = true;
    if (bytes->valuedouble != (double)file->bytes)
        return entry_refuse(path, "has another size than in the manifest", err);
    if (strcmp(file->sha256, sha256) != 0)
        return entry_refuse(path, "has another SHA-256 than in the manifest", err);
    return 0;
}

static int check_manifest(struct check *check, const char *top, struct rc_err *err)
{
    if (check->manifest == NULL)
        return rc_err_set(err, -EBADMSG, "there is no manifest.json");
    cJSON *doc = cJSON_ParseWithOpts(check->manifest, NULL, 1);
    const cJSON *format = cJSON_GetObjectItemCaseSensitive(doc, "format");
    const cJSON *files = cJSON_GetObjectItemCaseSensitive(doc, "files");
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(doc, "name");
    int r = 0;
    if (!cJSON_IsObject(doc))
        r = rc_err_set(err, -EBADMSG, "manifest.json is not valid JSON");
    else if (!cJSON_IsNumber(format) || format->valuedouble != MANIFEST_FORMAT)
        r = rc_err_set(err, -EBADMSG, "manifest.json is not of format %d", MANIFEST_FORMAT);
    else if (!cJSON_IsArray(files))
        r = rc_err_set(err, -EBADMSG, "manifest.json has no list of files");
    else if (cJSON_IsString(name) && strcmp(name->valuestring, top) != 0)
        r = rc_err_set(err, -EBADMSG, "the top folder '%s' is not the one of the manifest", top);
    if (check->count > 0)
        qsort(check->files, check->count, sizeof *check->files, by_name);
    const cJSON *row = r == 0 ? files->child : NULL;
    for (; r == 0 && row != NULL; row = row->next)
        r = check_row(check, row, err);
    for (size_t i = 0; r == 0 && i < check->count; i++) {
        if (!check->files[i].listed)
            r = entry_refuse(check->files[i].name, "is not in the manifest", err);
    }
    cJSON_Delete(doc);
    return r;
}

static int take_manifest(struct check *check, struct reader *reader,
                         const struct reader_entry *entry, struct rc_err *err)
{
    if (check->manifest != NULL)
        return entry_refuse(MANIFEST_NAME, "is there twice", err);
    ssize_t n = read_entry(reader, entry, BUNDLE_MAX_MANIFEST, &check->manifest, err);
    if (n == -EFBIG)
        return entry_refuse(MANIFEST_NAME, "is too large", err);
    if (n >= 0 && strlen(check->manifest) != (size_t)n)
        return entry_refuse(MANIFEST_NAME, "is not text", err);
    return n < 0 ? (int)n : 0;
}

/* The file of `files` that the entry is, if none of its name came before; NULL = none. */
static struct bundle_file *find_wanted(const struct reader_entry *entry, struct bundle_file *files, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (files[i].len == -ENOENT && strcmp(entry->name, files[i].name) == 0)
            return &files[i];
    return NULL;
}

static void refuse_unbounded(struct bundle_file *file, struct rc_err *err)
{
    if (file->len < 0 || json_file_is_bounded(file->name, file->data, (size_t)file->len))
        return;
    free(file->data);
    file->data = NULL;
    file->len = rc_err_set(err, -EBADMSG, "'%s' has more than %u values", file->name, JSON_VALUES_MAX);
}

/* The whole bundle in one pass: each file is compared with the manifest, and `files` are read. *unread: why one of
 * them was not. */
static int verify_and_read(int fd, struct bundle_file *files, size_t count, struct rc_err *unread, struct rc_err *err)
{
    struct check check = {0};
    struct reader *reader = NULL;
    struct reader_entry entry;
    int r = reader_open(&reader, fd, err);
    while (r == 0 && (r = reader_next(reader, &entry, err)) > 0) {
        struct bundle_file *wanted = find_wanted(&entry, files, count);
        if (wanted != NULL)
            wanted->len = read_entry(reader, &entry, wanted->max, &wanted->data, unread);
        if (strcmp(entry.name, MANIFEST_NAME) == 0)
            r = take_manifest(&check, reader, &entry, err);
        else
            r = take_file(&check, reader, &entry, wanted, err);
        if (wanted != NULL)
            refuse_unbounded(wanted, unread);
    }
    if (r == 0)
        r = check_manifest(&check, reader_top(reader), err);
    reader_close(reader);
    for (size_t i = 0; i < check.count; i++)
        free(check.files[i].name);
    free(check.files);
    free(check.manifest);
    return r;
}

int bundle_verify_fd(int fd, struct rc_err *err)
{
    return verify_and_read(fd, NULL, 0, NULL, err);
}

int bundle_verify(const char *path, struct rc_err *err)
{
    RC_AUTO_CLOSE int fd = bundle_open(path, err);
    return fd < 0 ? fd : bundle_verify_fd(fd, err);
}

int bundle_list(const char *path, bundle_list_fn fn, void *arg, struct rc_err *err)
{
    RC_AUTO_CLOSE int fd = bundle_open(path, err);
    if (fd < 0)
        return fd;
    struct reader *reader = NULL;
    struct reader_entry entry;
    int r = reader_open(&reader, fd, err);
    while (r == 0 && (r = reader_next(reader, &entry, err)) > 0)
        r = fn(arg, entry.name, entry.bytes);
    reader_close(reader);
    return r;
}

int bundle_read_name(const char *path, char *out, size_t size)
{
    struct rc_err none = {""};
    RC_AUTO_CLOSE int fd = bundle_open(path, &none);
    if (fd < 0)
        return fd;
    struct reader *reader = NULL;
    struct reader_entry entry;
    int r = reader_open(&reader, fd, &none);
    if (r == 0)
        r = reader_next(reader, &entry, &none);
    if (r > 0)
        (void)snprintf(out, size, "%s", reader_top(reader));
    reader_close(reader);
    return r > 0 ? 0 : r == 0 ? -ENOENT : r;
}

static size_t begin_to_want(struct bundle_file *files, size_t count)
{
    for (size_t i = 0; i < count; i++)
        files[i].len = -ENOENT;
    return count;
}

/* Reads up to the last wanted file: a summary can still be read from a download that was cut off.
 * bundle_verify() checks the whole. */
int bundle_read_files(const char *path, struct bundle_file *files, size_t count, struct rc_err *err)
{
    RC_AUTO_CLOSE int fd = bundle_open(path, err);
    if (fd < 0)
        return fd;
    struct reader *reader = NULL;
    struct reader_entry entry;
    size_t left = begin_to_want(files, count);
    int r = reader_open(&reader, fd, err);
    while (r == 0 && left > 0 && (r = reader_next(reader, &entry, err)) > 0) {
        struct bundle_file *wanted = find_wanted(&entry, files, count);
        r = 0;
        if (wanted == NULL)
            continue;
        wanted->len = read_entry(reader, &entry, wanted->max, &wanted->data, err);
        refuse_unbounded(wanted, err);
        left--;
    }
    reader_close(reader);
    return left < count ? 0 : r;
}

int bundle_read_verified(const char *path, struct bundle_file *files, size_t count, struct rc_err *damage,
                         struct rc_err *err)
{
    RC_AUTO_CLOSE int fd = bundle_open(path, err);
    if (fd < 0)
        return fd;
    size_t left = begin_to_want(files, count);
    int r = verify_and_read(fd, files, count, err, damage);
    for (size_t i = 0; i < count; i++)
        left -= files[i].len != -ENOENT;
    if (left == count && r < 0)
        *err = *damage;
    if (r != -EBADMSG)
        damage->msg[0] = '\0';
    return left < count ? 0 : r;
}

ssize_t bundle_read_file(const char *path, const char *name, size_t max, char **ret_data,
                         struct rc_err *err)
{
    struct bundle_file file = {.name = name, .max = max};
    int r = bundle_read_files(path, &file, 1, err);
    if (r == 0 && file.len == -ENOENT)
        return rc_err_errno(err, -ENOENT, "'%s' is not in the bundle", name);
    if (file.data != NULL)
        *ret_data = file.data;
    return r < 0 ? r : file.len;
}
