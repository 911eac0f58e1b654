/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The forms of the vocabulary's words: a listed word stands for what English and programs make of it ("allocations",
 * "untolerated", "tokenisation", "timeout").
 */
#include <ctype.h>
#include <string.h>

#include "bundle/redact_rules.h"

#define BASE_MIN 4u    /* of a word after "un" and the like */
#define DERIVED_MIN 4u /* of a word before "wise" and the like */

/* "allocations" -> "allocation", "running" -> "run", "parsed" -> "parse". `word` has room for a letter
 * more. */
static bool has_stem(const struct redact_vocabulary *v, enum redact_known level, char *word, size_t len)
{
    static const char *const endings[] = {"s",  "es",   "ed",   "d",    "ing",  "er",  "ers", "r",
                                          "ly", "ings", "able", "ment", "ness", "ion", "ions"};
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        size_t n = strlen(endings[i]);
        if (len < n + 3 || memcmp(word + len - n, endings[i], n) != 0)
            continue;
        size_t stem = len - n;
        if (redact_vocabulary_has(v, level, word, stem))
            return true;
        bool doubled = word[stem - 1] == word[stem - 2];
        if (n >= 2 && doubled && redact_vocabulary_has(v, level, word, stem - 1))
            return true;
        char was = word[stem];
        word[stem] = 'e';
        bool silent = n >= 2 && redact_vocabulary_has(v, level, word, stem + 1);
        word[stem] = was;
        if (silent)
            return true;
    }
    return false;
}

/* "untolerated" -> "tolerated", "pycuda" -> "cuda". `word` has room for a letter more. */
static bool has_base(const struct redact_vocabulary *v, enum redact_known level, char *word, size_t len)
{
    static const char *const prefixes[] = {"",    "un",  "re",  "non", "pre",  "de",  "dis",
                                           "sub", "mis", "over", "lib", "py", "nv", "cu"};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        size_t n = strlen(prefixes[i]);
        if (n > 0 && (len < n + BASE_MIN || memcmp(word, prefixes[i], n) != 0))
            continue;
        if (redact_vocabulary_has(v, level, word + n, len - n) || has_stem(v, level, word + n, len - n))
            return true;
    }
    return false;
}

/* "initialise", "tokenisation" -> with a "z", where an ending begins so. Not "tokenwise". */
static void make_american(char *word, size_t len)
{
    static const char *const endings[] = {"ise", "ised", "ises", "iser", "isers", "ising", "isation", "isations"};
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        size_t n = strlen(endings[i]);
        if (len >= n + DERIVED_MIN && memcmp(word + len - n, endings[i], n) == 0 && word[len - n - 1] != 'w')
            word[len - n + 1] = 'z';
    }
}

/* "channelwise" -> "channel", "capacities" -> "capacity", "kernelized" -> "kernel". These endings make no names of people and
 * towns, and programs love them; others ("or", "al", "co-") do. */
static bool has_origin(const struct redact_vocabulary *v, enum redact_known level, const char *word, size_t len)
{
    static const struct {
        const char *ending, *instead[4];
    } ways[] = {
        {"ize", {"ize", "", "e", "al"}},    {"ized", {"ize", "", "e", "al"}},    {"izes", {"ize", "", "e", "al"}},
        {"izer", {"ize", "", "e", "al"}},   {"izers", {"ize", "", "e", "al"}},   {"izing", {"ize", "", "e", "al"}},
        {"ization", {"ize", "", "e", "al"}}, {"izations", {"ize", "", "e", "al"}}, {"ity", {"", "e"}},
        {"ities", {"ity", "", "e"}},        {"ies", {"y"}},                      {"ability", {"able", "", "e"}},
        {"wise", {"", "s"}},                {"ify", {"", "y"}},                  {"ified", {"ify", "", "y"}},
        {"ation", {"ate", "", "e"}},        {"ations", {"ate", "", "e"}},        {"ative", {"ate", "", "e"}},
        {"ator", {"ate", "e"}},             {"ators", {"ate", "e"}},             {"ible", {"", "e"}},
    };
    char origin[REDACT_WORD_MAX + 4];
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        size_t n = strlen(ways[i].ending);
        if (len < n + DERIVED_MIN || memcmp(word + len - n, ways[i].ending, n) != 0)
            continue;
        memcpy(origin, word, len - n);
        for (size_t k = 0; k < 4 && ways[i].instead[k] != NULL; k++) {
            size_t more = strlen(ways[i].instead[k]);
            memcpy(origin + len - n, ways[i].instead[k], more);
            if (redact_vocabulary_has(v, level, origin, len - n + more))
                return true;
        }
    }
    return false;
}

/* "timeout", "blocksize" */
static bool has_halves(const struct redact_vocabulary *v, char *word, size_t len)
{
    for (size_t half = REDACT_HALF_MIN; half + REDACT_HALF_MIN <= len; half++) {
        if (redact_vocabulary_has(v, KNOWN_TECHNICAL, word, half) &&
            (redact_vocabulary_has(v, KNOWN_TECHNICAL, word + half, len - half) ||
             has_stem(v, KNOWN_TECHNICAL, word + half, len - half)))
            return true;
    }
    return false;
}

bool redact_is_word(const struct redact_vocabulary *v, enum redact_known level, const char *p, size_t len)
{
    char word[REDACT_WORD_MAX + 1] = "";
    if (len >= REDACT_WORD_MAX)
        return false;
    for (size_t i = 0; i < len; i++)
        word[i] = (char)tolower((unsigned char)p[i]);
    if (level == KNOWN_NOBODY) {
        if (redact_vocabulary_has(v, KNOWN_NAME, word, len))
            return false;
        level = KNOWN_PLAIN;
    }
    if (level == KNOWN_FILE)
        return len == 1 || has_base(v, KNOWN_TECHNICAL, word, len);
    if (len <= 2 || has_base(v, level, word, len) || has_halves(v, word, len))
        return true;
    make_american(word, len);
    return has_origin(v, level, word, len);
}
