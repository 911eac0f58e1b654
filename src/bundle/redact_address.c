/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses and identities by form. What must not be taken for one: PCI addresses (0000:03:00.0),
 * times (12:34:56), C++ names (c10::Error), versions of four parts (libamdhip64.so.7.1.25424.0).
 */
#include "bundle/redact_forms.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

static bool is_hex(char c)
{
    return isxdigit((unsigned char)c) != 0;
}

static size_t hex_run(const struct redact_text *t, size_t at)
{
    size_t n = 0;
    while (is_hex(redact_at(t, at + n)))
        n++;
    return n;
}

/* Nothing that would make it a part of something longer. */
static bool ends_clean(const struct redact_text *t, size_t end)
{
    char c = redact_at(t, end);
    if (isalnum((unsigned char)c) || c == '_')
        return false;
    return !((c == '.' || c == ':' || c == '-') && isalnum((unsigned char)redact_at(t, end + 1)));
}

/* "version 1.2.3.4", "firmware: 10.85.123.7", ".so.1.2.3.4": on the same line, shortly before. */
static bool version_before(const struct redact_text *t, size_t at)
{
    static const char *const words[] = {"version", "firmware", "driver", "release", "vbios",
                                        "ver",     "rev",      ".so",    "fw",      "build"};
    char window[33];
    size_t n = 0;
    size_t from = at > 32 ? at - 32 : 0;
    for (size_t i = from; i < at; i++) {
        if (t->p[i] == '\n')
            n = 0;
        else
            window[n++] = (char)tolower((unsigned char)t->p[i]);
    }
    window[n] = '\0';
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (memmem(window, n, words[i], strlen(words[i])) != NULL)
            return true;
    }
    return false;
}

static size_t ipv4_at(const struct redact_text *t, size_t at, unsigned octets[4])
{
    size_t i = at;
    for (int part = 0; part < 4; part++) {
        size_t digits = 0;
        octets[part] = 0;
        for (; digits < 4 && isdigit((unsigned char)redact_at(t, i)); digits++, i++)
            octets[part] = octets[part] * 10 + (unsigned)(t->p[i] - '0');
        bool leading_zero = digits > 1 && t->p[i - digits] == '0';
        if (digits == 0 || digits > 3 || octets[part] > 255 || leading_zero)
            return 0;
        if (part < 3 && redact_at(t, i++) != '.')
            return 0;
    }
    return i - at;
}

static struct redact_match match_ipv4(const struct redact_text *t, size_t at)
{
    unsigned o[4];
    struct redact_match none = {0};
    size_t len = ipv4_at(t, at, o);
    char next = redact_at(t, at + len);
    if (len == 0 || (at > 0 && (t->p[at - 1] == '.' || t->p[at - 1] == '+')))
        return none;
    bool port = next == ':' && isdigit((unsigned char)redact_at(t, at + len + 1));
    if ((!port && !ends_clean(t, at + len)) || next == '+' || o[0] == 0 || o[0] == 127 ||
        o[0] >= 224 || version_before(t, at))
        return none;
    bool private_net = o[0] == 10 || (o[0] == 192 && o[1] == 168) ||
                       (o[0] == 172 && o[1] >= 16 && o[1] < 32) || (o[0] == 169 && o[1] == 254);
    bool large = o[0] >= 64 || o[1] >= 100 || o[2] >= 100 || o[3] >= 100;
    bool context = port || next == '/' || (at > 0 && strchr("@/[=(", t->p[at - 1]) != NULL);
    if (!private_net && !large && !context)
        return none; /* 1.2.3.4: a version as likely */
    return (struct redact_match){.len = len, .kind = REDACT_IP};
}

