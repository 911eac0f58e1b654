/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entries of a bundle that may be hostile: gunzip -> tar_gate -> libarchive -> name rules.
 *
 * Bounded: at most BUNDLE_MAX_FILES entries, BUNDLE_MAX_TOTAL bytes, names of BUNDLE_NAME_MAX. Only
 * the list of names grows. At the end it is checked for entries that would overwrite each other.
 */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "bundle/internal.h"

struct seen_name {
    char *name; /* below the top folder */
    bool folder;
};

struct reader {
    struct gunzip *gunzip;
    struct tar_gate gate;
    struct archive *a;
    struct rc_err source_err; /* of gunzip or gate: better than libarchive's */
    int source_code;
    char top[BUNDLE_TOP_MAX + 1];
    struct seen_name *seen;
    size_t seen_count, seen_capacity;
    uint64_t total;
};

const char *reader_top(const struct reader *reader)
{
    return reader->top;
}

/* The next piece, gated. 0 at the end, after the last checks. */
static ssize_t pull(struct reader *reader, const void **data)
{
    ssize_t n = gunzip_next(reader->gunzip, data, &reader->source_err);
    int r = n < 0 ? (int)n : 0;
    if (n > 0)
        r = tar_gate_feed(&reader->gate, *data, (size_t)n, &reader->source_err);
    else if (n == 0)
        r = tar_gate_finish(&reader->gate, &reader->source_err);
    reader->source_code = r;
    return r < 0 ? r : n;
}

static la_ssize_t on_read(struct archive *a, void *data, const void **block)
{
    struct reader *reader = data;
    ssize_t n = pull(reader, block);
    if (n >= 0)
        return (la_ssize_t)n;
    archive_set_error(a, EBADMSG, "source");
    return ARCHIVE_FATAL;
}

static int reader_failed(const struct reader *reader, struct rc_err *err)
{
    if (reader->source_code < 0)
        return rc_err_set(err, reader->source_code, "%s", reader->source_err.msg);
    if (archive_errno(reader->a) == ENOMEM)
        return rc_err_errno(err, -ENOMEM, "cannot read the archive");
    const char *text = archive_error_string(reader->a);
    char shown[160];
    return rc_err_set(err, -EBADMSG, "the tar data is damaged: %s",
                      printable_name(shown, sizeof shown, text != NULL ? text : "unknown"));
}

int reader_open(struct reader **ret, int fd, struct rc_err *err)
{
    struct reader *reader = calloc(1, sizeof *reader);
    if (reader == NULL)
        return rc_err_errno(err, -ENOMEM, "cannot read the archive");
    int r = gunzip_open(&reader->gunzip, fd, err);
    if (r == 0) {
        reader->a = archive_read_new();
        if (reader->a == NULL)
            r = rc_err_errno(err, -ENOMEM, "cannot read the archive");
    }
    /* No filter: with one, a tar inside a gzip inside our gzip would be opened too. */
    if (r == 0 && (archive_read_support_format_tar(reader->a) != ARCHIVE_OK ||
                   archive_read_open(reader->a, reader, NULL, on_read, NULL) != ARCHIVE_OK))
        r = reader_failed(reader, err);
    if (r < 0) {
        reader_close(reader);
        return r;
    }
    *ret = reader;
    return 0;
}

void reader_close(struct reader *reader)
{
    if (reader == NULL)
        return;
    if (reader->a != NULL)
        (void)archive_read_free(reader->a);
    gunzip_close(reader->gunzip);
    for (size_t i = 0; i < reader->seen_count; i++)
        free(reader->seen[i].name);
    free(reader->seen);
    free(reader);
}

static int remember(struct reader *reader, const char *name, bool folder, struct rc_err *err)
{
    if (reader->seen_count >= BUNDLE_MAX_FILES)
        return rc_err_set(err, -EBADMSG, "more than %u entries", BUNDLE_MAX_FILES);
    if (reader->seen_count == reader->seen_capacity) {
        size_t capacity = reader->seen_capacity ? reader->seen_capacity * 2 : 64;
        struct seen_name *grown = realloc(reader->seen, capacity * sizeof *grown);
        if (grown == NULL)
            return rc_err_errno(err, -ENOMEM, "cannot read the archive");
        reader->seen = grown;
        reader->seen_capacity = capacity;
    }
    size_t len = strlen(name);
    char *copy = malloc(len + 1);
    if (copy == NULL)
        return rc_err_errno(err, -ENOMEM, "cannot read the archive");
    memcpy(copy, name, len + 1);
    struct seen_name *seen = &reader->seen[reader->seen_count++];
    seen->name = copy;
    seen->folder = folder;
    return 0;
}

/* Check the name; *ret_below points after the top folder in `name` ("" for the top itself). */
static int check_name(struct reader *reader, char *name, bool folder, const char **ret_below,
                      struct rc_err *err)
{
    size_t len = strlen(name);
    if (name[0] == '/')
        return entry_refuse(name, "has an absolute name", err);
    if (folder && len > 0 && name[len - 1] == '/')
        name[--len] = '\0';
    if (len > BUNDLE_NAME_MAX + BUNDLE_TOP_MAX)
        return entry_refuse(name, "has too long a name", err);
    char *slash = strchr(name, '/');
    size_t top_len = slash != NULL ? (size_t)(slash - name) : len;
    if (top_len == 0 || top_len > BUNDLE_TOP_MAX)
        return entry_refuse(name, "is not below one top folder", err);
    char top[BUNDLE_TOP_MAX + 1];
    memcpy(top, name, top_len);
    top[top_len] = '\0';
    if (!top_name_ok(top))
        return entry_refuse(name, "leads outside or is oddly named", err);
    if (slash == NULL && !folder)
        return entry_refuse(name, "is not below one top folder", err);
    if (reader->top[0] == '\0')
        memcpy(reader->top, top, top_len + 1);
    if (strcmp(reader->top, top) != 0)
        return entry_refuse(name, "is in a second top folder", err);
    *ret_below = slash != NULL ? slash + 1 : "";
    if (slash != NULL && !entry_name_ok(slash + 1))
        return entry_refuse(name, "leads outside or is oddly named", err);
    return 0;
}

