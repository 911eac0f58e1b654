/* SPDX-License-Identifier: Apache-2.0 */
/*
 * templates/vocabulary.tsv, built in, as hash tables: of words, and of the first four letters of
 * strings.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "diagnose/vocabulary.h"

#define CODES_MAX 2048
#define CALLS_MAX 64
#define PREFIXES_MAX 64
#define STRINGS_MAX 512
#define SLOTS 4096 /* a power of two, several times the words */
#define FOLDED_MAX 96
#define CALL_MIN 6 /* letters of a call's name */

extern const char vocabulary_rows[];

struct slot {
    uint32_t hash;
    uint16_t code; /* index + 1; 0 = free */
    uint8_t kind;
};

struct string {
    struct text text;
    uint16_t code, next; /* index + 1 of the next call that may begin so */
    bool is_common;
};

static struct code codes[CODES_MAX];
static struct code calls[CALLS_MAX];
static struct string strings[STRINGS_MAX];
static struct prefix {
    struct text words, domain;
} prefixes[PREFIXES_MAX]; /* beginnings of calls */
static size_t code_count, call_count, string_count, prefix_count;
static size_t named_count; /* codes; domains follow them */
static struct slot slots[SLOTS];
static uint16_t by_letters[1u << 16]; /* index + 1 of the last string that may begin so */

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

/* The first row that has a word keeps it. */
static void add_word(struct text name, size_t code, enum word_kind kind)
{
    char folded[FOLDED_MAX];
    size_t len = fold(name, folded);
    const struct code *known = NULL;
    if (len == 0 || vocabulary_word(folded, len, &known) != WORD_NONE)
        return;
    uint32_t hash = hash_of(folded, len);
    size_t at = hash & (SLOTS - 1);
    while (slots[at].code != 0)
        at = (at + 1) & (SLOTS - 1);
    slots[at] = (struct slot){.hash = hash, .code = (uint16_t)(code + 1), .kind = (uint8_t)kind};
}

static uint32_t letters_slot(const char *p)
{
    uint32_t four;
    memcpy(&four, p, sizeof four);
    return (four | 0x20202020u) * 0x9e3779b1u >> 16;
}

static bool same(struct text a, struct text b)
{
    return a.len == b.len && memcmp(a.at, b.at, a.len) == 0;
}

/* The name of a domain, not of a code. */
static bool is_of_domains(const struct code *c)
{
    return text_equals(c->domain, "call") || text_equals(c->domain, "calls") || text_equals(c->domain, "names") ||
           text_equals(c->domain, "bare");
}

static bool next_string(struct text *rest, struct text *ret)
{
    if (rest->len == 0)
        return false;
    *ret = text_until(*rest, "|");
    *rest = text_skip(*rest, ret->len + 1);
    return true;
}

static void add_strings(const struct code *c, size_t index)
{
    struct text rest = c->strings, one;
    while (string_count < STRINGS_MAX && next_string(&rest, &one)) {
        bool is_common = one.len > 0 && one.at[0] == '~';
        one = text_skip(one, is_common);
        if (one.len < 4)
            continue;
        uint16_t *last = &by_letters[letters_slot(one.at)];
        strings[string_count++] = (struct string){one, (uint16_t)index, *last, is_common};
        *last = (uint16_t)string_count;
    }
}

static struct text next_field(struct text *line)
{
    struct text field = text_until(*line, "\t");
    *line = text_skip(*line, field.len + 1);
    return text_trim(field);
}

static struct code read_row(struct text line)
{
    struct code c = {.domain = next_field(&line), .name = next_field(&line)};
    struct text number = next_field(&line);
    struct text prior = next_field(&line);
    c.strings = next_field(&line);
    c.has_number = number.len > 0;
    if (c.has_number)
        c.number = strtoll(number.at, NULL, 0); /* ends at the tab */
    if (prior.len > 0 && prior.at[0] == '-')
        c.reason = text_trim(text_skip(prior, 1));
    else if (!prior_parse(prior.at, &c.prior))
        c.reason = (struct text){"wrong row", 9}; /* the test of the table says which */
    return c;
}

static void add_code(const struct code *c)
{
    if (text_equals(c->domain, "call") && call_count < CALLS_MAX) {
        calls[call_count++] = *c;
    } else if (text_equals(c->domain, "calls")) {
        struct text rest = c->strings, one;
        while (prefix_count < PREFIXES_MAX && next_string(&rest, &one))
            prefixes[prefix_count++] = (struct prefix){one, c->name};
    } else if (!is_of_domains(c) && code_count < CODES_MAX) {
        codes[code_count] = *c;
        add_strings(c, code_count++);
    }
}

