/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hides the column of a table below the header that a rule found ("phone", "hole_id"): in CSV and its like, between
 * bars, and where blanks part the columns, as pandas prints them. Runs in the finisher.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "bundle/redact_internal.h"

#define HEADER_MAX 40u /* bytes of a header's cell; a longer one with a blank is a sentence */
#define MISSES_MAX 32u /* foreign lines in a row between those of a table: a warning, a traceback */

static bool is_around(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '"' || c == '\'';
}

/* The cells of one line, which are read from left to right. */
struct cells {
    const char *text;
    size_t at, to; /* of what is not read yet */
    char sign;     /* between cells */
    bool words;    /* each word is a cell */
};

static struct cells cells_of(const char *text, size_t from, size_t to, char sign)
{
    while (sign == ' ' && from < to && is_around(text[from]))
        from++;
    return (struct cells){text, from, to, sign, false};
}

/* A blank parts cells where two of them or a tab stand. In quotes no sign parts anything. */
static bool parts(const char *text, size_t at, size_t to, char sign)
{
    if (sign != ' ')
        return text[at] == sign;
    return text[at] == '\t' || (text[at] == ' ' && at + 1 < to && (text[at + 1] == ' ' || text[at + 1] == '\t'));
}

/* Sets [*from, *to) to the next cell, without the blanks and quotes around it. False: the line is read. */
static bool next_cell(struct cells *c, size_t *from, size_t *to)
{
    const char *text = c->text;
    size_t at = c->at;
    if (at >= c->to)
        return false;
    for (bool quoted = false; at < c->to; at++) {
        quoted ^= text[at] == '"' && c->sign != ' ';
        if (!quoted && (c->words ? text[at] == ' ' : parts(text, at, c->to, c->sign)))
            break;
    }
    *from = c->at;
    *to = at;
    while (c->sign == ' ' && at + 1 < c->to && is_around(text[at + 1]))
        at++;
    c->at = at + 1;
    while (*from < *to && is_around(text[*from]))
        ++*from;
    while (*to > *from && is_around(text[*to - 1]))
        --*to;
    return true;
}

struct shape {
    size_t cells;
    bool spaced; /* a blank stands behind the first comma or semicolon: a sentence has it */
    bool open;   /* it ends with the sign: its last cell is empty */
};

static struct shape shape_of(struct cells c)
{
    struct shape shape = {.open = c.sign != ' ' && c.to > c.at && c.text[c.to - 1] == c.sign};
    for (size_t from, to; next_cell(&c, &from, &to); shape.cells++)
        shape.spaced |= shape.cells == 0 && redact_is_one_of(c.sign, ",;") && c.at < c.to && c.text[c.at] == ' ';
    if (c.sign == ',' && shape.cells == 2 && shape.spaced)
        shape.cells = 0; /* the comma of a sentence */
    return shape;
}

/* Returns the sign that parts the header's cells: it stands behind the one that was found, or before it. */
static char sign_beside(const char *text, size_t line, size_t end, const struct redact_span *cell)
{
    size_t after = cell->to;
    size_t before = cell->from;
    while (after < end && (text[after] == '"' || text[after] == '\'' || text[after] == ' '))
        after++;
    if (after < end && redact_is_one_of(text[after], ",;|\t"))
        return text[after];
    while (before > line && (text[before - 1] == '"' || text[before - 1] == '\'' || text[before - 1] == ' '))
        before--;
    return before > line && redact_is_one_of(text[before - 1], ",;|\t") ? text[before - 1] : ' ';
}

/* Words that name columns, and no number or sentence among them. */
static bool is_header(struct cells c)
{
    if (shape_of(c).cells < 2)
        return false;
    for (size_t from, to; next_cell(&c, &from, &to);) {
        size_t letters = 0;
        for (size_t at = from; at < to; at++) {
            unsigned char sign = (unsigned char)c.text[at];
            letters += isalpha(sign) || sign >= 0x80;
            if (redact_is_one_of(c.text[at], "=:<>{}[]"))
                return false;
        }
        bool option = from < to && c.text[from] == '-'; /* a table of options explains them */
        bool sentence = to - from > HEADER_MAX && memchr(c.text + from, ' ', to - from) != NULL;
        if (option || sentence || (from < to && letters == 0))
            return false;
    }
    return true;
}

