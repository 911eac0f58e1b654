/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A third form of a text: it joins tokens that are cut by something that is no part of them: a terminal's
 * colour or an invisible character in the middle, a line that was wrapped at the screen's edge (redact_wrap.c), %2F or \u002f for
 * "/", the NULs of UTF-16. It has only the lines with such a cut. Runs in the finisher.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/utf8.h"
#include "bundle/redact_internal.h"

#define UTF16_PAIRS 8u
#define COMMAND_MAX 1024u

struct fold {
    const struct redact_rules *rules;
    const struct redact_text *t;
    struct redact_folded *out;
    size_t capacity;
    size_t removed; /* in the line that is being copied */
    bool failed;
};

static void put(struct fold *f, char c, size_t place)
{
    struct redact_folded *out = f->out;
    if (out->len == f->capacity && !f->failed) {
        size_t capacity = f->capacity ? f->capacity * 2 : 1024;
        char *p = realloc(out->p, capacity);
        if (p != NULL)
            out->p = p;
        uint32_t *places = realloc(out->place, capacity * sizeof *places);
        if (places != NULL)
            out->place = places;
        f->failed = p == NULL || places == NULL;
        f->capacity = f->failed ? f->capacity : capacity;
    }
    if (f->failed)
        return;
    out->p[out->len] = c;
    out->place[out->len++] = (uint32_t)place;
}

/* ESC[1;31m, also as repr(), JSON or bash write the first byte. 0 = none. */
static size_t one_colour_at(const struct redact_text *t, size_t at)
{
    static const char *const escapes[] = {"\x1b", "\\x1b", "\\u001b", "\\033", "\\e"};
    size_t i = 0;
    for (size_t k = 0; k < sizeof escapes / sizeof escapes[0] && i == 0; k++) {
        size_t n = strlen(escapes[k]);
        if (t->len - at > n && strncasecmp(t->p + at, escapes[k], n) == 0)
            i = at + n;
    }
    if (i == 0 || redact_at(t, i) != '[')
        return 0;
    for (i++; i < at + 32 && (isdigit((unsigned char)redact_at(t, i)) || redact_at(t, i) == ';');)
        i++;
    return isalpha((unsigned char)redact_at(t, i)) ? i + 1 - at : 0;
}

size_t redact_colour_at(const struct redact_text *t, size_t at)
{
    size_t n = 0;
    for (size_t one; at + n < t->len && (one = one_colour_at(t, at + n)) > 0;)
        n += one;
    return n;
}

/* Bytes of an invisible character, which a page or the summary leaves out: the token is whole there. 0 = none. */
static size_t hidden_at(const struct redact_text *t, size_t at)
{
    unsigned char c = (unsigned char)t->p[at];
    uint32_t point = 0;
    if ((c >= 0x20 && c < 0x7f) || strchr("\t\n\r\x1b", c) != NULL) /* NUL parts arguments, and is in UTF-16 */
        return 0;
    size_t n = utf8_decode((const unsigned char *)t->p + at, t->len - at, &point);
    return n > 0 && utf8_is_hidden(point) ? n : 0;
}

/* "ESC ] 8;;ADDRESS ESC \\": a link, a title. 0 = none. */
static size_t command_at(const struct redact_text *t, size_t at)
{
    if (t->p[at] != 0x1b || redact_at(t, at + 1) != ']')
        return 0;
    for (size_t i = at + 2; i < t->len && i < at + COMMAND_MAX && t->p[i] != '\n'; i++)
        if (t->p[i] == 0x1b || t->p[i] == 0x07)
            return i + 1 - at + (t->p[i] == 0x1b && redact_at(t, i + 1) == '\\');
    return 0;
}

/* Bytes of all such sequences in a row. */
static size_t unseen_at(const struct redact_text *t, size_t at)
{
    size_t n = 0;
    for (size_t one = 1; one > 0 && at + n < t->len; n += one) {
        char c = t->p[at + n];
        one = c == 0x1b || c == '\\' ? one_colour_at(t, at + n) : hidden_at(t, at + n);
        if (one == 0)
            one = command_at(t, at + n);
    }
    return n;
}

static int hex_value(char c)
{
    return isdigit((unsigned char)c) ? c - '0' : isxdigit((unsigned char)c) ? (c | 32) - 'a' + 10 : -1;
}

/* "%2F", "\\x2f" or "\\u002f" -> '/', and its bytes; 0 = it is no printable character. */
static char escaped_at(const struct redact_text *t, size_t at, size_t *ret_bytes)
{
    static const char *const begins[] = {"%", "\\x", "\\u00"};
    for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++) {
        size_t n = strlen(begins[i]);
        if (t->len - at < n + 2 || strncasecmp(t->p + at, begins[i], n) != 0)
            continue;
        int high = hex_value(redact_at(t, at + n));
        int low = hex_value(redact_at(t, at + n + 1));
        int c = high * 16 + low;
        *ret_bytes = n + 2;
        return high < 0 || low < 0 || c <= 0x20 || c > 0x7e ? '\0' : (char)c;
    }
    return '\0';
}

