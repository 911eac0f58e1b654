/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/readings.h"

#include <ctype.h>
#include <string.h>

#include "diagnose/log_words.h"
#include "diagnose/text_facts.h"

#define SERIES_MIN 3
#define STEPS_MIN 3
#define NAMELESS_STEPS 4
#define ROW_MIN 3
#define RISING_SHARE 0.9
#define GROWTH_MIN 1.05
#define IDLE_FACTOR 1.6
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
    bool digits = false, blank = false;
    for (size_t i = 0; i < line.len; i++) {
        char c = line.at[i];
        bool digit = isdigit((unsigned char)c) || (digits && (c == '.' || c == ','));
        if ((digit && digits) || (c == ' ' && blank))
            continue;
        digits = digit;
        blank = c == ' ';
        c = (char)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
        hash = (hash ^ (unsigned char)(digit ? '#' : c)) * 1099511628211u;
    }
    return hash;
}

/* --- marks --- */

#define AXIS_WORDS (LOG_WORDS_AXIS_SIZE | LOG_WORDS_AXIS_AMOUNT | LOG_WORDS_AXIS_COUNTER)

/* The header of a table holds for the rows that follow it without a gap of other words. */
static void note_axis_header(struct readings *r, struct text line)
{
    struct text t = text_trim(line);
    while (t.len > 0 && strchr("-+=|: ", t.at[0]) != NULL)
        t = text_skip(t, 1);
    if (has(r, AXIS_WORDS))
        (void)axis_read_header(line, &r->header);
    else if (t.len > 0)
        r->header.cells = 0;
}

static size_t sizes_of(const struct quantity *q, size_t n)
{
    size_t sizes = 0;
    for (size_t i = 0; i < n; i++)
        sizes += q[i].role != QUANTITY_NONE || q[i].unit == UNIT_BYTES;
    return sizes;
}

void readings_marks(struct readings *r, struct text line, const struct quantity *q, size_t n, bool is_row, bool is_header)
{
    size_t sizes = sizes_of(q, n);
    r->marks.count = 0;
    r->marks.line = r->line;
    if (is_header || !text_has_digit(line))
        note_axis_header(r, line);
    else if (sizes > 0 || is_row || has(r, AXIS_WORDS))
        r->marks.count = axis_marks(line, q, n, &r->header, r->marks.mark);
    if (sizes == 0 && r->marks.count > 0 && has(r, AXIS_WORDS))
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
    for (size_t i = 0; i < r->marks.count; i++)
        if (r->marks.mark[i].kind != MARK_PLAIN)
            return &r->marks;
    return r->beside.line > s->last_line ? &r->beside : &r->marks;
}

static bool is_mark(const struct readings *r, const struct quantity *q)
{
    for (size_t i = 0; i < r->marks.count; i++)
        if (r->marks.mark[i].at == q->at && r->marks.mark[i].kind != MARK_PLAIN)
            return true;
    return false;
}

