/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/readings.h"

#include <ctype.h>
#include <string.h>

#include "diagnose/log_words.h"
#include "diagnose/text_facts.h"

#define SERIES_MIN 3
#define STEPS_MIN 3
#define NAMELESS_STEPS 4
#define RISING_SHARE 0.9
#define HALF_OF_STEPS 0.5
#define GROWTH_MIN 1.05
#define MIB 1048576.0
/* A failure within as many lines belongs to the series. */
#define LINES_BEHIND 4

static bool has(const struct readings *r, uint64_t lists)
{
    return (r->words & lists) != 0;
}

uint64_t readings_shape_of(struct text line)
{
    uint64_t hash = 1469598103934665603u;
    for (size_t i = 0; i < line.len;) {
        char c = line.at[i++];
        if (text_is_digit(c)) {
            while (i < line.len && (text_is_digit(line.at[i]) || line.at[i] == '.' || line.at[i] == ','))
                i++;
            c = '#';
        }
        while (c == ' ' && i < line.len && line.at[i] == ' ')
            i++;
        c = (char)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
        hash = (hash ^ (unsigned char)c) * 1099511628211u;
    }
    return hash;
}

/* --- marks --- */

#define AXIS_WORDS (LOG_WORDS_AXIS_SIZE | LOG_WORDS_AXIS_AMOUNT | LOG_WORDS_AXIS_COUNTER)

static size_t sizes_of(const struct quantity *q, size_t n)
{
    size_t sizes = 0;
    for (size_t i = 0; i < n; i++)
        sizes += q[i].role != QUANTITY_NONE || q[i].unit == UNIT_BYTES;
    return sizes;
}

static enum readings_kind kind_of(uint64_t words)
{
    return (words & LOG_WORDS_AXIS_SIZE) != 0      ? READINGS_SIZE
           : (words & LOG_WORDS_AXIS_AMOUNT) != 0  ? READINGS_AMOUNT
           : (words & LOG_WORDS_AXIS_COUNTER) != 0 ? READINGS_COUNTER
                                                   : READINGS_KINDS;
}

/* The last two words, of one clause. Two blanks end it, too. */
static struct text last_words(struct text t)
{
    while (t.len > 0 && strchr(" =:\"'(", t.at[t.len - 1]) != NULL)
        t.len--;
    size_t at = t.len;
    for (unsigned blanks = 0; at > 0 && strchr(",;|\t", t.at[at - 1]) == NULL; at--) {
        blanks += t.at[at - 1] == ' ' || t.at[at - 1] == '=';
        if (blanks == 2 || (at > 1 && t.at[at - 1] == ' ' && t.at[at - 2] == ' '))
            break;
    }
    return text_skip(t, at);
}

/* The words in front of a number, or else those behind it, say what it is: "batch size 8", "30 images". Two sizes of a line are added. */
static void take_mark(struct readings_marks *marks, struct text before, struct text behind, double value)
{
    enum readings_kind kind = kind_of(log_words_in(before.at, before.len, 0));
    struct text name = before;
    if (kind == READINGS_KINDS) {
        kind = kind_of(log_words_in(behind.at, behind.len, 0));
        name = behind;
    }
    if (kind < READINGS_KINDS) {
        struct readings_mark *m = &marks->mark[kind];
        *m = (struct readings_mark){.is_there = true, .value = m->value + value, .name = text_trim(name)};
    }
}

static bool is_figure(const struct quantity *q, size_t n, const char *at)
{
    for (size_t i = 0; i < n; i++)
        if (q[i].at == at && q[i].unit != UNIT_NONE)
            return true;
    return false;
}

/* "16k", "1.2M": as often a count as a figure of memory. */
static bool is_short(struct text behind)
{
    return behind.len > 1 && strchr("kKM", behind.at[0]) != NULL && isalnum((unsigned char)behind.at[1]) == 0;
}

static struct text until_digit(struct text t)
{
    size_t n = 0;
    while (n < t.len && !isdigit((unsigned char)t.at[n]))
        n++;
    return text_first(t, n);
}

static void read_marks(struct readings_marks *marks, struct text line, const struct quantity *q, size_t n)
{
    struct text rest = line;
    while (rest.len > 0) {
        struct text before = until_digit(rest);
        double value;
        rest = text_skip(rest, before.len);
        const char *at = rest.at;
        if (!text_take_real(&rest, &value))
            rest = text_skip(rest, 1);
        else if (!is_figure(q, n, at) || is_short(rest))
            take_mark(marks, last_words(before), until_digit(rest), value);
    }
}

