/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A name that a rule found by its place is hidden wherever else it stands in the same text: programs repeat names
 * without the words that gave them away. What is learned (redact_names.c) is hidden in the whole bundle, so only rules
 * that are sure of it teach; a find of any rule counts here.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "bundle/redact_internal.h"

#define VALUES_MAX 4096u /* of one text */
#define PLACES 16384u    /* of the table; a power of two */
#define ALIKE_MAX 64u    /* values that begin with the same word */
#define VALUE_MAX 128u
#define NAME_MIN 4u
#define NUMBER_MIN 7u /* digits; shorter numbers are sizes and counts, too */
#define CODE_MIN 6u   /* of letters and digits */
#define CODE_DIGITS 3u
#define SECRET_MIN 8u
#define JOINED_MIN 10u

struct value {
    size_t from, len;
    uint32_t hash;    /* of its first word */
    uint32_t next;    /* value with the same first word; 0 = none */
    uint32_t span;    /* that it was found as */
    enum redact_kind kind;
};

struct again {
    const struct redactor *r;
    const struct redact_text *t;
    struct redact_spans *out;
    struct value *list; /* from 1 on */
    uint32_t *table;    /* the newest value that begins with such a word */
    uint32_t count;
};

static bool is_of_word(char c)
{
    return isalnum((unsigned char)c) || (unsigned char)c >= 0x80;
}

/* The end of the word that begins at `at`, and its hash. */
static size_t word_end(const struct redact_text *t, size_t at, uint32_t *ret_hash)
{
    uint64_t hash = REDACT_HASH;
    for (; at < t->len && is_of_word(t->p[at]); at++)
        hash = redact_hash_step(hash, t->p[at]);
    *ret_hash = (uint32_t)(hash ^ hash >> 32);
    return at;
}

/* "\nabc": the letter of an escape belongs to no word. */
static size_t word_begin(const struct redact_text *t, size_t at)
{
    bool escape = at > 0 && t->p[at - 1] == '\\' && strchr("nrtbfv", t->p[at]) != NULL;
    return at + (escape ? 1 : 0);
}

/* Can it be nothing else, wherever it stands? */
static bool is_telling(const struct again *a, enum redact_kind kind, const char *p, size_t len)
{
    size_t digits = 0, letters = 0;
    for (size_t i = 0; i < len; i++) {
        digits += isdigit((unsigned char)p[i]) != 0;
        letters += isalpha((unsigned char)p[i]) || (unsigned char)p[i] >= 0x80;
        if ((unsigned char)p[i] < ' ' || p[i] == '<' || p[i] == '>')
            return false;
    }
    if (len < NAME_MIN || len > VALUE_MAX || (len >= 3 && strncasecmp(p, "gfx", 3) == 0) ||
        (len >= 2 && strncasecmp(p, "0x", 2) == 0))
        return false;
    if (kind == REDACT_SECRET)
        return len >= SECRET_MIN && digits > 0 && letters > 0 && memchr(p, ' ', len) == NULL;
    if (kind == REDACT_ACCOUNT || kind == REDACT_ID) {
        bool number = digits >= NUMBER_MIN && letters == 0;
        bool code = digits >= CODE_DIGITS && letters > 0 && len >= CODE_MIN;
        return number || code;
    }
    /* Words of any log can be joined to a name that no other has. */
    bool joined = len >= JOINED_MIN && (memchr(p, '-', len) != NULL || memchr(p, '_', len) != NULL);
    return letters >= NAME_MIN &&
           !redact_is_known(a->r->rules->vocabulary, joined ? KNOWN_TECHNICAL : KNOWN_NOBODY, p, len);
}

static void add_value(struct again *a, const struct redact_span *span, uint32_t index, size_t from, size_t len)
{
    uint32_t hash = 0, alike = 0;
    while (len > 0 && !is_of_word(a->t->p[from]))
        from++, len--;
    if (a->count + 1 >= VALUES_MAX || !is_telling(a, span->kind, a->t->p + from, len))
        return;
    (void)word_end(a->t, from, &hash);
    for (uint32_t i = a->table[hash % PLACES]; i != 0; i = a->list[i].next) {
        bool same = a->list[i].len == len && memcmp(a->t->p + a->list[i].from, a->t->p + from, len) == 0;
        if (same || ++alike == ALIKE_MAX)
            return;
    }
    a->list[++a->count] = (struct value){from, len, hash, a->table[hash % PLACES], index, span->kind};
    a->table[hash % PLACES] = a->count;
}

