/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scanning helpers over text of unknown origin; see text.h. Used by every text-to-facts parser of
 * the finisher and of `rocmcrash triage`.
 */
#include "diagnose/text.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define LINE_USUAL_BYTES 512
#define UNIT_LETTERS_MAX 6 /* "Mbytes" */

struct text text_tail(const char *data, size_t len, unsigned *ret_lines)
{
    if (ret_lines != NULL)
        *ret_lines = 0;
    if (data == NULL)
        return (struct text){"", 0};
    size_t skip = len > TEXT_INPUT_MAX ? len - TEXT_INPUT_MAX : 0;
    const char *p = data;
    while (ret_lines != NULL && (p = memchr(p, '\n', (size_t)(data + skip - p))) != NULL) {
        ++*ret_lines;
        p++;
    }
    return (struct text){data + skip, len - skip};
}

bool text_next_line(struct text *rest, struct text *ret_line)
{
    if (rest->len == 0)
        return false;
    const char *end = memchr(rest->at, '\n', rest->len);
    size_t len = end != NULL ? (size_t)(end - rest->at) : rest->len;
    *ret_line = (struct text){rest->at, len};
    *rest = text_skip(*rest, end != NULL ? len + 1 : len);
    if (ret_line->len > 0 && ret_line->at[ret_line->len - 1] == '\r')
        ret_line->len--;
    return true;
}

/* The byte among the first ones of the words that is rarest in logs. */
static size_t rarest_of(const char *words, size_t n)
{
    static const unsigned char common[256] = {
        [' '] = 9, ['e'] = 9, ['t'] = 8, ['a'] = 8, ['o'] = 8, ['i'] = 8, ['n'] = 8, ['r'] = 8, ['s'] = 8, ['0'] = 8,
        ['l'] = 7, ['d'] = 7, ['c'] = 7, ['m'] = 7, ['u'] = 7, ['p'] = 6, ['g'] = 6, ['.'] = 6, ['1'] = 6, ['_'] = 5,
        ['h'] = 5, ['f'] = 5, [':'] = 5, ['/'] = 5, ['y'] = 4, ['b'] = 4, ['-'] = 4, ['v'] = 3, ['w'] = 3, ['k'] = 3,
    };
    size_t rarest = 0;
    for (size_t i = 1; i < n && i < 8; i++)
        if (common[(unsigned char)words[i]] < common[(unsigned char)words[rarest]])
            rarest = i;
    return rarest;
}

const char *text_search_rare(struct text in, const char *words, size_t n)
{
    if (n > in.len)
        return NULL;
    size_t rarest = rarest_of(words, n);
    const char *at = in.at + rarest;
    for (const char *last = at + in.len - n; at <= last; at++) {
        at = memchr(at, words[rarest], (size_t)(last - at) + 1);
        if (at == NULL)
            return NULL;
        if (memcmp(at - rarest, words, n) == 0)
            return at - rarest;
    }
    return NULL;
}

/* glibc's memmem() fills a table at each call. For a single line that costs more than the
 * search. */
const char *text_search(struct text in, const char *words, size_t n)
{
    if (n == 0 || n > in.len)
        return n == 0 ? in.at : NULL;
    return in.len > LINE_USUAL_BYTES ? memmem(in.at, in.len, words, n) : text_search_rare(in, words, n);
}

ptrdiff_t text_find(struct text in, const char *needle)
{
    const char *hit = in.len > 0 ? text_search(in, needle, strlen(needle)) : NULL;
    return hit != NULL ? hit - in.at : -1;
}

ptrdiff_t text_ifind(struct text in, const char *needle)
{
    size_t n = strlen(needle);
    int first = tolower((unsigned char)needle[0]);
    for (size_t i = 0; i + n <= in.len; i++)
        if (tolower((unsigned char)in.at[i]) == first && strncasecmp(in.at + i, needle, n) == 0)
            return (ptrdiff_t)i;
    return -1;
}

struct text text_from_digit(struct text in)
{
    size_t n = 0;
    while (n < in.len && !text_is_digit(in.at[n]))
        n++;
    return text_skip(in, n);
}

struct text text_lower(struct text in, char *out)
{
    for (size_t i = 0; i < in.len; i++) {
        char c = in.at[i];
        out[i] = (char)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
    }
    return (struct text){out, in.len};
}

bool text_has(struct text in, const char *needle)
{
    return text_find(in, needle) >= 0;
}

bool text_has_digit(struct text in)
{
    for (size_t i = 0; i < in.len; i++)
        if (text_is_digit(in.at[i]))
            return true;
    return false;
}

