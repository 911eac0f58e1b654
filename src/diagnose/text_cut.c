/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the end of a line with the beginnings of all words of the rules and vocabularies. The text
 * before it must match the earlier parts of the rule's shape.
 */
#include "diagnose/text_cut.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "diagnose/kernel_lines.h"
#include "diagnose/rules.h"
#include "diagnose/text.h"
#include "diagnose/vocabulary.h"

#define COMPLETE_MAX ((size_t)256 << 10)
#define LINE_MIN 20
#define LINE_MAX_BYTES 2048
#define WORDS_MAX 160 /* of one piece of a shape, or a string of a code */
/* At least this many letters of the known words must be on the line. */
#define MATCHED_MIN 7
#define PIECE_MIN 3
#define KNOWN_MAX 8192
#define BUCKETS 1024u

/* A known piece of text of lines. */
struct known {
    struct text words;
    const struct rule_shape *shape; /* that contains the piece; NULL: the name or string of a
                                     * code */
    enum rule_scope scope;
    uint16_t part, next;            /* of the shape; index + 1 of the next in the bucket */
};

struct completion {
    struct text rest; /* of the words */
    size_t matched;   /* letters that are on the line */
};

static struct known known[KNOWN_MAX];
static uint16_t buckets[BUCKETS];
static size_t known_count;

static unsigned bucket_of(const char *p)
{
    return ((unsigned)tolower((unsigned char)p[0]) * 31u + (unsigned)tolower((unsigned char)p[1])) % BUCKETS;
}

static void add(struct text words, enum rule_scope scope, const struct rule_shape *shape, unsigned part)
{
    if (words.len <= PIECE_MIN || words.len > WORDS_MAX || known_count == KNOWN_MAX)
        return;
    uint16_t *bucket = &buckets[bucket_of(words.at)];
    known[known_count] = (struct known){words, shape, scope, (uint16_t)part, *bucket};
    *bucket = (uint16_t)++known_count;
}

static void add_rule(const struct rule *rule, enum rule_scope scope)
{
    for (unsigned s = rule->line.first; s < rule->line.first + rule->line.count; s++)
        for (unsigned i = 0; i < rule_shapes[s].count; i++) {
            const struct rule_part *p = &rule_parts[rule_shapes[s].first + i];
            if (p->kind == PART_WORDS)
                add((struct text){rule_part_texts + p->words, p->length}, scope, &rule_shapes[s], i);
        }
}

static void add_code(const struct code *code)
{
    struct text rest = code->strings;
    add(code->name, SCOPE_MESSAGES, NULL, 0);
    while (rest.len > 0) {
        struct text one = text_until(rest, "|");
        rest = text_skip(rest, one.len + 1);
        add(text_skip(one, text_starts(one, "~")), SCOPE_MESSAGES, NULL, 0);
    }
}

static void build(void)
{
    static const enum rule_scope scopes[] = {SCOPE_MESSAGES, SCOPE_KERNEL};
    if (known_count > 0)
        return;
    for (size_t s = 0; s < sizeof scopes / sizeof scopes[0]; s++)
        for (unsigned i = 0; i < rule_indexes[scopes[s]].count; i++)
            add_rule(&rules[rule_indexes[scopes[s]].rules[i]], scopes[s]);
    for (size_t i = 0; i < vocabulary_count(); i++)
        add_code(vocabulary_at(i));
}

/* Letters of the shape's words up to this piece, if the completed line matches; 0: the line has another
 * shape. */
static size_t words_of_shape(const struct known *k, struct text line, struct text rest)
{
    char whole[LINE_MAX_BYTES + WORDS_MAX];
    struct rule_shape begun = *k->shape;
    struct rule_takes takes = {.count = 0};
    size_t words = 0;
    begun.count = (uint16_t)(k->part + 1);
    begun.line_end = false;
    memcpy(whole, line.at, line.len);
    memcpy(whole + line.len, rest.at, rest.len);
    if (!shape_match((struct text){whole, line.len + rest.len}, &begun, &takes))
        return 0;
    for (unsigned i = 0; i <= k->part; i++)
        words += rule_parts[begun.first + i].kind == PART_WORDS ? rule_parts[begun.first + i].length : 0;
    return words;
}

static bool begins_word(struct text line, size_t at)
{
    return at == 0 || !text_is_word(line.at[at - 1]);
}

