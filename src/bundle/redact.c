/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The redactor: known names and their pseudonyms, what is learned, and the text with all of it
 * replaced. What is private: redact_search.c. Runs in the finisher.
 */
#include "bundle/redact.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/err.h"
#include "bundle/redact_internal.h"

#define NAMES_MAX 20000   /* pseudonyms of one redactor; later ones share a name without number */
#define LITERALS_MAX 4000 /* looked for everywhere: 30 KB each in the automaton */
#define ENCODED_MAX 1000  /* of them, in base64 */
#define SHORT_USER 2      /* initials of three letters are a name, "vm" and "box" are not */
#define SHORT_HOST 3
#define SHORT_LEARNED 4
#define SECRET_LEARNED_MIN 8u
#define SECRET_LEARNED_MAX 400u
#define ENCODED_MIN 12u /* of a secret in base64; shorter ones may be any word */

struct redactor *redactor_new_rules(const char *rules, size_t len, const char *name,
                                    struct rc_err *err)
{
    struct redactor *r = calloc(1, sizeof *r);
    if (r != NULL && redact_rules_parse(&r->rules, rules, len, name, err) == 0) {
        r->file = -1;
        r->rule_counts = calloc(r->rules->count, sizeof *r->rule_counts);
        if (r->rule_counts != NULL)
            return r;
    }
    redactor_free(r);
    return NULL;
}

struct redactor *redactor_new(void)
{
    return redactor_new_rules((const char *)redact_builtin_rules, redact_builtin_rules_len,
                              "redaction.rules", NULL);
}

void redactor_free(struct redactor *r)
{
    if (r == NULL)
        return;
    for (size_t i = 0; i < r->count; i++) {
        explicit_bzero(r->names[i].value, r->names[i].len);
        free(r->names[i].value);
    }
    for (size_t i = 0; i < r->file_count; i++)
        free(r->files[i].name);
    free(r->files);
    free(r->names);
    free(r->rule_counts);
    free(r->keyword_rule);
    redact_scan_free(r->scan);
    redact_rules_free(r->rules);
    free(r);
}

const char *redact_kind_name(enum redact_kind kind)
{
    return kind < REDACT_KIND_MAX ? redact_kind_names[kind] : "";
}

static const struct {
    const char *word;
    enum redact_kind kind;
} kind_words[] = {
    {"hostnames", REDACT_HOST}, {"usernames", REDACT_USER}, {"addresses", REDACT_IP},
    {"serials", REDACT_ID},     {"mails", REDACT_EMAIL},    {"folders", REDACT_PATH},
    {"prompts", REDACT_TEXT},
};

/* "host", "hosts", "hostnames". */
static int kind_from_word(const char *word, size_t len)
{
    for (size_t i = 0; i < sizeof kind_words / sizeof kind_words[0]; i++) {
        if (strlen(kind_words[i].word) == len && memcmp(kind_words[i].word, word, len) == 0)
            return (int)kind_words[i].kind;
    }
    int kind = redact_kind_of(word, len);
    return kind < 0 && len > 1 && word[len - 1] == 's' ? redact_kind_of(word, len - 1) : kind;
}

int redactor_keep(struct redactor *r, const char *list, struct rc_err *err)
{
    for (const char *at = list; *at != '\0';) {
        size_t len = strcspn(at, ",");
        int kind = kind_from_word(at, len);
        if (len > 0 && kind == REDACT_SECRET)
            return rc_err_set(err, -EINVAL, "secrets are never kept");
        if (len > 0 && kind < 0)
            return rc_err_set(
                err, -EINVAL,
                "not a kind that can be kept: '%.*s' (homes, users, hosts, ips, macs, "
                "ids, emails, accounts, paths, projects, texts)",
                (int)(len < 40 ? len : 40), at);
        if (len > 0)
            r->kept[kind] = true;
        at += len + (at[len] == ',');
    }
    return 0;
}

/* --- names --- */

static uint32_t bucket_of(enum redact_kind kind, const char *value, size_t len)
{
    uint32_t hash = 2166136261u + (uint32_t)kind;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (uint32_t)tolower((unsigned char)value[i])) * 16777619u;
    return (hash ^ hash >> 13) % NAME_BUCKETS;
}

