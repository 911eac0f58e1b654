/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fourth form of a text: the bytes that its hexadecimal dumps show (hexdump -C, xxd, the kernel's, x/16xb of gdb), so that a
 * secret is found that lies in several lines of a dump. Both its digits and its letters beside them are hidden. Words of a
 * dump that are not in the order of memory are not read. Runs in the finisher.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bundle/redact_internal.h"

#define ROW_MAX 64u  /* bytes */
#define ROW_MIN 8u   /* of the first line; fewer are any numbers */
#define GROUP_MAX 8u /* digits */
#define COLUMN_MAX 100u /* between the last digit and the letters */

/* One line of a dump. */
struct row {
    size_t byte[ROW_MAX]; /* where its two digits stand */
    size_t count;
    size_t column; /* where the letters begin; 0 = there are none */
};

/* The number of digits if the word [at, end) is a group of them, else 0. */
static size_t digits_of(const struct redact_text *t, size_t at, size_t end)
{
    size_t n = end - at;
    if (n < 2 || n > GROUP_MAX || n % 2 != 0)
        return 0;
    for (size_t i = at; i < end; i++) {
        if (!isxdigit((unsigned char)t->p[i]))
            return 0;
    }
    return n;
}

static unsigned char value_at(const struct redact_text *t, size_t at)
{
    const char digits[3] = {t->p[at], t->p[at + 1], '\0'};
    return (unsigned char)strtoul(digits, NULL, 16);
}

/* Finds the letters for the first `n` bytes; a dot stands for other bytes. 0 = the line has no letters. */
static size_t find_column(const struct redact_text *t, const struct row *row, size_t n, size_t to)
{
    size_t first = row->byte[n - 1] + 3;
    for (size_t at = first; at + n <= to && at < first + COLUMN_MAX; at++) {
        size_t i = 0;
        for (; i < n; i++) {
            unsigned char c = value_at(t, row->byte[i]);
            if (t->p[at + i] != (c >= ' ' && c < 0x7f ? (char)c : '.'))
                break;
        }
        if (i == n)
            return at;
    }
    return 0;
}

/* The longest groups of one size that stand side by side in [from, to). */
static void find_bytes(const struct redact_text *t, size_t from, size_t to, struct row *row)
{
    size_t size = 0, end = from;
    row->count = 0;
    for (size_t at = from; at < to; at = end) {
        while (at < to && isspace((unsigned char)t->p[at]))
            at++;
        size_t gap = at - end;
        for (end = at; end < to && !isspace((unsigned char)t->p[end]);)
            end++;
        bool prefixed = end - at == 4 && t->p[at] == '0' && t->p[at + 1] == 'x';
        at += prefixed ? 2 : 0;
        size_t n = digits_of(t, at, end);
        bool goes_on = n > 0 && n == size && gap <= 2 && row->count + n / 2 <= ROW_MAX;
        if (!goes_on && row->count >= ROW_MIN)
            return;
        if (!goes_on)
            row->count = 0;
        size = n;
        for (size_t i = 0; i < n; i += 2)
            row->byte[row->count++] = at + i;
    }
}

/* `above` is 1 + where the digits of the line above begin, 0 = it is of no dump. The last line of a dump may be short. */
static bool read_row(const struct redact_text *t, size_t from, size_t to, size_t above, struct row *row)
{
    find_bytes(t, from, to, row);
    if (row->count < ROW_MIN && (row->count == 0 || row->byte[0] - from + 1 != above))
        return false;
    /* Letters that could be digits were read as one group more. */
    size_t least = row->count > GROUP_MAX / 2 ? row->count - GROUP_MAX / 2 : 1;
    for (size_t n = row->count; n >= least && row->column == 0; n--) {
        row->column = find_column(t, row, n, to);
        if (row->column > 0)
            row->count = n;
    }
    return true;
}

static bool grow(struct redact_dump *dump, size_t more)
{
    if (dump->len + more <= dump->capacity)
        return true;
    size_t capacity = dump->capacity * 2 + 1024;
    char *p = realloc(dump->p, capacity);
    if (p != NULL)
        dump->p = p;
    struct redact_dump_place *place = realloc(dump->place, capacity * sizeof *place);
    if (place != NULL)
        dump->place = place;
    if (p == NULL || place == NULL)
        return false;
    dump->capacity = capacity;
    return true;
}

static void put(struct redact_dump *dump, unsigned char c, size_t hex, size_t letter)
{
    bool shown = (c >= ' ' && c < 0x7f) || c == '\n' || c == '\t';
    dump->p[dump->len] = shown ? (char)c : '\0';
    dump->place[dump->len++] = (struct redact_dump_place){(uint32_t)hex, (uint32_t)letter};
}

int redact_dump_read(const struct redact_text *t, struct redact_dump *ret)
{
    size_t above = 0;
    *ret = (struct redact_dump){.len = 0};
    for (size_t from = 0, end; t->len < UINT32_MAX && from < t->len; from = end + 1) {
        struct row row = {.count = 0};
        end = redact_line_end(t, from);
        bool is_row = read_row(t, from, end, above, &row);
        if (!is_row && above == 0)
            continue;
        if (!grow(ret, ROW_MAX)) {
            redact_dump_release(ret);
            return -ENOMEM;
        }
        for (size_t i = 0; is_row && i < row.count; i++)
            put(ret, value_at(t, row.byte[i]), row.byte[i], row.column > 0 ? row.column + i : 0);
        if (!is_row) /* what follows is another dump */
            put(ret, '\n', ret->place[ret->len - 1].hex, ret->place[ret->len - 1].letter);
        above = is_row ? row.byte[0] - from + 1 : 0;
    }
    return 0;
}

void redact_dump_release(struct redact_dump *dump)
{
    free(dump->p);
    free(dump->place);
    *dump = (struct redact_dump){.len = 0};
}

void redact_dump_place(const struct redact_text *t, const struct redact_dump *dump, const struct redact_span *span,
                       struct redact_spans *out)
{
    const struct redact_dump_place *place = dump->place;
    for (size_t i = span->from, last; i < span->to; i = last + 1) {
        last = i; /* of this line */
        while (last + 1 < span->to && memchr(t->p + place[last].hex, '\n', place[last + 1].hex - place[last].hex) == NULL)
            last++;
        struct redact_span part = *span;
        part.from = place[i].hex;
        part.to = place[last].hex + 2;
        redact_spans_add(out, part);
        part.from = place[i].letter;
        part.to = place[last].letter + 1;
        if (part.from > 0)
            redact_spans_add(out, part);
    }
}
