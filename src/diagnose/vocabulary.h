/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closed vocabularies: the error codes of runtimes, libraries, frameworks and systems, by name, number
 * and string, from any program (templates/vocabulary.tsv). Pure.
 */
#ifndef DIAGNOSE_VOCABULARY_H
#define DIAGNOSE_VOCABULARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "diagnose/prior.h"
#include "diagnose/text.h"

struct facts;

struct code {
    struct text domain, name, strings; /* strings: "a b c|d e", with '~' before common words */
    bool has_number;
    int64_t number;
    const struct prior *prior; /* NULL: evidence for no class; the table says why */
};

enum word_kind { WORD_NONE, WORD_CODE, WORD_BARE, WORD_DOMAIN };

/* Looks up a folded word (lower case, letters and digits only): a code's name; a code's name without
 * the domain's prefix (bare: counts only if the text writes an identifier); or the name of a domain. */
enum word_kind vocabulary_word(const char *folded, size_t len, const struct code **ret);
/* The hash of a word is made while folding it: begin with VOCABULARY_HASH and feed each byte. */
#define VOCABULARY_HASH 2166136261u
static inline uint32_t vocabulary_hash(uint32_t hash, char c)
{
    return (hash ^ (unsigned char)c) * 16777619u;
}
enum word_kind vocabulary_hashed(uint32_t hash, const char *folded, size_t len, const struct code **ret);

/* The code of a domain by its number. */
const struct code *vocabulary_number(struct text domain, int64_t number);
/* The longest string of a code that `at` begins with, in any case. `is_common`: the string counts only
 * beside a word of its domain. */
const struct code *vocabulary_string(struct text at, bool *is_common);
/* "hipMemcpyAsync" -> "hip"; empty: not a call of a known library. */
struct text vocabulary_domain_of_call(struct text word);
/* Weights that a failed call adds; NULL: none. */
const struct prior *vocabulary_call(struct text call);
/* The number of codes, for a test of what each gives. */
size_t vocabulary_count(void);
const struct code *vocabulary_at(size_t index);

/* Sets err.*: the first code of the text, the call that failed, and the classes that both are
 * evidence for. */
void vocabulary_to_facts(struct facts *, const char *text, size_t len, const char *source);

#endif