struct redact_name *redact_name_of(struct redactor *r, enum redact_kind kind, const char *value,
                                   size_t len)
{
    uint32_t bucket = bucket_of(kind, value, len);
    for (uint32_t i = r->buckets[bucket]; i != 0; i = r->names[i - 1].next) {
        struct redact_name *name = &r->names[i - 1];
        if (name->kind == kind && name->len == len && strncasecmp(name->value, value, len) == 0)
            return name;
    }
    if (r->count >= NAMES_MAX)
        return NULL;
    if (r->count == r->capacity) {
        size_t capacity = r->capacity ? r->capacity * 2 : 64;
        struct redact_name *grown = realloc(r->names, capacity * sizeof *grown);
        if (grown == NULL)
            return NULL;
        r->names = grown;
        r->capacity = capacity;
    }
    char *copy = malloc(len + 1);
    if (copy == NULL)
        return NULL;
    memcpy(copy, value, len);
    copy[len] = '\0';
    struct redact_name *name = &r->names[r->count++];
    *name = (struct redact_name){.kind = kind,
                                 .number = ++r->last_number[kind],
                                 .len = len,
                                 .value = copy,
                                 .next = r->buckets[bucket]};
    r->buckets[bucket] = (uint32_t)r->count;
    return name;
}

static int make_literal(struct redactor *r, struct redact_name *name)
{
    if (name == NULL)
        return -ENOMEM;
    if (name->literal)
        return 0;
    name->literal = true;
    r->literals++;
    r->scan_stale = true;
    return 0;
}

int redactor_add(struct redactor *r, enum redact_kind kind, const char *value)
{
    size_t len = value != NULL ? strlen(value) : 0;
    if (kind == REDACT_SECRET || kind >= REDACT_KIND_MAX)
        return -EINVAL;
    while (kind == REDACT_HOME && len > 1 && value[len - 1] == '/')
        len--;
    if (len < 2 || (kind != REDACT_HOME && redact_is_common(value)))
        return 0;
    struct redact_name *name = redact_name_of(r, kind, value, len);
    int e = make_literal(r, name);
    if (e < 0)
        return e;
    name->learned = false;
    name->weak = (kind == REDACT_USER && redact_is_weak(value, SHORT_USER)) ||
                 (kind == REDACT_HOST && redact_is_weak(value, SHORT_HOST));
    return 0;
}

int redactor_add_domain(struct redactor *r, const char *domain)
{
    if (strchr(domain, '.') == NULL)
        return 0;
    struct redact_name *name = redact_name_of(r, REDACT_HOST, domain, strlen(domain));
    int e = make_literal(r, name);
    if (e == 0)
        name->domain = true;
    return e;
}

void redactor_reserve(struct redactor *r, const char *text, size_t len)
{
    for (const char *at = text; (at = memchr(at, '<', len - (size_t)(at - text))) != NULL;) {
        const char *word = ++at;
        size_t n = 0;
        size_t left = len - (size_t)(at - text);
        while (n < left && n < 8 && islower((unsigned char)word[n]))
            n++;
        int kind = redact_kind_of(word, n);
        unsigned number = 0;
        size_t digits = 0;
        for (; n + digits < left && digits < 8 && isdigit((unsigned char)word[n + digits]);
             digits++)
            number = number * 10 + (unsigned)(word[n + digits] - '0');
        if (kind >= 0 && digits > 0 && n + digits < left && word[n + digits] == '>' &&
            number > r->last_number[kind])
            r->last_number[kind] = number;
    }
}

/* --- learning --- */

/* A password of letters alone may be any word: hiding it everywhere would hide facts. */
static bool worth_learning(const char *p, size_t len)
{
    size_t digits = 0, letters = 0;
    for (size_t i = 0; i < len; i++) {
        digits += isdigit((unsigned char)p[i]) != 0;
        letters += isalpha((unsigned char)p[i]) != 0;
        if ((unsigned char)p[i] <= ' ' || p[i] == 0x7f)
            return false;
    }
    if (len < SECRET_LEARNED_MIN || len > SECRET_LEARNED_MAX || strchr("/<$~%{[(-", p[0]) != NULL ||
        letters < 2 || (len >= 3 && strncasecmp(p, "gfx", 3) == 0) ||
        (len >= 2 && strncasecmp(p, "0x", 2) == 0))
        return false;
    return (digits >= 1 && redact_entropy(p, len) > 2.5) ||
           (len >= 16 && redact_entropy(p, len) > 3.2);
}

