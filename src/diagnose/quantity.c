/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quantity_line(): numbers, units and roles of one line.
 *
 *   "free: 1.2 GiB"  "1.2 GiB free"  "3.1/31.98 GiB"  "vram=5.20GB"  "of which 40.00 MiB is free"
 */
#include "diagnose/quantity.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A word gives a number its role from at most this distance. */
#define REACH_BYTES 48

const char *quantity_role_name(enum quantity_role role)
{
    static const char *const names[QUANTITY_ROLES] = {"memory",    "asked",    "free", "total",  "used", "allocated",
                                                      "reserved", "idle", "limit", "largest", "peak", "rss"};
    return names[role];
}

static const struct {
    const char *word; /* the beginning of a word, lower case; with '$' at its end: the whole word */
    enum quantity_role role;
} role_words[] = {
    {"request", QUANTITY_ASKED},     {"asked", QUANTITY_ASKED},       {"allocate$", QUANTITY_ASKED},
    {"allocating", QUANTITY_ASKED},  {"need", QUANTITY_ASKED},        {"requir", QUANTITY_ASKED},
    {"want", QUANTITY_ASKED},        {"reserving", QUANTITY_ASKED},   {"tried", QUANTITY_ASKED},
    {"allocation", QUANTITY_ASKED},  {"reserve$", QUANTITY_ASKED},    {"desired", QUANTITY_ASKED},
    {"malloc", QUANTITY_ASKED},      {"free", QUANTITY_FREE},         {"avail", QUANTITY_FREE},
    {"usable", QUANTITY_FREE},
    {"remain", QUANTITY_FREE},       {"left$", QUANTITY_FREE},        {"total", QUANTITY_TOTAL},
    {"capacity", QUANTITY_TOTAL},    {"installed", QUANTITY_TOTAL},   {"used", QUANTITY_USED},
    {"usage", QUANTITY_USED},        {"in_use", QUANTITY_USED},       {"use$", QUANTITY_USED},
    {"using", QUANTITY_USED},        {"current", QUANTITY_USED},      {"occupied", QUANTITY_USED},
    {"consum", QUANTITY_USED},       {"vram", QUANTITY_USED},         {"gpu_mem", QUANTITY_USED},
    {"mem$", QUANTITY_USED},         {"allocated", QUANTITY_ALLOCATED}, {"alloc$", QUANTITY_ALLOCATED},
    {"active", QUANTITY_ALLOCATED},  {"live", QUANTITY_ALLOCATED},    {"held", QUANTITY_ALLOCATED},
    {"reserved", QUANTITY_RESERVED}, {"cached", QUANTITY_RESERVED},   {"cache$", QUANTITY_RESERVED},
    {"pool$", QUANTITY_RESERVED},    {"idle", QUANTITY_IDLE},         {"unallocated", QUANTITY_IDLE},
    {"inactive", QUANTITY_IDLE},     {"unused", QUANTITY_IDLE},       {"limit", QUANTITY_LIMIT},
    {"maximum", QUANTITY_LIMIT},     {"max$", QUANTITY_LIMIT},        {"allowed", QUANTITY_LIMIT},
    {"budget", QUANTITY_LIMIT},      {"cap$", QUANTITY_LIMIT},        {"largest", QUANTITY_LARGEST},
    {"biggest", QUANTITY_LARGEST},   {"contiguous", QUANTITY_LARGEST}, {"peak", QUANTITY_PEAK},
    {"max_allocated", QUANTITY_PEAK}, {"max_memory", QUANTITY_PEAK},  {"highest", QUANTITY_PEAK},
    {"rss", QUANTITY_RSS},           {"resident", QUANTITY_RSS},
};

static bool is_letter(char c)
{
    return ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_';
}

static bool is_same_letter(char a, char b)
{
    return ((a ^ b) | 0x20) == 0x20;
}

/* No word of the table is shorter. */
#define ROLE_LETTERS_MIN 3
#define ROLE_WORDS (sizeof role_words / sizeof role_words[0])
_Static_assert(ROLE_WORDS <= 64, "a bit each");

/* Bit set of the rows whose word begins with the letter. */
static uint64_t rows_of(char letter)
{
    static uint64_t rows[32];
    static bool made;
    for (size_t i = 0; i < ROLE_WORDS && !made; i++)
        rows[role_words[i].word[0] & 31] |= UINT64_C(1) << i;
    made = true;
    return rows[letter & 31];
}

