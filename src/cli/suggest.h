/* SPDX-License-Identifier: Apache-2.0 */
/* "Did you mean": the word that a misspelt one was meant to be. */
#ifndef CLI_SUGGEST_H
#define CLI_SUGGEST_H

#include <stdbool.h>
#include <stddef.h>

/* The known words, one by one; NULL after the last. */
typedef const char *(*suggest_words)(size_t index);

/* The known word that was probably meant, or NULL. */
const char *suggest_near(const char *word, suggest_words words);
/* The number of letters to change, remove or insert, and of pairs to swap. Words up to 31 bytes; else 99. */
unsigned suggest_distance(const char *a, const char *b);

/* A command line without "--" that names no command: a verb misspelt, a bundle, a script. `hint`
 * gets a sentence; false when it looks like a command. */
bool suggest_command(char *const argv[], suggest_words verbs, char *hint, size_t size);

#endif
