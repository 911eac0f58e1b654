/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growing byte buffer that is always NUL-terminated after its length and never exceeds a cap.
 *
 * Growth failure or the cap is sticky: later appends are ignored and buf_failed() says so, so that a whole
 * document is built first and checked once. For the finisher: the helpers beside the target do not allocate
 * while they work.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
    char *data;      /* NULL or NUL-terminated at len */
    size_t len;      /* bytes, without the NUL */
    size_t capacity; /* bytes allocated */
    size_t max;      /* 0 = BUF_DEFAULT_MAX */
    bool failed;     /* out of memory, or an append that would have passed max */
};

#define BUF_DEFAULT_MAX ((size_t)64 << 20)
#define BUF_INIT {0}

void buf_init(struct buf *b, size_t max);
void buf_release(struct buf *b); /* frees; the buffer may be used again */
void buf_append(struct buf *b, const void *data, size_t len);
void buf_puts(struct buf *b, const char *s);
void buf_putc(struct buf *b, char c);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool buf_failed(const struct buf *b);
/* The text so far; never NULL. */
const char *buf_str(const struct buf *b);

#endif
