/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closed vocabularies: the error codes of runtimes, libraries, frameworks and systems, by name, number
 * and string, whoever prints them (templates/vocabulary.tsv). Pure; the table is built on first use,
 * not for several threads.
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
    struct text domain, name, strings; /* strings: "a b c|d e", a '~' in front of common words */
    bool has_number;
    int64_t number;
    struct prior prior;
    struct text reason; /* why it speaks of no class; empty: it speaks of one */
};

enum word_kind { WORD_NONE, WORD_CODE, WORD_BARE, WORD_DOMAIN };

/* Of a folded word (lower case, letters and digits only): its code; the same without the domain's prefix
 * (bare: counts only where the text writes an identifier); or the name of a domain. */
enum word_kind vocabulary_word(const char *folded, size_t len, const struct code **ret);
/* Hash of a word is made along with folding it: feed each byte, begin with VOCABULARY_HASH. */
#define VOCABULARY_HASH 2166136261u
static inline uint32_t vocabulary_hash(uint32_t hash, char c)
{
    return (hash ^ (unsigned char)c) * 16777619u;
}
enum word_kind vocabulary_hashed(uint32_t hash, const char *folded, size_t len, const struct code **ret);

/* The code of a domain by its number. */
const struct code *vocabulary_number(struct text domain, int64_t number);
/* A string of a code that `at` begins with, without regard to case; the longest. `is_common`: it counts
 * beside a word of its domain only. */
const struct code *vocabulary_string(struct text at, bool *is_common);
/* "hipMemcpyAsync" -> "hip"; empty: no call of a library that is known. */
struct text vocabulary_domain_of_call(struct text word);
/* What a call that failed adds; NULL: nothing. */
const struct prior *vocabulary_call(struct text call);
/* All codes, for a test of what they give. */
size_t vocabulary_count(void);
const struct code *vocabulary_at(size_t index);

/* err.*: the first code of the text, the call that failed, and what both speak of. */
void vocabulary_to_facts(struct facts *, const char *text, size_t len, const char *source);

#endif