static struct text first_cell(struct text line)
{
    while (line.len > 0 && strchr(" |\t", line.at[0]) != NULL)
        line = text_skip(line, 1);
    return text_until(line, " |\t,");
}

/* The header of a table names its columns; the first number of a row is in the first column. */
static void read_row_mark(struct readings *r, struct text line)
{
    enum readings_kind kind = kind_of(log_words_in(r->header.at, r->header.len, 0));
    struct text cell = first_cell(line);
    double value;
    if (kind < READINGS_KINDS && text_take_real(&cell, &value))
        r->marks.mark[kind] = (struct readings_mark){.is_there = true, .value = value, .name = r->header};
}

static bool any_mark(const struct readings_marks *marks)
{
    return marks->mark[READINGS_SIZE].is_there || marks->mark[READINGS_AMOUNT].is_there || marks->mark[READINGS_COUNTER].is_there;
}

void readings_marks(struct readings *r, struct text line, const struct quantity *q, size_t n, bool is_header)
{
    size_t sizes = sizes_of(q, n);
    r->marks = (struct readings_marks){.line = r->line};
    if (is_header || (has(r, AXIS_WORDS) && !text_has_digit(line)))
        r->header = first_cell(line);
    else if (r->header.len > 0 && text_has_digit(text_first(first_cell(line), 1)))
        read_row_mark(r, line);
    else if (has(r, AXIS_WORDS))
        read_marks(&r->marks, line, q, n);
    if (sizes == 0 && any_mark(&r->marks))
        r->beside = r->marks;
}

/* --- readings --- */

/* A row of the table has no reading: it failed before there was one. */
void readings_row_lacks(struct readings *r)
{
    for (size_t i = 0; i < r->shape_count; i++)
        r->shapes[i].failed |= r->line - r->shapes[i].last_line <= LINES_BEHIND;
}

/* A failure directly behind a series is one of its next reading. */
void readings_begin(struct readings *r, unsigned line, uint64_t words)
{
    r->line = line;
    r->words = words;
    if (has(r, LOG_WORDS_SHORTAGE | LOG_WORDS_COMMAND_FAILED) && r->line - r->last_line <= LINES_BEHIND)
        readings_row_lacks(r);
}

static struct readings_shape *find_shape(struct readings *r, uint64_t hash)
{
    for (size_t i = 0; i < r->shape_count; i++)
        if (r->shapes[i].hash == hash)
            return &r->shapes[i];
    if (r->shape_count == READINGS_SHAPES)
        return NULL;
    struct readings_shape *s = &r->shapes[r->shape_count++];
    *s = (struct readings_shape){.hash = hash, .line = r->line};
    return s;
}

/* Readings whose lines have no size and no counter follow the line between them that has one:
 * "$ ./sim --grid 128", "used 1.9 GB". */
static const struct readings_marks *marks_of(const struct readings *r, const struct readings_shape *s)
{
    return !any_mark(&r->marks) && r->beside.line > s->last_line ? &r->beside : &r->marks;
}

static void add_marks(struct readings_shape *s, const struct readings_marks *marks, bool first)
{
    for (size_t kind = 0; kind < READINGS_KINDS; kind++) {
        const struct readings_mark *m = &marks->mark[kind];
        struct readings_track *t = &s->track[kind];
        t->is_there = m->is_there && (first || t->is_there);
        t->rises += !first && m->value > t->last;
        t->falls += !first && m->value < t->last;
        t->last = m->value;
        t->name = m->name;
    }
}

static void add_to_shape(struct readings *r, struct readings_shape *s, const struct quantity *q, size_t n)
{
    bool first = s->count++ == 0;
    add_marks(s, marks_of(r, s), first);
    s->last_line = r->last_line = r->line;
    s->failed = false;
    for (size_t i = 0, c = 0; i < n && c < READINGS_COLUMNS; i++) {
        if (q[i].role == QUANTITY_NONE && q[i].unit != UNIT_BYTES)
            continue;
        struct readings_column *column = &s->column[c++];
        if (first) {
            *column = (struct readings_column){.role = q[i].role, .unit = q[i].unit, .first = q[i].value, .most = q[i].value};
            s->columns = c;
        } else {
            column->rises += q[i].value > column->last;
            column->falls += q[i].value < column->last;
            column->most = q[i].value > column->most ? q[i].value : column->most;
        }
        column->last = q[i].value;
    }
}