static enum quantity_role role_of(const char *word, size_t len)
{
    for (uint64_t rows = len >= ROLE_LETTERS_MIN ? rows_of(word[0]) : 0; rows != 0; rows &= rows - 1) {
        int i = __builtin_ctzll(rows);
        const char *w = role_words[i].word;
        if (!is_same_letter(w[1], word[1]) || !is_same_letter(w[2], word[2]))
            continue;
        size_t n = strlen(w);
        bool whole = w[n - 1] == '$';
        n -= whole;
        if ((whole ? len == n : len >= n) && strncasecmp(word, w, n) == 0)
            return role_words[i].role;
    }
    return QUANTITY_NONE;
}

/* "gpu_mem_free" means free: the last part of a name that has a role counts, else the name
 * itself. */
static enum quantity_role role_of_name(const char *word, size_t len)
{
    if (memchr(word, '_', len) == NULL)
        return role_of(word, len);
    bool is_compound = strncasecmp(word, "in_use", 6) != 0 && strncasecmp(word, "max_", 4) != 0;
    bool of_pieces = is_compound && role_of(word, len) == QUANTITY_LARGEST;
    if (of_pieces) /* "largest_free_block" is a free piece, "largest_alloc_size" is not */
        return memmem(word, len, "free", 4) != NULL ? QUANTITY_LARGEST : QUANTITY_NONE;
    if (is_compound && role_of(word, len) == QUANTITY_PEAK)
        return QUANTITY_PEAK; /* "peak_bytes_in_use" */
    enum quantity_role role = is_compound ? QUANTITY_NONE : role_of(word, len);
    for (size_t i = len; i > 0 && role == QUANTITY_NONE; i--)
        if (word[i - 1] == '_')
            role = role_of(word + i, len - i);
    role = role == QUANTITY_NONE && is_compound ? role_of(word, len) : role;
    if (role == QUANTITY_ALLOCATED && is_compound && memmem(word, len, "pool", 4) != NULL)
        role = QUANTITY_RESERVED; /* "pool_held_MiB" */
    if (role == QUANTITY_NONE && is_compound) /* "alloc_mb" */
        role = role_of(word, (size_t)((const char *)memchr(word, '_', len) - word));
    if (role == QUANTITY_LIMIT && len > 4 && strncasecmp(word, "max_", 4) == 0)
        role = QUANTITY_PEAK;
    return role;
}

struct span {
    const char *begin, *end;
};

/* Is the word a noun for memory? Alone it means used memory: "vram=5 GB". After a word with a role,
 * that role counts: "free VRAM". */
static bool is_memory_noun(const char *word, size_t len)
{
    static const char *const nouns[] = {"vram", "mem", "memory", "gpu", "cl_mem"};
    for (size_t i = 0; i < sizeof nouns / sizeof nouns[0]; i++)
        if (is_same_letter(nouns[i][0], word[0]) && strlen(nouns[i]) == len && strncasecmp(word, nouns[i], len) == 0)
            return true;
    return false;
}

/* The last word with a role in [begin, end). *direct: only punctuation follows it. In "largest free
 * block", "largest" counts. */
static enum quantity_role role_before(struct span s, bool *direct)
{
    enum quantity_role found = QUANTITY_NONE;
    bool noun = false, found_noun = false;
    *direct = false;
    const char *at = s.end;
    while (at > s.begin) {
        while (at > s.begin && !is_letter(at[-1]))
            at--;
        const char *end = at;
        while (at > s.begin && (is_letter(at[-1]) || isdigit((unsigned char)at[-1])))
            at--;
        if (end == at)
            break;
        enum quantity_role role = role_of_name(at, (size_t)(end - at));
        if (role == QUANTITY_TOTAL && at - s.begin >= 8 && strncasecmp(at - 8, "weights.", 8) == 0)
            role = QUANTITY_ASKED; /* "weights.total": of the model, not of the GPU */
        bool is_noun = is_memory_noun(at, (size_t)(end - at));
        bool was_noun = noun;
        noun = is_noun;
        if (role != QUANTITY_NONE && was_noun && !is_noun)
            found = role; /* "free VRAM now 9.8 GB" */
        if (role == QUANTITY_NONE)
            continue;
        if (found_noun && role == QUANTITY_ASKED)
            found = role; /* "wants GPU memory of 3 GiB" */
        if (found == QUANTITY_NONE) {
            found = role;
            found_noun = is_noun;
            *direct = true;
            for (const char *p = end; p < s.end; p++)
                *direct &= strchr(" \t:=(>[\"'~|-", *p) != NULL;
        } else if (role == QUANTITY_LARGEST || role == QUANTITY_PEAK) {
            found = role;
        }
    }
    return found;
}

