/* SPDX-License-Identifier: Apache-2.0 */
#include "base/wrap.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/utf8.h"

#define PREFIX "rocmcrash: "
#define INDENT_LONG_WORD 4
#define ESCAPED_COLUMNS 4 /* "\xNN" */

unsigned wrap_columns(int fd)
{
    struct winsize size = {.ws_col = 0};
    if (fd < 0 || !isatty(fd) || ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col < WRAP_COLUMNS_MIN)
        return 0;
    return size.ws_col;
}

size_t wrap_width(const char *text, size_t bytes)
{
    size_t width = 0;
    for (size_t at = 0; at < bytes;) {
        uint32_t c = 0;
        size_t n = utf8_decode((const unsigned char *)text + at, bytes - at, &c);
        width += n == 0 ? ESCAPED_COLUMNS : utf8_is_hidden(c) ? n * ESCAPED_COLUMNS : 1;
        at += n > 0 ? n : 1;
    }
    return width;
}

/* An apostrophe within a word is no quote. */
static size_t word_bytes(const char *text)
{
    size_t open = strspn(text, "(");
    size_t len = strcspn(text, " \n");
    const char *line_end = text + strcspn(text, "\n");
    if (text[open] != '\'')
        return len;
    for (const char *at = text + open + 1; at < line_end; at++)
        if (*at == '\'' && !isalnum((unsigned char)at[1]))
            return (size_t)(at - text) + strcspn(at, " \n");
    return len;
}

size_t wrap_piece(const char *text, size_t room)
{
    size_t used = 0;
    size_t column = 0;
    while (true) {
        size_t n = strspn(text + used, " ");
        size_t word = word_bytes(text + used + n);
        n += word;
        column += wrap_width(text + used, n);
        if (word == 0 || (used > 0 && column > room))
            return used;
        used += n;
    }
}

/* The column behind the last gap of two blanks, if it leaves half of the width for the text; else 0. */
static size_t last_column(const char *text, size_t lead, unsigned columns)
{
    size_t found = 0;
    for (size_t i = lead; text[i] != '\0' && text[i] != '\n' && i < columns / 2; i++)
        if (text[i] != ' ' && i >= lead + 2 && text[i - 1] == ' ' && text[i - 2] == ' ')
            found = i;
    return found;
}

size_t wrap_indent(const char *text, unsigned columns)
{
    size_t lead = strspn(text, " ");
    size_t indent = strncmp(text, PREFIX, sizeof PREFIX - 1) == 0 ? sizeof PREFIX - 1 : last_column(text, lead, columns);
    if (indent == 0)
        indent = lead + 2;
    return indent <= columns / 2 ? indent : 2;
}

size_t wrap_below(const char *text, size_t indent, unsigned columns, int *ret_indent)
{
    bool fits = wrap_width(text, word_bytes(text)) <= columns - indent;
    *ret_indent = (int)(fits || indent < INDENT_LONG_WORD ? indent : INDENT_LONG_WORD);
    return wrap_piece(text, columns - (unsigned)*ret_indent);
}

static void one_line(struct buf *out, const char *text, unsigned columns)
{
    size_t indent = wrap_indent(text, columns);
    size_t n = wrap_piece(text, columns);
    int column = 0;
    buf_append(out, text, n);
    while (*(text += n + strspn(text + n, " ")) != '\0' && *text != '\n') {
        n = wrap_below(text, indent, columns, &column);
        buf_printf(out, "\n%*s", column, "");
        buf_append(out, text, n);
    }
}

void wrap_lines(struct buf *out, const char *text, unsigned columns)
{
    for (size_t len; *text != '\0'; text += len) {
        len = strcspn(text, "\n");
        if (columns > 0)
            one_line(out, text, columns);
        else
            buf_append(out, text, len);
        if (text[len] == '\n')
            buf_putc(out, text[len++]);
    }
}
