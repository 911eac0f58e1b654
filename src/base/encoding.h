/* SPDX-License-Identifier: Apache-2.0 */
/* The encoding of a file, detected before its lines are read. Pure. */
#ifndef BASE_ENCODING_H
#define BASE_ENCODING_H

#include <stddef.h>

enum encoding {
    ENCODING_EMPTY,  /* no bytes, or white space only */
    ENCODING_TEXT,   /* UTF-8, ASCII or a code page: read without conversion */
    ENCODING_UTF16LE, /* with or without a byte order mark */
    ENCODING_UTF16BE,
    ENCODING_BINARY, /* one byte in eight or more occurs in no text */
};

/* Looks at the first 64 KiB. */
enum encoding encoding_guess(const char *data, size_t len);
/* UTF-16 -> UTF-8, NUL-terminated, caller frees; a lone surrogate becomes U+FFFD, an odd byte at the
 * end is dropped. NULL: out of memory. */
char *encoding_from_utf16(const char *data, size_t len, enum encoding from, size_t *ret_len);

#endif