/* One of the next words: "GiB is free", "MiB already allocated". A comma, a bracket or two blanks end the
 * search. */
static enum quantity_role role_behind(struct span s)
{
    const char *at = s.begin;
    for (unsigned words = 0; words < 3; words++) {
        at += at < s.end && *at == ' ';
        const char *begin = at;
        while (at < s.end && is_letter(*at))
            at++;
        if (at == begin)
            return QUANTITY_NONE;
        enum quantity_role role = role_of_name(begin, (size_t)(at - begin));
        if (role != QUANTITY_NONE)
            return role;
    }
    return QUANTITY_NONE;
}

/* Digits that are no quantity: part of an address, a version, a time, a word, a device. */
static bool is_name(struct text line, const char *begin, const char *end)
{
    const char *first = line.at, *last = line.at + line.len;
    char before = begin > first ? begin[-1] : ' ', behind = end < last ? *end : ' ';
    if (isalnum((unsigned char)before) || before == '_' || before == '.' || before == '#' || before == '@')
        return true;
    if (behind == ':' && end + 1 < last && isdigit((unsigned char)end[1]))
        return true; /* 10:00:00 */
    if (before == ':' && begin - 1 > first && isdigit((unsigned char)begin[-2]))
        return true;
    if (before == '-' && begin - 1 > first && isalnum((unsigned char)begin[-2]))
        return true; /* 2026-01-02, gfx-9 */
    if (behind == '-' && end + 1 < last && isdigit((unsigned char)end[1]))
        return true;
    return behind == 'x' || behind == '_' || (behind == '.' && end + 1 < last && isdigit((unsigned char)end[1]));
}

/* 0 = the whole is no unit of memory. */
static double bytes_of_unit(struct text name)
{
    while (text_starts(name, "_"))
        name = text_skip(name, 1);
    double bytes = text_take_unit(&name, TEXT_SIZE_BINARY);
    return name.len == 0 ? bytes : 0;
}

static double unit_factor(struct text *rest, enum quantity_unit *unit)
{
    struct text size = *rest;
    struct text word = text_trim(size);
    *unit = UNIT_NONE;
    if (word.len > 0 && word.at[0] == '%') {
        *unit = UNIT_PERCENT;
        *rest = text_skip(word, 1);
        return 1;
    }
    size_t skipped = (size_t)(word.at - size.at), n = 0;
    while (n < word.len && n < 8 && is_letter(word.at[n]))
        n++;
    if (n == 0 || n >= 8 || skipped > 1 || (n < word.len && (word.at[n] == '=' || isdigit((unsigned char)word.at[n]))))
        return 1; /* in "12000 t=41s" t is the next name, "20261129T101929Z" is a time */
    double bytes = bytes_of_unit(text_first(word, n));
    if (bytes == 0)
        return 1;
    *unit = UNIT_BYTES;
    *rest = text_skip(word, n);
    return bytes;
}

/* "vram_used_MB", "GPU MEM(MiB)", "VRAM%": the unit at the end of a name. */
static double unit_of_name(struct text name, enum quantity_unit *unit)
{
    struct text last = name;
    while (last.len > 0 && strchr(")]", last.at[last.len - 1]) != NULL)
        last.len--;
    *unit = UNIT_NONE;
    if (last.len > 0 && last.at[last.len - 1] == '%') {
        *unit = UNIT_PERCENT;
        return 1;
    }
    size_t n = 0;
    while (n < last.len && isalpha((unsigned char)last.at[last.len - 1 - n]))
        n++;
    if (n == 0 || n == last.len || n > 5)
        return 1;
    double bytes = bytes_of_unit(text_skip(last, last.len - n));
    if (bytes == 0)
        return 1;
    *unit = UNIT_BYTES;
    return bytes;
}

/* "required_gb: 6.1": the unit stands in the name directly in front of the number. */
static double unit_of_key(const char *begin, const char *number, enum quantity_unit *unit)
{
    const char *end = number;
    while (end > begin && strchr(" :=\"'", end[-1]) != NULL)
        end--;
    const char *at = end;
    while (at > begin && (is_letter(at[-1]) || isdigit((unsigned char)at[-1])))
        at--;
    struct text name = {at, (size_t)(end - at)};
    const char *last = memrchr(name.at, '_', name.len);
    *unit = UNIT_NONE;
    if (last == NULL || end == number)
        return 1;
    return unit_of_name(name, unit);
}

