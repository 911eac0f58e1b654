/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The quantity reader: every number of a line with its unit and the word that gives its role, from any
 * program; also series of lines of one shape. Pure.
 *
 * The parsers of products (messages.c, pasted.c) know more about their own lines, so their facts are
 * set first. If both read the same figure, the values must be equal
 * (tests/unit/diagnose/test_quantity.c).
 */
#ifndef DIAGNOSE_QUANTITY_H
#define DIAGNOSE_QUANTITY_H

#include <stdbool.h>
#include <stddef.h>

#include "diagnose/text.h"

struct facts;

enum quantity_role {
    QUANTITY_NONE,
    QUANTITY_ASKED,
    QUANTITY_FREE,
    QUANTITY_TOTAL,
    QUANTITY_USED,
    QUANTITY_ALLOCATED,
    QUANTITY_RESERVED,
    QUANTITY_IDLE,
    QUANTITY_LIMIT,
    QUANTITY_LARGEST,
    QUANTITY_PEAK,
    QUANTITY_RSS,
    QUANTITY_ROLES,
};

/* UNIT_OF_MEMORY: memory in a unit that the table does not name. It may be compared, it is no size. */
enum quantity_unit { UNIT_NONE, UNIT_BYTES, UNIT_PERCENT, UNIT_OF_MEMORY };

struct quantity {
    enum quantity_role role;
    enum quantity_unit unit;
    double value; /* in bytes if the unit is one of memory */
    const char *at; /* its first digit */
    bool of_pair; /* the value is the a or the b of "a / b" */
};

/* "used"; "memory" for no role */
const char *quantity_role_name(enum quantity_role);

#define QUANTITIES_MAX 12

/* The quantities of a line, in order. Numbers that are part of a word, an address, a time or a
 * version are left out. */
size_t quantity_line(struct text line, struct quantity out[QUANTITIES_MAX]);

/* Between cells of several words there are two blanks or a tab. */
#define QUANTITY_WIDE '\t'

bool quantity_has_wide_gaps(struct text line);

/* The next cell of a row; false at its end. */
bool quantity_next_cell(struct text *rest, char separator, struct text *ret);

/* The line above a table: names of columns, some of which have a role. */
struct quantity_header {
    size_t columns; /* 0 = none */
    char separator; /* of cells: ',', '|', ' ' or QUANTITY_WIDE */
    enum quantity_role role[QUANTITIES_MAX];
    enum quantity_unit unit[QUANTITIES_MAX];
    double factor[QUANTITIES_MAX];
    bool of_host[QUANTITIES_MAX];
    bool names_owner; /* there is a column of processes */
};

/* True, with *ret, if the line is a header: at least two names, one with a role, none of them a number. */
bool quantity_read_header(struct text line, struct quantity_header *ret);
/* The quantities of a row with as many fields as the header has columns; 0: no such row. `column`: the
 * column of each. *lacks: the cell of memory has no number ("32  -  crash"). */
size_t quantity_row(struct text line, const struct quantity_header *header, struct quantity out[QUANTITIES_MAX],
                    size_t column[QUANTITIES_MAX], bool *lacks);

/* Sets quantity.*: the figures of the last statement about memory (of a failure, if there is one); and
 * series.*: what grows, falls or is idle over lines of one shape. If no parser has read the figures of
 * an out-of-memory message, they become oom.*. */
void quantities_to_facts(struct facts *, const char *text, size_t len, const char *source);

#endif
