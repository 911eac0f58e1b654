/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Applies one rule to a piece of text, and joins the findings of several. Fails closed: if a search is
 * given up, the whole piece is hidden.
 */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bundle/redact_internal.h"

#define UNLESS_MAX 120
/* The list takes 144 MB then, and as much again while it is sorted. A log of 64 MB with five findings in each line has
 * fewer. */
#define SPANS_MAX ((size_t)3 << 20)

/* Thousands of secrets may share their beginning: each is found where one stands. */
static bool is_of_last(struct redact_spans *spans, const struct redact_span *span)
{
    struct redact_span *last = spans->count > 0 ? &spans->list[spans->count - 1] : NULL;
    if (last == NULL || last->kind != span->kind || last->rule != span->rule || last->label != span->label ||
        last->learn_only != span->learn_only || (last->from != span->from && last->to != span->to))
        return false;
    last->from = span->from < last->from ? span->from : last->from;
    last->to = span->to > last->to ? span->to : last->to;
    return true;
}

void redact_spans_add(struct redact_spans *spans, struct redact_span span)
{
    if (span.to <= span.from || spans->failed < 0 || is_of_last(spans, &span))
        return;
    if (spans->count == SPANS_MAX) {
        spans->failed = -EFBIG;
        return;
    }
    if (spans->count == spans->capacity) {
        size_t capacity = spans->capacity ? spans->capacity * 2 : 64;
        struct redact_span *grown = realloc(spans->list, capacity * sizeof *grown);
        if (grown == NULL) {
            spans->failed = -ENOMEM;
            return;
        }
        spans->list = grown;
        spans->capacity = capacity;
    }
    spans->list[spans->count++] = span;
}

double redact_entropy(const char *p, size_t len)
{
    unsigned counts[256] = {0};
    double bits = 0;
    for (size_t i = 0; i < len; i++)
        counts[(unsigned char)p[i]]++;
    for (size_t c = 0; c < 256; c++) {
        if (counts[c] > 0)
            bits -= (double)counts[c] / (double)len * log2((double)counts[c] / (double)len);
    }
    return bits;
}

/* Only at the beginning of a word: "ver" matches "version", not "nameserver". */
static bool has_word(const char *text, size_t len, const char *word)
{
    const char *end = text + len;
    for (const char *at = text;
         (at = memmem(at, (size_t)(end - at), word, strlen(word))) != NULL; at++) {
        if (at == text || !isalpha((unsigned char)at[-1]) || !isalpha((unsigned char)word[0]))
            return true;
    }
    return false;
}

/* "</dev/": at the beginning of a path; below a home it is somebody's folder. */
static bool is_excuse(const char *window, size_t len, const char *word)
{
    if (word[0] != '<')
        return has_word(window, len, word);
    const char *at = memmem(window, len, word + 1, strlen(word + 1));
    return at != NULL && (at == window || (!isalnum((unsigned char)at[-1]) && strchr("_.~>-", at[-1]) == NULL));
}

/* "version 10.2.3.4": one of the rule's words shortly before, on the same line. */
bool redact_is_excused(const struct redact_rule *rule, const char *text, size_t at)
{
    char window[UNLESS_MAX + 1];
    window[0] = '\0';
    size_t n = 0;
    size_t reach = rule->unless_reach < UNLESS_MAX ? rule->unless_reach : UNLESS_MAX;
    size_t from = at > reach ? at - reach : 0;
    while (from > 0 && from < at && isalpha((unsigned char)text[from - 1]) && isalpha((unsigned char)text[from]))
        from++; /* "ver" of "server" is no word */
    for (size_t i = from; i < at; i++) {
        bool ends_path = strchr(" \t\"'`=;,:", text[i]) != NULL && text[i] != '\0';
        if (text[i] == '\n' || (rule->unless_in_path && ends_path))
            n = 0;
        else
            window[n++] = (char)tolower((unsigned char)text[i]);
    }
    for (size_t i = 0; i < rule->unless_count; i++) {
        if (is_excuse(window, n, rule->unless[i]))
            return true;
    }
    return false;
}

