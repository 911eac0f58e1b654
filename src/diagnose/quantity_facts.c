/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quantities_to_facts(): the figures of the last statement about memory, the tables of monitors, and
 * series of lines of one shape.
 */
#include "diagnose/quantity.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "diagnose/log_words.h"
#include "diagnose/readings.h"
#include "diagnose/text_facts.h"

/* Lines around a word of failure belong to the same failure. */
#define STATEMENT_LINES 4
#define LINE_MAX_BYTES 1024
#define MIB 1048576.0
#define RSS_LEAST_KIB 65536 /* smaller numbers are pids and times */

struct statement {
    double value[QUANTITY_ROLES];
    unsigned known, line; /* bit per role; line 0 = no statement */
    bool failed;
};

/* Lines one after the other with a name and a size each: "text encoder  11.4 GB". */
struct listing {
    double sum;
    unsigned count, line, last_line;
    uint64_t shape; /* of the last line */
};

/* Lines with one size each that say whether a piece of that size could be had: "try 4 GiB: failed". */
struct trials {
    double free, least_refused, most_given;
    unsigned refused, given, line, last_line;
};

struct state {
    struct readings readings;
    struct trials trials, told; /* told: the first that say something */
    double free_last;
    struct quantity_header header;
    unsigned header_line;
    struct scan s;
    uint64_t words; /* lists that have a word on the line */
    struct statement last, failure;
    unsigned failure_line; /* line of the last word of failure */
    double percent_used;
    unsigned percent_line;
    double table_used, table_total;
    unsigned table_line;
    struct listing list, largest_list;
    double asked_most;
    unsigned asked_line;
    unsigned entry_line; /* last line of a dictionary: "'bytes_in_use': 1024," */
    bool is_cut; /* the statement of a failure ends within a figure */
    bool owners; /* a table names processes */
    bool lists_rss;
    bool nobody;
    unsigned nobody_line;
};

static bool has(const struct state *st, uint64_t lists)
{
    return (st->words & lists) != 0;
}

static bool is_of_host(const struct state *st)
{
    return has(st, LOG_WORDS_PINNED) || (has(st, LOG_WORDS_OF_HOST) && !has(st, LOG_WORDS_NOT_OF_HOST));
}

static void take_statement(struct statement *to, unsigned line, const struct quantity *q, size_t n, bool fresh)
{
    if (fresh)
        *to = (struct statement){.line = line};
    for (size_t i = 0; i < n; i++) {
        if (q[i].role == QUANTITY_NONE || q[i].unit == UNIT_PERCENT || (to->known >> q[i].role & 1) != 0)
            continue;
        if (q[i].unit == UNIT_NONE && q[i].value < MIB) /* a size in bytes is larger */
            continue;
        to->value[q[i].role] = q[i].value;
        to->known |= 1u << q[i].role;
    }
}

/* --- lists and dictionaries --- */

#define LIST_MIN 3
#define LIST_LINE_MAX 80

/* Lines of one shape are readings of one thing, not parts of a sum. */
static void add_to_list(struct state *st, struct text line, const struct quantity *q, size_t n)
{
    if (n != 1 || q->unit != UNIT_BYTES || q->role != QUANTITY_NONE || q->value <= 0 || line.len > LIST_LINE_MAX)
        return;
    uint64_t shape = readings_shape_of(line);
    if (st->list.last_line + 1 != st->s.line || shape == st->list.shape)
        st->list = (struct listing){.line = st->s.line};
    st->list.sum += q->value;
    st->list.count++;
    st->list.last_line = st->s.line;
    st->list.shape = shape;
    if (st->list.count >= LIST_MIN && st->list.sum > st->largest_list.sum)
        st->largest_list = st->list;
}

static void say_list(struct state *st)
{
    struct scan at = st->s;
    at.line = st->asked_line;
    if (st->asked_line != 0)
        scan_integer(&at, "quantity.asked_most_bytes", (int64_t)st->asked_most);
    at.line = st->largest_list.line;
    if (st->largest_list.count < LIST_MIN)
        return;
    scan_integer(&at, "quantity.listed_bytes", (int64_t)st->largest_list.sum);
    scan_integer(&at, "quantity.listed_count", st->largest_list.count);
}

/* "{'bytes_in_use': 14203551744," "largest_free_block_bytes: 805306368" */
static bool is_entry_of_dictionary(struct text line)
{
    struct text t = text_trim(line), name;
    while (t.len > 0 && strchr("{'\"", t.at[0]) != NULL)
        t = text_skip(t, 1);
    name = text_until(t, ":=\"'");
    if (name.len == 0 || name.len == t.len || memchr(name.at, '_', name.len) == NULL)
        return false;
    return memchr(name.at, ' ', name.len) == NULL && memchr(name.at, '.', name.len) == NULL;
}

