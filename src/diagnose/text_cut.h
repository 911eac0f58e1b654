/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text whose lines were cut by a table's column, a log shipper, a screenshot. Pure, not thread-safe
 * (a table is built on first use).
 */
#ifndef DIAGNOSE_TEXT_CUT_H
#define DIAGNOSE_TEXT_CUT_H

#include <stddef.h>

/* Completes cut lines where there is no doubt: a line that ends within the words of one rule
 * (templates/messages.rules) or of one error code (templates/vocabulary.tsv), and of no other, gets the rest
 * of these words. Figures are never added. Lines keep their numbers. NULL: no line was completed, the text is
 * too long (256 KiB), or memory is short. free() it; *ret_len without the NUL. */
char *text_complete(const char *data, size_t len, size_t *ret_len);

#endif