/* The characters of base64 that say nothing but these bytes, `shift` others before them. */
static size_t base64_core(const char *p, size_t len, size_t shift, char *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t n = 0;
    size_t bits = 8 * (shift + len);
    for (size_t bit = shift == 0 ? 0 : shift == 1 ? 12 : 18; bit + 6 <= bits; bit += 6) {
        unsigned value = 0;
        for (size_t k = bit; k < bit + 6; k++) {
            unsigned char byte = (unsigned char)p[k / 8 - shift];
            value = value << 1 | (byte >> (7 - k % 8) & 1u);
        }
        out[n++] = digits[value];
    }
    return n;
}

/* "Authorization: Basic ...", a Kubernetes secret, a docker config: the same secret, written so that
 * no rule knows it. */
static int learn_encoded(struct redactor *r, const char *p, size_t len, const char *label)
{
    char core[SECRET_LEARNED_MAX * 4 / 3 + 8];
    for (size_t shift = 0; shift < 3; shift++) {
        size_t n = base64_core(p, len, shift, core);
        if (n < ENCODED_MIN || r->literals >= ENCODED_MAX)
            continue;
        struct redact_name *name = redact_name_of(r, REDACT_SECRET, core, n);
        if (make_literal(r, name) < 0)
            return -ENOMEM;
        name->label = label;
    }
    return 0;
}

static int learn_secret(struct redactor *r, const char *p, size_t len, const char *label)
{
    static const char between[] = " \t\r\n:;,=&\"'\\`<>@";
    for (size_t at = 0; at < len;) {
        size_t n = 0;
        while (at + n < len && p[at + n] != '\0' && strchr(between, p[at + n]) == NULL)
            n++;
        if (n > 0 && r->literals < LITERALS_MAX && worth_learning(p + at, n)) {
            struct redact_name *name = redact_name_of(r, REDACT_SECRET, p + at, n);
            if (make_literal(r, name) < 0)
                return -ENOMEM;
            if (name->label == NULL) {
                name->label = label;
                if (learn_encoded(r, p + at, n, label) < 0)
                    return -ENOMEM;
            }
        }
        at += n + 1;
    }
    return 0;
}

static bool is_name_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.' ||
           (unsigned char)c >= 0x80;
}

static int learn_name(struct redactor *r, enum redact_kind kind, const char *p, size_t len)
{
    char value[128];
    if (len < 3 || len >= sizeof value || r->literals >= LITERALS_MAX)
        return 0;
    for (size_t i = 0; i < len; i++) {
        if (!is_name_char(p[i]))
            return 0;
    }
    memcpy(value, p, len);
    value[len] = '\0';
    if (redact_is_common(value))
        return 0;
    struct redact_name *name = redact_name_of(r, kind, value, len);
    if (name != NULL && name->literal)
        return 0; /* known better */
    int e = make_literal(r, name);
    if (e == 0) {
        name->learned = true;
        name->weak = kind != REDACT_ID && redact_is_weak(value, SHORT_LEARNED);
    }
    char *dot = kind == REDACT_HOST ? strchr(value, '.') : NULL;
    if (e == 0 && dot != NULL && !isdigit((unsigned char)value[0]))
        e = learn_name(r, kind, value, (size_t)(dot - value));
    return e;
}

int redact_learn_span(struct redactor *r, const struct redact_text *t,
                      const struct redact_span *span)
{
    const char *p = t->p + span->from;
    size_t len = span->to - span->from;
    switch (span->kind) {
    case REDACT_SECRET:
        return learn_secret(r, p, len, span->label);
    case REDACT_USER:
    case REDACT_HOST:
    case REDACT_ACCOUNT:
        return learn_name(r, span->kind, p, len);
    case REDACT_ID:
        return len >= 10 ? learn_name(r, span->kind, p, len) : 0;
    default:
        return 0;
    }
}

int redactor_learn(struct redactor *r, const char *text, size_t len)
{
    const struct redact_text t = {text, len};
    struct redact_spans spans = {0};
    int e = len > 0 ? redact_search(r, &t, true, &spans) : 0;
    for (size_t i = 0; e == 0 && i < spans.count; i++) {
        if (spans.list[i].rule != NULL && spans.list[i].rule->learn)
            e = redact_learn_span(r, &t, &spans.list[i]);
    }
    free(spans.list);
    return e;
}

/* --- replacing --- */

static const char *file_name(const struct redactor *r)
{
    return r->file >= 0 ? r->files[r->file].name : "";
}

