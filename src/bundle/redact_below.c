/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hides the column of a table below the header that a rule found ("phone", "hole_id"): in CSV and its like, between
 * bars, and where blanks part the columns, as pandas prints them. Runs in the finisher.
 */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "bundle/redact_internal.h"

#define CELLS_MAX 64u
#define HEADER_MAX 40u /* bytes of a header's cell; a longer one is a sentence */
#define LINE_MAX_BYTES 4096u

struct row {
    size_t from[CELLS_MAX], to[CELLS_MAX];
    size_t count;
};

static size_t end_of_line(const char *text, size_t len, size_t from)
{
    const char *end = from < len ? memchr(text + from, '\n', len - from) : NULL;
    return end != NULL ? (size_t)(end - text) : len;
}

static bool is_one_of(const char *signs, char c)
{
    return c != '\0' && strchr(signs, c) != NULL;
}

static bool is_around(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '"' || c == '\'';
}

static void add_cell(struct row *row, const char *text, size_t from, size_t to)
{
    while (from < to && is_around(text[from]))
        from++;
    while (to > from && is_around(text[to - 1]))
        to--;
    row->from[row->count] = from;
    row->to[row->count++] = to;
}

/* A blank parts cells where two of them or a tab stand. In quotes no sign parts anything. */
static bool parts(const char *text, size_t at, size_t to, char sign)
{
    if (sign != ' ')
        return text[at] == sign;
    return text[at] == '\t' || (text[at] == ' ' && at + 1 < to && (text[at + 1] == ' ' || text[at + 1] == '\t'));
}

static struct row split(const char *text, size_t from, size_t to, char sign)
{
    struct row row = {.count = 0};
    bool quoted = false;
    if (to - from > LINE_MAX_BYTES)
        return row;
    while (sign == ' ' && from < to && is_around(text[from]))
        from++;
    size_t begin = from;
    for (size_t at = from; at < to && row.count + 1 < CELLS_MAX; at++) {
        quoted ^= text[at] == '"' && sign != ' ';
        if (quoted || !parts(text, at, to, sign))
            continue;
        add_cell(&row, text, begin, at);
        while (sign == ' ' && at + 1 < to && is_around(text[at + 1]))
            at++;
        begin = at + 1;
    }
    if (begin < to)
        add_cell(&row, text, begin, to);
    if (sign == ',' && row.count == 2 && text[row.from[1] - 1] == ' ')
        row.count = 0; /* the comma of a sentence */
    return row;
}

/* Returns the sign that parts the header's cells: it stands behind the one that was found, or before it. */
static char sign_beside(const char *text, size_t line, size_t end, const struct redact_span *cell)
{
    size_t after = cell->to;
    size_t before = cell->from;
    while (after < end && (text[after] == '"' || text[after] == '\'' || text[after] == ' '))
        after++;
    if (after < end && is_one_of(",;|\t", text[after]))
        return text[after];
    while (before > line && (text[before - 1] == '"' || text[before - 1] == '\'' || text[before - 1] == ' '))
        before--;
    return before > line && is_one_of(",;|\t", text[before - 1]) ? text[before - 1] : ' ';
}

/* Words that name columns, and no number or sentence among them. */
static bool is_header(const char *text, const struct row *row)
{
    for (size_t i = 0; i < row->count; i++) {
        size_t letters = 0;
        for (size_t at = row->from[i]; at < row->to[i]; at++) {
            unsigned char c = (unsigned char)text[at];
            letters += isalpha(c) || c >= 0x80;
            if (is_one_of("=:<>{}[]", text[at]))
                return false;
        }
        size_t len = row->to[i] - row->from[i];
        bool option = len > 0 && text[row->from[i]] == '-'; /* a table of options explains them */
        if (option || len > HEADER_MAX || (len > 0 && letters == 0))
            return false;
    }
    return row->count > 1;
}

static bool is_rule_of_table(const char *text, size_t from, size_t to)
{
    size_t n = from;
    while (n < to && is_one_of("-=+:| \t\r", text[n]))
        n++;
    return n == to && memchr(text + from, '-', to - from) != NULL;
}

/* Adds the cell if it says something about somebody: "NaN" and an empty one do not. A number has digits, a name
 * letters. */