/* 2^64 - n, printed unsigned, is a size below zero. */
static double unwrapped(double value)
{
    return value > 0x1p63 && value <= 0x1p64 ? value - 0x1p64 : value;
}

struct number {
    struct span at;      /* with its unit */
    const char *unit_at; /* where the digits end */
};

static void inherit_pair(struct quantity *a, struct quantity *b, const struct number *na, const struct number *nb,
                         double factor)
{
    bool slash = false;
    for (const char *p = na->at.end; p < nb->at.begin; p++) {
        slash |= *p == '/';
        if (*p != ' ' && *p != '/')
            return;
    }
    if (!slash)
        return;
    if (a->unit == UNIT_NONE && b->unit == UNIT_BYTES) {
        a->unit = b->unit;
        a->value *= factor;
    }
    if (a->role == QUANTITY_NONE || a->role == QUANTITY_TOTAL)
        a->role = QUANTITY_USED;
    b->role = QUANTITY_TOTAL;
    a->of_pair = b->of_pair = true;
}

static bool is_group(struct text t)
{
    return t.len >= 4 && t.at[0] == ' ' && isdigit((unsigned char)t.at[1]) && isdigit((unsigned char)t.at[2]) &&
           isdigit((unsigned char)t.at[3]) && (t.len == 4 || !isalnum((unsigned char)t.at[4]));
}

/* "9 874 212 K", "3 145 728 000 bytes": groups of three digits in front of a unit are one number. */
static bool take_groups(struct text *rest, double *ret)
{
    struct text t = *rest;
    uint64_t value = 0;
    size_t groups = 0;
    if (!text_take_u64(&t, &value) || rest->len - t.len > 3 || !is_group(t))
        return false;
    for (; is_group(t); t = text_skip(t, 4), groups++)
        value = value * 1000 + (uint64_t)strtoul((char[]){t.at[1], t.at[2], t.at[3], 0}, NULL, 10);
    enum quantity_unit unit;
    struct text behind = t;
    (void)unit_factor(&behind, &unit);
    if (groups > 4 || unit != UNIT_BYTES)
        return false;
    *ret = (double)value;
    *rest = t;
    return true;
}

static bool take_number(struct text *rest, double *ret)
{
    struct text t = *rest;
    return take_groups(rest, ret) || (text_take_real(&t, ret) ? (*rest = t, true) : false);
}

/* "100 requests: 4.9 GiB": the word behind the first number is what it counts. */
static const char *behind_counted(const char *from, const char *end)
{
    const char *at = from;
    at += at < end && *at == ' ';
    while (at < end && is_letter(*at))
        at++;
    return at < end && (*at == ':' || *at == ',') && at > from + 1 && at[-1] == 's' ? at : from;
}

size_t quantity_line(struct text line, struct quantity out[QUANTITIES_MAX])
{
    struct number numbers[QUANTITIES_MAX];
    double factors[QUANTITIES_MAX];
    size_t count = 0;
    const char *previous = line.at;
    for (const char *p = line.at; p < line.at + line.len && count < QUANTITIES_MAX;) {
        if (!isdigit((unsigned char)*p)) {
            p++;
            continue;
        }
        struct text rest = {p, line.len - (size_t)(p - line.at)};
        double value = 0;
        const char *begin = p;
        if (!take_number(&rest, &value) || is_name(line, begin, rest.at)) {
            while (p < line.at + line.len && (isalnum((unsigned char)*p) || *p == '.' || *p == '_'))
                p++;
            p += p == begin;
            continue;
        }
        const char *digits_end = rest.at;
        struct quantity *q = &out[count];
        factors[count] = unit_factor(&rest, &q->unit);
        if (q->unit == UNIT_NONE && rest.len > 0 && is_letter(rest.at[0])) {
            p = rest.at; /* "3d", "16bit" */
            continue;
        }
        if (q->unit == UNIT_NONE)
            factors[count] = unit_of_key(line.at, begin, &q->unit);
        q->value = unwrapped(value * factors[count]);
        q->at = begin;
        q->of_pair = false;
        numbers[count] = (struct number){{begin, rest.at}, digits_end};
        bool direct = false;
        const char *reach = begin - previous > REACH_BYTES ? begin - REACH_BYTES : previous;
        if (count > 0 && out[count - 1].unit == UNIT_NONE)
            reach = behind_counted(reach, begin);
        const char *clause = memrchr(reach, ';', (size_t)(begin - reach));
        reach = clause != NULL ? clause : reach;
        enum quantity_role before = role_before((struct span){reach, begin}, &direct);
        enum quantity_role behind = role_behind((struct span){rest.at, line.at + line.len});
        q->role = direct || behind == QUANTITY_NONE ? before : behind;
        if (count > 0)
            inherit_pair(&out[count - 1], q, &numbers[count - 1], &numbers[count], factors[count]);
        count++;
        previous = p = rest.at;
    }
    return count;
}