static bool is_rule_of_table(const char *text, size_t from, size_t to)
{
    size_t n = from;
    while (n < to && redact_is_one_of(text[n], "-=+:| \t\r"))
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

/* Is there a blank wherever the dashes have one? */
static bool is_below_dashes(const char *dashes, size_t width, const char *row, size_t len)
{
    for (size_t i = 0; i < width && i < len; i++)
        if (dashes[i] == ' ' && row[i] != ' ')
            return false;
    return true;
}

/* The rows below the dashes [from, end): their cells stand where the dashes do, and a blank parts them. */
static void hide_below_dashes(const struct redact_rule *rule, const struct redact_text *t, size_t dashes, size_t end,
                              const size_t width[2], struct redact_spans *out)
{
    const char *text = t->p;
    const size_t all = end - dashes;
    size_t misses = 0;
    for (size_t from = end + 1; from < t->len && misses < MISSES_MAX; from = end + 1) {
        end = redact_line_end(t, from);
        size_t at = from + width[0], to = from + width[1] < end ? from + width[1] : end;
        /* A longer cell before it moves a row's others. */
        while (at > from && at < end && text[at - 1] != ' ')
            at++;
        while (to > from && to < end && text[to] != ' ')
            to++;
        if (at >= to || (misses > 0 && !is_below_dashes(text + dashes, all, text + from, end - from))) {
            misses++;
            continue;
        }
        misses = 0;
        while (at < to && is_around(text[at]))
            at++;
        while (to > at && is_around(text[to - 1]))
            to--;
        add(rule, text, at, to, out);
    }
}

/* A table, and those of its columns that are hidden. */
struct table {
    const struct redact_rule *rule;
    struct cells header;
    size_t *columns; /* their numbers, in order */
    size_t count;
};

/* Does the first of the columns hold its header once more? Then the table below is looked at for itself. */
static bool is_header_again(const struct table *table, struct cells row, size_t shift)
{
    struct cells header = table->header;
    size_t from = 0, to = 0, head = 0, head_to = 0;
    for (size_t number = 0; number <= table->columns[0]; number++)
        (void)next_cell(&header, &head, &head_to);
    for (size_t number = 0; number <= table->columns[0] + shift; number++)
        if (!next_cell(&row, &from, &to))
            return false;
    return head_to - head == to - from && memcmp(header.text + head, row.text + from, to - from) == 0;
}

/* `shift` cells of the row have no header. */
static void hide_cells(const struct table *table, struct cells row, size_t shift, struct redact_spans *out)
{
    size_t from, to;
    for (size_t number = 0, i = 0; i < table->count && next_cell(&row, &from, &to); number++) {
        if (number != table->columns[i] + shift)
            continue;
        add(table->rule, row.text, from, to, out);
        while (i < table->count && number == table->columns[i] + shift)
            i++;
    }
}

/* Foreign lines between the rows are passed over. A line that follows them has to look more like a row. */
static void hide_columns(const struct table *table, const struct redact_text *t, struct redact_spans *out)
{
    const struct cells *header = &table->header;
    const struct shape all = shape_of(*header);
    size_t end = header->to, misses = 0;
    for (size_t from = end + 1; from < t->len && misses < MISSES_MAX; from = end + 1) {
        end = redact_line_end(t, from);
        if (is_rule_of_table(t->p, from, end))
            continue;
        const struct cells row = cells_of(t->p, from, end, header->sign);
        const struct shape shape = shape_of(row);
        /* pandas puts a number before each row, without a header. */
        size_t shift = header->sign == ' ' && shape.cells == all.cells + 1 ? 1 : 0;
        bool fits = shape.cells == all.cells + shift || (shape.open && !all.open && shape.cells + 1 == all.cells);
        if (!fits || (misses > 0 && shape.spaced && !all.spaced)) {
            misses++;
            continue;
        }
        misses = 0;
        if (is_header_again(table, row, shift))
            return;
        hide_cells(table, row, shift, out);
    }
}

/* pandas parts headers by one blank and cells by two. Does the first row have a cell for each word of the header, and none
 * for each of its cells? */
static bool has_cell_for_each_word(struct cells header, const struct redact_text *t)
{
    size_t from = header.to < t->len ? header.to + 1 : t->len;
    size_t cells = shape_of(header).cells;
    size_t row = shape_of(cells_of(t->p, from, redact_line_end(t, from), ' ')).cells;
    header.words = true;
    size_t words = shape_of(header).cells;
    return header.sign == ' ' && row > 2 && row != cells && row != cells + 1 && (row == words || row == words + 1);
}

/* Sets the columns whose headers are among the heads of this line, and have its sign beside them. */
static void set_columns(struct table *table, const struct redact_span *heads, size_t count, size_t line)
{
    struct cells header = table->header;
    size_t from, to;
    while (table->count < count && heads[table->count].to <= header.to &&
           sign_beside(header.text, line, header.to, &heads[table->count]) == header.sign)
        table->count++;
    for (size_t i = 0, number = 0; i < table->count && next_cell(&header, &from, &to); number++)
        for (; i < table->count && heads[i].to <= to; i++)
            table->columns[i] = number;
}

/* Hides what stands below the first of the heads, and below those of its line that are alike. Returns how many. */
static size_t hide_below(const struct redact_rule *rule, const struct redact_text *t, const struct redact_span *heads,
                         size_t count, size_t *columns, struct redact_spans *out)
{
    size_t line = heads->from, width[2] = {0, 0};
    while (line > 0 && t->p[line - 1] != '\n')
        line--;
    size_t end = redact_line_end(t, heads->to);
    size_t next = end < t->len ? redact_line_end(t, end + 1) : t->len;
    if (end < t->len && column_of_dashes(t->p, end + 1, next, heads->from - line, heads->to - line, width)) {
        hide_below_dashes(rule, t, end + 1, next, width, out);
        return 1;
    }
    struct table table = {rule, cells_of(t->p, line, end, sign_beside(t->p, line, end, heads)), columns, 0};
    table.header.words = has_cell_for_each_word(table.header, t);
    set_columns(&table, heads, count, line);
    if (is_header(table.header))
        hide_columns(&table, t, out);
    return table.count;
}

void redact_find_below(const struct redact_rule *rule, const char *text, size_t len, size_t before,
                       struct redact_spans *out)
{
    const struct redact_text t = {text, len};
    const size_t count = before < out->count ? out->count - before : 0;
    struct redact_span *heads = calloc(count + 1, sizeof *heads);
    size_t *columns = calloc(count + 1, sizeof *columns);
    if (heads == NULL || columns == NULL)
        out->failed = -ENOMEM;
    else if (count > 0)
        memcpy(heads, out->list + before, count * sizeof *heads);
    out->count -= count;
    for (size_t i = 0; i < count && out->failed == 0;) {
        if (strcmp(heads[i].label, "not-searched") != 0) {
            i += hide_below(rule, &t, heads + i, count - i, columns, out);
            continue;
        }
        redact_spans_add(out, heads[i]);
        i++;
    }
    free(heads);
    free(columns);
}
