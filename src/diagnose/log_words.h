/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of words: the rules of scope "words" in templates/messages.rules. Readers that ask many of them of
 * a line ask once. Pure; one look-up a byte, whatever the number of words.
 */
#ifndef DIAGNOSE_LOG_WORDS_H
#define DIAGNOSE_LOG_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/words.h"
#include "diagnose/rules_made.h"

struct log_word {
    uint64_t lists; /* that hold it */
    uint8_t length;
    bool begins, ends; /* only where no letter or digit is in front, no letter behind */
};

extern const struct words log_words;
extern const struct log_word log_word_rows[];

/* The lists (LOG_WORDS_*, a bit each) that `text` holds a word of, whatever its case; those of `enough` end
 * the search. */
uint64_t log_words_in(const char *text, size_t len, uint64_t enough);

#endif