/* "time per step   VRAM GiB": cells of several words, with two blanks or a tab between them. */
static struct text wide_cell(struct text rest)
{
    size_t n = 0;
    while (n < rest.len && rest.at[n] != '\t' && !(rest.at[n] == ' ' && n + 1 < rest.len && rest.at[n + 1] == ' '))
        n++;
    return text_first(rest, n);
}

bool quantity_next_cell(struct text *rest, char separator, struct text *ret)
{
    if (separator == ' ')
        return text_next_word(rest, ret);
    if (separator == QUANTITY_WIDE) {
        *rest = text_trim(*rest);
        *ret = text_trim(wide_cell(*rest));
        *rest = text_skip(*rest, (size_t)(ret->at - rest->at) + ret->len);
        return ret->len > 0;
    }
    if (separator == '|') {
        if (rest->len == 0)
            return false;
        struct text bar = text_until(*rest, "|");
        *rest = text_skip(*rest, bar.len + 1);
        *ret = text_trim(bar);
        return true;
    }
    struct text cell = text_until(*rest, ",");
    *rest = text_skip(*rest, cell.len + 1);
    *ret = text_trim(cell);
    return ret->len > 0;
}

/* "peak GB", "memory used (GB)": the last word with a role; a noun for memory alone means what is used. */
static enum quantity_role role_of_cell(struct text cell)
{
    enum quantity_role role = QUANTITY_NONE;
    bool noun = false;
    while (cell.len > 0) {
        size_t n = 0;
        while (n < cell.len && is_letter(cell.at[n]))
            n++;
        bool is_noun = is_memory_noun(cell.at, n);
        enum quantity_role of_word = n > 0 && !is_noun ? role_of_name(cell.at, n) : QUANTITY_NONE;
        noun |= is_noun;
        role = of_word != QUANTITY_NONE ? of_word : role;
        cell = text_skip(cell, n > 0 ? n : 1);
    }
    return role == QUANTITY_NONE && noun ? QUANTITY_USED : role;
}

/* "allocated 13.94 GiB" */
static bool has_figure(struct text cell)
{
    struct quantity q[QUANTITIES_MAX];
    size_t n = text_has_digit(cell) ? quantity_line(cell, q) : 0;
    for (size_t i = 0; i < n; i++)
        if (q[i].unit != UNIT_NONE)
            return true;
    return false;
}

/* A row of numbers is no header; a name may have a number in it. */
static bool is_name_of_column(struct text cell, char separator)
{
    if (cell.len == 0)
        return separator == '|';
    bool of_words = separator == '|' || separator == QUANTITY_WIDE;
    if (of_words && has_figure(cell))
        return false;
    return (of_words ? !isdigit((unsigned char)cell.at[0]) : !text_has_digit(cell)) && strchr(":.", cell.at[cell.len - 1]) == NULL;
}

/* "vram", "gpu_mem", "rss": it needs no unit to be memory. */
static bool names_memory(struct text cell)
{
    while (cell.len > 0) {
        struct text part = text_until(cell, "_ ");
        bool gpu = text_ifind(part, "gpu") == 0 && part.len == strlen("gpu"); /* its load, as likely */
        if ((is_memory_noun(part.at, part.len) && !gpu) || role_of(part.at, part.len) == QUANTITY_RSS)
            return true;
        cell = text_skip(cell, part.len + 1);
    }
    return false;
}

