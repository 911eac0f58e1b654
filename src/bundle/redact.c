/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The redactor: replaces everything private in a text. redact_search.c finds it, redact_names.c has
 * the known names. Runs in the finisher.
 */
#include "bundle/redact.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "bundle/redact_internal.h"

struct redactor *redactor_new_rules(const char *rules, size_t len, const char *name,
                                    struct rc_err *err)
{
    struct redactor *r = calloc(1, sizeof *r);
    if (r != NULL && redact_rules_parse(&r->rules, rules, len, name, err) == 0) {
        r->file = -1;
        r->rules_id = REDACT_HASH;
        for (size_t i = 0; i < len; i++)
            r->rules_id = redact_hash_step(r->rules_id, rules[i]);
        r->rule_counts = calloc(r->rules->count, sizeof *r->rule_counts);
        if (r->rule_counts != NULL)
            return r;
    }
    redactor_free(r);
    return NULL;
}

const char *redactor_builtin_rules(size_t *ret_len)
{
    *ret_len = redact_builtin_rules_len;
    return (const char *)redact_builtin_rules;
}

struct redactor *redactor_new(void)
{
    size_t len = 0;
    const char *rules = redactor_builtin_rules(&len);
    return redactor_new_rules(rules, len, "redaction.rules", NULL);
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
    for (size_t i = 0; i < r->library_count; i++)
        free(r->libraries[i]);
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
static void pseudonym(struct redactor *r, const struct redact_span *found,
                      const struct redact_text *t, size_t line, struct buf *out)
{
    char word[96];
    const char *value = t->p + found->from;
    size_t len = found->to - found->from;
    struct redact_span own = *found;
    const struct redact_span *span = &own;
    if (found->rule != NULL && found->rule->unless_known != KNOWN_NONE)
        own.kind = redact_kind_known_as(r, found->kind, value, len);
    const char *kind = redact_kind_names[span->kind];
    count_span(r, span);
    if (span->kind == REDACT_SECRET) {
        (void)snprintf(word, sizeof word, "<secret:%s>", span->label);
    } else if (span->kind == REDACT_TEXT) {
        (void)snprintf(word, sizeof word, "<text: %zu characters>", characters(value, len));
    } else {
        struct redact_name *name = redact_name_of(r, span->kind, value, len);
        if (name != NULL && name->number == 0)
            name->number = ++r->last_number[span->kind];
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
    struct json_line json = {0};
    for (size_t i = 0; i < spans->count; i++) {
        const struct redact_span *span = &spans->list[i];
        for (; r->on_change != NULL && counted < span->from; counted++)
            line += t->p[counted] == '\n';
        buf_append(out, t->p + done, span->from - done);
        bool quote = redact_needs_quotes(&json, t, span);
        buf_puts(out, quote ? "\"" : "");
        pseudonym(r, span, t, line, out);
        buf_puts(out, quote ? "\"" : "");
        done = span->to;
    }
    buf_append(out, t->p + done, t->len - done);
}

void redactor_measured(struct redactor *r, bool is_measured)
{
    r->is_measured = is_measured;
}

void redactor_guessed(struct redactor *r, bool is_guessed)
{
    r->is_guessed = is_guessed;
}

int redact_text(struct redactor *r, const char *in, size_t len, struct buf *out)
{
    const struct redact_text t = {in, len};
    struct redact_spans spans = {0};
    int e = len > 0 ? redact_search(r, &t, false, &spans) : 0;
    if (e == 0)
        e = redact_fit_json(&t, &spans);
    if (e == 0)
        redact_apply(r, &t, &spans, out);
    free(spans.list);
    return e == 0 && buf_failed(out) ? -ENOMEM : e;
}

uint64_t redactor_count(const struct redactor *r, enum redact_kind kind)
{
    return kind < REDACT_KIND_MAX ? r->counts[kind] : 0;
}
