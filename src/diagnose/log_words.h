/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of words: the rules of scope "words" in templates/messages.rules, and the words that select the rules of
 * scope "asked". One call finds all that a line has. Pure; one look-up a byte, however many words there are.
 */
#ifndef DIAGNOSE_LOG_WORDS_H
#define DIAGNOSE_LOG_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/words.h"
#include "diagnose/rules_made.h"
#include "diagnose/text.h"

/* A word, or all words that end at one place and may stand anywhere. */
struct log_word {
    uint64_t lists; /* lists that hold the word */
    uint64_t asked; /* rules of scope "asked" that it selects */
    uint8_t length;
    bool begins, ends; /* only if no letter or digit precedes and no letter follows */
};

extern struct words log_words;
extern const struct log_word log_word_rows[];

/* The lists that have a word in `text`, in any case (LOG_WORDS_*, a bit each). The search ends at the
 * first word of a list in `enough`. */
uint64_t log_words_in(const char *text, size_t len, uint64_t enough);

/* A line and what its words say: looked up once, and handed to all who ask of it. */
struct line_words {
    struct text text;
    uint64_t lists; /* LOG_WORDS_* */
    uint64_t asked; /* bit per rule of scope "asked": it may be on */
};
struct line_words line_words_of(struct text line);

static inline bool line_says(const struct line_words *line, uint64_t lists)
{
    return (line->lists & lists) != 0;
}

#endif
