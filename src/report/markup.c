/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does a summary hold markup that no summary of ours holds? Ours has headings, lists, tables, bold
 * words, code spans within a line and blocks between "```" lines. The answer is "yes" for what
 * CommonMark could read in two ways, too, so that a text cannot hide a mention in half a code span.
 */
#include "report/markup.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

static bool begins(const char *text, size_t len, const char *what)
{
    size_t n = strlen(what);
    return len >= n && strncasecmp(text, what, n) == 0;
}

/* Outside of code: a tag, an entity, a mention, a reference, a link, a picture, mathematics, an escape. */
static bool is_markup_at(const char *at, size_t len)
{
    static const char *const links[] = {"://", "www.", "mailto:", "xmpp:", "](", "][", "]:", "[^"};
    unsigned char next = len > 1 ? (unsigned char)at[1] : ' ';
    for (size_t i = 0; i < sizeof links / sizeof links[0]; i++)
        if (begins(at, len, links[i]))
            return true;
    switch (*at) {
    case '<':
        return isalpha(next) || strchr("/!?", next) != NULL;
    case '&':
        return isalpha(next) || next == '#';
    case '@':
        return isalnum(next);
    case '#':
        return isdigit(next);
    case '$':
        return !isspace(next);
    case '\\':
        return next != '|';
    default:
        return false;
    }
}

static bool plain_has_markup(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        bool first = i == 0 || (!isalnum((unsigned char)text[i - 1]) && text[i - 1] != '_');
        if (is_markup_at(text + i, len - i))
            return true;
        if (first && len - i > 3 && begins(text + i, len - i, "GH-") && isdigit((unsigned char)text[i + 3]))
            return true;
    }
    return false;
}

/* A bar in a code span ends a table's cell, and with it the span. */
static bool span_is_cut(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (text[i] == '|' && (i == 0 || text[i - 1] != '\\'))
            return true;
    return len == 0;
}

static bool line_has_markup(const char *line, size_t len)
{
    bool code = false;
    for (size_t from = 0, n; from <= len; from += n + 1, code = !code) {
        const char *tick = memchr(line + from, '`', len - from);
        n = tick != NULL ? (size_t)(tick - line) - from : len - from;
        if (code ? tick == NULL || span_is_cut(line + from, n) : plain_has_markup(line + from, n))
            return true;
    }
    return false;
}

static bool is_line(const char *line, size_t len, const char *text)
{
    return len == strlen(text) && memcmp(line, text, len) == 0;
}

static bool has_fence(const char *line, size_t len)
{
    while (len > 0 && (*line == ' ' || *line == '\t'))
        line++, len--;
    return begins(line, len, "```") || begins(line, len, "~~~");
}

bool markup_is_foreign(const char *markdown)
{
    bool block = false;
    if (strchr(markdown, '\r') != NULL) /* ends a line of Markdown, too */
        return true;
    for (const char *line = markdown; *line != '\0';) {
        size_t len = strcspn(line, "\n");
        if (is_line(line, len, block ? "```" : "```text"))
            block = !block;
        else if (has_fence(line, len) || (!block && line_has_markup(line, len)))
            return true;
        line += len + (line[len] == '\n');
    }
    return block;
}