/* Each column of a table is a series. */
static void read_row(struct state *st, const struct quantity *q, size_t n, const size_t *column)
{
    for (size_t i = 0; i < n; i++) {
        bool of_host = st->header.of_host[column[i]];
        readings_add_cell(&st->readings, st->header_line, column[i], &q[i], of_host);
        if (q[i].unit == UNIT_PERCENT && !of_host && q[i].role == QUANTITY_USED && q[i].value >= 50 &&
            q[i].value > st->percent_used) {
            st->percent_used = q[i].value;
            st->percent_line = st->s.line;
        }
    }
}

/* --- trials --- */

#define TRIAL_GAP 3
#define REFUSED_MIN 2

static bool ends_in(struct text line, const char *word)
{
    size_t n = strlen(word);
    return line.len > n && text_equals(text_skip(line, line.len - n), word) && !isalnum((unsigned char)line.at[line.len - n - 1]);
}

static void end_trials(struct state *st)
{
    const struct trials *t = &st->trials;
    if (st->told.line == 0 && t->refused >= REFUSED_MIN && t->given > 0 && t->free > 0 && t->most_given < t->least_refused)
        st->told = *t;
    st->trials = (struct trials){.line = 0};
}

static void note_trial(struct state *st, struct text line, const struct quantity *q, size_t n)
{
    struct trials *t = &st->trials;
    bool given = has(st, LOG_WORDS_COMMAND_WORKED) || ends_in(line, "yes") || ends_in(line, "ok");
    bool refused = has(st, LOG_WORDS_COMMAND_FAILED | LOG_WORDS_SHORTAGE | LOG_WORDS_ALLOCATION_FAILED) || ends_in(line, "no");
    if (n != 1 || q->unit != UNIT_BYTES || given == refused)
        return;
    if (t->line == 0 || st->s.line - t->last_line > TRIAL_GAP) {
        end_trials(st);
        *t = (struct trials){.line = st->s.line, .free = st->free_last};
    }
    t->last_line = st->s.line;
    t->refused += refused;
    t->given += given;
    if (given && q->value > t->most_given)
        t->most_given = q->value;
    if (refused && (t->refused == 1 || q->value < t->least_refused))
        t->least_refused = q->value;
}

static void note_free(struct state *st, const struct quantity *q, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (q[i].role == QUANTITY_FREE && q[i].unit == UNIT_BYTES)
            st->free_last = q[i].value;
}

static void say_trials(struct state *st)
{
    struct scan at = st->s;
    end_trials(st);
    at.line = st->told.line;
    if (st->told.line == 0)
        return;
    scan_integer(&at, "quantity.trial_free_bytes", (int64_t)st->told.free);
    scan_integer(&at, "quantity.trial_refused_bytes", (int64_t)st->told.least_refused);
    scan_integer(&at, "quantity.trial_given_bytes", (int64_t)st->told.most_given);
}

/* --- statements --- */

static int64_t bytes_of(const struct statement *s, enum quantity_role role)
{
    return s->value[role] >= 0x1p62 ? INT64_MAX / 2 : (int64_t)s->value[role];
}

static bool knows(const struct statement *s, enum quantity_role role)
{
    return (s->known >> role & 1) != 0;
}

static void say_statement(struct state *st, const struct statement *s)
{
    struct scan at = st->s;
    char name[SCAN_NAME_MAX];
    at.line = s->line;
    for (int role = 1; role < QUANTITY_ROLES; role++) {
        if (!knows(s, (enum quantity_role)role))
            continue;
        (void)snprintf(name, sizeof name, "quantity.%s_bytes", quantity_role_name((enum quantity_role)role));
        scan_integer(&at, name, bytes_of(s, (enum quantity_role)role));
    }
}

/* Sets oom.* if no parser of a product has read the figures. */
static void say_refusal(struct state *st, const struct statement *s)
{
    static const struct {
        enum quantity_role role;
        const char *fact;
    } rows[] = {
        {QUANTITY_ASKED, "oom.requested_bytes"},     {QUANTITY_FREE, "oom.free_bytes"},
        {QUANTITY_TOTAL, "oom.total_bytes"},         {QUANTITY_ALLOCATED, "oom.allocated_bytes"},
        {QUANTITY_RESERVED, "oom.reserved_bytes"},   {QUANTITY_IDLE, "oom.reserved_unallocated_bytes"},
    };
    struct scan at = st->s;
    at.line = s->line;
    const struct fact *read = facts_find(at.facts, "oom.requested_bytes", FACT_LOG);
    if (!knows(s, QUANTITY_ASKED) || s->value[QUANTITY_ASKED] < 1 ||
        (read != NULL && (!st->is_cut || read->integer != bytes_of(s, QUANTITY_ASKED))))
        return; /* its parser knows better, except for figures after a cut */
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (knows(s, rows[i].role) && s->value[rows[i].role] >= 0)
            scan_integer(&at, rows[i].fact, bytes_of(s, rows[i].role));
    scan_text(&at, "oom.framework", (struct text){"by its words", 12});
    scan_boolean(&at, "oom.seen", true);
}

