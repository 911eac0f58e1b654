/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments of a command, whose ends are known: a secret has blanks and quotes, at which a rule for texts ends. So the value
 * behind a name that asks for a secret is hidden to the end of its argument, and the rules "in-argument" find arguments
 * behind options that announce a person. What several words hide here is learned, since other texts show it without ends.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "bundle/redact_internal.h"

#define NAME_MAX_BYTES 128u

/* --- does a name ask for a secret? --- */

bool redact_may_ask(const char *name, size_t len)
{
    static const char *const words[] = {"pass", "pwd", "secret", "token", "key", "cred", "auth", "mnemonic", "psk"};
    char copy[NAME_MAX_BYTES];
    (void)snprintf(copy, sizeof copy, "%.*s", (int)(len < sizeof copy ? len : sizeof copy - 1), name);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcasestr(copy, words[i]) != NULL)
            return true;
    return false;
}

/* A letter and a digit: behind some names ("--token") only such a value is a secret, not "layers 0 attn". */
static bool has_letter_and_digit(const char *value)
{
    size_t letters = 0, digits = 0, most = 0, row = 0;
    for (const char *p = value; *p != '\0'; p++) {
        letters += isalpha((unsigned char)*p) != 0;
        digits += isdigit((unsigned char)*p) != 0;
        row = *p == ' ' ? 0 : row + 1;
        most = row > most ? row : most;
    }
    return strlen(value) >= 8 && letters > 0 && digits > 0 && (most >= 8 || digits > 3);
}

/* "$NAME", "${NAME}", "%NAME%" */
static bool is_variable(const char *value, size_t len)
{
    static const char name[] = "{}_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    return (value[0] == '$' && value[1 + strspn(value + 1, name)] == '\0') ||
           (value[0] == '%' && len > 1 && strchr(value + 1, '%') == value + len - 1);
}

/* None, a variable, a path, a mask: no value. */
static bool is_no_value(const char *value)
{
    static const char *const words[] = {"none", "null", "nil", "true", "false", "yes", "no", "unset", "default", "unknown"};
    size_t len = strlen(value);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcasecmp(value, words[i]) == 0)
            return true;
    return len <= 3 || value[strspn(value, "*.xX-")] == '\0' || value[0] == '/' || value[0] == '~' || is_variable(value, len) ||
           (value[0] == '<' && strchr(value, '>') == value + len - 1);
}

int redact_asks_for_secret(struct redactor *r, const char *name, const char *value, struct redact_span *ret)
{
    const char *any = has_letter_and_digit(value) ? "tulip7wagon42" : "tulipwagon"; /* say nothing themselves */
    struct buf line = BUF_INIT;
    struct redact_spans spans = {0};
    if (!redact_may_ask(name, strlen(name)) || is_no_value(value))
        return 0;
    buf_printf(&line, "%s=%s", name, any);
    const struct redact_text t = {buf_str(&line), line.len};
    int e = buf_failed(&line) ? -ENOMEM : redact_search_form(r, &t, false, REDACT_FORM_TEXT, &spans);
    for (size_t i = 0; e == 0 && i < spans.count; i++) {
        *ret = spans.list[i];
        e = ret->kind == REDACT_SECRET && ret->rule != NULL && ret->from == strlen(name) + 1;
    }
    free(spans.list);
    buf_release(&line);
    return e;
}

/* --- one argument after the other --- */

struct argument {
    size_t from, to;
};

/* The argument at `at` or after it; false = there is none. */
static bool next_argument(const struct redact_text *p, size_t at, struct argument *ret)
{
    while (at < p->len && p->p[at] == '\0')
        at++;
    size_t to = at;
    while (to < p->len && p->p[to] != '\0')
        to++;
    *ret = (struct argument){at, to};
    return to > at;
}

/* The argument that `at` lies in. */
static struct argument argument_at(const struct redact_text *p, size_t at)
{
    struct argument a = {at, at};
    while (a.from > 0 && p->p[a.from - 1] != '\0')
        a.from--;
    while (a.to < p->len && p->p[a.to] != '\0')
        a.to++;
    return a;
}

static bool has_several_words(const struct redact_text *p, struct argument a)
{
    return memchr(p->p + a.from, ' ', a.to - a.from) != NULL;
}

/* "sh", "-c", "A=b program": a line of a shell, in which a blank ends the value. */
static bool is_script(const struct redact_text *p, struct argument a)
{
    size_t to = a.from;
    while (to > 0 && p->p[to - 1] == '\0')
        to--;
    if (to < 2 || p->p[to - 1] != 'c')
        return false;
    size_t from = to - 1;
    while (from > 0 && isalpha((unsigned char)p->p[from]))
        from--;
    return p->p[from] == '-' && (from == 0 || p->p[from - 1] == '\0') && to - from <= 4;
}

