/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage -> gzip tar on a descriptor, in passes. A pass measures the compressed size of each file.
 * If the archive does not fit, cuts are planned from these sizes, and the archive is made again.
 *
 * Same stage, same bytes: sorted, owner 0 without names, no time in the gzip header. The manifest
 * comes last because its hashes are of the bytes that went into the archive.
 */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/fs.h"
#include "bundle/internal.h"

#define PASSES_MAX 12
#define CUT_MARGIN (128u * 1024u)

struct pass {
    struct archive *a;
    struct stage *stage;
    const char *top;
    int fd;
    int output_error; /* -errno of the descriptor */
    uint64_t bytes;   /* compressed so far, also those beyond the limit, which are not written */
    time_t newest;    /* mtime of what we make ourselves: deterministic */
    time_t now;
    SHA256_CTX sha; /* of the entry that is being written */
    struct rc_err *err;
};

/* Reports no error to libarchive: its gzip filter leaks 260 KB if it is not closed in order
 * (3.6.2). The error is kept, later data are dropped, and put_data() stops the pass. */
static la_ssize_t on_write(struct archive *a, void *data, const void *block, size_t len)
{
    struct pass *pass = data;
    (void)a;
    pass->bytes += len;
    /* Beyond the limit the data are only measured, because another pass follows. */
    if (pass->bytes <= BUNDLE_MAX_BYTES && pass->output_error == 0)
        pass->output_error = fs_write_all(pass->fd, block, len);
    return (la_ssize_t)len;
}

/* Turns libarchive's error into ours. */
static int pass_failed(struct pass *pass)
{
    if (pass->output_error < 0)
        return rc_err_errno(pass->err, pass->output_error, "cannot write the archive");
    int code = archive_errno(pass->a);
    const char *text = archive_error_string(pass->a);
    return rc_err_set(pass->err, code > 0 ? -code : -EIO, "cannot write the archive: %s",
                      text != NULL ? text : "unknown error");
}

/* tar warns about times in the future and before 1970. */
static time_t sane_time(const struct pass *pass, int64_t mtime)
{
    return mtime < 1 ? 1 : mtime > pass->now ? pass->now : (time_t)mtime;
}

static int put_header(struct pass *pass, const char *path, mode_t type, uint64_t bytes,
                      int64_t mtime)
{
    char full[BUNDLE_TOP_MAX + BUNDLE_NAME_MAX + 3];
    (void)snprintf(full, sizeof full, "%s/%s", pass->top, path);
    (void)SHA256_Init(&pass->sha);
    struct archive_entry *entry = archive_entry_new2(pass->a);
    if (entry == NULL)
        return rc_err_errno(pass->err, -ENOMEM, "cannot write the archive");
    archive_entry_set_pathname(entry, full);
    archive_entry_set_filetype(entry, type);
    archive_entry_set_perm(entry, type == S_IFDIR ? 0755 : 0644);
    archive_entry_set_size(entry, (int64_t)bytes);
    archive_entry_set_mtime(entry, sane_time(pass, mtime), 0);
    int r = archive_write_header(pass->a, entry);
    archive_entry_free(entry);
    return r == ARCHIVE_OK ? 0 : pass_failed(pass);
}

static int put_data(struct pass *pass, const void *data, size_t len)
{
    (void)SHA256_Update(&pass->sha, data, len);
    while (len > 0) {
        la_ssize_t n = archive_write_data(pass->a, data, len);
        if (n <= 0 || pass->output_error < 0)
            return pass_failed(pass);
        data = (const char *)data + n;
        len -= (size_t)n;
    }
    return 0;
}

/* Writes exactly file->bytes bytes, as the header says. A file that shrank meanwhile is filled up
 * with newlines, and the manifest says so. A file that grew is taken at its listed size. */
static int put_file_bytes(struct pass *pass, struct stage_file *file, int fd)
{
    char data[64 * 1024];
    uint64_t left = file->bytes;
    file->lost = 0;
    while (left > 0) {
        size_t want = left < sizeof data ? (size_t)left : sizeof data;
        ssize_t n = fd >= 0 ? read(fd, data, want) : 0;
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            memset(data, '\n', want);
            file->lost += want;
            file->why = n < 0 ? "a read error: filled up with newlines"
                              : "it became shorter: filled up with newlines";
            n = (ssize_t)want;
        }
        int r = put_data(pass, data, (size_t)n);
        if (r < 0)
            return r;
        left -= (uint64_t)n;
    }
    return 0;
}

static int put_file(struct pass *pass, struct stage_file *file)
{
    struct buf cut;
    buf_init(&cut, BUNDLE_STAGE_TOTAL);
    bool whole = file->plan == PLAN_KEEP;
    RC_AUTO_CLOSE int fd = whole ? stage_open_file(pass->stage, file->path) : -1;
    if (whole && stage_open_may_pass(fd)) /* better no bundle yet than a bundle with a hole */
        return rc_err_errno(pass->err, fd, "cannot open '%s'", file->path);
    int r = whole ? 0 : cut_content(pass->stage, file, &cut, &file->lost);
    if (r < 0) {
        buf_release(&cut);
        return rc_err_errno(pass->err, r, "cannot shorten '%s'", file->path);
    }
    file->archived = whole ? file->bytes : cut.len;
    r = put_header(pass, file->path, S_IFREG, file->archived, file->mtime);
    if (r == 0)
        r = whole ? put_file_bytes(pass, file, fd) : put_data(pass, buf_str(&cut), cut.len);
    buf_release(&cut);
    sha256_to_hex(&pass->sha, file->sha256);
    return r;
}

