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
#include "diagnose/vocabulary.h"
#include "diagnose/wording_table.h"

#define WORDS_MAX 16384
#define LETTERS_MAX 24u
#define REPORT_MAX 65536u /* bytes; a longer text is a log, and logs were not learned */
#define TEXTS_MAX 8
#define WORDS_NEEDED 12 /* a line or two are no report: one word would decide */
#define OTHERS_MAX 32768u
#define WORDS_SHOWN 6
#define LIKELY 4 /* a class this many times less likely than the best one is no longer likely */
#define NAME_SIZE 32
#define TENTH 0.1 /* the unit of rarity and bias */
#define TOLD 1 /* column of wording_frames */

static const char computed[] = "computed from the words of the text";

/* The words of a table, whole. */
struct reader {
    const struct wording_table *table;
    char (*words)[WORDING_WORD_MAX];
};

/* A report's words in one table. */
struct marks {
    const struct reader *reader;
    bool seen[WORDS_MAX];
    bool other[OTHERS_MAX]; /* by hash: words that the table does not have */
};

static void make_words(struct reader *r)
{
    const char *at = r->table->words;
    if (r->words[0][0] != '\0')
        return;
    for (size_t i = 0; i < r->table->count; i++, at += strlen(at) + 1) {
        size_t shared = (size_t)(*at - 'A');
        if (shared > 0)
            memcpy(r->words[i], r->words[i - 1], shared);
        memcpy(r->words[i] + shared, at + 1, strlen(at)); /* with its NUL; wording_table.py looks that it fits */
    }
}

static const struct reader *causes(void)
{
    static char words[WORDS_MAX][WORDING_WORD_MAX];
    static struct reader r = {&wording_causes, words};
    make_words(&r);
    return &r;
}

static const struct reader *frames(void)
{
    static char words[WORDS_MAX][WORDING_WORD_MAX];
    static struct reader r = {&wording_frames, words};
    make_words(&r);
    return &r;
}

static double rarity_of(const struct reader *r, size_t word)
{
    return r->table->rarity[word] * TENTH;
}

static double weight_of(const struct reader *r, size_t word, size_t column)
{
    return r->table->weights[word * r->table->columns + column] * r->table->weight_unit;
}

/* The place of a word in the table, or its count. */
static size_t find(const struct reader *r, const char *letters, size_t len)
{
    size_t from = 0, to = r->table->count;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        int order = strncmp(letters, r->words[middle], len);
        if (order == 0 && r->words[middle][len] == '\0')
            return middle;
        if (order <= 0)
            to = middle;
        else
            from = middle + 1;
    }
    return r->table->count;
}

static bool mark(struct marks *m, const char *letters, size_t len)
{
    size_t word = find(m->reader, letters, len);
    if (word == m->reader->table->count)
        return false;
    return m->seen[word] = true;
}

static void mark_word(struct marks *m, const char *letters, size_t len)
{
    uint32_t hash = VOCABULARY_HASH;
    if (mark(m, letters, len))
        return;
    for (size_t i = 0; i < len; i++)
        hash = vocabulary_hash(hash, letters[i]);
    m->other[hash % OTHERS_MAX] = true;
}

/* "<project1>" stands for a name: redaction wrote the word, not the author. */
static bool is_pseudonym(const char *text, size_t len, size_t begin, size_t end)
{
    size_t at = end;
    while (at < len && isdigit((unsigned char)text[at]) != 0)
        at++;
    return begin > 0 && text[begin - 1] == '<' && at > end && at < len && text[at] == '>';
}

