/* SPDX-License-Identifier: Apache-2.0 */
/* Breaks lines between words at a terminal's width. Needs no memory, apart from wrap_lines(). */
#ifndef BASE_WRAP_H
#define BASE_WRAP_H

#include <stddef.h>

struct buf;

#define WRAP_COLUMNS_MIN 20u /* a narrower terminal breaks lines itself */

/* The width at which lines on `fd` are broken; 0 = they are not: it is no terminal, or has no width. */
unsigned wrap_columns(int fd);
/* Columns that the text takes on a terminal. A character that say.h escapes takes four for each byte. */
size_t wrap_width(const char *text, size_t bytes);
/* Bytes of `text` that go on a line with `room` columns: whole words, at least one. What stands between quotes ('a path
 * with blanks', 'a command') is one word. A text ends at its NUL or line end. */
size_t wrap_piece(const char *text, size_t room);
/* The column in which the lines below the first one of `text` begin: below its last column, else below its label. */
size_t wrap_indent(const char *text, unsigned columns);
/* The next of those lines: its bytes; *ret_indent is `indent`, or less where its first word fits only then. */
size_t wrap_below(const char *text, size_t indent, unsigned columns, int *ret_indent);
/* Appends clean text, each of its lines broken at `columns` (0 = unchanged). */
void wrap_lines(struct buf *out, const char *text, unsigned columns);

#endif
