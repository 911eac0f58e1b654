/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts of others on a terminal: names of files, commands, facts, what a bundle says. A terminal
 * shows them and does not obey them: every control, every character that hides or reorders others,
 * and every byte that is no UTF-8 becomes \xNN. What prints such a text prints it by one of these
 * (tests/lint/terminal).
 */
#ifndef BASE_SAY_H
#define BASE_SAY_H

#include <stddef.h>
#include <stdio.h>

struct buf;

#define SAY_LINE_BYTES 6144 /* two paths and some words; what is longer ends in "..." */

/* One line, formatted as by printf(3) and cleaned as a whole; the line's end is added. Needs no
 * memory. Returns 0 or -EIO. */
int say_line(FILE *to, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A JSON text as it is, but for such characters: \uNNNN. Adds a line's end. 0 or -EIO. */
int say_json(FILE *to, const char *json);
/* Appends the clean text; line ends and tabs stay. */
void say_clean(struct buf *out, const char *text, size_t len);
/* Appends it as a part of one line: line ends and tabs become \xNN, too. */
void say_word(struct buf *out, const char *text);

#endif
