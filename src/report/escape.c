/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Escapes text from logs, environment and file names, so that GitHub, Mermaid or a terminal shows
 * it unchanged. A maintainer who opens a bundle trusts it: nothing in it may become markup.
 */
#include "report/internal.h"

#include "base/buf.h"
#include "base/utf8.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

typedef void (*emit)(struct buf *out, const char *start, const char *at, size_t n);

static void escape_with(struct buf *out, const char *text, size_t max, emit emit_char)
{
    const char *at = text;
    const char *end = text + strlen(text);
    while (at < end) {
        uint32_t c = 0;
        size_t n = utf8_decode((const unsigned char *)at, (size_t)(end - at), &c);
        if ((size_t)(at - text) + (n > 0 ? n : 1) > max) {
            buf_puts(out, "…");
            return;
        }
        if (n == 0)
            buf_putc(out, '?');
        else if (c == '\n' || c == '\t' || c == '\r')
            buf_putc(out, ' ');
        else if (!utf8_is_hidden(c))
            emit_char(out, text, at, n);
        at += n > 0 ? n : 1;
    }
}

static void plain_char(struct buf *out, const char *start, const char *at, size_t n)
{
    (void)start;
    buf_append(out, at, n);
}

/* --- Markdown --- */

static bool has(const char *word, size_t len, const char *what)
{
    size_t n = strlen(what);
    for (size_t i = 0; i + n <= len; i++)
        if (strncasecmp(word + i, what, n) == 0)
            return true;
    return false;
}

/* "GH-88", "CVE-2024-1": letters, a dash, a number; GitHub turns them into links. */
static bool is_key(const char *word, size_t len)
{
    size_t letters = 0;
    while (letters < len && isalpha((unsigned char)word[letters]))
        letters++;
    if (letters == 0 || letters + 1 >= len || word[letters] != '-')
        return false;
    for (size_t i = letters + 1; i < len; i++)
        if (!isdigit((unsigned char)word[i]) && word[i] != '-')
            return false;
    return true;
}

/* GitHub turns the name of a commit into a link. */
static bool is_hash(const char *word, size_t len)
{
    size_t digits = 0;
    for (size_t i = 0; i < len; i++) {
        if (!isxdigit((unsigned char)word[i]))
            return false;
        digits += isdigit((unsigned char)word[i]) != 0;
    }
    return len >= 7 && digits < len;
}

/* At the start of `text`: "GH-88", "PROJ-123". A word that is one may have small letters, see is_key(). */
static bool begins_with_key(const char *text, size_t len)
{
    size_t letters = 0;
    while (letters < len && isupper((unsigned char)text[letters]))
        letters++;
    if (letters == 0 && len > 2 && strncasecmp(text, "gh", 2) == 0)
        letters = 2;
    size_t end = letters + 1;
    while (letters >= 2 && end < len && isdigit((unsigned char)text[end]))
        end++;
    return letters >= 2 && end > letters + 1 && text[letters] == '-' &&
           (end == len || (!isalnum((unsigned char)text[end]) && text[end] != '_'));
}

/* "/GH-88", "log:deadbeef12": GitHub finds both after any character except a letter, a digit or "_". */
static bool has_link_name(const char *word, size_t len)
{
    for (size_t at = 0, n; at < len; at += n > 0 ? n : 1) {
        for (n = 0; at + n < len && (isalnum((unsigned char)word[at + n]) || word[at + n] == '_');)
            n++;
        if (is_hash(word + at, n) || (n > 0 && begins_with_key(word + at, len - at)))
            return true;
    }
    return false;
}

/* Could Markdown or GitHub read the word as markup? Entities and backslashes do not prevent
 * mentions and references: GitHub searches for them after it has undone the escapes. */