/* Searches the value p[from, to) of the name; adds it if the name asks for a secret. */
static int ask(struct redactor *r, const struct redact_text *p, struct argument name, struct argument value,
               struct redact_spans *out)
{
    char asked[NAME_MAX_BYTES];
    struct redact_span whole = {0};
    if (name.to - name.from >= sizeof asked || !redact_may_ask(p->p + name.from, name.to - name.from))
        return 0;
    (void)snprintf(asked, sizeof asked, "%.*s", (int)(name.to - name.from), p->p + name.from);
    char *held = strndup(p->p + value.from, value.to - value.from);
    int e = held == NULL ? -ENOMEM : redact_asks_for_secret(r, asked, held, &whole);
    if (held != NULL)
        explicit_bzero(held, strlen(held));
    free(held);
    if (e <= 0)
        return e;
    whole.from = value.from;
    whole.to = value.to;
    redact_spans_add(out, whole);
    return out->failed < 0 ? out->failed : 1;
}

/* Within the quotes that begin and end a value. False: its quote ends before it does, and texts have rules for that. */
static bool within_quotes(const struct redact_text *p, struct argument *value)
{
    while (value->from < value->to && redact_is_one_of(p->p[value->from], " \t"))
        value->from++;
    if (value->from == value->to || !redact_is_one_of(p->p[value->from], "\"'\\{["))
        return value->from < value->to;
    if (!redact_is_one_of(p->p[value->from], "\"'") || value->to - value->from < 2 ||
        memchr(p->p + value->from + 1, p->p[value->from], value->to - value->from - 1) != p->p + value->to - 1)
        return false;
    *value = (struct argument){value->from + 1, value->to - 1};
    return true;
}

/* "NAME=value", "--env=NAME=value", "A=b,NAME=value", "name: value" */
static int ask_pairs(struct redactor *r, const struct redact_text *p, struct argument a, struct redact_spans *out)
{
    struct argument name = a;
    bool begun = true; /* a name that a blank precedes is a word of a sentence */
    int e = 0;
    for (size_t at = a.from; e == 0 && at < a.to; at++) {
        if (redact_is_one_of(p->p[at], "=:") && begun && at > name.from) {
            struct argument value = {at + 1, a.to};
            name.to = at;
            if (within_quotes(p, &value))
                e = ask(r, p, name, value, out);
        }
        if (isalnum((unsigned char)p->p[at]) || redact_is_one_of(p->p[at], "_.-+"))
            continue;
        begun = redact_is_one_of(p->p[at], ",;=");
        name.from = at + 1;
    }
    return e;
}

static int ask_arguments(struct redactor *r, const struct redact_text *p, struct redact_spans *out)
{
    struct argument a, before = {0, 0};
    int e = 0;
    for (size_t at = 0; e >= 0 && next_argument(p, at, &a); at = a.to) {
        struct argument name = before;
        bool empty = name.to > name.from && p->p[name.to - 1] == '='; /* name="value" */
        bool option = name.to > name.from && p->p[name.from] == '-' && memchr(p->p + name.from, '=', name.to - name.from) == NULL;
        name.to -= empty;
        e = (empty || option) && p->p[a.from] != '-' ? ask(r, p, name, a, out) : 0;
        if (e == 0 && !is_script(p, a))
            e = ask_pairs(r, p, a, out);
        before = a;
    }
    return e < 0 ? e : 0;
}

/* --- findings as a whole --- */

/* Does the finding begin where the value of an option, or of a name, does? */
static bool begins_value(const struct redact_text *p, struct argument a, size_t from)
{
    while (from > a.from && redact_is_one_of(p->p[from - 1], "\"' "))
        from--;
    if (from > a.from)
        return redact_is_one_of(p->p[from - 1], "=:");
    while (from > 0 && p->p[from - 1] == '\0')
        from--;
    size_t to = from;
    while (from > 0 && p->p[from - 1] != '\0')
        from--;
    return from < to && p->p[from] == '-';
}

/* The end of an argument; of one in quotes within it (cmd='run -e "NAME=..."') the quote. */
static size_t end_around(const struct redact_text *p, struct argument a, const struct redact_span *span)
{
    size_t from = span->from;
    while (from > a.from && (isalnum((unsigned char)p->p[from - 1]) || redact_is_one_of(p->p[from - 1], "_.-=:")))
        from--;
    bool quoted = from > a.from && redact_is_one_of(p->p[from - 1], "\"'");
    const char *quote = quoted ? memchr(p->p + span->to, p->p[from - 1], a.to - span->to) : NULL;
    size_t end = quote != NULL ? (size_t)(quote - p->p) : a.to;
    while (quote != NULL && end > span->to && p->p[end - 1] == '\\')
        end--;
    return end;
}

/* A secret goes on to the end of its argument. */
static void grow(const struct redact_text *p, struct redact_span *span)
{
    struct argument a = argument_at(p, span->from);
    bool goes_on = span->to < a.to && p->p[span->to] == ' ';
    if (span->kind == REDACT_SECRET && goes_on && begins_value(p, a, span->from) && !is_script(p, a))
        span->to = end_around(p, a, span);
}

