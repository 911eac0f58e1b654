/* SPDX-License-Identifier: Apache-2.0 */
/* Text from data as Markdown that GitHub shows unchanged, also for those who write a part of a summary elsewhere. */
#ifndef REPORT_ESCAPE_H
#define REPORT_ESCAPE_H

#include <stddef.h>

struct buf;

/*
 * One line of text from data into Markdown. Each word that Markdown or GitHub could read as markup
 * (HTML, @mentions, #123 references, addresses) goes into a code span. Hidden characters are
 * removed, newlines become blanks, and the text is cut after `max` bytes.
 */
void escape_markdown(struct buf *out, const char *text, size_t max);
/* A code span in a cell of a table. */
void escape_cell(struct buf *out, const char *text, size_t max);

#endif