void redactor_begin_file(struct redactor *r, const char *name)
{
    r->file = -1;
    for (size_t i = 0; name != NULL && i < r->file_count; i++) {
        if (strcmp(r->files[i].name, name) == 0)
            r->file = (int)i;
    }
    if (name == NULL || r->file >= 0)
        return;
    if (r->file_count == r->file_capacity) {
        size_t capacity = r->file_capacity ? r->file_capacity * 2 : 64;
        struct redact_file *grown = realloc(r->files, capacity * sizeof *grown);
        if (grown == NULL)
            return; /* then only the sums count it */
        r->files = grown;
        r->file_capacity = capacity;
    }
    char *copy = strdup(name);
    if (copy == NULL)
        return;
    r->files[r->file_count] = (struct redact_file){.name = copy};
    r->file = (int)r->file_count++;
}

void redactor_on_change(struct redactor *r, redact_change_fn fn, void *arg)
{
    r->on_change = fn;
    r->on_change_arg = arg;
}

static void count_span(struct redactor *r, const struct redact_span *span)
{
    r->counts[span->kind]++;
    if (r->file >= 0)
        r->files[r->file].counts[span->kind]++;
    if (span->kind != REDACT_SECRET)
        return;
    for (size_t i = 0; i < r->rules->count; i++) {
        if (strcmp(r->rules->list[i].name, span->label) == 0) {
            r->rule_counts[i]++;
            return;
        }
    }
    r->other_secrets++;
}

/* Counts characters of UTF-8. A byte that is no UTF-8 counts as one. */
static size_t characters(const char *p, size_t len)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++)
        n += ((unsigned char)p[i] & 0xc0) != 0x80;
    return n;
}

/* Count the span, and write what stands for it. */
static void pseudonym(struct redactor *r, const struct redact_span *span,
                      const struct redact_text *t, size_t line, struct buf *out)
{
    char word[96];
    const char *value = t->p + span->from;
    size_t len = span->to - span->from;
    const char *kind = redact_kind_names[span->kind];
    count_span(r, span);
    if (span->kind == REDACT_SECRET) {
        (void)snprintf(word, sizeof word, "<secret:%s>", span->label);
    } else if (span->kind == REDACT_TEXT) {
        (void)snprintf(word, sizeof word, "<text: %zu characters>", characters(value, len));
    } else {
        const struct redact_name *name = redact_name_of(r, span->kind, value, len);
        if (name != NULL)
            (void)snprintf(word, sizeof word, "<%s%u>", kind, name->number);
        else
            (void)snprintf(word, sizeof word, "<%s>", kind);
    }
    buf_puts(out, word);
    if (r->on_change == NULL)
        return;
    const struct redact_change change = {
        .file = file_name(r),
        .rule = span->rule != NULL ? span->rule->name : "known name",
        .value = value,
        .len = len,
        .line = line,
        .kind = span->kind,
        .becomes = word,
    };
    r->on_change(r->on_change_arg, &change);
}

void redactor_each_name(const struct redactor *r, redact_name_fn fn, void *arg)
{
    for (size_t i = 0; i < r->count; i++) {
        const struct redact_name *name = &r->names[i];
        char word[96];
        if (name->number == 0 || name->kind == REDACT_SECRET || name->kind == REDACT_TEXT)
            continue;
        (void)snprintf(word, sizeof word, "<%s%u>", redact_kind_names[name->kind], name->number);
        fn(arg, word, name->value);
    }
}

void redact_apply(struct redactor *r, const struct redact_text *t, const struct redact_spans *spans,
                  struct buf *out)
{
    size_t done = 0; /* copied up to here */
    size_t line = 1, counted = 0;
    for (size_t i = 0; i < spans->count; i++) {
        const struct redact_span *span = &spans->list[i];
        for (; r->on_change != NULL && counted < span->from; counted++)
            line += t->p[counted] == '\n';
        buf_append(out, t->p + done, span->from - done);
        pseudonym(r, span, t, line, out);
        done = span->to;
    }
    buf_append(out, t->p + done, t->len - done);
}

int redact_text(struct redactor *r, const char *in, size_t len, struct buf *out)
{
    const struct redact_text t = {in, len};
    struct redact_spans spans = {0};
    int e = len > 0 ? redact_search(r, &t, false, &spans) : 0;
    if (e == 0)
        redact_apply(r, &t, &spans, out);
    free(spans.list);
    return e < 0 || buf_failed(out) ? -ENOMEM : 0;
}

uint64_t redactor_count(const struct redactor *r, enum redact_kind kind)
{
    return kind < REDACT_KIND_MAX ? r->counts[kind] : 0;
}