/* "rocmcrash-20261201T001906Z-...": the rest of the name was redacted when the bundle was made. */
static bool is_bundle_of_ours(const char *p, size_t len)
{
    static const char shape[] = "rocmcrash-ddddddddTddddddZ";
    size_t i = 0;
    while (i < sizeof shape - 1 && i < len && (shape[i] == 'd' ? isdigit((unsigned char)p[i]) != 0 : p[i] == shape[i]))
        i++;
    return i == sizeof shape - 1 && memchr(p, ' ', len) == NULL;
}

/* Does the text that the rule found stay as it is? */
static bool stays(const struct redact_rules *rules, const struct redact_rule *rule, const char *p,
                  size_t len)
{
    if (rule->bits > 0 && redact_entropy(p, len) < rule->bits)
        return true;
    if (rule->bits > 0 && rule->run > 0 && redact_is_worded(rules->vocabulary, p, len))
        return true;
    return rule->unless_known != KNOWN_NONE && !rule->has_label &&
           (is_bundle_of_ours(p, len) || redact_is_known(rules->vocabulary, rule->unless_known, p, len));
}

/* Adds what the rule found, as far as it does not stay. */
static void add_found(const struct redact_rules *rules, const char *text, struct redact_span span,
                      struct redact_spans *out)
{
    const struct redact_rule *rule = span.rule;
    if (rule->unless_known == KNOWN_IDENTIFIER
            ? redact_private_words(rules->vocabulary, text, &span.from, &span.to)
            : !stays(rules, rule, text + span.from, span.to - span.from))
        redact_spans_add(out, span);
}

/* Does the label drop the finding? A private one is dropped if every log has the label ("id: 123", but not "MRN: 123"). A public
 * one is dropped if the label is not of a product ("torch/nn/x" below site-packages is). Without a label both stand. */
static bool is_dropped_by_label(const struct redact_rules *rules, const struct redact_rule *rule, const char *piece,
                               const PCRE2_SIZE *ovector, int pairs)
{
    for (int i = 1; i < pairs; i++) {
        if (!rule->group_label[i] || ovector[2 * i] == PCRE2_UNSET)
            continue;
        const char *label = piece + ovector[2 * i];
        size_t len = ovector[2 * i + 1] - ovector[2 * i];
        return rule->is_public ? !redact_is_of_product(rules->vocabulary, label, len)
                               : redact_is_known(rules->vocabulary, rule->unless_known, label, len);
    }
    return false;
}

/* `base` is the place of the searched piece in the text. */
static void add_match(const struct redact_rules *rules, const struct redact_rule *rule,
                      const char *text, size_t base, const PCRE2_SIZE *ovector, int pairs,
                      struct redact_spans *out)
{
    bool any_group = false;
    if (rule->unless_count > 0 && redact_is_excused(rule, text, base + ovector[0]))
        return;
    if (rule->has_label && is_dropped_by_label(rules, rule, text + base, ovector, pairs))
        return;
    for (int i = 1; i <= (int)rule->groups; i++) {
        struct redact_span span = {.kind = rule->group_kind[i],
                                   .rule = rule,
                                   .label = rule->name,
                                   .learn_only = rule->group_learn_only[i]};
        if (rule->group_kind[i] == NOT_HIDDEN)
            continue;
        any_group = any_group || !span.learn_only;
        if (i >= pairs || ovector[2 * i] == PCRE2_UNSET)
            continue;
        span.from = base + ovector[2 * i];
        span.to = base + ovector[2 * i + 1];
        add_found(rules, text, span, out);
    }
    if (any_group)
        return;
    struct redact_span whole = {
        base + ovector[0], base + ovector[1], rule->kind, rule, rule->name, false};
    add_found(rules, text, whole, out);
}

