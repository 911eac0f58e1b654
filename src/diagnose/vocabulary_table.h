/* SPDX-License-Identifier: Apache-2.0 */
/* templates/vocabulary.tsv as tables; made by vocabulary_table.py. Internal to diagnose/vocabulary_table.c. */
#ifndef DIAGNOSE_VOCABULARY_TABLE_H
#define DIAGNOSE_VOCABULARY_TABLE_H

#include "diagnose/vocabulary.h"

#define VOCABULARY_WORD_SLOTS 4096u   /* a power of two, several times the words */
#define VOCABULARY_STRING_SLOTS 4096u /* by the first four letters */

struct vocabulary_word {
    uint32_t hash;
    uint16_t code; /* index + 1; 0 = free */
    uint8_t kind;  /* enum word_kind */
};

struct vocabulary_string {
    struct text text;
    uint16_t code; /* index */
    uint16_t slot;
    bool is_common;
};

/* Beginning of a call's name. */
struct vocabulary_prefix {
    struct text words, domain;
};

/* Part of a call's name. */
struct vocabulary_call {
    struct text name;
    const struct prior *prior;
};

extern const struct code vocabulary_codes[]; /* behind them one for each word that names a domain */
extern const size_t vocabulary_code_count;
extern const struct vocabulary_call vocabulary_calls[]; /* the longest first */
extern const size_t vocabulary_call_count;
extern const struct vocabulary_prefix vocabulary_prefixes[];
extern const size_t vocabulary_prefix_count;
extern const struct vocabulary_word vocabulary_words[VOCABULARY_WORD_SLOTS];
extern const struct vocabulary_string vocabulary_strings[];                    /* by slot; the longest of one slot first */
extern const uint16_t vocabulary_first_strings[VOCABULARY_STRING_SLOTS]; /* index + 1; 0 = none */

/* `p`: four letters, in any case. */
static inline uint32_t vocabulary_string_slot(const char *p)
{
    const unsigned char *b = (const unsigned char *)p;
    uint32_t four = b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
    return (four | 0x20202020u) * 0x9e3779b1u >> 20;
}

#endif
