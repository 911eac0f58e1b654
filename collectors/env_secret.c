/* SPDX-License-Identifier: Apache-2.0 */
#include "collectors/env_secret.h"

#include <ctype.h>
#include <string.h>

#include "base/buf.h"
#include "diagnose/env_names.h"
#include "diagnose/text.h"

#define REDACTED "<redacted>"

struct classes {
    size_t lower, upper, digit, hex, other;
    size_t longest; /* run without '_', '-', '.' and the like */
    size_t changes; /* changes between small letter, capital and digit in neighbouring characters */
};

static struct classes classify(const char *t, size_t len)
{
    struct classes c = {.lower = 0};
    size_t current = 0;
    for (size_t i = 0; i < len; i++) {
        unsigned char ch = (unsigned char)t[i];
        c.lower += islower(ch) != 0;
        c.upper += isupper(ch) != 0;
        c.digit += isdigit(ch) != 0;
        c.hex += isxdigit(ch) != 0;
        c.other += !isalnum(ch);
        current = isalnum(ch) || ch == '+' ? current + 1 : 0;
        unsigned char before = i > 0 ? (unsigned char)t[i - 1] : ch;
        c.changes += isalnum(ch) && isalnum(before) &&
                     (islower(ch) != islower(before) || isdigit(ch) != isdigit(before));
        c.longest = current > c.longest ? current : c.longest;
    }
    return c;
}

/* Long runs that mix digits and letters unlike words: keys, hashes, base64, UUIDs. */
static bool looks_random(const char *t, size_t len)
{
    struct classes c = classify(t, len);
    if (len >= 32 && c.hex + c.other >= len && c.digit >= 6 && c.hex >= 30)
        return true; /* hex, also with '-' as in a UUID */
    if (c.longest >= 20 && c.digit >= 2 && c.lower >= 2 && c.upper >= 2)
        return true;
    /* base64 with '/' in it; "Mixtral-8x7B-Instruct" changes at every fifth character or less. */
    if (len >= 24 && c.changes * 100 >= len * 28 && c.lower >= 2 && c.upper >= 2)
        return true;
    return c.longest >= 28 && c.digit >= 4 && c.lower + c.upper >= 4;
}

/* ROCR_VISIBLE_DEVICES=GPU-4e3f2a1b5c6d7e8f: the serial number of a card. */
static bool is_gpu_uuid(const char *t, size_t len)
{
    if (len < 12 || !text_starts((struct text){t, len}, "GPU-"))
        return false;
    for (size_t i = 4; i < len; i++)
        if (!isxdigit((unsigned char)t[i]) && t[i] != '-')
            return false;
    return true;
}

static bool token_is_secret(const char *t, size_t len)
{
    return env_value_begins_secret(t, len) || is_gpu_uuid(t, len) || looks_random(t, len);
}

/* "Bearer x", "token=x", "password: x": the token after such a word is a secret, whatever it looks
 * like. */
static bool word_announces_secret(const char *word, size_t len)
{
    return len > 0 &&
           (env_name_is_secret(word, len) || (len == 5 && strncasecmp(word, "Basic", 5) == 0));
}

static bool is_separator(char c)
{
    return isspace((unsigned char)c) || strchr(",;:=&?|<>()[]{}\"'@", c) != NULL;
}

static bool is_path(const char *t, size_t len)
{
    return len > 0 && (t[0] == '/' || t[0] == '~' || (len > 1 && t[0] == '.'));
}

/* A token of the value: replaced as a whole if it looks like a secret; a path component by
 * component. */
static bool put_token(struct buf *out, const char *t, size_t len)
{
    if (!is_path(t, len)) {
        bool secret = token_is_secret(t, len);
        buf_append(out, secret ? REDACTED : t, secret ? strlen(REDACTED) : len);
        return secret;
    }
    bool any = false;
    for (size_t start = 0, i = 0; i <= len; i++) {
        if (i < len && t[i] != '/')
            continue;
        bool secret = token_is_secret(t + start, i - start);
        buf_append(out, secret ? REDACTED : t + start, secret ? strlen(REDACTED) : i - start);
        if (i < len)
            buf_putc(out, '/');
        any = any || secret;
        start = i + 1;
    }
    return any;
}

/* scheme://user:password@host: everything before the '@' goes. Returns its length, 0 = none. */
static size_t userinfo_length(const char *p, size_t len)
{
    size_t end = 0;
    for (size_t i = 0; i < len && !isspace((unsigned char)p[i]) && p[i] != '/'; i++)
        if (p[i] == '@')
            end = i;
    return end;
}

bool env_append_value(struct buf *out, const char *value, size_t max)
{
    struct buf shown = BUF_INIT;
    size_t len = strnlen(value, 64u << 10);
    bool any = false;
    bool announced = false;
    for (size_t i = 0; i < len;) {
        if (len - i >= 3 && memcmp(value + i, "://", 3) == 0) {
            size_t user = userinfo_length(value + i + 3, len - i - 3);
            buf_puts(&shown, user > 0 ? "://" REDACTED : "://");
            any = any || user > 0;
            i += 3 + user;
            continue;
        }
        if (is_separator(value[i])) {
            buf_putc(&shown, iscntrl((unsigned char)value[i]) ? '?' : value[i]);
            i++;
            continue;
        }
        size_t n = 0;
        while (i + n < len && !is_separator(value[i + n]))
            n++;
        if (announced) {
            buf_puts(&shown, REDACTED);
            any = true;
        } else {
            any = put_token(&shown, value + i, n) || any;
        }
        /* "Authorization: Bearer x": the secret comes after the second word. */
        announced = !is_path(value + i, n) && word_announces_secret(value + i, n);
        i += n;
    }
    for (size_t i = 0; i < shown.len && i < max; i++)
        buf_putc(out, iscntrl((unsigned char)shown.data[i]) ? '?' : shown.data[i]);
    if (shown.len > max)
        buf_puts(out, "...");
    buf_release(&shown);
    return any;
}
