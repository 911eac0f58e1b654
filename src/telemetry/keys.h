/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding values by key in the small texts of the kernel, never by line number or order.
 *
 * Everything takes (text, len): the bytes need not be NUL-terminated and may be anything.
 */
#ifndef TELEMETRY_KEYS_H
#define TELEMETRY_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A piece of a text; data NULL = not found. */
struct span {
    const char *data;
    size_t len;
};

/* Next line of *rest without its end; false when there is none. Advances *rest. */
bool span_line(struct span *rest, struct span *ret_line);
/* Without the white space at both ends. */
struct span span_trim(struct span s);
bool span_equal(struct span s, const char *text);
bool span_starts(struct span s, const char *prefix);
/* Decimal digits up to white space or the end; false on anything else and on overflow. */
bool span_u64(struct span s, uint64_t *ret);
/* As span_u64(), and tells what follows the digits ("KiB"), trimmed. */
bool span_u64_unit(struct span s, uint64_t *ret, struct span *ret_unit);
/* Copy, truncated to fit, NUL-terminated, control characters as '?'. */
void span_copy(char *out, size_t size, struct span s);

/*
 * Value of the first line that is `key` followed by `separator` (' ' also stands for a tab), trimmed.
 * key "VmRSS", separator ':' finds "VmRSS:\t  1234 kB" -> "1234 kB".
 */
struct span key_find(const char *text, size_t len, const char *key, char separator);
bool key_u64(const char *text, size_t len, const char *key, char separator, uint64_t *ret);

#endif
