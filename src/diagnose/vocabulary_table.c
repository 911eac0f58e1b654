/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks words, numbers and strings up in the tables of templates/vocabulary.tsv.
 */
#include "diagnose/vocabulary_table.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#define FOLDED_MAX 96
#define CALL_MIN 6 /* letters of a call's name */

static size_t fold(struct text name, char out[FOLDED_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < name.len && n < FOLDED_MAX; i++)
        if (isalnum((unsigned char)name.at[i]))
            out[n++] = (char)tolower((unsigned char)name.at[i]);
    return n;
}

static uint32_t hash_of(const char *folded, size_t len)
{
    uint32_t hash = VOCABULARY_HASH;
    for (size_t i = 0; i < len; i++)
        hash = vocabulary_hash(hash, folded[i]);
    return hash;
}

enum word_kind vocabulary_hashed(uint32_t hash, const char *folded, size_t len, const struct code **ret)
{
    char own[FOLDED_MAX];
    for (size_t at = hash % VOCABULARY_WORD_SLOTS; vocabulary_words[at].code != 0; at = (at + 1) % VOCABULARY_WORD_SLOTS) {
        const struct vocabulary_word *slot = &vocabulary_words[at];
        const struct code *c = &vocabulary_codes[slot->code - 1];
        if (slot->hash != hash)
            continue;
        /* 32 bits of hash are compared, and the letters of a name (those of its end, if it is
         * bare) */
        size_t n = fold(c->name, own);
        size_t part = len < n ? len - (slot->kind == WORD_BARE && folded[0] == 'k') : n;
        if (slot->kind != WORD_DOMAIN &&
            (part > len || memcmp(own + n - part, folded + len - part, part) != 0))
            continue;
        *ret = c;
        return slot->kind;
    }
    return WORD_NONE;
}

enum word_kind vocabulary_word(const char *folded, size_t len, const struct code **ret)
{
    return vocabulary_hashed(hash_of(folded, len), folded, len, ret);
}

const struct code *vocabulary_number(struct text domain, int64_t number)
{
    for (size_t i = 0; i < vocabulary_code_count; i++) {
        const struct code *c = &vocabulary_codes[i];
        if (c->has_number && c->number == number && c->domain.len == domain.len && memcmp(c->domain.at, domain.at, domain.len) == 0)
            return c;
    }
    return NULL;
}

/* The longest string that `at` begins with; of equal ones that of the first row. */
static const struct vocabulary_string *string_at(struct text at)
{
    uint32_t slot = vocabulary_string_slot(at.at);
    uint16_t first = vocabulary_first_strings[slot];
    if (first == 0)
        return NULL;
    for (const struct vocabulary_string *s = &vocabulary_strings[first - 1]; s->slot == slot; s++)
        if (s->text.len <= at.len && strncasecmp(at.at, s->text.at, s->text.len) == 0)
            return s;
    return NULL;
}

const struct code *vocabulary_string(struct text at, bool *is_common)
{
    const struct vocabulary_string *s = at.len >= 4 ? string_at(at) : NULL;
    if (s == NULL || (s->text.len < at.len && isalnum((unsigned char)at.at[s->text.len])))
        return NULL;
    *is_common = s->is_common;
    return &vocabulary_codes[s->code];
}

/* "hipblas+": a capital letter follows. */
static bool begins_so(struct text word, struct text prefix)
{
    size_t capital = prefix.at[prefix.len - 1] == '+', n = prefix.len - capital;
    return word.at[0] == prefix.at[0] && word.len >= n + capital && memcmp(word.at, prefix.at, n) == 0 &&
           (capital == 0 || isupper((unsigned char)word.at[n]));
}

struct text vocabulary_domain_of_call(struct text word)
{
    for (size_t i = 0; i < vocabulary_prefix_count && word.len >= CALL_MIN; i++)
        if (begins_so(word, vocabulary_prefixes[i].words))
            return vocabulary_prefixes[i].domain;
    return (struct text){"", 0};
}

const struct prior *vocabulary_call(struct text call)
{
    for (size_t i = 0; i < vocabulary_call_count; i++)
        if (text_has(call, vocabulary_calls[i].name.at))
            return vocabulary_calls[i].prior;
    return NULL;
}

size_t vocabulary_count(void)
{
    return vocabulary_code_count;
}

const struct code *vocabulary_at(size_t index)
{
    return &vocabulary_codes[index];
}