/* Names of a domain, which precede numbers. */
static void add_names(const struct code *c)
{
    struct text rest = c->strings, one;
    while (text_equals(c->domain, "names") && code_count < CODES_MAX && next_string(&rest, &one)) {
        codes[code_count] = (struct code){.domain = c->name};
        add_word(one, code_count++, WORD_DOMAIN);
    }
}

/* The codes' names with a part removed or replaced. */
static void add_bare(const struct code *c)
{
    struct text rest = c->strings, one;
    while (text_equals(c->domain, "bare") && next_string(&rest, &one))
        for (size_t i = 0; i < named_count; i++) {
            char name[FOLDED_MAX];
            struct text prefix = text_until(one, "="), instead = text_skip(one, prefix.len + 1);
            struct text code = codes[i].name;
            if (!same(codes[i].domain, c->name) || code.len < prefix.len + 7 || memcmp(code.at, prefix.at, prefix.len) != 0)
                continue;
            text_copy(instead, name, sizeof name);
            text_copy(text_skip(code, prefix.len), name + instead.len, sizeof name - instead.len);
            add_word((struct text){name, strlen(name)}, i, WORD_BARE);
        }
}

static void each_row(void (*add)(const struct code *))
{
    struct text rest = {vocabulary_rows, strlen(vocabulary_rows)}, line;
    while (text_next_line(&rest, &line)) {
        if (line.len == 0 || line.at[0] == '#')
            continue;
        const struct code c = read_row(line);
        add(&c);
    }
}

static void build(void)
{
    if (named_count > 0)
        return;
    each_row(add_code);
    named_count = code_count;
    for (size_t i = 0; i < named_count; i++)
        add_word(codes[i].name, i, WORD_CODE);
    each_row(add_names);
    each_row(add_bare);
}

enum word_kind vocabulary_hashed(uint32_t hash, const char *folded, size_t len, const struct code **ret)
{
    char own[FOLDED_MAX];
    build();
    for (size_t at = hash & (SLOTS - 1); slots[at].code != 0; at = (at + 1) & (SLOTS - 1)) {
        const struct code *c = &codes[slots[at].code - 1];
        if (slots[at].hash != hash)
            continue;
        /* 32 bits of hash are compared, and the letters of a name (those of its end, if it is
         * bare) */
        size_t n = fold(c->name, own);
        size_t part = len < n ? len - (slots[at].kind == WORD_BARE && folded[0] == 'k') : n;
        if (slots[at].kind != WORD_DOMAIN &&
            (part > len || memcmp(own + n - part, folded + len - part, part) != 0))
            continue;
        *ret = c;
        return slots[at].kind;
    }
    return WORD_NONE;
}

enum word_kind vocabulary_word(const char *folded, size_t len, const struct code **ret)
{
    return vocabulary_hashed(hash_of(folded, len), folded, len, ret);
}

const struct code *vocabulary_number(struct text domain, int64_t number)
{
    build();
    for (size_t i = 0; i < named_count; i++)
        if (codes[i].has_number && codes[i].number == number && same(codes[i].domain, domain))
            return &codes[i];
    return NULL;
}

const struct code *vocabulary_string(struct text at, bool *is_common)
{
    build();
    if (at.len < 4)
        return NULL;
    const struct string *best = NULL;
    for (uint16_t i = by_letters[letters_slot(at.at)]; i != 0; i = strings[i - 1].next) {
        const struct string *s = &strings[i - 1];
        if ((best == NULL || s->text.len >= best->text.len) && s->text.len <= at.len && /* the first of equal
                                                                                         * ones */
            strncasecmp(at.at, s->text.at, s->text.len) == 0)
            best = s;
    }
    if (best == NULL || (best->text.len < at.len && isalnum((unsigned char)at.at[best->text.len])))
        return NULL;
    *is_common = best->is_common;
    return &codes[best->code];
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
    build();
    for (size_t i = 0; i < prefix_count && word.len >= CALL_MIN; i++)
        if (begins_so(word, prefixes[i].words))
            return prefixes[i].domain;
    return (struct text){"", 0};
}

const struct prior *vocabulary_call(struct text call)
{
    const struct code *best = NULL;
    build();
    for (size_t i = 0; i < call_count; i++) {
        char part[FOLDED_MAX];
        text_copy(calls[i].name, part, sizeof part);
        if ((best == NULL || calls[i].name.len > best->name.len) && text_has(call, part))
            best = &calls[i];
    }
    return best != NULL ? &best->prior : NULL;
}

size_t vocabulary_count(void)
{
    build();
    return named_count;
}

const struct code *vocabulary_at(size_t index)
{
    return &codes[index];
}