/* The first part of a host's full name: "heron2" of "heron2.example.org". */
static void add_short_host(struct again *a, const struct redact_span *span, uint32_t index)
{
    const char *p = a->t->p + span->from;
    const char *dot = span->kind == REDACT_HOST ? memchr(p, '.', span->to - span->from) : NULL;
    if (dot != NULL)
        add_value(a, span, index, span->from, (size_t)(dot - p));
}

/* A name of several words, one of which may stand alone ("Ada Brook"), and who an address belongs to. */
static void add_parts(struct again *a, const struct redact_span *span, uint32_t index)
{
    const char *p = a->t->p;
    const char *blank = memchr(p + span->from, ' ', span->to - span->from);
    const char *at = span->kind == REDACT_EMAIL ? memchr(p + span->from, '@', span->to - span->from) : NULL;
    if (at != NULL) {
        add_value(a, span, index, span->from, (size_t)(at - p) - span->from);
        return;
    }
    add_value(a, span, index, span->from, span->to - span->from);
    add_short_host(a, span, index);
    bool name = span->kind == REDACT_USER || span->kind == REDACT_HOST || span->kind == REDACT_PROJECT;
    for (size_t from = span->from, end; name && blank != NULL && from < span->to; from = end + 1) {
        end = from;
        while (end < span->to && p[end] != ' ')
            end++;
        add_value(a, span, index, from, end - from);
    }
}

static void collect(struct again *a)
{
    for (size_t i = 0; i < a->out->count; i++) {
        const struct redact_span *span = &a->out->list[i];
        switch (span->kind) {
        case REDACT_SECRET:
            if (strcmp(span->label, "not-searched") == 0)
                break;
            add_parts(a, span, (uint32_t)i);
            break;
        case REDACT_USER:
        case REDACT_HOST:
        case REDACT_ID:
        case REDACT_EMAIL:
        case REDACT_ACCOUNT:
        case REDACT_PROJECT:
            add_parts(a, span, (uint32_t)i);
            break;
        default:
            break;
        }
    }
}

/* The longest value that stands at `at`; NULL = none. */
static const struct value *value_at(const struct again *a, size_t at, uint32_t hash)
{
    const struct value *found = NULL;
    for (uint32_t i = a->table[hash % PLACES]; i != 0; i = a->list[i].next) {
        const struct value *v = &a->list[i];
        bool stands = v->hash == hash && v->len <= a->t->len - at &&
                      memcmp(a->t->p + v->from, a->t->p + at, v->len) == 0 &&
                      !is_of_word(redact_at(a->t, at + v->len));
        if (stands && (found == NULL || v->len > found->len))
            found = v;
    }
    return found;
}

static void hide(struct again *a, const struct value *v, size_t at)
{
    struct redact_span span = a->out->list[v->span];
    if ((span.kind == REDACT_USER || span.kind == REDACT_HOST) && redact_in_kernel_path(a->t, at))
        return;
    span.from = at;
    span.to = at + v->len;
    redact_spans_add(a->out, span);
}

static void search(struct again *a)
{
    size_t next = 0, found = a->out->count, end = 0;
    for (size_t at = 0; at < a->t->len; at = end + 1) {
        uint32_t hash = 0;
        at = word_begin(a->t, at);
        end = word_end(a->t, at, &hash);
        while (next < found && a->out->list[next].to <= at)
            next++;
        bool hidden = next < found && a->out->list[next].from <= at;
        const struct value *v = end > at && !hidden ? value_at(a, at, hash) : NULL;
        if (v != NULL)
            hide(a, v, at);
    }
}

int redact_again(const struct redactor *r, const struct redact_text *t, struct redact_spans *out)
{
    struct again a = {.r = r, .t = t, .out = out};
    size_t found = out->count;
    if (found == 0)
        return 0;
    a.list = malloc((VALUES_MAX + 1) * sizeof *a.list);
    a.table = calloc(PLACES, sizeof *a.table);
    if (a.list != NULL && a.table != NULL) {
        collect(&a);
        if (a.count > 0)
            search(&a);
        if (out->count > found)
            redact_spans_settle(out);
    }
    int e = a.list == NULL || a.table == NULL ? -ENOMEM : out->failed;
    free(a.list);
    free(a.table);
    return e;
}