/* Adds the folders on the way to `path` that are not on the way to `previous`. */
static int put_folders(struct pass *pass, const char *path, const char *previous)
{
    char folder[BUNDLE_NAME_MAX + 1];
    for (const char *slash = strchr(path, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        size_t len = (size_t)(slash - path) + 1;
        if (strncmp(path, previous, len) == 0)
            continue;
        memcpy(folder, path, len);
        folder[len] = '\0';
        int r = put_header(pass, folder, S_IFDIR, 0, pass->newest);
        if (r < 0)
            return r;
    }
    return 0;
}

static int put_manifest(struct pass *pass, const char *base)
{
    struct buf text = BUF_INIT;
    int r = manifest_for_archive(base, pass->stage, pass->top, &text, pass->err);
    if (r == 0)
        r = put_header(pass, MANIFEST_NAME, S_IFREG, text.len, pass->newest);
    if (r == 0)
        r = put_data(pass, buf_str(&text), text.len);
    buf_release(&text);
    return r;
}

static int put_all(struct pass *pass, const char *base)
{
    const char *previous = "";
    int r = put_header(pass, "", S_IFDIR, 0, pass->newest);
    for (size_t i = 0; r == 0 && i < pass->stage->count; i++) {
        struct stage_file *file = &pass->stage->files[i];
        if (file->plan == PLAN_DROP)
            continue;
        int64_t before = archive_filter_bytes(pass->a, -1);
        r = put_folders(pass, file->path, previous);
        if (r == 0)
            r = put_file(pass, file);
        file->packed = (uint64_t)(archive_filter_bytes(pass->a, -1) - before);
        previous = file->path;
    }
    return r == 0 ? put_manifest(pass, base) : r;
}

static bool set_up(struct pass *pass)
{
    return archive_write_set_format_pax_restricted(pass->a) == ARCHIVE_OK &&
           archive_write_add_filter_gzip(pass->a) == ARCHIVE_OK &&
           archive_write_set_filter_option(pass->a, "gzip", "timestamp", NULL) == ARCHIVE_OK &&
           archive_write_set_bytes_in_last_block(pass->a, 1) == ARCHIVE_OK &&
           archive_write_open(pass->a, pass, NULL, on_write, NULL) == ARCHIVE_OK;
}

/* Writes one whole archive. *ret_bytes = its size, which may be over the limit (then the archive is
 * incomplete). */
static int one_pass(struct pass *pass, const char *base)
{
    pass->bytes = 0;
    pass->output_error = fs_truncate(pass->fd, 0);
    if (pass->output_error == 0 && lseek(pass->fd, 0, SEEK_SET) < 0)
        pass->output_error = -errno;
    if (pass->output_error < 0)
        return rc_err_errno(pass->err, pass->output_error, "cannot write the archive");
    pass->a = archive_write_new();
    int r = pass->a == NULL ? rc_err_errno(pass->err, -ENOMEM, "cannot write the archive") : 0;
    if (r == 0 && !set_up(pass))
        r = pass_failed(pass);
    if (r == 0)
        r = put_all(pass, base);
    if (r == 0 && (archive_write_close(pass->a) != ARCHIVE_OK || pass->output_error < 0))
        r = pass_failed(pass);
    if (pass->a != NULL)
        (void)archive_write_free(pass->a);
    return r;
}

/* Our own reader refuses an archive with more uncompressed bytes, because it may be a bomb. */
static int cut_to_stage_total(struct stage *stage)
{
    if (stage->total_bytes <= BUNDLE_STAGE_TOTAL)
        return 0;
    for (size_t i = 0; i < stage->count; i++)
        stage->files[i].packed = stage->files[i].bytes;
    return cut_plan(stage, stage->total_bytes - BUNDLE_STAGE_TOTAL);
}

int archive_stage(struct stage *stage, const char *base_manifest, const char *name, int fd,
                  bool *ret_output_failed, struct rc_err *err)
{
    struct pass pass = {.stage = stage, .top = name, .fd = fd, .now = time(NULL), .err = err};
    for (size_t i = 0; i < stage->count; i++) {
        if (stage->files[i].plan != PLAN_DROP && stage->files[i].mtime > pass.newest)
            pass.newest = (time_t)stage->files[i].mtime;
    }
    *ret_output_failed = false;
    int r = cut_to_stage_total(stage);
    for (unsigned n = 0; r == 0 && n < PASSES_MAX; n++) {
        r = one_pass(&pass, base_manifest);
        *ret_output_failed = r < 0 && pass.output_error < 0;
        if (r < 0 || pass.bytes <= BUNDLE_MAX_BYTES)
            return r;
        /* Estimates may fail again and again, so the margin doubles with each pass. */
        uint64_t excess = pass.bytes - BUNDLE_MAX_BYTES + ((uint64_t)CUT_MARGIN << n);
        r = cut_plan(stage, excess);
    }
    return rc_err_errno(err, r < 0 ? r : -EFBIG, "cannot cut the bundle to %u bytes",
                        BUNDLE_MAX_BYTES);
}
