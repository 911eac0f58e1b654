/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/axis.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "diagnose/log_words.h"

#define MIB 1048576.0
#define WORDS_BEFORE 2
#define WORDS_BEHIND 3
#define MOST_STEPS 0.9
#define HALF_OF_STEPS 0.5
#define LEAST_RATIO 1.25

/* --- kinds by words --- */

/* A letter of any language, or '_'. */
static bool is_word_byte(char c)
{
    return isalpha((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

static size_t digits_at(struct text t, size_t at)
{
    size_t n = 0;
    while (at + n < t.len && isdigit((unsigned char)t.at[at + n]))
        n++;
    return n;
}

static enum mark_kind kind_of(struct text words)
{
    uint64_t lists = log_words_in(words.at, words.len, 0);
    if ((lists & LOG_WORDS_AXIS_SIZE) != 0)
        return MARK_SIZE;
    if ((lists & LOG_WORDS_AXIS_AMOUNT) != 0)
        return MARK_AMOUNT;
    return (lists & LOG_WORDS_AXIS_COUNTER) != 0 ? MARK_COUNTER : MARK_PLAIN;
}

/* One of the last words of `gap`, of the same clause: "batch size 8", "ctx=4096". */
static bool take_word_before(struct text gap, struct mark *m)
{
    const char *at = gap.at + gap.len;
    for (unsigned words = 0; words < WORDS_BEFORE; words++) {
        while (at > gap.at && !is_word_byte(at[-1]))
            if (strchr(",;|", *--at) != NULL)
                return false;
        const char *end = at;
        while (at > gap.at && is_word_byte(at[-1]))
            at--;
        struct text word = {at, (size_t)(end - at)};
        bool is_n = word.len == 1 && (word.at[0] == 'n' || word.at[0] == 'N');
        enum mark_kind kind = is_n ? MARK_SIZE : kind_of(word);
        if (kind != MARK_PLAIN) {
            m->kind = kind;
            m->name = word;
            return true;
        }
    }
    return false;
}

/* "4 ranks", "20 hidden layers", "3h": one of the next words. In "10 images per batch" the batch counts, in
 * "10/40 layers" both numbers have the word. Returns where the words of the next number begin, or NULL. */
static const char *take_word_behind(struct text rest, struct mark *m)
{
    bool of_several = rest.len > 1 && rest.at[0] == '/' && digits_at(rest, 1) > 0;
    size_t i = of_several ? 1 + digits_at(rest, 1) : 0;
    for (unsigned words = 0; words < WORDS_BEHIND; words++) {
        i += i < rest.len && (rest.at[i] == ' ' || rest.at[i] == '-');
        size_t begin = i;
        while (i < rest.len && is_word_byte(rest.at[i]))
            i++;
        struct text word = {rest.at + begin, i - begin};
        if (word.len == 0)
            return NULL;
        bool is_time = begin == 0 && word.len == 1 && strchr("hsd", word.at[0]) != NULL;
        enum mark_kind kind = is_time ? MARK_COUNTER : kind_of(word);
        if (i < rest.len && rest.at[i] == '=')
            return NULL; /* the name of the next number */
        if (kind != MARK_PLAIN && !text_starts(text_skip(rest, i), " per ")) {
            m->kind = kind;
            m->name = is_time ? (struct text){"time", strlen("time")} : word;
            return of_several ? rest.at : word.at + word.len;
        }
    }
    return NULL;
}

/* --- numbers --- */

/* The value of `n` digits; a text has no NUL behind it. */
static double value_of(struct text t, size_t at, size_t n)
{
    double value = 0;
    for (size_t i = at; i < at + n; i++)
        value = value * 10 + (t.at[i] - '0');
    return value;
}

/* "10:00:01.5", "10:20": seconds. "2026-03-02", "2026/03/02": days. */
static bool take_time(struct text *rest, double *ret)
{
    struct text t = *rest;
    size_t first = digits_at(t, 0), second = digits_at(t, first + 1);
    char between = first < t.len ? t.at[first] : ' ';
    bool is_clock = first <= 2 && between == ':' && second == 2;
    bool is_date = first == 4 && (between == '-' || between == '/') && second == 2;
    if (!is_clock && !is_date)
        return false;
    double value = value_of(t, 0, first) * (is_clock ? 60 : 31) + value_of(t, first + 1, second);
    size_t len = first + 1 + second, third = digits_at(t, len + 1);
    bool more = third == 2 && t.at[len] == between;
    double last = more ? value_of(t, len + 1, third) : 0;
    len += more ? 1 + third : 0;
    if (is_clock && more && len < t.len && t.at[len] == '.') {
        size_t fraction = digits_at(t, len + 1);
        last += value_of(t, len + 1, fraction) / pow(10, (double)fraction);
        len += 1 + fraction;
    }
    *ret = value * (is_clock ? 60 : 31) + last;
    *rest = text_skip(t, len);
    return true;
}

/* The sign between two lengths: "512x512", "640 x 480", with a cross, too. */
static size_t cross_at(struct text t)
{
    size_t i = t.len > 0 && t.at[0] == ' ', n = 0;
    if (i < t.len && (t.at[i] == 'x' || t.at[i] == 'X'))
        n = 1;
    else if (t.len > i + 1 && memcmp(t.at + i, "\xc3\x97", 2) == 0)
        n = 2;
    if (n == 0)
        return 0;
    i += n;
    i += i < t.len && t.at[i] == ' ';
    return digits_at(t, i) > 0 ? i : 0;
}

/* "1e6", "16k", "2M", "8,192". *is_short: with a letter that could be a unit of memory as well. */
static bool take_number(struct text *rest, double *ret, bool *is_short)
{
    struct text t = *rest;
    if (!text_take_real(&t, ret))
        return false;
    size_t sign = t.len > 1 && t.at[1] == '+';
    size_t exponent = t.len > 1 && (t.at[0] == 'e' || t.at[0] == 'E') ? digits_at(t, 1 + sign) : 0;
    if (exponent == 1 || exponent == 2) {
        *ret *= pow(10, value_of(t, 1 + sign, exponent));
        t = text_skip(t, 1 + sign + exponent);
    }
    *is_short = t.len > 0 && strchr("kKM", t.at[0]) != NULL && (t.len == 1 || !is_word_byte(t.at[1]));
    if (*is_short) {
        *ret *= t.at[0] == 'M' ? 1e6 : 1e3;
        t = text_skip(t, 1);
    }
    *rest = t;
    return true;
}

static bool take_value(struct text *rest, struct mark *m, bool *is_short)
{
    size_t cross;
    *is_short = false;
    if (take_time(rest, &m->value)) {
        m->kind = MARK_TIME;
        m->name = (struct text){"the time", strlen("the time")};
        return true;
    }
    if (!take_number(rest, &m->value, is_short))
        return false;
    while ((cross = cross_at(*rest)) > 0) {
        struct text t = text_skip(*rest, cross);
        double other = 0;
        (void)take_number(&t, &other, is_short);
        m->kind = MARK_SIZE;
        m->name = (struct text){"the dimensions", strlen("the dimensions")};
        m->value *= other;
        *rest = t;
    }
    return true;
}

/* --- tables --- */

/* Is each gap between words of two blanks or more? Then a word is a cell. */
static bool text_has_only_gaps(struct text line)
{
    for (size_t i = 1; i + 1 < line.len; i++)
        if (line.at[i] == ' ' && line.at[i - 1] != ' ' && line.at[i + 1] != ' ')
            return false;
    return true;
}

static char separator_of(struct text line)
{
    bool is_wide = text_has(text_trim(line), "  ") && !text_has_only_gaps(text_trim(line));
    return is_wide                                  ? QUANTITY_WIDE
           : memchr(line.at, '|', line.len) != NULL ? '|'
           : memchr(line.at, ',', line.len) != NULL ? ','
           : memchr(line.at, ';', line.len) != NULL ? ';'
                                                    : ' ';
}

static bool next_cell(struct text *rest, char separator, struct text *cell)
{
    char stop[2] = {separator, '\0'};
    if (separator == ' ' || separator == QUANTITY_WIDE)
        return quantity_next_cell(rest, separator, cell);
    if (rest->len == 0)
        return false;
    *cell = text_until(*rest, stop);
    *rest = text_skip(*rest, cell->len + 1);
    return true;
}

bool axis_read_header(struct text line, struct axis_header *ret)
{
    struct text rest = text_trim(line), cell;
    bool any = false;
    *ret = (struct axis_header){.separator = separator_of(line)};
    while (next_cell(&rest, ret->separator, &cell)) {
        if (ret->cells == AXIS_CELLS_MAX) {
            any = false;
            break;
        }
        ret->cell[ret->cells++] = text_trim(cell);
        any |= kind_of(cell) != MARK_PLAIN;
    }
    if (!any || ret->cells < 2)
        ret->cells = 0;
    return ret->cells > 0;
}

/* The column of `at`. A unit behind a number is no column of its own. */
static size_t column_of(struct text line, char separator, const char *at)
{
    struct text rest = text_trim(line), cell;
    size_t column = 0;
    bool numeric = false;
    while (next_cell(&rest, separator, &cell) && cell.at + cell.len <= at) {
        bool unit = separator == ' ' && numeric && cell.len <= 3 && isalpha((unsigned char)cell.at[0]);
        numeric = cell.len > 0 && isdigit((unsigned char)cell.at[0]);
        column += !unit;
    }
    return column;
}

static void take_header(struct text line, const struct axis_header *header, struct mark *m)
{
    size_t column = header->cells > 0 ? column_of(line, header->separator, m->at) : 0;
    if (column >= header->cells)
        return;
    m->kind = kind_of(header->cell[column]);
    m->name = m->kind != MARK_PLAIN ? header->cell[column] : m->name;
}

/* --- marks of a line --- */

/* Is it a figure of memory? "16k" beside a word for sizes is a size, although k is a unit, too. */
static bool is_memory(const struct quantity *q, size_t n, const struct mark *m, bool is_short)
{
    while (n > 0 && q->at != m->at)
        q++, n--;
    if (n == 0)
        return false;
    bool named = m->kind != MARK_PLAIN;
    return q->unit == UNIT_NONE ? q->role != QUANTITY_NONE && q->value >= 64 * MIB && !named
                                : q->unit == UNIT_PERCENT || !is_short || !named;
}

/* "tp=8": what follows is no name of the number. */
static bool has_own_name(struct text gap)
{
    gap = text_trim(gap);
    return gap.len > 1 && gap.at[gap.len - 1] == '=';
}

/* Takes the number at the front of `rest`, which lies in `line`. `gap`: the words before it that no number has
 * taken yet. */
static bool take_mark(struct text line, const struct axis_header *header, struct text *rest, struct text *gap,
                      struct mark *m, bool *is_short)
{
    struct text cell = header->separator == ',' && header->cells > 0 ? text_until(*rest, ",") : *rest;
    size_t before = cell.len;
    *m = (struct mark){.at = rest->at};
    if (!take_value(&cell, m, is_short))
        return false;
    *rest = text_skip(*rest, before - cell.len);
    /* The word behind the last number may have reached beyond the beginning of this one. */
    struct text words = {gap->at, m->at > gap->at ? (size_t)(m->at - gap->at) : 0};
    struct mark named = *m;
    bool taken = m->kind != MARK_TIME && take_word_before(words, &named);
    gap->at = rest->at;
    if (m->kind == MARK_PLAIN && !taken && !has_own_name(words)) {
        const char *end = take_word_behind(*rest, &named);
        gap->at = end != NULL ? end : gap->at;
        taken = end != NULL;
    }
    if (taken && (m->kind == MARK_PLAIN || named.kind == MARK_SIZE))
        *m = named;
    if (m->kind == MARK_PLAIN)
        take_header(line, header, m);
    return true;
}

size_t axis_marks(struct text line, const struct quantity *q, size_t n, const struct axis_header *header,
                  struct mark out[MARKS_MAX])
{
    struct text rest = line, gap = {line.at, 0}; /* only where it begins counts */
    size_t count = 0;
    while (rest.len > 0 && count < MARKS_MAX) {
        if (!isdigit((unsigned char)rest.at[0])) {
            rest = text_skip(rest, 1);
            continue;
        }
        struct mark *m = &out[count];
        bool is_short, is_part = rest.at > line.at && isalnum((unsigned char)rest.at[-1]);
        if (text_starts(rest, "0x") && !is_part) {
            while (rest.len > 1 && isalnum((unsigned char)rest.at[1]))
                rest = text_skip(rest, 1);
        } else if (take_mark(line, header, &rest, &gap, m, &is_short)) {
            count += !is_memory(q, n, m, is_short) && !(is_part && m->kind == MARK_PLAIN);
            continue;
        }
        rest = text_skip(rest, 1);
    }
    return count;
}

/* --- over several lines --- */

static void add_to_track(struct axis_track *t, const struct mark *m)
{
    double last = t->mark.value, ratio = last > 0 ? m->value / last : 0, power = log2(ratio > 0 ? ratio : 1);
    t->rises += m->value > last;
    t->falls += m->value < last;
    if (m->value > last) {
        t->ratio = t->ratio == 0 ? ratio : t->ratio;
        t->other_ratio |= ratio < LEAST_RATIO || fabs(ratio - t->ratio) > 0.01 * ratio;
        t->other_power |= power < 1 || fabs(power - round(power)) > 0.01;
    }
    t->mark = *m;
}

void axis_add(struct axis *axis, const struct mark *marks, size_t n)
{
    bool first = axis->readings++ == 0;
    axis->tracks = first || n < axis->tracks ? n : axis->tracks;
    for (size_t i = 0; i < axis->tracks; i++)
        if (first)
            axis->track[i] = (struct axis_track){.mark = marks[i]};
        else
            add_to_track(&axis->track[i], &marks[i]);
}

static const struct axis_track *first_track(const struct axis *axis, enum mark_kind kind, double least_share)
{
    for (size_t i = 0; i < axis->tracks; i++) {
        const struct axis_track *t = &axis->track[i];
        if (t->mark.kind == kind && t->falls == 0 && t->rises > 0 && t->rises >= least_share * (axis->readings - 1))
            return t;
    }
    return NULL;
}

/* A number without a word that grows by one factor, or by powers of two. */
static const struct axis_track *chosen_track(const struct axis *axis)
{
    for (size_t i = 0; i < axis->tracks; i++) {
        const struct axis_track *t = &axis->track[i];
        if (t->mark.kind == MARK_PLAIN && t->falls == 0 && t->rises >= 2 && !(t->other_ratio && t->other_power))
            return t;
    }
    return NULL;
}

enum axis_kind axis_kind(const struct axis *axis, struct text *ret_name)
{
    const struct axis_track *size = first_track(axis, MARK_SIZE, HALF_OF_STEPS);
    const struct axis_track *amount = first_track(axis, MARK_AMOUNT, HALF_OF_STEPS);
    const struct axis_track *counter = first_track(axis, MARK_COUNTER, MOST_STEPS);
    const struct axis_track *time = first_track(axis, MARK_TIME, MOST_STEPS), *chosen = chosen_track(axis);
    if (chosen != NULL && (counter == NULL || chosen < counter))
        counter = NULL; /* what is chosen stands in front of what is measured */
    else
        chosen = NULL;
    size = size != NULL || counter != NULL ? size : amount != NULL ? amount : chosen;
    const struct axis_track *found = size != NULL ? size : counter != NULL ? counter : time;
    if (found == NULL)
        return AXIS_UNKNOWN;
    *ret_name = found->mark.name.len > 0 ? found->mark.name : (struct text){"a number", strlen("a number")};
    return found == size ? AXIS_SIZE : AXIS_CLOCK;
}

enum axis_kind axis_of_line(const struct mark *marks, size_t n, struct text *ret_name)
{
    struct axis axis = {.tracks = 0};
    for (size_t i = 0; i < n; i++)
        if (marks[i].kind != MARK_PLAIN)
            axis_add(&axis, &marks[i], 1);
    return axis_kind(&axis, ret_name);
}
