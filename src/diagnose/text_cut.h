/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text whose lines were cut: by a table's column, a log shipper, a screenshot. Pure, not for several
 * threads (a table is built on first use).
 */
#ifndef DIAGNOSE_TEXT_CUT_H
#define DIAGNOSE_TEXT_CUT_H

#include <stddef.h>

/* The text with the ends of cut lines that no doubt is possible about: a line that ends within the words
 * of one rule (templates/messages.rules) or of one error code (templates/vocabulary.tsv), and of no other,
 * is completed to their end. Figures are never added. Lines keep their numbers. NULL: no line was
 * completed, the text is too long for that (256 KiB), or memory is short. free() it; *ret_len without the NUL. */
char *text_complete(const char *data, size_t len, size_t *ret_len);

#endif