static bool read_columns(struct text line, char separator, bool with_unit, struct quantity_header *ret)
{
    struct text rest = text_trim(line), cell;
    size_t roles = 0;
    bool of_words = separator == '|' || separator == QUANTITY_WIDE;
    *ret = (struct quantity_header){.separator = separator};
    while (quantity_next_cell(&rest, separator, &cell)) {
        if (ret->columns == QUANTITIES_MAX || !is_name_of_column(cell, separator))
            return false;
        size_t c = ret->columns++, n = 0;
        while (n < cell.len && is_letter(cell.at[n]))
            n++;
        ret->role[c] = of_words ? role_of_cell(cell) : role_of_name(cell.at, n);
        ret->factor[c] = unit_of_name(cell, &ret->unit[c]);
        if (!with_unit && ret->unit[c] == UNIT_NONE && names_memory(cell))
            ret->unit[c] = UNIT_OF_MEMORY;
        ret->of_host[c] = text_ifind(cell, "ram") == 0 || text_ifind(cell, "swap") >= 0 || text_ifind(cell, "host") >= 0 ||
                          text_ifind(cell, "rss") >= 0;
        ret->names_owner |= text_equals(cell, "PID") || text_equals(cell, "pid");
        roles += ret->role[c] != QUANTITY_NONE && ret->unit[c] != UNIT_NONE;
    }
    return ret->columns >= 2 && (roles > 0 || ret->names_owner);
}

bool quantity_has_wide_gaps(struct text line)
{
    for (size_t i = 0; i < line.len; i++)
        if (line.at[i] == '\t' || (line.at[i] == ' ' && i + 1 < line.len && line.at[i + 1] == ' '))
            return true;
    return false;
}

/* With each separator that the line may have. */
static bool read_names(struct text t, bool with_unit, struct quantity_header *ret)
{
    bool has_bar = memchr(t.at, '|', t.len) != NULL, is_wide = quantity_has_wide_gaps(t);
    bool has_blank = is_wide || memchr(t.at, ' ', t.len) != NULL;
    return (has_bar && read_columns(t, '|', with_unit, ret)) ||
           (!text_has_digit(t) && read_columns(t, has_blank ? ' ' : ',', with_unit, ret)) ||
           (is_wide && !has_bar && read_columns(t, QUANTITY_WIDE, with_unit, ret));
}

bool quantity_read_header(struct text line, struct quantity_header *ret)
{
    struct text t = text_trim(line);
    ret->columns = 0;
    if (line.len < 8 || line.len > 240 || t.len == 0 || isdigit((unsigned char)t.at[0]))
        return false;
    if (read_names(t, true, ret) || read_names(t, false, ret))
        return true;
    ret->columns = 0;
    return false;
}

/* "10 904": blanks between the groups of a number, in a cell that may hold blanks. */
static bool take_cell(struct text *cell, double *ret)
{
    struct text t = *cell;
    uint64_t value = 0;
    if (text_take_u64(&t, &value) && cell->len - t.len <= 3 && is_group(t)) {
        for (; is_group(t); t = text_skip(t, 4))
            value = value * 1000 + (uint64_t)strtoul((char[]){t.at[1], t.at[2], t.at[3], 0}, NULL, 10);
        *ret = (double)value;
        *cell = t;
        return true;
    }
    return take_number(cell, ret);
}

static size_t read_cells(struct text line, const struct quantity_header *header, char separator,
                         struct quantity out[QUANTITIES_MAX], size_t column[QUANTITIES_MAX], bool *lacks)
{
    struct text rest = text_trim(line), cell;
    size_t fields = 0, n = 0;
    bool any_number = false, empty = false;
    *lacks = false;
    while (quantity_next_cell(&rest, separator, &cell)) {
        size_t c = fields++;
        if (c >= header->columns)
            return 0;
        any_number |= cell.len > 0 && isdigit((unsigned char)cell.at[0]);
        if (header->role[c] == QUANTITY_NONE || header->unit[c] == UNIT_NONE)
            continue;
        struct text number = cell;
        double value = 0;
        if (!take_cell(&number, &value) || (number.len > 0 && number.at[0] != '%')) {
            empty |= cell.len > 0 && !text_has_digit(cell) && header->unit[c] == UNIT_BYTES;
            continue;
        }
        out[n] = (struct quantity){.role = header->role[c], .unit = header->unit[c], .value = value * header->factor[c],
                                    .at = cell.at};
        column[n++] = c;
    }
    *lacks = fields == header->columns && n == 0 && empty && any_number;
    return fields == header->columns ? n : 0;
}

size_t quantity_row(struct text line, const struct quantity_header *header, struct quantity out[QUANTITIES_MAX],
                    size_t column[QUANTITIES_MAX], bool *lacks)
{
    size_t n = read_cells(line, header, header->separator, out, column, lacks);
    if (n == 0 && !*lacks && header->separator == ' ') /* cells may hold blanks where the names of columns do not */
        n = read_cells(line, header, QUANTITY_WIDE, out, column, lacks);
    return n;
}
