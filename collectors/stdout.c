/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's stdout, if that is a separate regular file: vLLM reports its start-up there. It is
 * read once, after the end, so it costs the program nothing. With --follow=all the relay has kept
 * such lines of a pipe, too. Keeps only whole lines about memory or a failure: the rest of stdout is
 * the program's result, often a text that a user asked a model for.
 */
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
#include "base/fs.h"
#include "collect/collector.h"
#include "watch/match.h"

#define HEAD_BYTES ((uint64_t)8 << 20)  /* start-up */
#define TAIL_BYTES ((uint64_t)32 << 20) /* the end */
#define KEPT_BYTES ((size_t)128 << 10)  /* bytes of each part */
#define LINE_BYTES 4096                 /* a longer one is no message */
#define CHUNK_BYTES (256 << 10)
#define RELAYED_BYTES ((size_t)1 << 20)

struct reader {
    int fd;
    char *chunk;
    uint64_t at;   /* the first byte that was not read as part of a whole line */
    bool is_begun; /* `at` is the start of a line */
    struct buf *kept;
};

/* Reads the whole lines of the chunk; returns their bytes. */
static size_t read_lines(struct reader *reader, size_t len)
{
    size_t at = 0;
    for (char *end; (end = memchr(reader->chunk + at, '\n', len - at)) != NULL;) {
        size_t line = (size_t)(end + 1 - (reader->chunk + at));
        if (line <= LINE_BYTES && match_line(reader->chunk + at, line))
            buf_append(reader->kept, reader->chunk + at, line);
        at += line;
    }
    return at;
}

static ssize_t read_chunk(struct reader *reader, uint64_t to)
{
    size_t want = to - reader->at < CHUNK_BYTES ? (size_t)(to - reader->at) : CHUNK_BYTES;
    ssize_t n;
    while ((n = pread(reader->fd, reader->chunk, want, (off_t)reader->at)) < 0 && errno == EINTR)
        ;
    return n < 0 ? -errno : n;
}

/* The whole lines that end before `to`. A line that goes on after it stays for the next part. */
static int read_part(struct reader *reader, uint64_t to)
{
    while (reader->at < to) {
        ssize_t n = read_chunk(reader, to);
        if (n <= 0)
            return (int)n;
        size_t len = (size_t)n;
        const char *first = memchr(reader->chunk, '\n', len);
        size_t used = first != NULL ? (size_t)(first + 1 - reader->chunk) : len;
        if (reader->is_begun)
            used = read_lines(reader, len);
        reader->is_begun = reader->is_begun || first != NULL;
        if (used == 0 && len < CHUNK_BYTES)
            return 0;
        if (used == 0) { /* longer than any message */
            used = len;
            reader->is_begun = false;
        }
        reader->at += used;
    }
    return 0;
}

/* The last line of a file may have no end. */
static int read_unfinished_line(struct reader *reader, uint64_t end)
{
    if (!reader->is_begun || end - reader->at >= LINE_BYTES)
        return 0;
    ssize_t n = read_chunk(reader, end);
    if (n <= 0)
        return (int)n;
    reader->chunk[n] = '\n';
    (void)read_lines(reader, (size_t)n + 1);
    return 0;
}

static void keep_last(const struct buf *tail, struct buf *out)
{
    if (tail->len == 0)
        return;
    size_t from = tail->len > KEPT_BYTES ? tail->len - KEPT_BYTES : 0;
    while (from > 0 && from < tail->len && tail->data[from - 1] != '\n')
        from++;
    buf_append(out, tail->data + from, tail->len - from);
}

static void keep_first(struct buf *head)
{
    while (head->len > KEPT_BYTES) {
        const char *before = memrchr(head->data, '\n', KEPT_BYTES);
        head->len = before != NULL ? (size_t)(before + 1 - head->data) : 0;
    }
}

