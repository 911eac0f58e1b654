/* SPDX-License-Identifier: Apache-2.0 */
#include "collectors/lib/byte_reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int byte_reader_init(struct byte_reader *r, int fd, uint64_t size, uint64_t limit)
{
    *r = (struct byte_reader){.fd = fd, .size = size, .limit = limit};
    r->buffer = malloc(BYTE_READER_BUFFER);
    return r->buffer == NULL ? -ENOMEM : 0;
}

void byte_reader_init_memory(struct byte_reader *r, const void *data, size_t size, uint64_t limit)
{
    static const unsigned char nothing[1];
    *r = (struct byte_reader){
        .fd = -1, .memory = data != NULL ? data : nothing, .size = size, .limit = limit};
}

void byte_reader_release(struct byte_reader *r)
{
    free(r->buffer);
    r->buffer = NULL;
}

static bool reader_fail(struct byte_reader *r, int error)
{
    if (r->error == 0)
        r->error = error;
    return false;
}

/* Is [pos, pos + len) within both bounds? No sum that could wrap. */
static bool reader_admits(struct byte_reader *r, uint64_t len)
{
    if (r->error != 0)
        return false;
    if (r->pos > r->size || len > r->size - r->pos)
        return reader_fail(r, -ENODATA);
    if (r->pos > r->limit || len > r->limit - r->pos)
        return reader_fail(r, -EFBIG);
    return true;
}

uint64_t byte_reader_left(const struct byte_reader *r)
{
    uint64_t end = r->size < r->limit ? r->size : r->limit;
    return r->error != 0 || r->pos >= end ? 0 : end - r->pos;
}

static bool reader_fill(struct byte_reader *r)
{
    uint64_t left = r->size - r->pos;
    size_t want = left < BYTE_READER_BUFFER ? (size_t)left : BYTE_READER_BUFFER;
    ssize_t n;
    do {
        n = pread(r->fd, r->buffer, want, (off_t)r->pos);
    } while (n < 0 && errno == EINTR);
    if (n <= 0) /* 0: the file shrank under us */
        return reader_fail(r, n < 0 ? -errno : -ENODATA);
    r->buffer_at = r->pos;
    r->buffer_len = (size_t)n;
    return true;
}

bool byte_reader_read(struct byte_reader *r, void *out, size_t len)
{
    if (!reader_admits(r, len))
        return false;
    if (r->memory != NULL) {
        memcpy(out, r->memory + r->pos, len);
        r->pos += len;
        return true;
    }
    unsigned char *to = out;
    while (len > 0) {
        uint64_t at = r->pos - r->buffer_at;
        if (r->pos < r->buffer_at || at >= r->buffer_len) {
            if (!reader_fill(r))
                return false;
            at = 0;
        }
        size_t take = r->buffer_len - (size_t)at < len ? r->buffer_len - (size_t)at : len;
        memcpy(to, r->buffer + at, take);
        to += take;
        len -= take;
        r->pos += take;
    }
    return true;
}

bool byte_reader_skip(struct byte_reader *r, uint64_t len)
{
    if (!reader_admits(r, len))
        return false;
    r->pos += len;
    return true;
}

int byte_reader_byte(struct byte_reader *r)
{
    unsigned char c;
    return byte_reader_read(r, &c, 1) ? c : -1;
}

uint64_t byte_reader_uint(struct byte_reader *r, unsigned width, bool big_endian)
{
    unsigned char bytes[8] = {0};
    if (width > sizeof bytes || !byte_reader_read(r, bytes, width))
        return 0;
    uint64_t value = 0;
    for (unsigned i = 0; i < width; i++)
        value = value << 8 | bytes[big_endian ? i : width - 1 - i];
    return value;
}
