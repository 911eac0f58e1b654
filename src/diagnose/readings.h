/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readings of memory that repeat: over lines of one shape, in a column of a table, within one line. They set
 * series.*: what grows with a clock, what follows a size, what falls or is idle. Pure.
 */
#ifndef DIAGNOSE_READINGS_H
#define DIAGNOSE_READINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "diagnose/axis.h"
#include "diagnose/quantity.h"
#include "diagnose/text.h"

struct scan;

#define READINGS_SHAPES 48
#define READINGS_COLUMNS 6

struct readings_column {
    enum quantity_role role;
    enum quantity_unit unit;
    double first, last, least, most;
    unsigned rises, falls;
};

/* Lines that differ in their numbers only. */
struct readings_shape {
    uint64_t hash;
    unsigned count, line, last_line;
    unsigned table; /* line of its header; 0: no table */
    struct axis axis;
    size_t columns;
    struct readings_column column[READINGS_COLUMNS];
    bool of_host;
    bool of_memory;
    bool failed; /* a failure is told behind the last line */
};

struct readings_marks {
    struct mark mark[MARKS_MAX];
    size_t count;
    unsigned line;
};

struct readings {
    unsigned line; /* the one that is read, from 1, and the lists that have a word on it */
    uint64_t words;
    struct axis_header header;
    struct readings_marks marks;  /* of this line */
    struct readings_marks beside; /* of the last line with a size or a counter that has no reading */
    struct readings_shape shapes[READINGS_SHAPES];
    size_t shape_count;
    unsigned last_line;
    unsigned row_count, row_line; /* readings within one line */
    unsigned size_line;           /* a line whose readings follow a size */
    struct text size_name;
    bool size_failed;
};

/* The same number for lines that differ in their numbers only. */
uint64_t readings_shape_of(struct text line);

/* Each line, in order: first this; then its marks. `q`: its quantities; `is_row`: it may be a row of a table
 * with units; `is_header`: it names the columns of one. */
void readings_begin(struct readings *, unsigned line, uint64_t words);
void readings_marks(struct readings *, struct text line, const struct quantity *q, size_t n, bool is_row, bool is_header);
/* Then one or more of these. `table`: the line of its header. */
void readings_add_line(struct readings *, struct text line, const struct quantity *q, size_t n, bool of_host);
void readings_add_cell(struct readings *, unsigned table, size_t column, const struct quantity *q, bool of_host);
void readings_add_row(struct readings *, const struct quantity *q, size_t n);

/* The line is a row of the table without a reading. */
void readings_row_lacks(struct readings *);

void readings_say(const struct readings *, const struct scan *);

#endif
