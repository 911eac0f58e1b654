/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the program said on stdout, where that is a regular file of its own: vLLM reports its start-up
 * there. It is read once, after the end, so that it costs the program nothing. Whole lines only, and
 * only those that tell of memory or of a failure: the rest of stdout is the program's product, often
 * a text that somebody asked a model for.
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
#include "collect/collector.h"
#include "watch/match.h"

#define HEAD_BYTES ((uint64_t)8 << 20)  /* start-up */
#define TAIL_BYTES ((uint64_t)32 << 20) /* the end */
#define KEPT_BYTES ((size_t)128 << 10)  /* of each of them */
#define LINE_BYTES 4096                 /* a longer one is no message */
#define CHUNK_BYTES (256 << 10)

struct reader {
    int fd;
    char *chunk;
    struct matcher matcher;
    struct buf *kept;
};

static bool says_something(struct matcher *m, const char *line, size_t len)
{
    uint64_t before[MATCH_KINDS];
    memcpy(before, m->count, sizeof before);
    matcher_gap(m);
    matcher_feed(m, line, len);
    for (int kind = 0; kind < MATCH_KINDS; kind++) {
        if (kind != MATCH_PLAIN && m->count[kind] != before[kind])
            return true;
    }
    return false;
}

/* The whole lines of the chunk; returns the bytes that they take. */
static size_t read_lines(struct reader *r, size_t len)
{
    size_t at = 0;
    for (char *end; (end = memchr(r->chunk + at, '\n', len - at)) != NULL;) {
        size_t line = (size_t)(end + 1 - (r->chunk + at));
        if (line <= LINE_BYTES && says_something(&r->matcher, r->chunk + at, line))
            buf_append(r->kept, r->chunk + at, line);
        at += line;
    }
    return at;
}

/* From the first line that begins in [from, to); 0 or -errno. `is_begun`: a line begins at `from`. */
static int read_part(struct reader *r, uint64_t from, uint64_t to, bool is_begun)
{
    size_t len = 0; /* of a line whose end is not there yet */
    for (uint64_t at = from; at < to;) {
        size_t want = CHUNK_BYTES - len;
        want = to - at < want ? (size_t)(to - at) : want;
        ssize_t n = pread(r->fd, r->chunk + len, want, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : 0;
        at += (uint64_t)n;
        len += (size_t)n;
        const char *first = memchr(r->chunk, '\n', len);
        size_t used = is_begun ? read_lines(r, len) : first != NULL ? (size_t)(first + 1 - r->chunk) : len;
        is_begun = is_begun || first != NULL;
        if (used == 0 && len == CHUNK_BYTES) { /* longer than any message */
            used = len;
            is_begun = false;
        }
        memmove(r->chunk, r->chunk + used, len - used);
        len -= used;
    }
    if (len > 0 && len < LINE_BYTES && is_begun) { /* the last line may have no end */
        r->chunk[len++] = '\n';
        (void)read_lines(r, len);
    }
    return 0;
}

/* The first lines of the start, the last ones of the end. */
static void keep_last(struct buf *tail, struct buf *out)
{
    size_t from = tail->len > KEPT_BYTES ? tail->len - KEPT_BYTES : 0;
    while (from > 0 && from < tail->len && tail->data[from - 1] != '\n')
        from++;
    buf_append(out, tail->data + from, tail->len - from);
}

static int read_all(struct reader *r, uint64_t from, uint64_t end, struct buf *out)
{
    struct buf tail = BUF_INIT;
    uint64_t head_end = end - from > HEAD_BYTES ? from + HEAD_BYTES : end;
    r->kept = out;
    int rc = read_part(r, from, head_end, true);
    while (out->len > KEPT_BYTES && out->data[out->len - 1] == '\n') {
        const char *before = memrchr(out->data, '\n', KEPT_BYTES);
        out->len = before != NULL ? (size_t)(before + 1 - out->data) : 0;
    }
    uint64_t tail_from = end - head_end > TAIL_BYTES ? end - TAIL_BYTES : head_end;
    r->kept = &tail;
    if (rc == 0 && tail_from < end)
        rc = read_part(r, tail_from, end, false);
    r->kept = NULL;
    if (tail.len > 0)
        keep_last(&tail, out);
    buf_release(&tail);
    return rc;
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

static enum collect_status run(const struct collect_ctx *ctx, struct collect_out *out)
{
    const char *why = "";
    uint64_t end = 0;
    if (ctx->stdout_path == NULL || ctx->stdout_path[0] == '\0')
        return collect_reason(out, COLLECT_SKIPPED, "stdout is no file of its own");
    RC_AUTO_CLOSE int fd = open_it(ctx, &end, &why);
    if (fd < 0)
        return collect_reason(out, COLLECT_FAILED, "stdout's file: %s", why);
    uint64_t from = ctx->stdout_start <= end ? ctx->stdout_start : 0; /* truncated since */
    struct buf kept = BUF_INIT;
    RC_AUTO_FREE char *chunk = malloc(CHUNK_BYTES);
    struct reader r = {.fd = fd, .chunk = chunk};
    matcher_init(&r.matcher);
    int rc = chunk != NULL ? read_all(&r, from, end, &kept) : -ENOMEM;
    if (kept.len > 0 && rc == 0)
        rc = collect_write(out, "stdout.txt", kept.data, kept.len);
    bool is_empty = kept.len == 0;
    buf_release(&kept);
    if (rc < 0)
        return collect_reason(out, COLLECT_FAILED, "stdout's file: %s", strerror(-rc));
    if (is_empty)
        return collect_reason(out, COLLECT_SKIPPED, "nothing on stdout tells of memory or a failure");
    return COLLECT_OK;
}

const struct collector collector_stdout = {
    .name = "stdout",
    .describe = "lines on stdout that tell of memory or a failure, where it is a file",
    .phase = COLLECT_QUICK,
    .run = run,
};
