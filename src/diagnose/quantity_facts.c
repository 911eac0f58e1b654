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

struct statement {
    double value[QUANTITY_ROLES];
    unsigned known, line; /* bit per role; line 0 = no statement */
};

struct state {
    struct readings readings;
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
    double asked_most;
    unsigned asked_line;
    bool owners; /* a table names processes */
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

static void say_asked(const struct state *st)
{
    struct scan at = st->s;
    at.line = st->asked_line;
    if (st->asked_line != 0)
        scan_integer(&at, "quantity.asked_most_bytes", (int64_t)st->asked_most);
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
        read != NULL)
        return; /* its parser knows better */
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
    readings_marks(&st->readings, line, cells > 0 ? row : q, cells > 0 ? cells : n, st->header_line == st->s.line);
    read_row(st, row, cells, column);
}

static void read_line(struct state *st, struct text line)
{
    struct quantity q[QUANTITIES_MAX];
    st->words = log_words_in(line.at, line.len, 0);
    readings_begin(&st->readings, st->s.line, st->words);
    size_t n = text_has_digit(line) ? quantity_line(line, q) : 0;
    read_table(st, line, q, n);
    size_t roles = 0;
    for (size_t i = 0; i < n; i++)
        roles += q[i].role != QUANTITY_NONE && q[i].unit != UNIT_PERCENT;
    bool shortage = (roles > 0 || text_has(line, "emory")) && has(st, LOG_WORDS_SHORTAGE | LOG_WORDS_ALLOCATION) &&
                    has(st, LOG_WORDS_SHORTAGE | LOG_WORDS_ALLOCATION_FAILED) && !is_of_host(st) && !scan_is_warning(line);
    if (shortage) {
        if (n == 1 && q->unit == UNIT_BYTES && (q->role == QUANTITY_ALLOCATED || q->role == QUANTITY_NONE))
            q->role = QUANTITY_ASKED; /* "failed to alloc buffer of 11.3 GiB" */
        bool fresh = st->failure_line == 0 || st->s.line - st->failure_line > STATEMENT_LINES;
        st->failure_line = st->s.line;
        take_statement(&st->failure, st->s.line, q, n, fresh);
    } else if (roles > 0 && st->failure_line != 0 && st->s.line - st->failure_line <= STATEMENT_LINES &&
               !is_of_host(st)) {
        take_statement(&st->failure, st->s.line, q, n, false);
    }
    note_asked(st, q, n);
    if (roles > 1 || (roles == 1 && has(st, LOG_WORDS_OF_GPU)))
        take_statement(&st->last, st->s.line, q, n, true);
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
    say_asked(&st);
    readings_say(&st.readings, &st.s);
}