/* Groups of 1-4 hex digits between colons, "::" at most once. */
static struct redact_match match_ipv6(const struct redact_text *t, size_t at)
{
    struct redact_match none = {0};
    size_t i = at;
    unsigned groups = 0;
    bool gap = false, digit = false;
    if (at > 0 && (t->p[at - 1] == ':' || t->p[at - 1] == '.'))
        return none;
    for (;;) {
        size_t n = hex_run(t, i);
        if (n > 4)
            return none;
        for (size_t k = 0; k < n; k++)
            digit = digit || isdigit((unsigned char)t->p[i + k]);
        groups += n > 0;
        i += n;
        if (redact_at(t, i) != ':')
            break;
        if (redact_at(t, i + 1) == ':') {
            if (gap)
                return none;
            gap = true;
            i += 2;
            if (!is_hex(redact_at(t, i)))
                break;
        } else if (is_hex(redact_at(t, i + 1)) && n > 0) {
            i++;
        } else {
            break;
        }
    }
    bool wide_first = hex_run(t, at) == 4;
    bool whole = gap ? groups >= 2 && groups < 8 && (wide_first || groups >= 3) : groups == 8;
    if (!whole || !digit || groups > 8 || isalnum((unsigned char)redact_at(t, i)) ||
        redact_at(t, i) == '_')
        return none;
    return (struct redact_match){.len = i - at, .kind = REDACT_IP};
}

/* 6 pairs (Ethernet) or 20 (InfiniBand) with one separator. */
static struct redact_match match_mac(const struct redact_text *t, size_t at)
{
    struct redact_match none = {0};
    char sep = redact_at(t, at + 2);
    size_t i = at;
    size_t pairs = 0;
    bool something = false;
    if ((sep != ':' && sep != '-') || (at > 0 && t->p[at - 1] == sep))
        return none;
    while (is_hex(redact_at(t, i)) && is_hex(redact_at(t, i + 1))) {
        something = something || t->p[i] != '0' || t->p[i + 1] != '0';
        pairs++;
        i += 2;
        if (redact_at(t, i) != sep)
            break;
        i++;
    }
    if ((pairs != 6 && pairs != 20) || !something || !ends_clean(t, i))
        return none;
    return (struct redact_match){.len = i - at, .kind = REDACT_MAC};
}

/* 8-4-4-4-12 hex digits; "GPU-" and 16 (rocminfo's Uuid). */
static struct redact_match match_uuid(const struct redact_text *t, size_t at)
{
    static const unsigned char parts[] = {8, 4, 4, 4, 12};
    size_t i = at;
    if (t->len - at >= 20 && strncasecmp(t->p + at, "GPU-", 4) == 0 && hex_run(t, at + 4) == 16)
        return (struct redact_match){.len = 20, .kind = REDACT_ID};
    for (size_t part = 0; part < sizeof parts; part++) {
        if (hex_run(t, i) != parts[part])
            return (struct redact_match){0};
        i += parts[part];
        if (part + 1 < sizeof parts && redact_at(t, i++) != '-')
            return (struct redact_match){0};
    }
    if (redact_in_efivars(t, at))
        return (struct redact_match){0};
    return (struct redact_match){.len = i - at, .kind = REDACT_ID};
}

static struct redact_match match_email(const struct redact_text *t, size_t at)
{
    size_t i = at;
    while (i < at + 64 && (isalnum((unsigned char)redact_at(t, i)) ||
                           (redact_at(t, i) != '\0' && strchr("._%+-", t->p[i]) != NULL)))
        i++;
    if (i == at || redact_at(t, i) != '@')
        return (struct redact_match){0};
    size_t domain = ++i;
    size_t dot = 0;
    while (isalnum((unsigned char)redact_at(t, i)) || redact_at(t, i) == '-' ||
           (redact_at(t, i) == '.' && isalnum((unsigned char)redact_at(t, i + 1)))) {
        if (t->p[i] == '.')
            dot = i;
        i++;
    }
    size_t tld = dot > domain ? i - dot - 1 : 0;
    for (size_t k = 0; k < tld; k++) {
        if (!isalpha((unsigned char)t->p[dot + 1 + k]))
            return (struct redact_match){0};
    }
    if (tld < 2 || tld > 24)
        return (struct redact_match){0};
    return (struct redact_match){.len = i - at, .kind = REDACT_EMAIL};
}

struct redact_match redact_match_address(const struct redact_text *t, size_t at)
{
    struct redact_match m = {0};
    char c = t->p[at];
    if (is_hex(c) || c == 'G' || c == 'g') {
        if ((m = match_uuid(t, at)).len > 0 || (m = match_mac(t, at)).len > 0 ||
            (m = match_ipv6(t, at)).len > 0)
            return m;
        if (isdigit((unsigned char)c) && (m = match_ipv4(t, at)).len > 0)
            return m;
    }
    return isalnum((unsigned char)c) ? match_email(t, at) : m;
}