static void look_for_table(struct state *st, struct text line, const struct quantity *q, size_t n)
{
    for (size_t i = 0; i + 1 < n; i++) {
        bool pair = q[i].of_pair && q[i + 1].of_pair && q[i].role == QUANTITY_USED && has(st, LOG_WORDS_OF_GPU);
        bool cells = text_has(line, "|") && q[i].unit == UNIT_BYTES && q[i].role == QUANTITY_NONE &&
                     q[i + 1].role == QUANTITY_NONE && q[i + 1].value >= 1024 * MIB;
        if (!(pair || cells) || q[i + 1].unit != UNIT_BYTES || q[i].value > q[i + 1].value * 1.02)
            continue;
        if (st->table_line == 0 || q[i].value > st->table_used) {
            st->table_used = q[i].value;
            st->table_total = q[i + 1].value;
            st->table_line = st->s.line;
        }
    }
}

/* A cut line ends in a number without its unit: take the unit of its neighbours. If the number lies
 * between the allocated and the total memory, it is the reserved memory. */
static bool end_of_cut_line(struct text line, struct quantity *q, size_t n)
{
    struct quantity *last = &q[n - 1];
    double allocated = 0, total = 0, unit = 0;
    if (last->unit != UNIT_NONE || last->role != QUANTITY_NONE || line.len == 0 ||
        !isdigit((unsigned char)line.at[line.len - 1]))
        return false;
    for (size_t i = 0; i + 1 < n; i++) {
        allocated = q[i].role == QUANTITY_ALLOCATED ? q[i].value : allocated;
        total = q[i].role == QUANTITY_TOTAL ? q[i].value : total;
        unit = q[i].unit == UNIT_BYTES && q[i].value >= 1024 * MIB ? 1024 * MIB : unit;
    }
    bool is_cut = unit > 0 && last->value * unit >= allocated && last->value * unit <= total;
    if (is_cut)
        *last = (struct quantity){.role = QUANTITY_RESERVED, .unit = UNIT_BYTES, .value = last->value * unit};
    return is_cut;
}

/* "ps -o etime,rss,cmd" names the column in the command; the numbers are KiB without a unit. */
static size_t read_resident_set(struct state *st, struct text line, struct quantity *q)
{
    struct text rest = line, word;
    if (has(st, LOG_WORDS_RESIDENT_SET) && has(st, LOG_WORDS_PROCESS_LIST)) {
        st->lists_rss = !has(st, LOG_WORDS_PROCESS_LIST_SIZES);
        return 0;
    }
    for (unsigned words = 0; st->lists_rss && words < 3 && text_next_word(&rest, &word); words++) {
        uint64_t kib = 0;
        const char *first = word.at;
        if (text_take_u64(&word, &kib) && word.len == 0 && kib >= RSS_LEAST_KIB) {
            *q = (struct quantity){.role = QUANTITY_RSS, .unit = UNIT_BYTES, .value = (double)kib * 1024, .at = first};
            return 1;
        }
    }
    return 0;
}

/* "request was 3221225472 bytes" */
static bool is_request(const struct quantity *q, size_t n)
{
    size_t sizes = 0, asked = 0;
    for (size_t i = 0; i < n; i++) {
        sizes += q[i].unit == UNIT_BYTES;
        asked += q[i].unit == UNIT_BYTES && q[i].role == QUANTITY_ASKED;
    }
    return sizes == 1 && asked == 1;
}

/* The largest size that the text says to be wanted, in whichever line. */
static void note_asked(struct state *st, const struct quantity *q, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (q[i].role == QUANTITY_ASKED && q[i].unit == UNIT_BYTES && q[i].value > st->asked_most && q[i].value < 0x1p50) {
            st->asked_most = q[i].value;
            st->asked_line = st->s.line;
        }
}

/* Headers, rows, and the marks of the line. */
static void read_table(struct state *st, struct text line, const struct quantity *q, size_t n)
{
    struct quantity_header header;
    struct quantity row[QUANTITIES_MAX];
    size_t column[QUANTITIES_MAX], cells = 0;
    bool lacks = false;
    if (quantity_read_header(line, &header)) {
        st->owners |= header.names_owner;
        st->header = header;
        st->header_line = st->s.line;
    } else if (st->header.columns > 0) {
        cells = quantity_row(line, &st->header, row, column, &lacks);
    }
    if (lacks)
        readings_row_lacks(&st->readings);
    readings_marks(&st->readings, line, cells > 0 ? row : q, cells > 0 ? cells : n, cells > 0, st->header_line == st->s.line);
    read_row(st, row, cells, column);
}