static bool is_of_words(const char *p, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)p[i]) && !redact_is_one_of(p[i], " .+-"))
            return false;
    return true;
}

/* "lr 1e-4 bs 32", "Radeon RX 7900": one word alone would be somebody's name for something, or a number of a record, all of them
 * are technical. */
static bool is_technical(const struct redactor *r, const struct redact_text *p, const struct redact_span *span)
{
    struct argument a = argument_at(p, span->from);
    const char *sign = memchr(p->p + a.from, '=', span->from - a.from);
    a.from = sign != NULL ? (size_t)(sign + 1 - p->p) : a.from;
    bool guess = span->rule != NULL && (span->kind == REDACT_PROJECT || span->rule->in_record);
    return guess && span->to <= a.to && has_several_words(p, a) &&
           is_of_words(p->p + a.from, a.to - a.from) &&
           redact_is_known(r->rules->vocabulary, KNOWN_NOBODY, p->p + a.from, a.to - a.from);
}

static int learn(struct redactor *r, const struct redact_text *p, const struct redact_span *span)
{
    struct argument a = argument_at(p, span->from), value = {span->from, span->to};
    bool secret = span->kind == REDACT_SECRET && begins_value(p, a, span->from);
    bool several = span->rule != NULL && span->rule->in_argument && has_several_words(p, value);
    if (span->to == a.to && (secret || several))
        return redact_learn_whole(r, span->kind, p->p + span->from, span->to - span->from, span->label);
    return 0;
}

/* The part of the text that a finding lies in; NULL = in none. */
static const struct redact_parted_line *line_of(const struct redact_parted *parted, const struct redact_span *span)
{
    size_t low = 0, high = parted->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (parted->lines[middle].from <= span->from)
            low = middle + 1;
        else
            high = middle;
    }
    const struct redact_parted_line *line = low > 0 ? &parted->lines[low - 1] : NULL;
    return line != NULL && span->to <= line->from + line->len ? line : NULL;
}

static int as_whole(struct redactor *r, const struct redact_parted *parted, bool learning, struct redact_spans *out)
{
    size_t kept = 0;
    int e = 0;
    for (size_t i = 0; e == 0 && i < out->count; i++) {
        struct redact_span span = out->list[i];
        const struct redact_parted_line *line = line_of(parted, &span);
        bool technical = false;
        if (line != NULL) {
            const struct redact_text p = {parted->text.data + line->at, line->len};
            struct redact_span there = span;
            there.from -= line->from;
            there.to -= line->from;
            grow(&p, &there);
            span.to = there.to + line->from;
            technical = !learning && is_technical(r, &p, &there);
            e = learning ? learn(r, &p, &there) : 0;
        }
        if (!technical)
            out->list[kept++] = span;
    }
    out->count = kept;
    return e;
}

static int search_line(struct redactor *r, const struct redact_parted *parted, const struct redact_parted_line *line,
                       bool learning, struct redact_spans *out)
{
    const struct redact_text p = {parted->text.data + line->at, line->len};
    struct redact_spans found = {0};
    int e = ask_arguments(r, &p, &found);
    if (e == 0)
        e = redact_search_form(r, &p, learning, REDACT_FORM_ARGUMENTS, &found);
    for (size_t i = 0; e == 0 && i < found.count; i++) {
        struct redact_span span = found.list[i];
        bool more = memchr(p.p + span.from, '\0', span.to - span.from) != NULL;
        bool whole = span.rule != NULL && span.rule->in_argument;
        if (more || (whole && is_script(&p, argument_at(&p, span.from))))
            continue;
        span.from += line->from;
        span.to += line->from;
        redact_spans_add(out, span);
    }
    free(found.list);
    return e < 0 ? e : out->failed;
}

int redact_arguments(struct redactor *r, const struct redact_text *t, bool learning, struct redact_spans *out)
{
    struct redact_parted parted;
    int e = redact_part(t, &parted);
    for (size_t i = 0; e == 0 && i < parted.count; i++)
        e = search_line(r, &parted, &parted.lines[i], learning, out);
    if (e == 0 && parted.count > 0)
        e = as_whole(r, &parted, learning, out);
    redact_parted_release(&parted);
    return e;
}

int redactor_learn_arguments(struct redactor *r, const char *const *list)
{
    struct buf text = BUF_INIT;
    for (size_t i = 0; list[i] != NULL; i++) {
        buf_puts(&text, list[i]);
        buf_putc(&text, '\0');
    }
    const struct redact_text t = {buf_str(&text), text.len};
    struct redact_spans found = {0};
    int e = buf_failed(&text) ? -ENOMEM : redact_arguments(r, &t, true, &found);
    free(found.list);
    if (text.data != NULL)
        explicit_bzero(text.data, text.len);
    buf_release(&text);
    return e;
}