/* The part of a text that is searched at once. */
struct piece {
    const char *text;
    size_t from, to;
    uint32_t flags; /* of pcre2_match() */
};

/* If the piece ends before the text does, "$" does not match at its end. */
static uint32_t flags_of_piece(size_t len, size_t to)
{
    return to < len ? PCRE2_NOTEOL : 0;
}

/* Most rules are never tried: few texts hold their words. Where executable memory is refused, PCRE2
 * interprets the same code, more slowly. */
static void make_fast(const struct redact_rules *rules, const struct redact_rule *rule)
{
    bool *compiled = &rules->compiled[rule - rules->list];
    if (!*compiled)
        (void)pcre2_jit_compile(rule->code, PCRE2_JIT_COMPLETE);
    *compiled = true;
}

/* The first match at `at` or later, and all after it. */
static void find_in(const struct redact_rules *rules, const struct redact_rule *rule,
                    const struct piece *p, size_t at, struct redact_spans *out)
{
    PCRE2_SPTR text = (PCRE2_SPTR)p->text + p->from;
    make_fast(rules, rule);
    for (at -= p->from; at <= p->to - p->from;) {
        int pairs = pcre2_match(rule->code, text, p->to - p->from, at, p->flags, rules->match_data,
                                rules->match_context);
        if (pairs == PCRE2_ERROR_NOMATCH)
            return;
        if (pairs < 0) { /* a limit, or no memory */
            struct redact_span all = {p->from, p->to, REDACT_SECRET, rule, "not-searched", false};
            redact_spans_add(out, all);
            return;
        }
        const PCRE2_SIZE *ovector = pcre2_get_ovector_pointer(rules->match_data);
        add_match(rules, rule, p->text, p->from, ovector, pairs, out);
        at = ovector[1] > at ? ovector[1] : at + 1;
    }
}

void redact_rule_find(const struct redact_rules *rules, const struct redact_rule *rule,
                      const char *text, size_t len, size_t from, size_t to,
                      struct redact_spans *out)
{
    const struct piece piece = {text, from, to, flags_of_piece(len, to)};
    const size_t before = out->count;
    find_in(rules, rule, &piece, from, out);
    if (rule->below)
        redact_find_below(rule, text, len, before, out);
    if (rule->unless_known == KNOWN_IDENTIFIER && !rule->learn)
        redact_find_kin(rules, rule, text, from, to, before, out);
}

void redact_rule_follow(const struct redact_rules *rules, const struct redact_rule *rule,
                        const struct redact_text *t, size_t from, size_t at, size_t to,
                        struct redact_spans *out)
{
    const struct piece piece = {t->p, from, to, flags_of_piece(t->len, to) | PCRE2_ANCHORED};
    find_in(rules, rule, &piece, at, out);
}

static int by_place(const void *a, const void *b)
{
    const struct redact_span *x = a;
    const struct redact_span *y = b;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    if (x->to != y->to)
        return x->to > y->to ? -1 : 1;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    return x->rule == y->rule  ? 0
           : x->rule == NULL   ? 1
           : y->rule == NULL   ? -1
           : x->rule < y->rule ? -1
                               : 1;
}

void redact_spans_sort(struct redact_spans *spans)
{
    if (spans->count > 0)
        qsort(spans->list, spans->count, sizeof *spans->list, by_place);
}

void redact_spans_settle(struct redact_spans *spans)
{
    size_t kept = 0;
    redact_spans_sort(spans);
    for (size_t i = 0; i < spans->count; i++) {
        struct redact_span *last = kept > 0 ? &spans->list[kept - 1] : NULL;
        const struct redact_span *span = &spans->list[i];
        if (last == NULL || span->from >= last->to) {
            spans->list[kept++] = *span;
            continue;
        }
        if (span->to <= last->to)
            continue;
        last->to = span->to;
        if (span->kind == REDACT_SECRET && last->kind != REDACT_SECRET) {
            last->kind = REDACT_SECRET;
            last->label = span->label;
        }
    }
    spans->count = kept;
}
