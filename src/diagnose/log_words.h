/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words of lines that are worth keeping, by groups: the rules of scope "words" in
 * templates/messages.rules. Pure; one look-up a byte.
 */
#ifndef DIAGNOSE_LOG_WORDS_H
#define DIAGNOSE_LOG_WORDS_H

#include <stddef.h>
#include <stdint.h>

#include "base/words.h"
#include "diagnose/rules_made.h"

extern const struct words log_words;
extern const uint8_t log_words_group[];

/* Groups (enum log_words) that `text` holds a word of, whatever its case; those of `enough` end the search. */
unsigned log_words_in(const char *text, size_t len, unsigned enough);

#endif
