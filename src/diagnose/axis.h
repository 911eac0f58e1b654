/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells whether the figures of a series follow a clock or a counter of equal work (growth over time), or a
 * size that somebody chose (demand). Pure.
 *
 * Every number of a line that is no figure of memory is a mark. The word beside it or above it in a table says
 * its kind (templates/messages.rules: axis-size, axis-amount, axis-counter), or its form does (a time of day,
 * "512x768"). Over several lines the steps speak, too: a clock neither falls nor repeats, and a number that
 * doubles again and again was chosen.
 */
#ifndef DIAGNOSE_AXIS_H
#define DIAGNOSE_AXIS_H

#include <stdbool.h>
#include <stddef.h>

#include "diagnose/quantity.h"
#include "diagnose/text.h"

enum mark_kind {
    MARK_PLAIN,
    MARK_TIME,    /* of day, or a date */
    MARK_COUNTER, /* step 10, 3 hours */
    MARK_AMOUNT,  /* tokens: a counter beside them counts the work, else they are a size */
    MARK_SIZE,
};

struct mark {
    enum mark_kind kind;
    struct text name; /* the word that gives the kind; empty if there is none */
    const char *at;   /* its first digit */
    double value;
};

#define MARKS_MAX 8
#define AXIS_CELLS_MAX 12

/* The line above a table without units: names of columns, one of which is a size or a counter. */
struct axis_header {
    size_t cells; /* 0 = none */
    struct text cell[AXIS_CELLS_MAX];
    char separator; /* '|', ',', ';', or ' ' for any blank */
};

/* False if the line is no header; then *ret has no cells. *ret points into the line. */
bool axis_read_header(struct text line, struct axis_header *ret);

/* The marks of a line whose quantities are `q`. */
size_t axis_marks(struct text line, const struct quantity *q, size_t n, const struct axis_header *header,
                  struct mark out[MARKS_MAX]);

/* The marks of one place over the lines of a series. */
struct axis_track {
    struct mark mark; /* of the last line */
    double ratio;     /* of the first step */
    unsigned rises, falls;
    bool other_ratio, other_power;
};

struct axis {
    struct axis_track track[MARKS_MAX];
    size_t tracks;
    unsigned readings;
};

void axis_add(struct axis *, const struct mark *marks, size_t n);

enum axis_kind { AXIS_UNKNOWN, AXIS_CLOCK, AXIS_SIZE };

/* Says what the lines follow, and its name. */
enum axis_kind axis_kind(const struct axis *, struct text *ret_name);

/* The same for readings in one line: "batch 8 -> 12 GB, batch 16 -> 23 GB". */
enum axis_kind axis_of_line(const struct mark *marks, size_t n, struct text *ret_name);

#endif
