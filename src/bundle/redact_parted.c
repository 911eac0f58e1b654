/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines of a text on which quotes show where an argument of several words ends: a command as a shell, a list of Python
 * or JSON writes it. In the copy of such a line NULs part the arguments, as in /proc/PID/cmdline. Each byte of a line stays
 * in its place.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "bundle/redact_internal.h"

#define PARTED_LINE_MAX ((size_t)1 << 20)
/* A quote within quotes, as a shell writes it. */
#define QUOTE_IN_QUOTES "'\"'\"'"

static bool opens(const struct redact_text *line, size_t at)
{
    return redact_is_one_of(line->p[at], "\"'") && (at == 0 || redact_is_one_of(line->p[at - 1], " \t=:,[({"));
}

/* The quote that closes the one at `at`; 0 = none. */
static size_t closing(const struct redact_text *line, size_t at)
{
    const size_t within = sizeof QUOTE_IN_QUOTES - 1;
    for (size_t i = at + 1; i < line->len; i++) {
        if (line->p[i] == '\\')
            i++;
        else if (line->len - i >= within && memcmp(line->p + i, QUOTE_IN_QUOTES, within) == 0)
            i += within - 1;
        else if (line->p[i] == line->p[at] && (i + 1 == line->len || redact_is_one_of(line->p[i + 1], " \t\r,])};:|&>")))
            return i;
    }
    return 0;
}

/* Does an option, or "name=", stand before the quote? */
static bool is_value(const struct redact_text *line, size_t at)
{
    if (at > 0 && line->p[at - 1] == '=')
        return true;
    while (at > 0 && redact_is_one_of(line->p[at - 1], " \t,\"'"))
        at--;
    while (at > 0 && !redact_is_one_of(line->p[at - 1], " \t,\"'[("))
        at--;
    return line->p[at] == '-' && at + 1 < line->len && (isalpha((unsigned char)line->p[at + 1]) || line->p[at + 1] == '-');
}

/* Does the quoted text begin with "name=", or with "name:" that may ask for a secret? */
static bool is_pair(const struct redact_text *line, size_t from, size_t to)
{
    size_t at = from;
    while (at < to && (isalnum((unsigned char)line->p[at]) || redact_is_one_of(line->p[at], "_.-+")))
        at++;
    return at > from && at < to &&
           (line->p[at] == '=' || (line->p[at] == ':' && redact_may_ask(line->p + from, at - from)));
}

/* Does a command stand in the quotes, with quotes of its own? */
static bool has_quotes(const struct redact_text *line, size_t from, size_t to)
{
    for (size_t i = from + 1; i < to; i++) {
        size_t before = i - (line->p[i - 1] == '\\' ? 2 : 1);
        if (redact_is_one_of(line->p[i], "\"'") && before >= from && redact_is_one_of(line->p[before], " ="))
            return true;
    }
    return false;
}

/* Parts p[from, to), which lies outside of quotes. */
static void part_outside(char *p, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        bool of_list = redact_is_one_of(p[i], ",])") && (i == 0 || p[i - 1] == '\0');
        if (of_list || redact_is_one_of(p[i], " \t\r"))
            p[i] = '\0';
    }
    while (to > from && redact_is_one_of(p[to - 1], "[(,"))
        p[--to] = '\0';
}

/* False: no argument of several words stands in quotes. */
static bool part_line(const struct redact_text *line, char *copy)
{
    size_t done = 0;
    bool several = false;
    memcpy(copy, line->p, line->len);
    for (size_t at = 0; at < line->len; at++) {
        size_t end = opens(line, at) ? closing(line, at) : 0;
        if (end == 0)
            continue;
        copy[at] = copy[end] = '\0';
        part_outside(copy, done, at);
        several = several || (memchr(copy + at, ' ', end - at) != NULL &&
                              (is_value(line, at) || is_pair(line, at + 1, end) || has_quotes(line, at + 1, end)));
        done = end + 1;
        at = end;
    }
    part_outside(copy, done, line->len);
    return several;
}

static int add_line(struct redact_parted *parted, const char *copy, size_t len, size_t from)
{
    if (parted->count == parted->capacity) {
        size_t capacity = parted->capacity > 0 ? parted->capacity * 2 : 16;
        struct redact_parted_line *grown = realloc(parted->lines, capacity * sizeof *grown);
        if (grown == NULL)
            return -ENOMEM;
        parted->lines = grown;
        parted->capacity = capacity;
    }
    parted->lines[parted->count++] = (struct redact_parted_line){parted->text.len, from, len};
    buf_append(&parted->text, copy, len);
    buf_putc(&parted->text, '\n');
    return buf_failed(&parted->text) ? -ENOMEM : 0;
}

static int try_line(struct redact_parted *parted, const struct redact_text *line, size_t from)
{
    if (line->len == 0 || line->len > PARTED_LINE_MAX)
        return 0;
    if (memchr(line->p, '\0', line->len) != NULL)
        return add_line(parted, line->p, line->len, from);
    if (memchr(line->p, '"', line->len) == NULL && memchr(line->p, '\'', line->len) == NULL)
        return 0;
    RC_AUTO_FREE char *copy = malloc(line->len);
    if (copy == NULL)
        return -ENOMEM;
    return part_line(line, copy) ? add_line(parted, copy, line->len, from) : 0;
}

int redact_part(const struct redact_text *t, struct redact_parted *ret)
{
    int r = 0;
    bool is_list = t->len <= PARTED_LINE_MAX && memchr(t->p, '\0', t->len) != NULL; /* its arguments may have several lines */
    *ret = (struct redact_parted){0};
    buf_init(&ret->text, 2 * t->len + 1);
    for (size_t from = 0, to; r == 0 && from < t->len; from = to + 1) {
        to = is_list ? t->len : redact_line_end(t, from);
        const struct redact_text line = {t->p + from, to - from};
        r = try_line(ret, &line, from);
    }
    return r;
}

void redact_parted_release(struct redact_parted *parted)
{
    if (parted->text.data != NULL)
        explicit_bzero(parted->text.data, parted->text.len);
    buf_release(&parted->text);
    free(parted->lines);
}