static int by_name(const void *a, const void *b)
{
    const struct seen_name *x = a;
    const struct seen_name *y = b;
    return strcasecmp(x->name, y->name);
}

/* A file may not occur twice, nor be the folder of another file. */
static int check_collisions(struct reader *reader, struct rc_err *err)
{
    if (reader->seen_count == 0)
        return rc_err_set(err, -EBADMSG, "the archive is empty");
    qsort(reader->seen, reader->seen_count, sizeof *reader->seen, by_name);
    for (size_t i = 0; i < reader->seen_count; i++) {
        const char *name = reader->seen[i].name;
        if (i > 0 && strcasecmp(reader->seen[i - 1].name, name) == 0)
            return entry_refuse(name, "is there twice", err);
        char parent[BUNDLE_NAME_MAX + 1];
        (void)snprintf(parent, sizeof parent, "%s", name);
        for (char *slash; (slash = strrchr(parent, '/')) != NULL;) {
            *slash = '\0';
            struct seen_name key = {.name = parent};
            const struct seen_name *found =
                bsearch(&key, reader->seen, reader->seen_count, sizeof key, by_name);
            if (found != NULL && !found->folder)
                return entry_refuse(name, "lies below a file", err);
        }
    }
    return 0;
}

/* libarchive stopped at the two zero blocks. Only padding may follow, and the CRC must be right. */
static int finish(struct reader *reader, struct rc_err *err)
{
    const void *data = NULL;
    ssize_t n;
    while ((n = pull(reader, &data)) > 0)
        ;
    if (n < 0)
        return reader_failed(reader, err);
    return check_collisions(reader, err);
}

static int check_entry(struct reader *reader, struct archive_entry *entry, const char **ret_name,
                       struct rc_err *err)
{
    /* NULL: not representable in the locale, so certainly not printable ASCII. */
    const char *raw = archive_entry_pathname(entry);
    if (raw == NULL)
        return rc_err_set(err, -EBADMSG, "an entry's name is not valid text");
    char name[BUNDLE_NAME_MAX + BUNDLE_TOP_MAX + 8];
    int len = snprintf(name, sizeof name, "%s", raw);
    if (len < 0 || (size_t)len >= sizeof name)
        return entry_refuse(raw, "has too long a name", err);
    mode_t type = archive_entry_filetype(entry);
    if ((type != S_IFREG && type != S_IFDIR) || archive_entry_hardlink(entry) != NULL ||
        archive_entry_symlink(entry) != NULL || archive_entry_sparse_count(entry) > 0)
        return entry_refuse(name, "is not a plain file or folder", err);
    const char *below = name;
    int r = check_name(reader, name, type == S_IFDIR, &below, err);
    if (r == 0)
        r = remember(reader, below, type == S_IFDIR, err);
    if (r == 0)
        *ret_name = reader->seen[reader->seen_count - 1].name;
    return r;
}

int reader_next(struct reader *reader, struct reader_entry *ret, struct rc_err *err)
{
    for (;;) {
        struct archive_entry *entry = NULL;
        int code = archive_read_next_header(reader->a, &entry);
        if (code == ARCHIVE_EOF)
            return finish(reader, err);
        if (code != ARCHIVE_OK) /* also ARCHIVE_WARN: a bundle gives no cause for one */
            return reader_failed(reader, err);
        const char *name = "";
        int r = check_entry(reader, entry, &name, err);
        if (r < 0)
            return r;
        int64_t size = archive_entry_size(entry);
        if (size < 0 || (reader->total += (uint64_t)size) > BUNDLE_MAX_TOTAL)
            return entry_refuse(name, "makes the bundle larger than it may be", err);
        if (archive_entry_filetype(entry) == S_IFDIR)
            continue;
        *ret = (struct reader_entry){name, (uint64_t)size, archive_entry_mtime(entry)};
        return 1;
    }
}

ssize_t reader_data(struct reader *reader, void *data, size_t size, struct rc_err *err)
{
    la_ssize_t n = archive_read_data(reader->a, data, size);
    return n < 0 ? reader_failed(reader, err) : (ssize_t)n;
}

int bundle_open(const char *path, struct rc_err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return rc_err_errno(err, -errno, "cannot open '%s'", path);
    struct stat st;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        return fd;
    bool folder = S_ISDIR(st.st_mode);
    bool unpacked = folder && faccessat(fd, "manifest.json", F_OK, 0) == 0;
    (void)close(fd);
    if (unpacked)
        return rc_err_set(err, -EISDIR, "'%s' " BUNDLE_UNPACKED, path);
    return rc_err_set(err, folder ? -EISDIR : -EINVAL, "'%s' is not a regular file", path);
}
