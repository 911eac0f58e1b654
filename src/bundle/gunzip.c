/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A gzip file as a stream of checked pieces: one member, right CRC and length, nothing after it,
 * no bombs. libarchive 3.6's own gzip filter skips the trailer unread ("TODO: Verify the length and
 * crc") and takes whatever follows for padding, so a flipped bit could pass.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/err.h"
#include "bundle/internal.h"

#define COMPRESSED_MAX ((uint64_t)64 << 20) /* ours are at most 25 MB */
/* A stage is cut to 256 MiB. An archive that has more, with such a ratio, was made to fill memory
 * or disks. */
#define RATIO_CHECK_FROM ((uint64_t)288 << 20)
#define RATIO_MAX 100
/* Headers and padding come on top of the files' bytes. */
#define TAR_TOTAL_MAX (BUNDLE_MAX_TOTAL + (uint64_t)BUNDLE_MAX_FILES * 2048u)

struct gunzip {
    z_stream z;
    int fd;
    bool started; /* inflateInit done */
    bool ended;
    uint64_t in_bytes, out_bytes;
    unsigned char in[32 * 1024];
    unsigned char out[64 * 1024];
};

static int bad(struct rc_err *err, const char *what)
{
    return rc_err_set(err, -EBADMSG, "%s", what);
}

int gunzip_open(struct gunzip **ret, int fd, struct rc_err *err)
{
    struct gunzip *g = calloc(1, sizeof *g);
    if (g == NULL)
        return rc_err_errno(err, -ENOMEM, "cannot read the archive");
    g->fd = fd;
    /* 16 + 15: gzip wrapper only, checked by zlib. */
    if (inflateInit2(&g->z, 16 + 15) != Z_OK) {
        free(g);
        return rc_err_errno(err, -ENOMEM, "cannot read the archive");
    }
    g->started = true;
    *ret = g;
    return 0;
}

void gunzip_close(struct gunzip *g)
{
    if (g == NULL)
        return;
    if (g->started)
        (void)inflateEnd(&g->z);
    free(g);
}

/* More input; 0 = end of file. */
static ssize_t fill(struct gunzip *g, struct rc_err *err)
{
    ssize_t n;
    do
        n = read(g->fd, g->in, sizeof g->in);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return rc_err_errno(err, -errno, "cannot read the archive");
    g->z.next_in = g->in;
    g->z.avail_in = (unsigned)n;
    g->in_bytes += (uint64_t)n;
    if (g->in_bytes > COMPRESSED_MAX)
        return bad(err, "the file is too large to be a bundle");
    return n;
}

static int at_end(struct gunzip *g, struct rc_err *err)
{
    g->ended = true;
    if (g->z.avail_in > 0)
        return bad(err, "there is more data after the end of the gzip data");
    ssize_t n = fill(g, err);
    if (n < 0)
        return (int)n;
    return n > 0 ? bad(err, "there is more data after the end of the gzip data") : 0;
}

static int complaint(const struct gunzip *g, int code, struct rc_err *err)
{
    if (code == Z_MEM_ERROR)
        return rc_err_errno(err, -ENOMEM, "cannot read the archive");
    if (g->out_bytes == 0 && g->z.total_in < 12)
        return bad(err, "not a gzip file");
    return rc_err_set(err, -EBADMSG, "the gzip data is damaged: %s",
                      g->z.msg != NULL ? g->z.msg : "unknown error");
}

static int check_caps(const struct gunzip *g, struct rc_err *err)
{
    if (g->out_bytes > TAR_TOTAL_MAX)
        return bad(err, "it unpacks to more than a bundle may hold");
    if (g->out_bytes > RATIO_CHECK_FROM && g->out_bytes / RATIO_MAX > g->in_bytes)
        return bad(err, "it unpacks to absurdly more than its size (a decompression bomb)");
    return 0;
}

ssize_t gunzip_next(struct gunzip *g, const void **ret_data, struct rc_err *err)
{
    if (g->ended)
        return 0;
    g->z.next_out = g->out;
    g->z.avail_out = sizeof g->out;
    while (g->z.avail_out == sizeof g->out) {
        if (g->z.avail_in == 0) {
            ssize_t n = fill(g, err);
            if (n < 0)
                return n;
            if (n == 0)
                return bad(err, g->in_bytes == 0 ? "the file is empty"
                                                 : "the file ends in the middle (truncated)");
        }
        int code = inflate(&g->z, Z_NO_FLUSH);
        if (code == Z_STREAM_END) {
            int r = at_end(g, err);
            if (r < 0)
                return r;
            break;
        }
        if (code != Z_OK && code != Z_BUF_ERROR)
            return complaint(g, code, err);
    }
    size_t got = sizeof g->out - g->z.avail_out;
    g->out_bytes += got;
    int r = check_caps(g, err);
    if (r < 0)
        return r;
    *ret_data = g->out;
    return (ssize_t)got;
}
