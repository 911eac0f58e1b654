/* SPDX-License-Identifier: Apache-2.0 */
#include "base/number.h"

#include <string.h>

static unsigned digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return (unsigned)(c - '0');
    if (c >= 'a' && c <= 'f')
        return (unsigned)(c - 'a') + 10;
    if (c >= 'A' && c <= 'F')
        return (unsigned)(c - 'A') + 10;
    return UINT32_MAX;
}

bool number_take(const char **at, unsigned base, uint64_t *ret)
{
    const char *p = *at;
    uint64_t value = 0;
    for (unsigned digit; (digit = digit_value(*p)) < base; p++) {
        if (value > (UINT64_MAX - digit) / base)
            return false;
        value = value * base + digit;
    }
    if (p == *at)
        return false;
    *at = p;
    *ret = value;
    return true;
}

bool number_take_before(const char **at, unsigned base, char behind, uint64_t *ret)
{
    const char *p = *at;
    uint64_t value = 0;
    if (!number_take(&p, base, &value) || *p != behind)
        return false;
    *at = p + (behind != '\0');
    *ret = value;
    return true;
}

bool number_of_field(const char *text, uint64_t *ret)
{
    uint64_t value;
    text += strspn(text, " \t");
    if (!number_take(&text, 10, &value) || (*text != '\0' && strchr(" \t\n", *text) == NULL))
        return false;
    *ret = value;
    return true;
}

bool number_of_version(const char *release, int64_t *ret)
{
    uint64_t major = 0;
    uint64_t minor = 0;
    uint64_t patch = 0;
    if (!number_take_before(&release, 10, '.', &major) || !number_take(&release, 10, &minor) ||
        major > 999 || minor > 99)
        return false;
    if (*release++ == '.')
        (void)number_take(&release, 10, &patch);
    *ret = (int64_t)(major * 10000 + minor * 100 + (patch > 99 ? 99 : patch));
    return true;
}

int64_t number_in_name(const char *name, const char *prefix)
{
    size_t len = strlen(prefix);
    if (strncmp(name, prefix, len) != 0)
        return -1;
    const char *p = name + len;
    uint64_t value = 0;
    return number_take_before(&p, 10, '\0', &value) && value <= INT32_MAX ? (int64_t)value : -1;
}

int64_t number_from_real(double value)
{
    if (!(value > -0x1p63)) /* NaN as well */
        return value <= -0x1p63 ? INT64_MIN : 0;
    return value < 0x1p63 ? (int64_t)value : INT64_MAX;
}

int64_t number_sum(int64_t a, int64_t b)
{
    int64_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        return a < 0 ? INT64_MIN : INT64_MAX;
    return sum;
}
