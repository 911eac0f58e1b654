/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forward reading of a file with hostile contents: never past the given size, one buffer of fixed
 * size, a limit on the bytes consumed, sticky errors.
 *
 * The same reader works over memory, which is how the fuzzers drive the parsers.
 */
#ifndef COLLECTORS_LIB_BYTE_READER_H
#define COLLECTORS_LIB_BYTE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BYTE_READER_BUFFER ((size_t)64 << 10)

struct byte_reader {
    int fd;                      /* -1 = memory */
    const unsigned char *memory; /* NULL = fd */
    uint64_t size;               /* of the file; nothing after it is read */
    uint64_t limit;              /* reads and skips past this position fail with -EFBIG */
    uint64_t pos;
    unsigned char *buffer; /* BYTE_READER_BUFFER bytes, fd only */
    uint64_t buffer_at;
    size_t buffer_len;
    int error; /* first failure: -ENODATA (end of file), -EFBIG (limit), -EIO ... */
};

/* Borrows fd. 0 or -ENOMEM. Release with byte_reader_release(). */
int byte_reader_init(struct byte_reader *r, int fd, uint64_t size, uint64_t limit);
void byte_reader_init_memory(struct byte_reader *r, const void *data, size_t size, uint64_t limit);
void byte_reader_release(struct byte_reader *r);

/* All return false on failure and after it. Numbers are then 0. */
bool byte_reader_read(struct byte_reader *r, void *out, size_t len);
bool byte_reader_skip(struct byte_reader *r, uint64_t len);
/* -1 on failure or end. */
int byte_reader_byte(struct byte_reader *r);
/* Unsigned number of 1, 2, 4 or 8 bytes. */
uint64_t byte_reader_uint(struct byte_reader *r, unsigned width, bool big_endian);
/* Bytes that can still be consumed. */
uint64_t byte_reader_left(const struct byte_reader *r);

#endif