static bool needs_code(const char *word, size_t len)
{
    if (len == 0)
        return false;
    for (size_t i = 0; i < len; i++)
        if (strchr("@#<>&\\`*|~$", word[i]) != NULL)
            return true;
    static const char *const parts[] = {"://", "www.", "mailto:", "xmpp:", "](", "][", "]:", "[^"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (has(word, len, parts[i]))
            return true;
    return word[0] == '_' || word[len - 1] == '_' || is_key(word, len) || has_link_name(word, len);
}

/* "- x", "1. x", "[ ] x" and "===" at the start of a line would be a list, a task or a heading. */
static bool begins_block(const char *word, size_t len)
{
    if (word[0] == '[')
        return true;
    size_t digits = strspn(word, "0123456789");
    if (digits > 0 && digits < 10)
        return digits + 1 == len && (word[digits] == '.' || word[digits] == ')');
    return strspn(word, "-+=") >= len;
}

/* A bar ends a table cell even in a code span. Only in a table the backslash before it is not
 * shown. */
static void code_word(struct buf *out, const char *word, size_t len)
{
    for (size_t i = 0; i < len;) {
        size_t n = 0;
        while (i + n < len && word[i + n] != '|')
            n++;
        if (n > 0) {
            buf_putc(out, '`');
            for (size_t k = i; k < i + n; k++)
                buf_putc(out, word[k] == '`' ? '\'' : word[k]);
            buf_putc(out, '`');
        }
        for (i += n; i < len && word[i] == '|'; i++)
            buf_puts(out, "\\|");
    }
}

/* "<", ">=", "&", "@" before a blank or the end of the line: no tag, entity or mention begins so. */
static bool is_sign(const char *word, size_t len)
{
    return strspn(word, "<>&=@") >= len;
}

/* Punctuation around a word that is harmless by itself stays outside its code span. */
static void markdown_word(struct buf *out, const char *word, size_t len, bool first)
{
    size_t before = 0;
    size_t end = len;
    if (!first && is_sign(word, len)) {
        buf_append(out, word, len);
        return;
    }
    /* One half of "[source *; other *]"; no link can begin or end with it. */
    bool opens = !first && word[0] == '[' && memchr(word, ']', len) == NULL;
    bool closes = memchr(word, '[', len) == NULL && memchr(word, ':', len) == NULL;
    while (before < len &&
           (strchr("(\"',;", word[before]) != NULL || (opens && word[before] == '[')))
        before++;
    while (end > before && strchr(")\"',;.:?", word[end - 1]) != NULL)
        end--;
    if (closes && end > before && word[end - 1] == ']')
        end--;
    if (!needs_code(word + before, end - before) && !(first && begins_block(word, len))) {
        buf_append(out, word, len);
        return;
    }
    if (before == end)
        before = 0, end = len;
    buf_append(out, word, before);
    code_word(out, word + before, end - before);
    buf_append(out, word + end, len - end);
}

void escape_markdown(struct buf *out, const char *text, size_t max)
{
    struct buf clean = BUF_INIT;
    text += strspn(text, " \t");
    escape_with(&clean, text, max, plain_char);
    /* A newline at the start has become a blank. */
    const char *at = buf_str(&clean) + strspn(buf_str(&clean), " ");
    for (bool first = true; *at != '\0'; first = false) {
        size_t word = strcspn(at, " ");
        markdown_word(out, at, word, first);
        size_t blanks = strspn(at + word, " ");
        buf_append(out, at + word, blanks);
        at += word + blanks;
    }
    buf_release(&clean);
}

/* --- other places --- */

static void mermaid_char(struct buf *out, const char *start, const char *at, size_t n)
{
    (void)start;
    if (n == 1 && strchr("\"#<>&`\\[]{}()|;*_~$", *at) != NULL)
        buf_printf(out, "#%d;", *at);
    else
        buf_append(out, at, n);
}

void escape_mermaid(struct buf *out, const char *text, size_t max)
{
    escape_with(out, text, max, mermaid_char);
}

void escape_terminal(struct buf *out, const char *text, size_t max)
{
    escape_with(out, text, max, plain_char);
}

static void code_char(struct buf *out, const char *start, const char *at, size_t n)
{
    (void)start;
    if (*at == '`' || *at == '~')
        buf_putc(out, '\'');
    else
        buf_append(out, at, n);
}

void escape_code(struct buf *out, const char *text, size_t max)
{
    escape_with(out, text, max, code_char);
}

static void cell_char(struct buf *out, const char *start, const char *at, size_t n)
{
    if (*at == '|')
        buf_puts(out, "\\|"); /* ends a cell even in a code span */
    else
        code_char(out, start, at, n);
}

void escape_cell(struct buf *out, const char *text, size_t max)
{
    size_t before = out->len;
    buf_putc(out, '`');
    escape_with(out, text, max, cell_char);
    if (out->len == before + 1)
        buf_putc(out, ' '); /* two backquotes without text between them are no code span */
    buf_putc(out, '`');
}

static void html_char(struct buf *out, const char *start, const char *at, size_t n)
{
    (void)start;
    if (n == 1 && strchr("&<>\"'", *at) != NULL)
        buf_printf(out, "&#%d;", *at);
    else
        buf_append(out, at, n);
}

void escape_html(struct buf *out, const char *text)
{
    for (const char *line = text; *line != '\0';) {
        size_t len = strcspn(line, "\n");
        struct buf one = BUF_INIT;
        buf_append(&one, line, len);
        escape_with(out, buf_str(&one), SIZE_MAX, html_char);
        buf_release(&one);
        line += len;
        if (*line == '\n')
            buf_putc(out, *line++);
    }
}

void escape_script(struct buf *out, const char *json)
{
    const char *end = json + strlen(json);
    for (const char *at = json; at < end;) {
        uint32_t c = 0;
        size_t n = utf8_decode((const unsigned char *)at, (size_t)(end - at), &c);
        if (n == 0)
            buf_puts(out, "\\ufffd");
        else if (c == '<' || c == '>' || c == '&' || (c < 0x10000 && utf8_is_hidden(c)))
            buf_printf(out, "\\u%04x", (unsigned)c);
        else if (!utf8_is_hidden(c))
            buf_append(out, at, n);
        at += n > 0 ? n : 1;
    }
}
