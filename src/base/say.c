/* SPDX-License-Identifier: Apache-2.0 */
#include "base/say.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "base/wrap.h"

/* Bytes from p on that may be shown unchanged; *ret_bad bytes behind them must be escaped. */
static size_t shown_bytes(const unsigned char *p, size_t left, bool keeps_lines, size_t *ret_bad)
{
    size_t shown = 0;
    *ret_bad = 0;
    while (shown < left && *ret_bad == 0) {
        uint32_t point = 0;
        size_t n = utf8_decode(p + shown, left - shown, &point);
        bool hidden = n == 0 || (utf8_is_hidden(point) && !(keeps_lines && (point == '\n' || point == '\t')));
        if (hidden)
            *ret_bad = n > 0 ? n : 1;
        else
            shown += n;
    }
    return shown;
}

static void put_escaped(FILE *to, const char *text, size_t len)
{
    for (size_t i = 0; i < len;) {
        size_t bad = 0;
        size_t n = shown_bytes((const unsigned char *)text + i, len - i, false, &bad);
        (void)fwrite(text + i, 1, n, to);
        for (size_t k = 0; k < bad; k++)
            (void)fprintf(to, "\\x%02x", (unsigned char)text[i + n + k]);
        i += n + bad;
    }
}

static void put_wrapped(FILE *to, const char *text, unsigned columns)
{
    size_t indent = wrap_indent(text, columns);
    size_t n = wrap_piece(text, columns);
    int column = 0;
    put_escaped(to, text, n);
    while (*(text += n + strspn(text + n, " ")) != '\0') {
        n = wrap_below(text, indent, columns, &column);
        (void)fprintf(to, "\n%*s", column, "");
        put_escaped(to, text, n);
    }
}

/* `columns` 0: the line is not broken. */
static int put_form(FILE *to, unsigned columns, const char *form, va_list arguments)
{
    char text[SAY_LINE_BYTES];
    int made = vsnprintf(text, sizeof text, form, arguments);
    if (made < 0)
        return -EIO;
    if (made >= SAY_LINE_BYTES)
        memcpy(text + SAY_LINE_BYTES - 4, "...", 4);
    if (columns > 0 && strchr(text, '\n') == NULL)
        put_wrapped(to, text, columns);
    else
        put_escaped(to, text, strlen(text));
    return putc('\n', to) != EOF && !ferror(to) ? 0 : -EIO;
}

/* A stream of say_in_time() has no descriptor: those are only of processes that print where their stderr is. */
static unsigned columns_of(FILE *to)
{
    int fd = fileno(to);
    return wrap_columns(fd >= 0 ? fd : STDERR_FILENO);
}

int say_line(FILE *to, const char *form, ...)
{
    va_list arguments;
    va_start(arguments, form);
    int r = put_form(to, columns_of(to), form, arguments);
    va_end(arguments);
    return r;
}

int say_whole(FILE *to, const char *form, ...)
{
    va_list arguments;
    va_start(arguments, form);
    int r = put_form(to, 0, form, arguments);
    va_end(arguments);
    return r;
}

int say_text(FILE *to, const char *text)
{
    struct buf lines = BUF_INIT;
    wrap_lines(&lines, text, columns_of(to));
    bool ok = !buf_failed(&lines) && fwrite(buf_str(&lines), 1, lines.len, to) == lines.len;
    buf_release(&lines);
    return ok ? 0 : -EIO;
}

static void put_point(FILE *to, uint32_t point)
{
    if (point < 0x10000)
        (void)fprintf(to, "\\u%04x", (unsigned)point);
    else
        (void)fprintf(to, "\\u%04x\\u%04x", 0xd7c0u + (unsigned)(point >> 10),
                      0xdc00u + (unsigned)(point & 0x3ffu));
}

int say_json(FILE *to, const char *json)
{
    const unsigned char *p = (const unsigned char *)json;
    size_t left = strlen(json);
    while (left > 0) {
        size_t bad = 0;
        uint32_t point = 0xfffd;
        size_t n = shown_bytes(p, left, true, &bad);
        (void)fwrite(p, 1, n, to);
        if (bad > 0) {
            (void)utf8_decode(p + n, left - n, &point);
            put_point(to, point);
        }
        p += n + bad;
        left -= n + bad;
    }
    return putc('\n', to) != EOF && fflush(to) == 0 ? 0 : -EIO;
}

static void clean(struct buf *out, const char *text, size_t len, bool keeps_lines)
{
    for (size_t i = 0; i < len;) {
        size_t bad = 0;
        size_t n = shown_bytes((const unsigned char *)text + i, len - i, keeps_lines, &bad);
        buf_append(out, text + i, n);
        for (size_t k = 0; k < bad; k++)
            buf_printf(out, "\\x%02x", (unsigned char)text[i + n + k]);
        i += n + bad;
    }
}

void say_clean(struct buf *out, const char *text, size_t len)
{
    clean(out, text, len, true);
}

void say_word(struct buf *out, const char *text)
{
    clean(out, text, strlen(text), false);
}

/* After an earlier write failed, the reason is forgotten and the bytes are thrown away: one more byte tells it. */
static int code_of_stdout(void)
{
    if (fflush(stdout) != 0)
        return errno;
    if (!ferror(stdout))
        return 0;
    (void)putchar('\n');
    return fflush(stdout) != 0 ? errno : EIO;
}

int say_end(void)
{
    int code = code_of_stdout();
    if (code != 0)
        (void)say_line(stderr, "rocmcrash: cannot write: %s", strerror(code));
    return -code;
}
