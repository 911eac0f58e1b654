/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

#include <stdbool.h>

/* Bytes that a character with this first byte has; 0xc0, 0xc1 could begin overlong forms only. */
static size_t length_by_first(unsigned char first)
{
    if (first < 0x80)
        return 1;
    if (first < 0xc2 || first > 0xf4)
        return 0;
    return first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

size_t utf8_decode(const unsigned char *p, size_t left, uint32_t *ret_point)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t n = left > 0 ? length_by_first(p[0]) : 0;
    if (n == 0 || n > left)
        return 0;
    uint32_t point = n == 1 ? p[0] : p[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        point = point << 6 | (p[i] & 0x3fu);
    }
    bool surrogate = point >= 0xd800 && point <= 0xdfff;
    if (point < least[n] || point > 0x10ffff || surrogate)
        return 0;
    *ret_point = point;
    return n;
}

size_t utf8_length(const unsigned char *p, size_t left)
{
    uint32_t point;
    return utf8_decode(p, left, &point);
}

bool utf8_is_hidden(uint32_t point)
{
    /* C0 and C1 (which act like ESC on some terminals), soft hyphen, Arabic letter mark, Hangul and
     * Khmer fillers, Mongolian separator, zero widths and directions, line ends, joiners and
     * isolates, byte order mark, annotations, musical formats, tags and supplementary selectors. */
    static const struct {
        uint32_t from, to;
    } hidden[] = {{0, 0x1f},         {0x7f, 0x9f},       {0xad, 0xad},       {0x34f, 0x34f},     {0x61c, 0x61c},
                  {0x115f, 0x1160},  {0x17b4, 0x17b5},   {0x180e, 0x180e},   {0x200b, 0x200f},
                  {0x2028, 0x202e},  {0x2060, 0x206f},   {0x3164, 0x3164},   {0xfeff, 0xfeff},
                  {0xffa0, 0xffa0},  {0xfff9, 0xfffb},   {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff}};
    if (point >= 0x20 && point < 0x7f)
        return false;
    for (size_t i = 0; i < sizeof hidden / sizeof hidden[0]; i++)
        if (point >= hidden[i].from && point <= hidden[i].to)
            return true;
    return false;
}