static int read_all(struct reader *reader, uint64_t end, struct buf *out)
{
    struct buf tail = BUF_INIT;
    uint64_t head_end = end - reader->at > HEAD_BYTES ? reader->at + HEAD_BYTES : end;
    reader->kept = out;
    int r = read_part(reader, head_end);
    keep_first(out);
    if (end - head_end > TAIL_BYTES) {
        reader->at = end - TAIL_BYTES;
        reader->is_begun = false;
    }
    reader->kept = &tail;
    if (r == 0)
        r = read_part(reader, end);
    if (r == 0)
        r = read_unfinished_line(reader, end);
    reader->kept = NULL;
    keep_last(&tail, out);
    buf_release(&tail);
    return r;
}

/* The file that the run began with: another may have its name by now. */
static int open_it(const struct collect_ctx *ctx, uint64_t *ret_end, const char **ret_why)
{
    struct stat st;
    int fd = open(ctx->stdout_path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
    if (fd < 0) {
        *ret_why = strerror(errno);
        return -1;
    }
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_ino != ctx->stdout_inode) {
        *ret_why = "another file has its name";
        (void)close(fd);
        return -1;
    }
    *ret_end = (uint64_t)st.st_size;
    return fd;
}

/* `kept` is released. */
static enum collect_status write_kept(struct collect_out *out, struct buf *kept, int r)
{
    if (kept->len > 0 && r == 0)
        r = collect_write(out, "stdout.txt", kept->data, kept->len);
    bool is_empty = kept->len == 0;
    buf_release(kept);
    if (r < 0)
        return collect_reason(out, COLLECT_FAILED, "stdout: %s", strerror(-r));
    if (is_empty)
        return collect_reason(out, COLLECT_SKIPPED, "no line of stdout is about memory or a failure");
    return COLLECT_OK;
}

/* The first lines, then the last ones. */
static enum collect_status run_relayed(const struct collect_ctx *ctx, struct collect_out *out)
{
    static const char *const names[] = {"stdout.head", "stdout.last"};
    struct buf kept = BUF_INIT;
    ssize_t len = 0;
    for (size_t i = 0; i < 2 && (len >= 0 || len == -ENOENT); i++) {
        char path[FS_PATH_MAX];
        RC_AUTO_FREE char *text = NULL;
        (void)snprintf(path, sizeof path, "%s/%s", ctx->run_dir, names[i]);
        len = fs_read_all(path, RELAYED_BYTES, &text);
        if (len > 0)
            buf_append(&kept, text, (size_t)len);
    }
    return write_kept(out, &kept, len < 0 && len != -ENOENT ? (int)len : 0);
}

static enum collect_status run(const struct collect_ctx *ctx, struct collect_out *out)
{
    const char *why = "";
    uint64_t end = 0;
    if (ctx->follows_stdout)
        return run_relayed(ctx, out);
    if (ctx->stdout_error != NULL && ctx->stdout_error[0] != '\0')
        return collect_reason(out, COLLECT_FAILED, "stdout: %s", ctx->stdout_error);
    if (ctx->stdout_path == NULL || ctx->stdout_path[0] == '\0')
        return collect_reason(out, COLLECT_SKIPPED, "stdout is no file of its own");
    RC_AUTO_CLOSE int fd = open_it(ctx, &end, &why);
    if (fd < 0)
        return collect_reason(out, COLLECT_FAILED, "stdout's file: %s", why);
    uint64_t from = ctx->stdout_start <= end ? ctx->stdout_start : 0; /* truncated since */
    struct buf kept = BUF_INIT;
    RC_AUTO_FREE char *chunk = malloc(CHUNK_BYTES);
    struct reader reader = {.fd = fd, .chunk = chunk, .at = from, .is_begun = true};
    int r = chunk != NULL ? read_all(&reader, end, &kept) : -ENOMEM;
    return write_kept(out, &kept, r);
}

const struct collector collector_stdout = {
    .name = "stdout",
    .describe = "lines on stdout about memory or a failure, where it is a file (or --follow=all)",
    .phase = COLLECT_QUICK,
    .needs_run = true,
    .run = run,
};