static bool pair_at(const struct redact_text *t, size_t at)
{
    return at + 1 < t->len && t->p[at + 1] == '\0' && (unsigned char)t->p[at] < 0x80 &&
           t->p[at] != '\0';
}

/* Bytes of the run of UTF-16 (of ASCII characters) that begins here; 0 = none. */
static size_t utf16_at(const struct redact_text *t, size_t at)
{
    size_t n = 0;
    while (pair_at(t, at + n))
        n += 2;
    return n >= 2 * UTF16_PAIRS ? n : 0;
}

/* --- folding --- */

size_t redact_line_end(const struct redact_text *t, size_t from)
{
    const char *end = from < t->len ? memchr(t->p + from, '\n', t->len - from) : NULL;
    return end != NULL ? (size_t)(end - t->p) : t->len;
}

/* One step of a line: returns where it goes on. */
static size_t step(struct fold *f, size_t at)
{
    const struct redact_text *t = f->t;
    char c = t->p[at];
    size_t n = unseen_at(t, at);
    if (n > 0) {
        bool inside = f->out->len > 0 && redact_is_token(f->out->p[f->out->len - 1]) &&
                      redact_is_token(redact_at(t, at + n));
        if (!inside)
            put(f, ' ', at);
        f->removed += inside;
        return at + n;
    }
    char decoded = escaped_at(t, at, &n);
    if (decoded != '\0') {
        put(f, decoded, at);
        f->removed++;
        return at + n;
    }
    n = pair_at(t, at) ? utf16_at(t, at) : 0;
    for (size_t i = 0; i < n; i += 2)
        put(f, t->p[at + i], at + i);
    if (n > 0) {
        f->removed++;
        return at + n;
    }
    put(f, c, at);
    return at + 1;
}

/* Copies the line up to a known token that goes on behind a prefix, and tells where, or up to the line's end. */
static size_t step_to_prefix(struct fold *f, size_t from, size_t end, size_t at, bool *wrapped, size_t *ret_stop,
                             size_t *ret_go_on)
{
    size_t stop = end;
    enum redact_mark mark = redact_mark_at(f->t, from, end, &stop);
    if (stop <= at || stop > *ret_stop || !redact_is_token(f->t->p[stop - 1]))
        return at;
    while (at < stop)
        at = step(f, at);
    if (at == stop && end < f->t->len && redact_ends_in_token(f->rules, f->out->p, f->out->len) &&
        redact_goes_on_behind(f->rules, f->t, from, end, stop, mark, ret_go_on)) {
        *wrapped = true;
        *ret_stop = stop;
    }
    return at;
}

int redact_fold(const struct redact_rules *rules, const struct redact_text *t, struct redact_folded *ret)
{
    struct fold f = {.rules = rules, .t = t, .out = ret};
    *ret = (struct redact_folded){.len = 0};
    if (t->len >= UINT32_MAX)
        return 0;
    for (size_t from = 0; from < t->len && !f.failed;) {
        size_t begun = ret->len;
        size_t end = redact_line_end(t, from);
        f.removed = 0;
        for (size_t at = from; at < t->len;) {
            size_t stop = end;
            size_t go_on = end + 1;
            bool wrapped = redact_goes_on(rules, t, from, end, &stop, &go_on);
            at = step_to_prefix(&f, from, end, at, &wrapped, &stop, &go_on);
            while (at < stop)
                at = step(&f, at);
            if (at > end || !wrapped) {
                from = at > end ? at : end + 1;
                break;
            }
            f.removed++;
            at = go_on;
            from = end + 1;
            end = redact_line_end(t, from);
        }
        put(&f, '\n', end < t->len ? end : t->len - 1);
        if (f.removed == 0)
            ret->len = begun; /* nothing was cut: the first search has seen these lines */
    }
    if (f.failed || ret->len == 0)
        redact_folded_release(ret);
    return f.failed ? -ENOMEM : 0;
}

void redact_folded_release(struct redact_folded *folded)
{
    free(folded->p);
    free(folded->place);
    *folded = (struct redact_folded){.len = 0};
}

bool redact_folded_place(const struct redact_text *t, const struct redact_folded *folded,
                         struct redact_span *span)
{
    size_t len = span->to - span->from;
    size_t from = folded->place[span->from];
    size_t last = folded->place[span->to - 1];
    size_t bytes = 1;
    if (redact_at(t, last + 1) == '\0' && last + 1 < t->len)
        bytes = 2;
    else if (t->p[last] != folded->p[span->to - 1])
        (void)escaped_at(t, last, &bytes);
    span->from = from;
    span->to = last + bytes;
    return span->to > span->from && span->to - span->from > len;
}
