/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of words: the rules of scope "words" in templates/messages.rules. One call finds all lists that a
 * line matches. Pure; one look-up a byte, however many words there are.
 */
#ifndef DIAGNOSE_LOG_WORDS_H
#define DIAGNOSE_LOG_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/words.h"
#include "diagnose/rules_made.h"

struct log_word {
    uint64_t lists; /* lists that hold the word */
    uint8_t length;
    bool begins, ends; /* only if no letter or digit precedes and no letter follows */
};

extern struct words log_words;
extern const struct log_word log_word_rows[];

/* The lists that have a word in `text`, in any case (LOG_WORDS_*, a bit each). The search ends at the
 * first word of a list in `enough`. */
uint64_t log_words_in(const char *text, size_t len, uint64_t enough);

#endif