/* A word has 2 to LETTERS_MAX letters; what is longer or shorter is skipped. `pair` holds the word before, "_", and this one. */
static void mark_words(struct marks *m, const char *text, size_t len)
{
    char pair[2 * LETTERS_MAX + 2];
    size_t before = 0;
    for (size_t at = 0; at < len; at++) {
        char *letters = pair + (before > 0 ? before + 1 : 0);
        size_t n = 0, begin = at;
        for (; at < len && isalpha((unsigned char)text[at]) != 0; at++, n++)
            if (n < LETTERS_MAX)
                letters[n] = (char)tolower((unsigned char)text[at]);
        if (n < 2 || n > LETTERS_MAX || is_pseudonym(text, len, begin, at))
            continue;
        mark_word(m, letters, n);
        if (before > 0)
            (void)mark(m, pair, before + 1 + n);
        memmove(pair, letters, n);
        pair[n] = '_';
        before = n;
    }
}

/* "kernel older_kernel": as wording_to_facts() writes it. */
static void mark_listed(struct marks *m, const char *list)
{
    for (const char *at = list; *at != '\0'; at += strspn(at, " ")) {
        size_t len = strcspn(at, " ");
        (void)mark(m, at, len);
        at += len;
    }
}

static bool is_pair(const struct reader *r, size_t word)
{
    return strchr(r->words[word], '_') != NULL;
}

static int count_others(const struct marks *m)
{
    int count = 0;
    for (size_t i = 0; i < OTHERS_MAX; i++)
        count += m->other[i];
    return count;
}

static const struct fact *of_text(const struct facts *facts, int n, const char *what, char name[NAME_SIZE])
{
    (void)snprintf(name, NAME_SIZE, "wording.%d.%s", n, what);
    return facts_find(facts, name, FACT_LOG);
}

static void list_words(const struct marks *m, struct buf *out)
{
    for (size_t i = 0; i < m->reader->table->count; i++)
        if (m->seen[i])
            buf_printf(out, "%s%s", out->len > 0 ? " " : "", m->reader->words[i]);
}

static void note_words(struct facts *facts, int n, const char *what, const struct marks *m, const char *source)
{
    struct buf known = BUF_INIT;
    char name[NAME_SIZE];
    list_words(m, &known);
    (void)of_text(facts, n, what, name);
    if (known.len > 0 && !buf_failed(&known))
        (void)facts_set_text(facts, name, FACT_LOG, buf_str(&known), source);
    buf_release(&known);
}

void wording_to_facts(struct facts *facts, struct text whole, struct text rest, const char *source)
{
    struct marks of_causes = {.reader = causes()}, of_frames = {.reader = frames()};
    char name[NAME_SIZE];
    int n = 0;
    if (whole.len > REPORT_MAX)
        return;
    mark_words(&of_causes, rest.at, rest.len);
    mark_words(&of_frames, whole.at, whole.len);
    while (n < TEXTS_MAX && of_text(facts, n, "others_count", name) != NULL)
        n++;
    if (n == TEXTS_MAX)
        return;
    if (source == NULL)
        source = "text";
    (void)facts_set_integer(facts, name, FACT_LOG, count_others(&of_causes), source);
    note_words(facts, n, "words", &of_causes, source);
    note_words(facts, n, "frame_words", &of_frames, source);
}

static void mark_all(struct marks *m, const struct facts *facts, const char *what)
{
    const struct fact *f;
    char name[NAME_SIZE];
    for (int n = 0; n < TEXTS_MAX; n++)
        if ((f = of_text(facts, n, what, name)) != NULL)
            mark_listed(m, f->text);
}

/* A word that two texts share counts twice here. */
static int64_t others_of_all(const struct facts *facts)
{
    const struct fact *f;
    char name[NAME_SIZE];
    int64_t count = 0;
    for (int n = 0; n < TEXTS_MAX && (f = of_text(facts, n, "others_count", name)) != NULL; n++)
        count += f->integer;
    return count;
}

/* Words, without pairs. */
static int count_words(const struct marks *m)
{
    int count = 0;
    for (size_t i = 0; i < m->reader->table->count; i++)
        count += m->seen[i] && !is_pair(m->reader, i);
    return count;
}

