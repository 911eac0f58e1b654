/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scanning helpers over text of unknown origin: spans, lines, numbers, sizes with units.
 *
 * Pure and without allocation. A span is not NUL-terminated and may hold any bytes. Scanners move
 * the front of their span past what they read, and leave it unchanged when they fail.
 */
#ifndef DIAGNOSE_TEXT_H
#define DIAGNOSE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Longest text that is read; callers condense() a longer one. */
#define TEXT_INPUT_MAX ((size_t)64 << 20)

struct text {
    const char *at;
    size_t len;
};

static inline struct text text_of(const char *s)
{
    return (struct text){s, strlen(s)};
}

/* The last TEXT_INPUT_MAX bytes, and how many lines end before them, so that line numbers refer to
 * the whole text; `ret_lines` may be NULL. */
struct text text_tail(const char *data, size_t len, unsigned *ret_lines);

/* Next line without its "\n" or "\r\n"; false at the end. */
bool text_next_line(struct text *rest, struct text *ret_line);

/* Offset of `needle` (a C string), or -1. text_ifind() ignores ASCII case. */
const char *text_search(struct text in, const char *words, size_t n); /* or NULL */
/* Faster in a long text, if the words have a byte that few texts have. */
const char *text_search_rare(struct text in, const char *words, size_t n);
ptrdiff_t text_find(struct text in, const char *needle);
ptrdiff_t text_ifind(struct text in, const char *needle);
bool text_has(struct text in, const char *needle);
/* The same where it is no part of a longer word. */
bool text_has_word(struct text in, struct text word);
bool text_same(struct text a, struct text b);
bool text_equals(struct text in, const char *s);
bool text_has_digit(struct text in);
/* Without what is in front of its first digit. */
struct text text_from_digit(struct text in);

/* Lower case of `in`, in `out` of at least in.len bytes. Then text_find() can be used, which is ten
 * times as fast as text_ifind(). */
struct text text_lower(struct text in, char *out);

/* Readers call these for most bytes of a line, so they are inline. */
static inline bool text_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* May `c` stand in a word: a letter, a digit or '_'? */
static inline bool text_is_word(char c)
{
    return text_is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_';
}

static inline bool text_starts(struct text in, const char *prefix)
{
    size_t n = strlen(prefix);
    return in.len >= n && memcmp(in.at, prefix, n) == 0;
}

/* `in` without its first n bytes (all of them when it is shorter). */
static inline struct text text_skip(struct text in, size_t n)
{
    size_t skip = n < in.len ? n : in.len;
    return (struct text){in.at + skip, in.len - skip};
}

static inline struct text text_first(struct text in, size_t n)
{
    return (struct text){in.at, n < in.len ? n : in.len};
}

struct text text_trim(struct text in);
/* Without these bytes at its front. */
struct text text_skip_any(struct text in, const char *bytes);
/* The text after / before the first `needle`; false (and *ret unchanged) if there is none. */
bool text_after(struct text in, const char *needle, struct text *ret);
bool text_before(struct text in, const char *needle, struct text *ret);

/* Next run of bytes that are not white space; false when there is none. */
bool text_next_word(struct text *in, struct text *ret_word);
/* The text before the first byte of `stops`, or all of it. */
struct text text_until(struct text in, const char *stops);

/* Returns the malloc()ed `out` of `len` bytes, with a NUL, if it was changed; else frees it and
 * returns NULL. */
char *text_if_changed(char *out, size_t len, bool changed, size_t *ret_len);

/* Copies at most size - 1 bytes and always adds a NUL; returns out. */
/* Does a frame of Python lie in the standard library or in an installed package? */
bool text_is_of_python_library(struct text frame);
const char *text_copy(struct text in, char *out, size_t size);

/* Unsigned decimal / "0x" hexadecimal at the front; saturates at UINT64_MAX. */
bool text_take_u64(struct text *in, uint64_t *ret);
bool text_take_hex(struct text *in, uint64_t *ret);

/* A decimal number with point or comma and sign: "1.5", "1,50", "-0.3", "16,384" (thousands). */
bool text_take_real(struct text *in, double *ret);

enum text_size_rule {
    TEXT_SIZE_SI = 0,         /* "GB" is 10^9, "GiB" and a bare "G" are 2^30 */
    TEXT_SIZE_BINARY = 1,     /* "GB" is 2^30, as most programs mean it */
    TEXT_SIZE_NEEDS_UNIT = 2, /* a bare number is no size */
};

/* The bytes of the unit at the front; 0: the word is no unit. */
double text_take_unit(struct text *in, unsigned rule);

/* "1.50 GiB", "20971520 bytes", "512MB", "7,4 Gi", "1234": bytes, rounded; saturating. */
bool text_take_size(struct text *in, unsigned rule, int64_t *ret);

/* The last size with a unit that ends where `in` ends (white space aside): "of 15.98 GiB". */
bool text_size_before(struct text in, int64_t *ret);

/* The whole of `s` is a size with a unit. */
bool text_parse_size(const char *s, size_t len, int64_t *ret);

#endif
