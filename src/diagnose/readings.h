/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readings of memory that repeat: over lines of one shape, or in a column of a table. They set series.*: what grows
 * with a clock or a counter of equal work (growth over time), and what follows a size that somebody chose (demand). The
 * words beside a number say its kind (templates/messages.rules: axis-size, axis-amount, axis-counter). Pure.
 */
#ifndef DIAGNOSE_READINGS_H
#define DIAGNOSE_READINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "diagnose/quantity.h"
#include "diagnose/text.h"

struct scan;

#define READINGS_SHAPES 48
#define READINGS_COLUMNS 6

enum readings_kind { READINGS_SIZE, READINGS_AMOUNT, READINGS_COUNTER, READINGS_KINDS };

/* A number that is no figure of memory, and the words that say what it is. */
struct readings_mark {
    bool is_there;
    double value;
    struct text name;
};

struct readings_marks {
    struct readings_mark mark[READINGS_KINDS];
    unsigned line;
};

/* The marks of one kind over the lines of a series. */
struct readings_track {
    bool is_there; /* in each of the lines */
    double last;
    unsigned rises, falls;
    struct text name;
};

struct readings_column {
    enum quantity_role role;
    enum quantity_unit unit;
    double first, last, most;
    unsigned rises, falls;
};

/* Lines that differ in their numbers only. */
struct readings_shape {
    uint64_t hash;
    unsigned count, line, last_line;
    struct readings_track track[READINGS_KINDS];
    size_t columns;
    struct readings_column column[READINGS_COLUMNS];
    bool of_host;
    bool failed; /* a failure is told behind the last line */
};

struct readings {
    unsigned line; /* the one that is read, from 1, and the lists that have a word on it */
    uint64_t words;
    struct text header; /* the name of a table's first column */
    struct readings_marks marks;  /* of this line */
    struct readings_marks beside; /* of the last line with a size or a counter that has no reading */
    struct readings_shape shapes[READINGS_SHAPES];
    size_t shape_count;
    unsigned last_line;
};

/* The same number for lines that differ in their numbers only. */
uint64_t readings_shape_of(struct text line);

/* Each line, in order: first this; then its marks. `q`: its quantities; `is_header`: it names the columns of a table with units. */
void readings_begin(struct readings *, unsigned line, uint64_t words);
void readings_marks(struct readings *, struct text line, const struct quantity *q, size_t n, bool is_header);
/* Then one or more of these. `table`: the line of its header. */
void readings_add_line(struct readings *, struct text line, const struct quantity *q, size_t n, bool of_host);
void readings_add_cell(struct readings *, unsigned table, size_t column, const struct quantity *q, bool of_host);

/* The line is a row of the table without a reading. */
void readings_row_lacks(struct readings *);

void readings_say(const struct readings *, const struct scan *);

#endif