/* The report's vector is scaled to length 1. */
static double length_of(const struct marks *m)
{
    double squares = 0;
    for (size_t i = 0; i < m->reader->table->count; i++)
        squares += m->seen[i] ? rarity_of(m->reader, i) * rarity_of(m->reader, i) : 0;
    return squares > 0 ? sqrt(squares) : 1;
}

/* The share of each column, by softmax; -> the largest. */
static size_t share_out(const struct marks *m, double share[WORDING_COLUMNS_MAX])
{
    const struct wording_table *table = m->reader->table;
    double length = length_of(m), whole = 0;
    size_t best = 0;
    for (size_t k = 0; k < table->columns; k++) {
        double sum = table->bias[k] * TENTH;
        for (size_t i = 0; i < table->count; i++)
            sum += m->seen[i] ? weight_of(m->reader, i, k) * rarity_of(m->reader, i) / length : 0;
        share[k] = exp(sum);
        whole += share[k];
        best = share[k] > share[best] ? k : best;
    }
    for (size_t k = 0; k < table->columns; k++)
        share[k] /= whole;
    return best;
}

/* The classes that the words leave open. */
static void say_likely(const struct wording_table *table, const double *share, size_t best, struct buf *out)
{
    for (size_t k = 0; k < table->columns; k++)
        if (share[k] * LIKELY > share[best])
            buf_printf(out, "%s%s", out->len > 0 ? " " : "", table->names[k]);
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

/* The words that speak most for a column. Takes them out of the marks. */
static void say_words(struct marks *m, size_t column, struct buf *out)
{
    for (int shown = 0; shown < WORDS_SHOWN; shown++) {
        size_t top = m->reader->table->count;
        double most = 0;
        for (size_t i = 0; i < m->reader->table->count; i++) {
            double weight = weight_of(m->reader, i, column) * rarity_of(m->reader, i);
            if (m->seen[i] && weight > most) {
                most = weight;
                top = i;
            }
        }
        if (top == m->reader->table->count)
            return;
        m->seen[top] = false;
        say_word(m->reader->words[top], shown > 0 ? ", " : "", out);
    }
}

static void derive_cause(struct facts *facts, struct marks *m, int count)
{
    double share[WORDING_COLUMNS_MAX] = {0};
    struct buf says = BUF_INIT, likely = BUF_INIT;
    size_t best = share_out(m, share);
    say_words(m, best, &says);
    say_likely(m->reader->table, share, best, &likely);
    (void)facts_set_text(facts, "wording.class", FACT_LOG, m->reader->table->names[best], computed);
    (void)facts_set_real(facts, "wording.percent", FACT_LOG, 100 * share[best], computed);
    (void)facts_set_integer(facts, "wording.count", FACT_LOG, count, computed);
    (void)facts_set_real(facts, "wording.known_percent", FACT_LOG, 100.0 * count / (double)(count + others_of_all(facts)), computed);
    set_text(facts, "wording.likely", &likely);
    set_text(facts, "wording.says", &says);
}

static void derive_frame(struct facts *facts)
{
    struct marks m = {.reader = frames()};
    double share[WORDING_COLUMNS_MAX] = {0};
    struct buf says = BUF_INIT;
    mark_all(&m, facts, "frame_words");
    int count = count_words(&m);
    if (count == 0)
        return;
    (void)share_out(&m, share);
    say_words(&m, TOLD, &says);
    (void)facts_set_integer(facts, "wording.told_count", FACT_LOG, count, computed);
    (void)facts_set_real(facts, "wording.told_percent", FACT_LOG, 100 * share[TOLD], computed);
    set_text(facts, "wording.told_says", &says);
}

void wording_derive(struct facts *facts)
{
    struct marks m = {.reader = causes()};
    const char *boot = NULL;
    if (facts_get_text(facts, "run.boot", &boot)) /* the text is what a watched run printed: no report */
        return;
    derive_frame(facts);
    mark_all(&m, facts, "words");
    int count = count_words(&m);
    if (count >= WORDS_NEEDED)
        derive_cause(facts, &m, count);
}
