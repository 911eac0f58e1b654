/* SPDX-License-Identifier: Apache-2.0 */
#include "base/encoding.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/utf8.h"

#define LOOK_AT ((size_t)64 << 10)
#define REPLACEMENT 0xfffdu

/* PowerShell's redirection writes UTF-16: nearly every second byte of such a log is 0. */
static bool zeros_at(const unsigned char *p, size_t len, size_t first)
{
    size_t zeros = 0, others = 0;
    for (size_t i = 0; i + 1 < len; i += 2) {
        zeros += p[i + first] == 0;
        others += p[i + 1 - first] == 0;
    }
    return len >= 8 && zeros * 10 >= len / 2 * 7 && others * 50 <= len / 2;
}

static bool is_binary(const unsigned char *p, size_t len)
{
    size_t odd = 0;
    for (size_t i = 0; i < len;) {
        size_t n = utf8_length(p + i, len - i);
        odd += n == 0 || (p[i] < 0x20 && p[i] != '\n' && p[i] != '\r' && p[i] != '\t' && p[i] != 0x1b &&
                          p[i] != '\b' && p[i] != '\f');
        i += n > 0 ? n : 1;
    }
    return odd * 8 > len;
}

enum encoding encoding_guess(const char *data, size_t len)
{
    const unsigned char *p = (const unsigned char *)data;
    size_t look = len < LOOK_AT ? len : LOOK_AT;
    size_t blank = 0;
    while (blank < len && (p[blank] == ' ' || (p[blank] >= '\t' && p[blank] <= '\r')))
        blank++;
    if (blank == len)
        return ENCODING_EMPTY;
    if (len >= 2 && ((p[0] == 0xff && p[1] == 0xfe) || zeros_at(p, look, 1)))
        return ENCODING_UTF16LE;
    if (len >= 2 && ((p[0] == 0xfe && p[1] == 0xff) || zeros_at(p, look, 0)))
        return ENCODING_UTF16BE;
    return is_binary(p, look) ? ENCODING_BINARY : ENCODING_TEXT;
}

static uint32_t unit_at(const char *data, enum encoding from)
{
    const unsigned char *p = (const unsigned char *)data;
    return from == ENCODING_UTF16LE ? p[0] | (uint32_t)p[1] << 8 : p[1] | (uint32_t)p[0] << 8;
}

static size_t put_code_point(char *out, uint32_t point)
{
    if (point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    size_t n = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, point >>= 6)
        out[i] = (char)(0x80u | (point & 0x3fu));
    out[0] = (char)(point | (n == 2 ? 0xc0u : n == 3 ? 0xe0u : 0xf0u));
    return n;
}

char *encoding_from_utf16(const char *data, size_t len, enum encoding from, size_t *ret_len)
{
    char *out = malloc(len / 2 * 3 + 1); /* a unit becomes three bytes at most */
    size_t n = 0;
    for (size_t i = 0; out != NULL && i + 1 < len; i += 2) {
        uint32_t point = unit_at(data + i, from);
        uint32_t low = i + 3 < len ? unit_at(data + i + 2, from) : 0;
        if (i == 0 && point == 0xfeff)
            continue;
        if (point >= 0xd800 && point < 0xdc00 && low >= 0xdc00 && low < 0xe000) {
            point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
            i += 2;
        } else if (point >= 0xd800 && point < 0xe000) {
            point = REPLACEMENT;
        }
        n += put_code_point(out + n, point);
    }
    if (out != NULL)
        out[n] = '\0';
    *ret_len = n;
    return out;
}