static void add(const struct redact_rule *rule, const char *text, size_t from, size_t to, struct redact_spans *out)
{
    static const char *const nothing[] = {"nan", "none", "null", "true", "false", "n/a", "na", "<na>"};
    size_t digits = 0, signs = 0;
    for (size_t i = from; i < to; i++) {
        digits += isdigit((unsigned char)text[i]) != 0;
        signs += isalnum((unsigned char)text[i]) || (unsigned char)text[i] >= 0x80;
    }
    for (size_t i = 0; i < sizeof nothing / sizeof nothing[0]; i++)
        if (strlen(nothing[i]) == to - from && strncasecmp(text + from, nothing[i], to - from) == 0)
            return;
    if ((rule->kind == REDACT_ACCOUNT ? digits : signs - digits) < 2)
        return;
    redact_spans_add(out, (struct redact_span){from, to, rule->kind, rule, rule->name, false});
}

/* "------ --------- ----" below the header: each row of dashes is as wide as its column. Sets the width of the column
 * that holds the cell [at, to) of a line; false = there is no such line. */
static bool column_of_dashes(const char *text, size_t from, size_t end, size_t at, size_t to, size_t width[2])
{
    size_t rows = 0;
    bool found = false;
    for (size_t i = from; i < end;) {
        size_t row = i;
        while (i < end && text[i] == '-')
            i++;
        if (i == row && text[i] != ' ' && text[i] != '\r')
            return false;
        if (i > row) {
            rows++;
            if (row - from <= at && i - from >= to) {
                width[0] = row - from;
                width[1] = i - from;
                found = true;
            }
        } else {
            i++;
        }
    }
    return found && rows > 1;
}

/* The rows below dashes: their cells stand where the dashes do, and a blank parts them. */
static void hide_below_dashes(const struct redact_rule *rule, const char *text, size_t len, size_t end,
                              const size_t width[2], struct redact_spans *out)
{
    for (size_t from = end + 1; from < len; from = end + 1) {
        end = end_of_line(text, len, from);
        size_t at = from + width[0], to = from + width[1] < end ? from + width[1] : end;
        /* A longer cell before it moves a row's others. */
        while (at > from && at < end && text[at - 1] != ' ')
            at++;
        while (to > from && to < end && text[to] != ' ')
            to++;
        if (at >= to)
            return;
        while (at < to && is_around(text[at]))
            at++;
        while (to > at && is_around(text[to - 1]))
            to--;
        add(rule, text, at, to, out);
    }
}

static void hide_column(const struct redact_rule *rule, const char *text, size_t len,
                        const struct redact_span *head, struct redact_spans *out)
{
    size_t line = head->from, index = 0, width[2] = {0, 0};
    while (line > 0 && text[line - 1] != '\n')
        line--;
    size_t end = end_of_line(text, len, head->to);
    size_t next = end < len ? end_of_line(text, len, end + 1) : len;
    if (end < len && column_of_dashes(text, end + 1, next, head->from - line, head->to - line, width)) {
        hide_below_dashes(rule, text, len, next, width, out);
        return;
    }
    char sign = sign_beside(text, line, end, head);
    const struct row header = split(text, line, end, sign);
    if (!is_header(text, &header))
        return;
    while (index < header.count && header.to[index] < head->to)
        index++;
    for (size_t from = end + 1; from < len; from = end + 1) {
        end = end_of_line(text, len, from);
        if (is_rule_of_table(text, from, end))
            continue;
        const struct row row = split(text, from, end, sign);
        /* pandas puts a number before each row, without a header. */
        size_t shift = sign == ' ' && row.count == header.count + 1 ? 1 : 0;
        if (index >= header.count || row.count != header.count + shift)
            return;
        size_t begin = row.from[index + shift], stop = row.to[index + shift];
        if (stop - begin == header.to[index] - header.from[index] &&
            memcmp(text + begin, text + header.from[index], stop - begin) == 0)
            return; /* the header once more: it is looked at for itself */
        add(rule, text, begin, stop, out);
    }
}

void redact_find_below(const struct redact_rule *rule, const char *text, size_t len, size_t before,
                       struct redact_spans *out)
{
    struct redact_span heads[CELLS_MAX];
    size_t count = 0;
    for (size_t i = before; i < out->count && count < CELLS_MAX; i++)
        heads[count++] = out->list[i];
    out->count = before < out->count ? before : out->count;
    for (size_t i = 0; i < count; i++)
        if (heads[i].rule == rule && strcmp(heads[i].label, "not-searched") == 0)
            redact_spans_add(out, heads[i]);
        else
            hide_column(rule, text, len, &heads[i], out);
}
