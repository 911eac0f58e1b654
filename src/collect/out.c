/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collector's side of the contract: files below its own folder, facts and reasons into the
 * status pipe. Runs in the child that the runner forked.
 */
#include "collect/out.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/memory.h"

/* Room that facts leave in the stream for the reason and the last frame. */
#define STREAM_RESERVE (4u * FRAME_WORDS_MAX)

static void send_frame(struct collect_out *out, size_t len, bool last)
{
    size_t limit = last ? FRAME_STREAM_MAX : FRAME_STREAM_MAX - STREAM_RESERVE;
    if (out->status_bytes + len > limit) {
        out->cut = true;
        return;
    }
    if (fs_write_all(out->status_fd, out->frame, len) == 0)
        out->status_bytes += len;
}

/* One component of a name: no "", ".", "..", and no character that a terminal or tar interprets. */
static bool component_is_valid(const char *c, size_t len)
{
    if (len == 0 || len > 200 || (len == 1 && c[0] == '.') ||
        (len == 2 && c[0] == '.' && c[1] == '.'))
        return false;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)c[i] < 0x20 || (unsigned char)c[i] == 0x7f || c[i] == '\\')
            return false;
    return true;
}

/* Make and open the folder `name` below parent_fd, without following a link. Closes parent_fd
 * unless it is keep_fd. */
static int enter_folder(int parent_fd, int keep_fd, const char *name)
{
    int r = mkdirat(parent_fd, name, 0700) != 0 && errno != EEXIST ? -errno : 0;
    int fd = -1;
    if (r == 0) {
        fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        r = fd < 0 ? -errno : fd;
    }
    if (parent_fd != keep_fd)
        (void)close(parent_fd);
    return r;
}

static int create_file(int dir_fd, const char *name)
{
    /* O_NONBLOCK: opening a FIFO fails with ENXIO instead of blocking. */
    int fd = openat(dir_fd, name,
                    O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
    if (fd < 0)
        return -errno;
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_nlink != 1) {
        (void)close(fd);
        return -EPERM;
    }
    return fd;
}

int collect_open(struct collect_out *out, const char *name)
{
    char copy[FS_PATH_MAX];
    size_t len = strnlen(name, sizeof copy);
    if (len == sizeof copy)
        return -ENAMETOOLONG;
    if (out->files >= OUT_FILES_MAX) {
        out->cut = true;
        return -EMFILE;
    }
    memcpy(copy, name, len + 1);
    int dir_fd = out->dir_fd;
    char *part = copy;
    for (char *slash; (slash = strchr(part, '/')) != NULL; part = slash + 1) {
        *slash = '\0';
        if (!component_is_valid(part, (size_t)(slash - part))) {
            if (dir_fd != out->dir_fd)
                (void)close(dir_fd);
            return -EINVAL;
        }
        dir_fd = enter_folder(dir_fd, out->dir_fd, part);
        if (dir_fd < 0)
            return dir_fd;
    }
    int fd = component_is_valid(part, strlen(part)) ? create_file(dir_fd, part) : -EINVAL;
    if (dir_fd != out->dir_fd)
        (void)close(dir_fd);
    if (fd >= 0)
        out->files++;
    return fd;
}

int collect_write(struct collect_out *out, const char *name, const void *data, size_t len)
{
    RC_AUTO_CLOSE int fd = collect_open(out, name);
    if (fd < 0)
        return fd;
    uint64_t left = out->max_bytes > out->written ? out->max_bytes - out->written : 0;
    if (len > left) {
        out->cut = true;
        len = (size_t)left;
    }
    int r = fs_write_all(fd, data, len);
    if (r == -EFBIG)
        out->cut = true;
    if (r == 0)
        out->written += len;
    int closed = fs_close(rc_take_fd(&fd));
    return r == 0 ? closed : r;
}

void collect_integer(struct collect_out *out, const char *name, enum fact_when when, int64_t value,
                     const char *source)
{
    struct fact f = {
        .name = name, .type = FACT_INTEGER, .when = when, .integer = value, .source = source};
    send_frame(out, frame_encode_fact(out->frame, &f), false);
}

void collect_real(struct collect_out *out, const char *name, enum fact_when when, double value,
                  const char *source)
{
    struct fact f = {.name = name, .type = FACT_REAL, .when = when, .real = value, .source = source};
    send_frame(out, frame_encode_fact(out->frame, &f), false);
}

void collect_text(struct collect_out *out, const char *name, enum fact_when when, const char *value,
                  const char *source)
{
    struct fact f = {
        .name = name, .type = FACT_TEXT, .when = when, .text = value, .source = source};
    send_frame(out, frame_encode_fact(out->frame, &f), false);
}

void collect_boolean(struct collect_out *out, const char *name, enum fact_when when, bool value,
                     const char *source)
{
    struct fact f = {
        .name = name, .type = FACT_BOOLEAN, .when = when, .integer = value, .source = source};
    send_frame(out, frame_encode_fact(out->frame, &f), false);
}

void collect_missing(struct collect_out *out, const char *name, enum fact_when when,
                     enum fact_status status, const char *reason, const char *source)
{
    struct fact f = {
        .name = name, .status = status, .when = when, .reason = reason, .source = source};
    if (status != FACT_PRESENT)
        send_frame(out, frame_encode_fact(out->frame, &f), false);
}

enum collect_status collect_reason(struct collect_out *out, enum collect_status status,
                                   const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(out->reason, sizeof out->reason, fmt, ap);
    va_end(ap);
    send_frame(out, frame_encode_reason(out->frame, out->reason), true);
    return status;
}

void collect_out_done(struct collect_out *out, enum collect_status status)
{
    if (status > COLLECT_FAILED)
        status = COLLECT_FAILED;
    if (memory_refusals() > out->memory_refusals) {
        char before[sizeof out->reason];
        memcpy(before, out->reason, sizeof before);
        status = status == COLLECT_OK        ? COLLECT_PARTIAL
                 : status == COLLECT_SKIPPED ? COLLECT_FAILED
                                             : status;
        (void)collect_reason(out, status, "ran out of memory while it collected%s%.400s",
                             before[0] != '\0' ? "; " : "", before);
    }
    send_frame(out, frame_encode_done(out->frame, status, out->cut), true);
}