static void read_line(struct state *st, struct text line)
{
    struct quantity q[QUANTITIES_MAX];
    st->words = log_words_in(line.at, line.len, 0);
    readings_begin(&st->readings, st->s.line, st->words);
    size_t n = text_has_digit(line) ? quantity_line(line, q) : 0;
    n = read_resident_set(st, line, q) > 0 ? 1 : n;
    read_table(st, line, q, n);
    size_t roles = 0;
    for (size_t i = 0; i < n; i++)
        roles += q[i].role != QUANTITY_NONE && q[i].unit != UNIT_PERCENT;
    bool shortage = (roles > 0 || text_has(line, "emory")) && has(st, LOG_WORDS_SHORTAGE | LOG_WORDS_ALLOCATION) &&
                    has(st, LOG_WORDS_SHORTAGE | LOG_WORDS_ALLOCATION_FAILED) && !is_of_host(st) && !scan_is_warning(line);
    if (shortage) {
        if (n == 1 && q->unit == UNIT_BYTES && (q->role == QUANTITY_ALLOCATED || q->role == QUANTITY_NONE))
            q->role = QUANTITY_ASKED; /* "failed to alloc buffer of 11.3 GiB" */
        if (n > 1)
            st->is_cut |= end_of_cut_line(line, q, n);
        bool fresh = st->failure_line == 0 || st->s.line - st->failure_line > STATEMENT_LINES;
        st->failure_line = st->s.line;
        take_statement(&st->failure, st->s.line, q, n, fresh);
    } else if (roles > 0 && st->failure_line != 0 && st->s.line - st->failure_line <= STATEMENT_LINES &&
               !is_of_host(st)) {
        take_statement(&st->failure, st->s.line, q, n, false);
    }
    note_asked(st, q, n);
    note_trial(st, text_trim(line), q, n);
    note_free(st, q, n);
    readings_add_row(&st->readings, q, n);
    bool is_entry = roles == 1 && n == 1 && is_entry_of_dictionary(line);
    bool near = st->entry_line != 0 && st->s.line - st->entry_line <= STATEMENT_LINES;
    bool says_request = near && is_request(q, n); /* beside a pool's statistics */
    if (is_entry || says_request || roles > 1 || (roles == 1 && has(st, LOG_WORDS_OF_GPU)))
        take_statement(&st->last, st->s.line, q, n, !(near && (is_entry || says_request)));
    st->entry_line = is_entry ? st->s.line : st->entry_line;
    add_to_list(st, line, q, n);
    readings_add_line(&st->readings, line, q, n, is_of_host(st));
    if (n > 1)
        look_for_table(st, line, q, n);
    if (!st->nobody && has(st, LOG_WORDS_NOBODY)) {
        st->nobody = true;
        st->nobody_line = st->s.line;
    }
}

static void say_table(struct state *st)
{
    struct scan at = st->s;
    at.line = st->table_line;
    if (st->table_line != 0) {
        scan_integer(&at, "quantity.table_used_bytes", (int64_t)st->table_used);
        scan_integer(&at, "quantity.table_total_bytes", (int64_t)st->table_total);
    }
    if (st->percent_line != 0) {
        at.line = st->percent_line;
        scan_real(&at, "quantity.table_used_percent", st->percent_used);
    }
    if (st->owners)
        scan_boolean(&at, "quantity.table_owners", true);
    if (st->nobody)
        scan_boolean_at(&at, st->nobody_line, "quantity.table_nobody", true);
}

void quantities_to_facts(struct facts *facts, const char *data, size_t len, const char *source)
{
    unsigned before;
    struct text rest = text_tail(data, len, &before), line;
    struct state st = {.s = {.facts = facts, .source = source != NULL ? source : "text", .line = before}};
    while (text_next_line(&rest, &line)) {
        st.s.line++;
        if (line.len >= 4 && line.len <= LINE_MAX_BYTES)
            read_line(&st, line);
    }
    bool failed = st.failure.line != 0 && knows(&st.failure, QUANTITY_ASKED);
    if (failed)
        say_refusal(&st, &st.failure);
    if (failed || st.last.line != 0)
        say_statement(&st, failed ? &st.failure : &st.last);
    say_table(&st);
    say_list(&st);
    say_trials(&st);
    readings_say(&st.readings, &st.s);
}
