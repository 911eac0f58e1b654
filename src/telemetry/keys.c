/* SPDX-License-Identifier: Apache-2.0 */
#include "telemetry/keys.h"

#include <string.h>

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\v' || c == '\f' || c == '\0';
}

bool span_line(struct span *rest, struct span *ret_line)
{
    if (rest->data == NULL || rest->len == 0)
        return false;
    const char *end = memchr(rest->data, '\n', rest->len);
    size_t len = end != NULL ? (size_t)(end - rest->data) : rest->len;
    *ret_line = (struct span){rest->data, len};
    size_t used = end != NULL ? len + 1 : len;
    rest->data += used;
    rest->len -= used;
    return true;
}

struct span span_trim(struct span s)
{
    while (s.len > 0 && is_blank(s.data[0])) {
        s.data++;
        s.len--;
    }
    while (s.len > 0 && is_blank(s.data[s.len - 1]))
        s.len--;
    return s;
}

bool span_equal(struct span s, const char *text)
{
    return s.data != NULL && s.len == strlen(text) && memcmp(s.data, text, s.len) == 0;
}

bool span_starts(struct span s, const char *prefix)
{
    size_t len = strlen(prefix);
    return s.data != NULL && s.len >= len && memcmp(s.data, prefix, len) == 0;
}

bool span_u64_unit(struct span s, uint64_t *ret, struct span *ret_unit)
{
    s = span_trim(s);
    uint64_t value = 0;
    size_t i = 0;
    for (; i < s.len && s.data[i] >= '0' && s.data[i] <= '9'; i++) {
        uint64_t digit = (uint64_t)(s.data[i] - '0');
        if (value > (UINT64_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    if (i == 0 || (i < s.len && !is_blank(s.data[i])))
        return false;
    *ret = value;
    *ret_unit = span_trim((struct span){s.data + i, s.len - i});
    return true;
}

bool span_u64(struct span s, uint64_t *ret)
{
    struct span unit;
    return s.data != NULL && span_u64_unit(s, ret, &unit);
}

void span_copy(char *out, size_t size, struct span s)
{
    size_t len = s.data == NULL ? 0 : s.len < size - 1 ? s.len : size - 1;
    for (size_t i = 0; i < len; i++)
        out[i] = (unsigned char)s.data[i] < 0x20 || s.data[i] == 0x7f ? '?' : s.data[i];
    out[len] = '\0';
}

struct span key_find(const char *text, size_t len, const char *key, char separator)
{
    struct span rest = {text, len};
    struct span line;
    size_t key_len = strlen(key);
    while (span_line(&rest, &line)) {
        if (line.len <= key_len || memcmp(line.data, key, key_len) != 0)
            continue;
        char next = line.data[key_len];
        if (next != separator && !(separator == ' ' && next == '\t'))
            continue;
        return span_trim((struct span){line.data + key_len + 1, line.len - key_len - 1});
    }
    return (struct span){NULL, 0};
}

bool key_u64(const char *text, size_t len, const char *key, char separator, uint64_t *ret)
{
    return span_u64(key_find(text, len, key, separator), ret);
}