/* Is the line from `at` on a beginning of the words? */
static struct completion compare(const struct known *k, struct text line, size_t at)
{
    size_t n = line.len - at;
    struct completion c = {.rest = text_skip(k->words, n), .matched = n};
    bool same = n < k->words.len && (k->shape != NULL ? memcmp(line.at + at, k->words.at, n) == 0
                                                      : strncasecmp(line.at + at, k->words.at, n) == 0);
    if (!same || (k->shape == NULL && !begins_word(line, at)))
        return (struct completion){.matched = 0};
    if (k->shape != NULL) {
        size_t words = words_of_shape(k, line, c.rest);
        c.matched = words > c.rest.len ? words - c.rest.len : 0;
    }
    return c;
}

static size_t common(struct text a, struct text b)
{
    size_t n = 0;
    while (n < a.len && n < b.len && a.at[n] == b.at[n])
        n++;
    return n;
}

static bool is_of_kernel(struct text line)
{
    return klog_stamp(line) >= 0 || text_has(line, "kernel: ") || text_has(line, "[drm") || text_starts(line, "amdgpu ") || text_starts(line, "kern ");
}

/* Does the line end in a word that is known to be complete? "built with" need not continue as
 * "built without". */
static bool is_whole_word(struct text word)
{
    for (size_t i = 0; i < known_count; i++) {
        struct text rest = known[i].words;
        const char *hit;
        while ((hit = memmem(rest.at, rest.len, word.at, word.len)) != NULL) {
            rest = text_skip(rest, (size_t)(hit - rest.at) + word.len);
            bool ends = rest.len > 0 && !isalnum((unsigned char)rest.at[0]);
            size_t at = (size_t)(hit - known[i].words.at);
            if (ends && begins_word(known[i].words, at) && (at == 0 || hit[-1] != '\'')) /* not the m of "I'm" */
                return true;
        }
    }
    return false;
}

/* The common beginning of all completions that fit best. */
static struct completion complete(struct text line)
{
    enum rule_scope scope = is_of_kernel(line) ? SCOPE_KERNEL : SCOPE_MESSAGES;
    struct completion best = {.matched = 0};
    size_t from = line.len > WORDS_MAX ? line.len - WORDS_MAX : 0;
    for (size_t at = from; at + PIECE_MIN <= line.len; at++)
        for (uint16_t i = buckets[bucket_of(line.at + at)]; i != 0; i = known[i - 1].next) {
            struct completion c = {.matched = 0};
            if (known[i - 1].scope == scope)
                c = compare(&known[i - 1], line, at);
            if (c.matched == best.matched)
                best.rest = text_first(best.rest, common(best.rest, c.rest));
            else if (c.matched > best.matched)
                best = c;
        }
    return best;
}

/* Complete only within a word: any words may follow a whole one. */
static bool ends_within_word(struct text line, struct text rest)
{
    return isalpha((unsigned char)line.at[line.len - 1]) && rest.len > 0 && isalpha((unsigned char)rest.at[0]);
}

static struct text last_word(struct text line)
{
    size_t at = line.len;
    while (at > 0 && isalnum((unsigned char)line.at[at - 1]))
        at--;
    return text_skip(line, at);
}

static struct text rest_of(struct text line)
{
    struct completion c = {.matched = 0};
    if (line.len >= LINE_MIN && line.len <= LINE_MAX_BYTES && isalpha((unsigned char)line.at[line.len - 1]))
        c = complete(line);
    if (c.matched < MATCHED_MIN || !ends_within_word(line, c.rest) || is_whole_word(last_word(line)))
        return (struct text){"", 0};
    return c.rest;
}

char *text_complete(const char *data, size_t len, size_t *ret_len)
{
    struct text rest = {data, len}, line;
    bool any = false;
    size_t n = 0, size = len + len / LINE_MIN * WORDS_MAX + WORDS_MAX;
    if (len > COMPLETE_MAX)
        return NULL;
    build();
    char *out = malloc(size + 2);
    while (out != NULL && text_next_line(&rest, &line)) {
        struct text missing = rest_of(line);
        memcpy(out + n, line.at, line.len);
        memcpy(out + n + line.len, missing.at, missing.len);
        n += line.len + missing.len;
        any |= missing.len > 0;
        out[n++] = '\n';
    }
    return text_if_changed(out, n, any, ret_len);
}
