/* SPDX-License-Identifier: Apache-2.0 */
/* "Did you mean": what a word was likely to be. */
#ifndef CLI_SUGGEST_H
#define CLI_SUGGEST_H

#include <stdbool.h>
#include <stddef.h>

/* The words that there are, one by one; NULL after the last. */
typedef const char *(*suggest_words)(size_t index);

/* The word that is so near that it was likely meant, or NULL. */
const char *suggest_near(const char *word, suggest_words words);
/* Letters to change, to leave out, to put in, or pairs to swap. Words up to 31 bytes; else 99. */
unsigned suggest_distance(const char *a, const char *b);

/* Is it a program that execvp(3) would find? */
bool suggest_finds(const char *word);

/* A command line without "--" that names no command: a verb misspelt, a bundle, a script. `hint`
 * gets a sentence; false when it looks like a command. */
bool suggest_command(char *const argv[], suggest_words verbs, char *hint, size_t size);

#endif
