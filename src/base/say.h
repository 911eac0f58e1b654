/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints foreign texts on a terminal: names of files, commands, facts, the contents of a bundle.
 * The terminal must show them, not obey them: every control, every character that hides or reorders
 * others, and every byte that is no UTF-8 becomes \xNN. tests/lint/terminal checks that such texts
 * are printed by these functions.
 */
#ifndef BASE_SAY_H
#define BASE_SAY_H

#include <stddef.h>
#include <stdio.h>

struct buf;

#define SAY_LINE_BYTES 6144 /* two paths and some words; a longer text ends in "..." */

/* Prints one line, formatted as by printf(3) and escaped as a whole; adds the line's end. A terminal gets it broken
 * between words, at its width. Needs no memory. Returns 0 or -EIO. */
int say_line(FILE *to, const char *form, ...) __attribute__((format(printf, 2, 3)));
/* The same, never broken: it ends in a path or a command that a person copies. */
int say_whole(FILE *to, const char *form, ...) __attribute__((format(printf, 2, 3)));
/* Prints clean lines, broken in the same way. 0 or -EIO. */
int say_text(FILE *to, const char *text);
/* Prints a JSON text. Such characters become \uNNNN. Adds a line's end. 0 or -EIO. */
int say_json(FILE *to, const char *json);
/* Appends the escaped text; line ends and tabs stay. */
void say_clean(struct buf *out, const char *text, size_t len);
/* Appends the text as a part of one line: line ends and tabs become \xNN, too. */
void say_word(struct buf *out, const char *text);
/* At a program's end: has all of stdout been written? If not, one line on stderr and -errno. */
int say_end(void);

#endif
