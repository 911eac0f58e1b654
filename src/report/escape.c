/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text from logs, environment and file names -> text that GitHub, Mermaid or a terminal shows as it
 * is. A bundle is opened by a maintainer who trusts it: nothing in it may become markup.
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

static void escape_with(struct buf *out, const char *text, size_t max, emit one)
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
            one(out, text, at, n);
        at += n > 0 ? n : 1;
    }
}

static bool word_char(const char *start, const char *at)
{
    return at >= start && (isalnum((unsigned char)*at) || (unsigned char)*at >= 0x80);
}

/* The schemes that make a link without "//". */
static bool ends_in_scheme(const char *start, const char *at)
{
    return (at - start >= 6 && strncasecmp(at - 6, "mailto", 6) == 0) ||
           (at - start >= 4 && strncasecmp(at - 4, "xmpp", 4) == 0);
}

static void markdown_char(struct buf *out, const char *start, const char *at, size_t n)
{
    switch (*at) {
    case '&':
        buf_puts(out, "&amp;");
        return;
    case '<':
        buf_puts(out, "&lt;");
        return;
    case '>':
        buf_puts(out, "&gt;");
        return;
    case '@': /* no mention of a GitHub user */
        buf_puts(out, "&#64;");
        return;
    case '#': /* no heading, no link to issue 123 */
        buf_puts(out, "&#35;");
        return;
    case ':': /* GitHub makes links of what looks like one: https://..., www..., mailto:... */
        if (strncmp(at, "://", 3) != 0 && !ends_in_scheme(start, at))
            break;
        buf_puts(out, "&#58;");
        return;
    case 'w':
    case 'W':
        if (strncasecmp(at, "www.", 4) != 0 || word_char(start, at - 1))
            break;
        buf_puts(out, *at == 'w' ? "&#119;" : "&#87;");
        return;
    case '_': /* emphasis only at the edge of a word; HSA_XNACK stays readable */
        if (!word_char(start, at - 1) || !word_char(start, at + 1))
            buf_putc(out, '\\');
        break;
    case '!': /* an image is a '!' before a link */
        if (at[1] != '\0' && at[1] != ' ' && !isalnum((unsigned char)at[1]))
            buf_putc(out, '\\');
        break;
    case '[': /* a link needs a bracket behind its ']'; at the start it could be a definition */
        if (at == start || !(isalnum((unsigned char)at[1]) || at[1] == '/'))
            buf_putc(out, '\\');
        break;
    case ']': /* what is left out below could stand between it and the bracket */
        if (at[1] != '\0' && strchr(" .,;", at[1]) == NULL)
            buf_putc(out, '\\');
        break;
    case '\\':
    case '`':
    case '*':
    case '|':
    case '~':
    case '$': /* GitHub reads $...$ as mathematics */
        buf_putc(out, '\\');
        break;
    default:
        break;
    }
    buf_append(out, at, n);
}

void escape_markdown(struct buf *out, const char *text, size_t max)
{
    size_t skip = strspn(text, " \t");
    text += skip;
    /* "- x", "+ x", "1. x" at the start would be a list */
    if ((text[0] == '-' || text[0] == '+' || text[0] == '=') && !isdigit((unsigned char)text[1]))
        buf_putc(out, '\\');
    escape_with(out, text, max, markdown_char);
}

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

static void plain_char(struct buf *out, const char *start, const char *at, size_t n)
{
    (void)start;
    buf_append(out, at, n);
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
        buf_putc(out, ' '); /* an empty span is none */
    buf_putc(out, '`');
}
