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