static void add_to_shape(struct readings *r, struct readings_shape *s, const struct quantity *q, size_t n)
{
    bool first = s->count++ == 0;
    const struct readings_marks *marks = marks_of(r, s);
    axis_add(&s->axis, marks->mark, marks->count);
    s->last_line = r->last_line = r->line;
    s->failed = false;
    for (size_t i = 0, c = 0; i < n && c < READINGS_COLUMNS; i++) {
        if ((q[i].role == QUANTITY_NONE && q[i].unit != UNIT_BYTES) || is_mark(r, &q[i]))
            continue;
        struct readings_column *column = &s->column[c++];
        if (first) {
            *column = (struct readings_column){.role = q[i].role, .unit = q[i].unit, .first = q[i].value,
                                      .least = q[i].value, .most = q[i].value};
            s->columns = c;
        } else {
            column->rises += q[i].value > column->last;
            column->falls += q[i].value < column->last;
            column->least = q[i].value < column->least ? q[i].value : column->least;
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
    if (s->count == 0) {
        s->of_host = of_host;
        s->of_memory = has(r, LOG_WORDS_OF_MEMORY_USE);
    }
    add_to_shape(r, s, q, n);
}

void readings_add_cell(struct readings *r, unsigned table, size_t column, const struct quantity *q, bool of_host)
{
    struct readings_shape *s = find_shape(r, ((uint64_t)table << 16) + column + 1);
    if (s == NULL)
        return;
    s->of_host = of_host;
    s->table = table;
    add_to_shape(r, s, q, 1);
}

static void take_row(struct readings *r, size_t readings, bool of_memory)
{
    struct text follows = {"", 0};
    enum axis_kind kind = axis_of_line(r->marks.mark, r->marks.count, &follows);
    if (kind == AXIS_SIZE) {
        r->size_name = follows;
        r->size_line = r->line;
        r->size_failed |= has(r, LOG_WORDS_SHORTAGE | LOG_WORDS_COMMAND_FAILED);
    } else if (of_memory && readings > r->row_count) {
        r->row_count = (unsigned)readings;
        r->row_line = r->line;
    }
}

/* "after each picture: 3.1G 3.9G 4.7G 5.5G": readings of one thing that rise to twice the first, or of free
 * memory that fall. Marks may stand between them: "after 1 hour 4 GB, after 2 hours 7 GB, after 3 hours 10 GB". */
void readings_add_row(struct readings *r, const struct quantity *q, size_t n)
{
    size_t readings = 0, rising = 1, falling = 1;
    const struct quantity *first = NULL, *last = NULL;
    for (size_t i = 0; i < n; i++) {
        if (is_mark(r, &q[i]))
            continue;
        if (q[i].unit != UNIT_BYTES || q[i].of_pair)
            return;
        bool alike = last != NULL && (q[i].role == QUANTITY_NONE || q[i].role == last->role);
        rising += alike && q[i].value > last->value;
        falling += alike && q[i].value < last->value && first->role == QUANTITY_FREE;
        first = first != NULL ? first : &q[i];
        last = &q[i];
        readings++;
    }
    if (readings < ROW_MIN)
        return;
    bool up = rising == readings && last->value >= 2 * first->value;
    bool down = falling == readings && readings > ROW_MIN && last->value <= 0.8 * first->value;
    if (up || down)
        take_row(r, readings, has(r, LOG_WORDS_OF_MEMORY_USE | LOG_WORDS_RESIDENT_SET));
}

/* --- what they say --- */

/* A number of a series has a unit, or is too large to count anything else. */
static bool is_memory(const struct readings_column *c)
{
    return c->unit != UNIT_NONE || c->most >= 64 * MIB;
}

static bool grows(const struct readings_shape *s, const struct readings_column *c, enum axis_kind kind)
{
    double steps = s->count - 1;
    bool much = c->last >= 2 * c->first;
    bool nameless = c->role == QUANTITY_NONE && (steps >= NAMELESS_STEPS || much); /* in another language */
    bool up = nameless || c->role == QUANTITY_USED || c->role == QUANTITY_ALLOCATED || c->role == QUANTITY_RSS ||
              (c->role == QUANTITY_PEAK && kind == AXIS_SIZE);
    bool down = c->role == QUANTITY_FREE;
    bool enough = steps >= STEPS_MIN || (kind == AXIS_SIZE && s->failed && steps + 1 >= STEPS_MIN);
    if (!enough || !is_memory(c))
        return false;
    if (up)
        return c->rises >= RISING_SHARE * steps && c->falls == 0 && c->last >= GROWTH_MIN * c->first;
    return down && c->falls >= RISING_SHARE * steps && c->rises == 0 && c->first >= GROWTH_MIN * c->last;
}

static const struct readings_column *column_of(const struct readings_shape *s, enum quantity_role role)
{
    for (size_t i = 0; i < s->columns; i++)
        if (s->column[i].role == role && is_memory(&s->column[i]))
            return &s->column[i];
    return NULL;
}

/* "KV cache usage: 99.8%", again and again. */
static bool is_full(const struct readings_shape *s, const struct readings_column *c)
{
    return s->of_memory && !s->of_host && c->unit == UNIT_PERCENT && c->role == QUANTITY_USED && c->last >= 98 && c->last <= 100;
}

/* Free memory falls to almost nothing. */
static bool runs_out(const struct readings_shape *s, const struct readings_column *c)
{
    return c->role == QUANTITY_FREE && is_memory(c) && s->count >= STEPS_MIN + 1 && c->first >= 512 * MIB &&
           c->last <= 0.05 * c->first && c->rises <= s->count / 4;
}

/* The largest free piece shrinks from reading to reading. */
static bool falls_apart(const struct readings_shape *s, const struct readings_column *c)
{
    return c->role == QUANTITY_LARGEST && is_memory(c) && s->count >= STEPS_MIN + 1 && c->rises == 0 &&
           c->last <= 0.5 * c->first;
}

/* With a clock it is growth, with a size demand. */
static void say_growth(const struct scan *at, const struct readings_shape *s, const struct readings_column *c, enum axis_kind kind,
                       struct text follows)
{
    bool host = s->of_host || c->role == QUANTITY_RSS;
    const char *role = quantity_role_name(c->role);
    if (kind == AXIS_SIZE) {
        scan_text(at, host ? "series.host_follows_size" : "series.follows_size", follows);
        if (s->failed)
            scan_boolean(at, "series.largest_fails", true);
    } else {
        scan_text(at, host ? "series.host_grows" : "series.grows", (struct text){role, strlen(role)});
        if (kind == AXIS_CLOCK)
            scan_text(at, "series.clock", follows);
    }
    scan_real(at, "series.first_value", c->first);
    scan_real(at, "series.last_value", c->last);
    scan_integer(at, "series.readings", s->count);
}

static const struct readings_column *use_of(const struct readings_shape *s)
{
    const struct readings_column *used = column_of(s, QUANTITY_PEAK);
    used = used != NULL ? used : column_of(s, QUANTITY_ALLOCATED);
    return used != NULL ? used : column_of(s, QUANTITY_USED);
}

/* Much is reserved, and little of it was ever in use. */
static void say_reserved(const struct scan *at, const struct readings_shape *s, const struct readings_shape *of_use)
{
    const struct readings_column *reserved = column_of(s, QUANTITY_RESERVED), *used = use_of(of_use);
    if (reserved == NULL || used == NULL || reserved->most < IDLE_FACTOR * used->most ||
        reserved->last < GROWTH_MIN * used->most)
        return;
    scan_integer(at, "series.reserved_most_bytes", (int64_t)reserved->most);
    scan_integer(at, "series.allocated_most_bytes", (int64_t)used->most);
}

static void say_shape(const struct scan *at, const struct readings_shape *s)
{
    struct text follows = {"", 0};
    enum axis_kind kind = axis_kind(&s->axis, &follows);
    for (size_t i = 0; i < s->columns; i++) {
        const struct readings_column *c = &s->column[i];
        if (falls_apart(s, c))
            scan_integer(at, "series.largest_falls", s->count);
        else if (is_full(s, c))
            scan_integer(at, "series.full", s->count);
        else if (kind != AXIS_SIZE && runs_out(s, c))
            scan_integer(at, s->of_host ? "series.host_runs_out" : "series.runs_out", s->count);
        else if (grows(s, c, kind))
            say_growth(at, s, c, kind, follows);
    }
    say_reserved(at, s, s);
}

/* The columns of one table. */
static void say_reserved_in_table(const struct readings *r, struct scan at, const struct readings_shape *s)
{
    for (size_t i = 0; i < r->shape_count && s->table != 0; i++)
        if (r->shapes[i].table == s->table && r->shapes[i].count == s->count)
            say_reserved(&at, s, &r->shapes[i]);
}

static void say_row(const struct readings *r, struct scan at)
{
    at.line = r->row_line;
    if (r->row_line != 0)
        scan_integer(&at, "series.in_one_line", r->row_count);
    at.line = r->size_line;
    if (r->size_line != 0)
        scan_text(&at, "series.follows_size", r->size_name);
    if (r->size_failed)
        scan_boolean(&at, "series.largest_fails", true);
}

void readings_say(const struct readings *r, const struct scan *scan)
{
    struct scan at = *scan;
    for (size_t i = 0; i < r->shape_count; i++) {
        at.line = r->shapes[i].line;
        if (r->shapes[i].count < SERIES_MIN)
            continue;
        say_shape(&at, &r->shapes[i]);
        say_reserved_in_table(r, at, &r->shapes[i]);
    }
    say_row(r, at);
}
