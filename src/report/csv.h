/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a table that rocmcrash wrote: a line of names, then rows; no quotes. An empty cell is a
 * missing value. The text must outlive the table. */
#ifndef REPORT_CSV_H
#define REPORT_CSV_H

#include <stddef.h>

#define CSV_NONE ((size_t)-1)
#define CSV_COLUMNS_MAX 65536

struct csv {
    size_t columns, rows;
    char **names;       /* of the columns */
    const char **cells; /* rows * columns; each ends at ',' or '\n' */
};

/* 0 or -ENOMEM; then the table is empty. Rows that are shorter than the line of names are left out. A table with too many columns
 * is read as an empty one. */
int csv_read(struct csv *ret, const char *text);
void csv_release(struct csv *table);
/* CSV_NONE = no column of that name. */
size_t csv_column(const struct csv *table, const char *name);
/* NAN: no number, or no such column. */
double csv_number(const struct csv *table, size_t row, size_t column);
/* Ends at ',' or '\n', not at a NUL. */
const char *csv_text(const struct csv *table, size_t row, size_t column);

#endif