void readings_add_line(struct readings *r, struct text line, const struct quantity *q, size_t n, bool of_host)
{
    struct readings_shape *s = sizes_of(q, n) > 0 ? find_shape(r, readings_shape_of(line)) : NULL;
    if (s == NULL)
        return;
    if (s->count == 0)
        s->of_host = of_host;
    add_to_shape(r, s, q, n);
}

void readings_add_cell(struct readings *r, unsigned table, size_t column, const struct quantity *q, bool of_host)
{
    struct readings_shape *s = find_shape(r, ((uint64_t)table << 16) + column + 1);
    if (s == NULL)
        return;
    s->of_host = of_host;
    add_to_shape(r, s, q, 1);
}

/* --- what they say --- */

/* A number of a series has a unit, or is too large to count anything else. */
static bool is_memory(const struct readings_column *c)
{
    return c->unit != UNIT_NONE || c->most >= 64 * MIB;
}

static bool grows(const struct readings_shape *s, const struct readings_column *c, enum readings_kind kind)
{
    double steps = s->count - 1;
    bool much = c->last >= 2 * c->first;
    bool nameless = c->role == QUANTITY_NONE && (steps >= NAMELESS_STEPS || much); /* in another language */
    bool up = nameless || c->role == QUANTITY_USED || c->role == QUANTITY_ALLOCATED || c->role == QUANTITY_RSS ||
              (c->role == QUANTITY_PEAK && kind == READINGS_SIZE);
    bool down = c->role == QUANTITY_FREE;
    bool enough = steps >= STEPS_MIN || (kind == READINGS_SIZE && s->failed && steps + 1 >= STEPS_MIN);
    if (!enough || !is_memory(c))
        return false;
    if (up)
        return c->rises >= RISING_SHARE * steps && c->falls == 0 && c->last >= GROWTH_MIN * c->first;
    return down && c->falls >= RISING_SHARE * steps && c->rises == 0 && c->first >= GROWTH_MIN * c->last;
}

/* With a clock it is growth, with a size demand. */
static void say_growth(const struct scan *at, const struct readings_shape *s, const struct readings_column *c, enum readings_kind kind,
                       struct text follows)
{
    bool host = s->of_host || c->role == QUANTITY_RSS;
    const char *role = quantity_role_name(c->role);
    if (kind == READINGS_SIZE) {
        scan_text(at, host ? "series.host_follows_size" : "series.follows_size", follows);
        if (s->failed)
            scan_boolean(at, "series.largest_fails", true);
    } else {
        scan_text(at, host ? "series.host_grows" : "series.grows", text_of(role));
        if (kind == READINGS_COUNTER)
            scan_text(at, "series.clock", follows);
    }
    scan_real(at, "series.first_value", c->first);
    scan_real(at, "series.last_value", c->last);
    scan_integer(at, "series.readings", s->count);
}

static bool only_rises(const struct readings_shape *s, enum readings_kind kind, double least_share)
{
    const struct readings_track *t = &s->track[kind];
    return t->is_there && t->falls == 0 && t->rises > 0 && t->rises >= least_share * (s->count - 1);
}

/* An amount of work is a size unless a counter goes with it. A size may be repeated; a counter is not. */
static enum readings_kind axis_of(const struct readings_shape *s)
{
    if (only_rises(s, READINGS_SIZE, HALF_OF_STEPS))
        return READINGS_SIZE;
    if (only_rises(s, READINGS_COUNTER, RISING_SHARE))
        return READINGS_COUNTER;
    return only_rises(s, READINGS_AMOUNT, HALF_OF_STEPS) ? READINGS_AMOUNT : READINGS_KINDS;
}

static void say_shape(const struct scan *at, const struct readings_shape *s)
{
    enum readings_kind found = axis_of(s), kind = found == READINGS_AMOUNT ? READINGS_SIZE : found;
    struct text follows = found < READINGS_KINDS ? s->track[found].name : (struct text){"", 0};
    for (size_t i = 0; i < s->columns; i++)
        if (grows(s, &s->column[i], kind))
            say_growth(at, s, &s->column[i], kind, follows);
}

void readings_say(const struct readings *r, const struct scan *scan)
{
    struct scan at = *scan;
    for (size_t i = 0; i < r->shape_count; i++) {
        at.line = r->shapes[i].line;
        if (r->shapes[i].count >= SERIES_MIN)
            say_shape(&at, &r->shapes[i]);
    }
}
