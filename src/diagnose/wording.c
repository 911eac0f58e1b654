/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/wording.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "diagnose/fact.h"
#include "diagnose/prior.h"
#include "diagnose/wording_table.h"

#define CLASSES WORDING_CLASSES
#define WORDS_MAX 12288
#define LETTERS_MAX 24u
#define REPORT_MAX 65536u /* bytes; a longer text is a log, and logs were not learned */
#define TEXTS_MAX 8
#define WORDS_NEEDED 12 /* a line or two are no report: one word would decide */
#define WORDS_SHOWN 6
#define LIKELY 4 /* a class this many times less likely than the best one is no longer likely */
#define TENTH 0.1 /* the unit of rarity and bias */

static const char computed[] = "computed from the words of the text";

static char words[WORDS_MAX][WORDING_WORD_MAX];
static int class_of_column[CLASSES]; /* index of prior_class(); -1: unknown */

static void find_words(void)
{
    const char *at = wording_words;
    if (words[0][0] != '\0')
        return;
    for (size_t i = 0; i < wording_count && i < WORDS_MAX; i++, at += strlen(at) + 1) {
        size_t shared = (size_t)(*at - 'A');
        if (shared > 0)
            memcpy(words[i], words[i - 1], shared);
        memcpy(words[i] + shared, at + 1, strlen(at)); /* with its NUL; wording_table.py looks that it fits */
    }
    for (size_t k = 0; k < CLASSES; k++)
        class_of_column[k] = prior_index(wording_classes[k], strlen(wording_classes[k]));
}

static double rarity_of(size_t word)
{
    return wording_rarity[word] * TENTH;
}

static double weight_of(size_t word, size_t column)
{
    return wording_weights[word][column];
}

/* The place of a word in the table, or wording_count. */
static size_t find(const char *letters, size_t len)
{
    size_t from = 0, to = wording_count;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        int order = strncmp(letters, words[middle], len);
        if (order == 0 && words[middle][len] == '\0')
            return middle;
        if (order <= 0)
            to = middle;
        else
            from = middle + 1;
    }
    return wording_count;
}

static void mark(const char *letters, size_t len, bool seen[WORDS_MAX])
{
    size_t word = find(letters, len);
    if (word < wording_count)
        seen[word] = true;
}

/* A word has 2 to LETTERS_MAX letters; what is longer or shorter is skipped. `pair` holds the word before, "_", and this one. */
static void mark_words(const char *text, size_t len, bool seen[WORDS_MAX])
{
    char pair[2 * LETTERS_MAX + 2];
    size_t before = 0;
    find_words();
    for (size_t at = 0; at < len; at++) {
        char *letters = pair + (before > 0 ? before + 1 : 0);
        size_t n = 0;
        for (; at < len && isalpha((unsigned char)text[at]) != 0; at++, n++)
            if (n < LETTERS_MAX)
                letters[n] = (char)tolower((unsigned char)text[at]);
        if (n < 2 || n > LETTERS_MAX)
            continue;
        mark(letters, n, seen);
        if (before > 0)
            mark(pair, before + 1 + n, seen);
        memmove(pair, letters, n);
        pair[n] = '_';
        before = n;
    }
}

/* "kernel older_kernel": as wording_to_facts() writes it. */
static void mark_listed(const char *list, bool seen[WORDS_MAX])
{
    find_words();
    for (const char *at = list; *at != '\0'; at += strspn(at, " ")) {
        size_t len = strcspn(at, " ");
        mark(at, len, seen);
        at += len;
    }
}

static bool is_pair(size_t word)
{
    return strchr(words[word], '_') != NULL;
}

static const struct fact *words_of_text(const struct facts *facts, int n, char name[24])
{
    (void)snprintf(name, 24, "wording.%d.words", n);
    return facts_find(facts, name, FACT_LOG);
}

void wording_to_facts(struct facts *facts, const char *text, size_t len, const char *source)
{
    bool seen[WORDS_MAX] = {false};
    struct buf known = BUF_INIT;
    char name[24];
    int n = 0;
    if (len > REPORT_MAX)
        return;
    mark_words(text, len, seen);
    for (size_t i = 0; i < wording_count; i++)
        if (seen[i])
            buf_printf(&known, "%s%s", known.len > 0 ? " " : "", words[i]);
    while (n < TEXTS_MAX && words_of_text(facts, n, name) != NULL)
        n++;
    if (n < TEXTS_MAX && known.len > 0 && !buf_failed(&known))
        (void)facts_set_text(facts, name, FACT_LOG, buf_str(&known), source != NULL ? source : "text");
    buf_release(&known);
}

