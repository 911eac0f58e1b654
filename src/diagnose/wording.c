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

#define CLASSES (PRIOR_CLASSES + 1) /* the last one is "unknown": reports that name no cause */
#define WORDS_MAX 8192
#define LETTERS_MAX 24u
#define REPORT_MAX 65536u /* bytes; a longer text is a log, and logs were not learned */
#define TEXTS_MAX 8
#define WORDS_NEEDED 12 /* a line or two are no report: one word would decide */
#define WORDS_SHOWN 6
#define LIKELY 12 /* a class this many times less likely than the best one is no longer likely */
#define TENTH 0.1 /* the unit of the table */

extern const char wording_rows[];

static const char computed[] = "computed from the words of the text";

static struct word {
    const char *text; /* in wording_rows, up to the tab */
    size_t len;
    float rarity, weight[CLASSES];
} words[WORDS_MAX]; /* in the order of the table: sorted */
static size_t word_count;
static float bias[CLASSES];
static int class_of_column[CLASSES]; /* index of prior_class(); -1: unknown */

static const char *next_line(const char *at)
{
    at += strcspn(at, "\n");
    return *at == '\n' ? at + 1 : at;
}

static void read_head(const char *row)
{
    const char *at = strchr(strchr(row, '\t') + 1, '\t');
    for (size_t k = 0; k < CLASSES; k++) {
        size_t len = strcspn(at + 1, "\t\n");
        class_of_column[k] = prior_index(at + 1, len);
        at += 1 + len;
    }
}

static void read_weights(const char *at, float out[CLASSES])
{
    for (size_t k = 0; k < CLASSES; k++) {
        char *end;
        out[k] = (float)((double)strtol(at, &end, 10) * TENTH);
        at = end;
    }
}

static void read_table(void)
{
    if (word_count > 0)
        return;
    read_head(wording_rows);
    for (const char *row = next_line(wording_rows); *row != '\0' && word_count < WORDS_MAX;
         row = next_line(row)) {
        size_t len = strcspn(row, "\t");
        char *end;
        float rarity = (float)((double)strtol(row + len, &end, 10) * TENTH);
        struct word *w = &words[word_count];
        read_weights(end, len == 0 ? bias : w->weight);
        if (len == 0)
            continue; /* the row of the classes themselves */
        w->text = row;
        w->len = len;
        w->rarity = rarity;
        word_count++;
    }
}

static int compare(const char *a, size_t a_len, const struct word *w)
{
    int order = memcmp(a, w->text, a_len < w->len ? a_len : w->len);
    return order != 0 ? order : (a_len > w->len) - (a_len < w->len);
}

static const struct word *find(const char *letters, size_t len)
{
    size_t from = 0, to = word_count;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        int order = compare(letters, len, &words[middle]);
        if (order == 0)
            return &words[middle];
        if (order < 0)
            to = middle;
        else
            from = middle + 1;
    }
    return NULL;
}

static void mark_words(const char *text, size_t len, bool seen[WORDS_MAX])
{
    char letters[LETTERS_MAX];
    for (size_t at = 0; at < len; at++) {
        size_t n = 0;
        for (; at < len && isalpha((unsigned char)text[at]) != 0; at++, n++)
            if (n < LETTERS_MAX)
                letters[n] = (char)tolower((unsigned char)text[at]);
        const struct word *w = n >= 2 && n <= LETTERS_MAX ? find(letters, n) : NULL;
        if (w != NULL)
            seen[w - words] = true;
    }
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
    read_table();
    mark_words(text, len, seen);
    for (size_t i = 0; i < word_count; i++)
        if (seen[i])
            buf_printf(&known, "%s%.*s", known.len > 0 ? " " : "", (int)words[i].len, words[i].text);
    while (n < TEXTS_MAX && words_of_text(facts, n, name) != NULL)
        n++;
    if (n < TEXTS_MAX && known.len > 0 && !buf_failed(&known))
        (void)facts_set_text(facts, name, FACT_LOG, buf_str(&known), source != NULL ? source : "text");
    buf_release(&known);
}

/* -> the length of the report's vector */
static double mark_all(const struct facts *facts, bool seen[WORDS_MAX], int *count)
{
    const struct fact *f;
    char name[24];
    double squares = 0;
    *count = 0;
    for (int n = 0; n < TEXTS_MAX && (f = words_of_text(facts, n, name)) != NULL; n++)
        mark_words(f->text, strlen(f->text), seen);
    for (size_t i = 0; i < word_count; i++) {
        if (!seen[i])
            continue;
        squares += (double)words[i].rarity * (double)words[i].rarity;
        ++*count;
    }
    return sqrt(squares);
}

/* The share of each class, by softmax; -> the largest. */
static size_t share_out(const bool seen[WORDS_MAX], double length, double share[CLASSES])
{
    size_t best = 0;
    double whole = 0;
    for (size_t k = 0; k < CLASSES; k++) {
        double sum = (double)bias[k];
        for (size_t i = 0; i < word_count; i++)
            sum += seen[i] ? (double)words[i].weight[k] * (double)words[i].rarity / length : 0;
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

/* The words that speak most for the class. Takes them out of `seen`. */
static void say_words(bool seen[WORDS_MAX], size_t class_index, struct buf *out)
{
    for (int shown = 0; shown < WORDS_SHOWN; shown++) {
        const struct word *top = NULL;
        float most = 0;
        for (size_t i = 0; i < word_count; i++) {
            float weight = words[i].weight[class_index] * words[i].rarity;
            if (seen[i] && weight > most) {
                most = weight;
                top = &words[i];
            }
        }
        if (top == NULL)
            return;
        seen[top - words] = false;
        buf_printf(out, "%s\"%.*s\"", shown > 0 ? ", " : "", (int)top->len, top->text);
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
