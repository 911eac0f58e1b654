/* SPDX-License-Identifier: Apache-2.0 */
/* Made by words_tables.py: two automata of the same words. The place of a word in words_texts is its id. */
#ifndef TESTS_WORDS_TABLES_H
#define TESTS_WORDS_TABLES_H

#include "base/words.h"

extern struct words words_as_written, words_in_any_case;
extern const char *const words_texts[]; /* NULL ends them */

#endif
