/* SPDX-License-Identifier: Apache-2.0 */
#include "bundle/redact_internal.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static bool is_bare(char c)
{
    return isalnum((unsigned char)c) || redact_is_one_of(c, "+-.");
}

/* Length of the escape that begins at a backslash. */
static size_t escape_length(const struct redact_text *t, size_t at)
{
    return redact_at(t, at + 1) == 'u' ? 6 : 2;
}

/* The end of a number, of true, false or null at `at`; 0 = it is something else. */
static size_t bare_end(const struct redact_text *t, size_t at, size_t to)
{
    static const char *const words[] = {"true", "false", "null", "NaN", "Infinity"};
    size_t end = at;
    bool number = isdigit((unsigned char)t->p[at]) || t->p[at] == '-';
    while (end < to && is_bare(t->p[end])) {
        number = number && !(isalpha((unsigned char)t->p[end]) && !redact_is_one_of(t->p[end], "eE"));
        end++;
    }
    for (size_t i = 0; !number && i < sizeof words / sizeof words[0]; i++)
        number = strlen(words[i]) == end - at && memcmp(words[i], t->p + at, end - at) == 0;
    return number && end > at ? end : 0;
}

static bool reads_as_json(const struct redact_text *t, size_t from, size_t to)
{
    static const char blanks[] = " \t\r";
    bool in_string = false;
    size_t depth = 0, at = from;
    while (at < to && redact_is_one_of(t->p[at], blanks))
        at++;
    size_t next = at + 1;
    while (next < to && redact_is_one_of(t->p[next], blanks))
        next++;
    if (next >= to || !(t->p[at] == '{' ? t->p[next] == '"' : t->p[at] == '[' && redact_is_one_of(t->p[next], "{\"")))
        return false;
    for (bool closed = false; at < to; at++) {
        char c = t->p[at];
        size_t end = 0;
        if (closed && !redact_is_one_of(c, blanks))
            return false;
        if (c == '"')
            in_string = !in_string;
        else if (in_string)
            at += c == '\\' ? escape_length(t, at) - 1 : 0;
        else if (redact_is_one_of(c, "{["))
            depth++;
        else if (redact_is_one_of(c, "}]"))
            closed = --depth == 0;
        else if (is_bare(c) && (end = bare_end(t, at, to)) > 0)
            at = end - 1;
        else if (!redact_is_one_of(c, ",:") && !redact_is_one_of(c, blanks))
            return false;
    }
    return depth == 0 && !in_string;
}

/* Reads on to `at`, which lies after the last one. Is the line JSON? */
static bool read_to(struct json_line *l, const struct redact_text *t, size_t at)
{
    if (at >= l->to || l->to == 0) {
        const char *begin = at > 0 ? memrchr(t->p, '\n', at) : NULL;
        const char *end = memchr(t->p + at, '\n', t->len - at);
        l->from = begin != NULL ? (size_t)(begin - t->p) + 1 : 0;
        l->to = end != NULL ? (size_t)(end - t->p) : t->len;
        l->is_json = reads_as_json(t, l->from, l->to);
        l->at = l->from;
        l->in_string = false;
    }
    while (l->is_json && l->at < at) {
        char c = t->p[l->at];
        if (l->in_string && c == '\\') {
            l->at += escape_length(t, l->at); /* `at` may lie within the escape */
            continue;
        }
        l->in_string = l->in_string != (c == '"');
        l->at++;
    }
    return l->is_json;
}

/* The end of the numbers that are hidden from `at` on, with the commas between them. */
static size_t bare_run(const struct redact_text *t, size_t at, size_t to)
{
    size_t end = at;
    for (size_t i = at; (i < to || end == i) && i < t->len; i++) {
        if (is_bare(t->p[i]))
            end = i + 1;
        else if (i >= to || !redact_is_one_of(t->p[i], ", \t"))
            break;
    }
    return end;
}

/* "<text: 12 characters>": a piece that is nothing else was hidden before. */
static bool is_pseudonym(const char *p, size_t len)
{
    size_t n = 1;
    while (n < len && islower((unsigned char)p[n]))
        n++;
    return len > 2 && p[0] == '<' && redact_kind_of(p + 1, n - 1) >= 0 && memchr(p, '>', len) == p + len - 1;
}

/* Adds the pieces of a span that leave the line JSON. */
static void add_json_pieces(struct json_line *l, const struct redact_text *t, const struct redact_span *span,
                            struct redact_spans *out)
{
    size_t done = out->count > 0 ? out->list[out->count - 1].to : 0;
    for (size_t at = span->from; at < span->to && read_to(l, t, at);) {
        struct redact_span piece = *span;
        piece.from = l->at; /* behind an escape that began before */
        if (l->in_string) {
            while (l->at < span->to && t->p[l->at] != '"')
                l->at += t->p[l->at] == '\\' ? escape_length(t, l->at) : 1;
            piece.to = l->at;
        } else if (is_bare(redact_at(t, at))) {
            while (piece.from > l->from && is_bare(t->p[piece.from - 1]))
                piece.from--;
            piece.to = bare_run(t, at, span->to);
        } else {
            piece.to = piece.from;
        }
        if (piece.from < done)
            piece.from = done;
        if (piece.from < piece.to && !is_pseudonym(t->p + piece.from, piece.to - piece.from))
            redact_spans_add(out, piece);
        at = piece.to > at ? piece.to : at + 1;
        done = piece.to > done ? piece.to : done;
    }
}

int redact_fit_json(const struct redact_text *t, struct redact_spans *spans)
{
    struct json_line line = {0};
    struct redact_spans fitted = {0};
    for (size_t i = 0; i < spans->count; i++) {
        const struct redact_span *span = &spans->list[i];
        bool within = read_to(&line, t, span->from) && span->to <= line.to;
        if (within)
            add_json_pieces(&line, t, span, &fitted);
        else
            redact_spans_add(&fitted, *span);
    }
    free(spans->list);
    *spans = fitted;
    return spans->failed;
}

bool redact_needs_quotes(struct json_line *l, const struct redact_text *t, const struct redact_span *span)
{
    return is_bare(t->p[span->from]) && read_to(l, t, span->from) && !l->in_string;
}