bool text_same(struct text a, struct text b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

bool text_equals(struct text in, const char *s)
{
    return text_same(in, text_of(s));
}

bool text_has_word(struct text in, struct text word)
{
    const char *end = in.at + in.len;
    struct text rest = in;
    for (const char *at; (at = text_search(rest, word.at, word.len)) != NULL; rest = text_skip(in, (size_t)(at - in.at) + 1))
        if ((at == in.at || !text_is_word(at[-1])) && (at + word.len == end || !text_is_word(at[word.len])))
            return true;
    return false;
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

struct text text_trim(struct text in)
{
    while (in.len > 0 && is_space(in.at[0]))
        in = text_skip(in, 1);
    while (in.len > 0 && is_space(in.at[in.len - 1]))
        in.len--;
    return in;
}

struct text text_skip_any(struct text in, const char *bytes)
{
    while (in.len > 0 && in.at[0] != '\0' && strchr(bytes, in.at[0]) != NULL)
        in = text_skip(in, 1);
    return in;
}

bool text_after(struct text in, const char *needle, struct text *ret)
{
    ptrdiff_t at = text_find(in, needle);
    if (at < 0)
        return false;
    *ret = text_skip(in, (size_t)at + strlen(needle));
    return true;
}

bool text_before(struct text in, const char *needle, struct text *ret)
{
    ptrdiff_t at = text_find(in, needle);
    if (at < 0)
        return false;
    *ret = text_first(in, (size_t)at);
    return true;
}

bool text_next_word(struct text *in, struct text *ret_word)
{
    struct text t = *in;
    while (t.len > 0 && is_space(t.at[0]))
        t = text_skip(t, 1);
    size_t n = 0;
    while (n < t.len && !is_space(t.at[n]))
        n++;
    if (n == 0)
        return false;
    *ret_word = text_first(t, n);
    *in = text_skip(t, n);
    return true;
}

struct text text_until(struct text in, const char *stops)
{
    size_t n = 0;
    while (n < in.len && (in.at[n] == '\0' || strchr(stops, in.at[n]) == NULL))
        n++;
    return text_first(in, n);
}

char *text_if_changed(char *out, size_t len, bool changed, size_t *ret_len)
{
    if (!changed) {
        free(out);
        return NULL;
    }
    out[len] = '\0';
    *ret_len = len;
    return out;
}

const char *text_copy(struct text in, char *out, size_t size)
{
    size_t n = in.len < size ? in.len : size - 1;
    for (size_t i = 0; i < n; i++)
        out[i] = in.at[i] != '\0' ? in.at[i] : '?';
    out[n] = '\0';
    return out;
}

bool text_take_u64(struct text *in, uint64_t *ret)
{
    size_t n = 0;
    uint64_t value = 0;
    for (; n < in->len && text_is_digit(in->at[n]); n++) {
        unsigned digit = (unsigned)(in->at[n] - '0');
        value = value > (UINT64_MAX - digit) / 10 ? UINT64_MAX : value * 10 + digit;
    }
    if (n == 0)
        return false;
    *ret = value;
    *in = text_skip(*in, n);
    return true;
}

bool text_take_hex(struct text *in, uint64_t *ret)
{
    struct text t = *in;
    if (text_starts(t, "0x") || text_starts(t, "0X"))
        t = text_skip(t, 2);
    size_t n = 0;
    uint64_t value = 0;
    for (; n < t.len && isxdigit((unsigned char)t.at[n]); n++) {
        unsigned char c = (unsigned char)tolower((unsigned char)t.at[n]);
        unsigned digit = c <= '9' ? (unsigned)(c - '0') : (unsigned)(c - 'a') + 10;
        value = value > UINT64_MAX >> 4 ? UINT64_MAX : (value << 4) | digit;
    }
    if (n == 0)
        return false;
    *ret = value;
    *in = text_skip(t, n);
    return true;
}

/* "16,384" and "1,048,576" are thousands, "1,50" and "0,125" a decimal comma (localised printf). */
static bool comma_is_thousands(struct text t, size_t digits_before, double before)
{
    if (digits_before > 3 || before == 0)
        return false;
    size_t i = 0;
    for (unsigned groups = 0; groups < 6 && i < t.len && t.at[i] == ','; groups++) {
        size_t digits = 0;
        while (digits < 4 && i + 1 + digits < t.len && text_is_digit(t.at[i + 1 + digits]))
            digits++;
        if (digits != 3)
            return false;
        i += 4;
    }
    return i > 0;
}

static double take_digits(struct text *t, size_t *ret_count)
{
    double value = 0;
    size_t n = 0;
    for (; n < t->len && text_is_digit(t->at[n]); n++)
        value = value * 10 + (t->at[n] - '0');
    *ret_count = n;
    *t = text_skip(*t, n);
    return value;
}

bool text_take_real(struct text *in, double *ret)
{
    static const double ten_to[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    struct text t = *in;
    size_t digits;
    bool negative = text_starts(t, "-");
    if (negative)
        t = text_skip(t, 1);
    double value = take_digits(&t, &digits);
    if (digits == 0)
        return false;
    if (comma_is_thousands(t, digits, value)) {
        for (unsigned groups = 0; groups < 6 && text_starts(t, ","); groups++) {
            struct text three = text_first(text_skip(t, 1), 3);
            value = value * 1000 + take_digits(&three, &digits);
            t = text_skip(t, 4);
        }
    }
    if (t.len > 1 && (t.at[0] == '.' || t.at[0] == ',') && text_is_digit(t.at[1])) {
        t = text_skip(t, 1);
        struct text fraction = text_first(t, sizeof ten_to / sizeof ten_to[0] - 1);
        double part = take_digits(&fraction, &digits);
        value += part / ten_to[digits];
        (void)take_digits(&t, &digits);
    }
    *ret = negative ? -value : value;
    *in = t;
    return true;
}

double text_take_unit(struct text *in, unsigned rule)
{
    static const struct {
        char word[UNIT_LETTERS_MAX + 1];
        double si, binary;
    } units[] = {
        {"bytes", 1, 1},
        {"byte", 1, 1},
        {"B", 1, 1},
        {"b", 1, 1},
        {"KiB", 0x1p10, 0x1p10},
        {"Ki", 0x1p10, 0x1p10},
        {"KB", 1e3, 0x1p10},
        {"K", 0x1p10, 0x1p10},
        {"MiB", 0x1p20, 0x1p20},
        {"Mio", 0x1p20, 0x1p20},
        {"Mi", 0x1p20, 0x1p20},
        {"MB", 1e6, 0x1p20},
        {"M", 0x1p20, 0x1p20},
        {"Mbytes", 0x1p20, 0x1p20},
        {"GiB", 0x1p30, 0x1p30},
        {"Gio", 0x1p30, 0x1p30},
        {"Gi", 0x1p30, 0x1p30},
        {"GB", 1e9, 0x1p30},
        {"G", 0x1p30, 0x1p30},
        {"TiB", 0x1p40, 0x1p40},
        {"Ti", 0x1p40, 0x1p40},
        {"TB", 1e12, 0x1p40},
        {"T", 0x1p40, 0x1p40},
        {"kbytes", 0x1p10, 0x1p10},
        {"PiB", 0x1p50, 0x1p50},
        {"EiB", 0x1p60, 0x1p60},
    };
    size_t n = 0;
    while (n < in->len && n < 8 && isalpha((unsigned char)in->at[n]))
        n++;
    if (n == 0 || n > UNIT_LETTERS_MAX || (n < in->len && isdigit((unsigned char)in->at[n])))
        return 0; /* "20261129T101929Z" is a time */
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (((units[i].word[0] ^ in->at[0]) | 0x20) == 0x20 && units[i].word[n] == '\0' &&
            strncasecmp(units[i].word, in->at, n) == 0) {
            *in = text_skip(*in, n);
            return (rule & TEXT_SIZE_BINARY) != 0 ? units[i].binary : units[i].si;
        }
    }
    return 0;
}

bool text_take_size(struct text *in, unsigned rule, int64_t *ret)
{
    struct text t = *in;
    double number;
    while (t.len > 0 && (t.at[0] == ' ' || t.at[0] == '\t'))
        t = text_skip(t, 1);
    if (!text_take_real(&t, &number))
        return false;
    struct text behind = t;
    while (behind.len > 0 && (is_space(behind.at[0]) || behind.at[0] == '_'))
        behind = text_skip(behind, 1); /* a UI may have wrapped between number and unit */
    double unit = text_take_unit(&behind, rule);
    if (unit == 0 && (rule & TEXT_SIZE_NEEDS_UNIT) != 0)
        return false;
    number *= unit != 0 ? unit : 1;
    if (number >= 0x1p63)
        *ret = INT64_MAX;
    else if (number <= -0x1p63)
        *ret = INT64_MIN;
    else
        *ret = (int64_t)llround(number);
    *in = unit != 0 ? behind : t;
    return true;
}

bool text_size_before(struct text in, int64_t *ret)
{
    /* number, space, unit: at most two words and 40 bytes from the end */
    struct text t = text_trim(in.len > 40 ? text_skip(in, in.len - 40) : in);
    size_t from = t.len;
    for (unsigned words = 0; words < 2 && from > 0; words++) {
        while (is_space(t.at[from - 1])) /* trimmed, so the first byte is no blank */
            from--;
        while (from > 0 && (text_is_word(t.at[from - 1]) || t.at[from - 1] == '.' ||
                            t.at[from - 1] == ',' || t.at[from - 1] == '-'))
            from--;
        struct text size = text_skip(t, from);
        if (text_take_size(&size, TEXT_SIZE_BINARY | TEXT_SIZE_NEEDS_UNIT, ret) && size.len == 0)
            return true;
    }
    return false;
}

bool text_parse_size(const char *s, size_t len, int64_t *ret)
{
    struct text t = text_trim((struct text){s, len});
    return text_take_size(&t, TEXT_SIZE_SI | TEXT_SIZE_NEEDS_UNIT, ret) && t.len == 0;
}

bool text_is_of_python_library(struct text frame)
{
    static const char *const places[] = {"/lib/python", "-packages/", "<frozen"};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        if (text_has(frame, places[i]))
            return true;
    return false;
}