/* -> the length of the report's vector; *count: words, without pairs */
static double mark_all(const struct facts *facts, bool seen[WORDS_MAX], int *count)
{
    const struct fact *f;
    char name[24];
    double squares = 0;
    *count = 0;
    for (int n = 0; n < TEXTS_MAX && (f = words_of_text(facts, n, name)) != NULL; n++)
        mark_listed(f->text, seen);
    for (size_t i = 0; i < wording_count; i++) {
        if (!seen[i])
            continue;
        squares += rarity_of(i) * rarity_of(i);
        *count += is_pair(i) ? 0 : 1;
    }
    return sqrt(squares);
}

/* The share of each class, by softmax; -> the largest. */
static size_t share_out(const bool seen[WORDS_MAX], double length, double share[CLASSES])
{
    size_t best = 0;
    double whole = 0;
    for (size_t k = 0; k < CLASSES; k++) {
        double sum = wording_bias[k] * TENTH;
        for (size_t i = 0; i < wording_count; i++)
            sum += seen[i] ? weight_of(i, k) * rarity_of(i) / length : 0;
        share[k] = exp(sum);
        whole += share[k];
        best = share[k] > share[best] ? k : best;
    }
    for (size_t k = 0; k < CLASSES; k++)
        share[k] /= whole;
    return best;
}

static const char *name_of(size_t column)
{
    return class_of_column[column] >= 0 ? prior_class((size_t)class_of_column[column]) : "unknown";
}

/* The classes that the words leave open. */
static void say_likely(const double share[CLASSES], size_t best, struct buf *out)
{
    for (size_t k = 0; k < CLASSES; k++)
        if (share[k] * LIKELY > share[best])
            buf_printf(out, "%s%s", out->len > 0 ? " " : "", name_of(k));
}

static void set_text(struct facts *facts, const char *name, struct buf *text)
{
    if (!buf_failed(text) && text->len > 0)
        (void)facts_set_text(facts, name, FACT_LOG, buf_str(text), computed);
    buf_release(text);
}

/* A pair is shown as it stands in the text: two words. */
static void say_word(const char *word, const char *separator, struct buf *out)
{
    const char *second = strchr(word, '_');
    int first = second != NULL ? (int)(second - word) : (int)strlen(word);
    buf_printf(out, "%s\"%.*s%s%s\"", separator, first, word, second != NULL ? " " : "", second != NULL ? second + 1 : "");
}

/* The words that speak most for the class. Takes them out of `seen`. */
static void say_words(bool seen[WORDS_MAX], size_t class_index, struct buf *out)
{
    for (int shown = 0; shown < WORDS_SHOWN; shown++) {
        size_t top = wording_count;
        double most = 0;
        for (size_t i = 0; i < wording_count; i++) {
            double weight = weight_of(i, class_index) * rarity_of(i);
            if (seen[i] && weight > most) {
                most = weight;
                top = i;
            }
        }
        if (top == wording_count)
            return;
        seen[top] = false;
        say_word(words[top], shown > 0 ? ", " : "", out);
    }
}

void wording_derive(struct facts *facts)
{
    bool seen[WORDS_MAX] = {false};
    double share[CLASSES];
    struct buf says = BUF_INIT, likely = BUF_INIT;
    int count = 0;
    const char *boot = NULL;
    if (facts_get_text(facts, "run.boot", &boot)) /* the text is what a watched run printed: no report */
        return;
    double length = mark_all(facts, seen, &count);
    if (count < WORDS_NEEDED)
        return;
    size_t best = share_out(seen, length, share);
    say_words(seen, best, &says);
    say_likely(share, best, &likely);
    (void)facts_set_text(facts, "wording.class", FACT_LOG, name_of(best), computed);
    (void)facts_set_real(facts, "wording.percent", FACT_LOG, 100 * share[best], computed);
    (void)facts_set_integer(facts, "wording.count", FACT_LOG, count, computed);
    set_text(facts, "wording.likely", &likely);
    set_text(facts, "wording.says", &says);
}
