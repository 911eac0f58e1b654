/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Redaction of a JSON document value by value, so that it stays well-formed. Our own vocabulary
 * (names of facts, moments, statuses, classes) stays as it is, even if a user has such a name.
 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "bundle/redact_internal.h"

#define KEY_MIN 16u /* bytes of a key that is searched like any text */
#define LIST_MAX ((size_t)1 << 20) /* a list of strings that may be a command line */

struct walk {
    struct redactor *redactor;
    const char *const *keep; /* keys whose values are ours */
    bool learning;
};

static bool is_kept(const struct walk *w, const char *key)
{
    for (size_t i = 0; key != NULL && w->keep != NULL && w->keep[i] != NULL; i++) {
        if (strcmp(w->keep[i], key) == 0)
            return true;
    }
    return false;
}

/* The place of a value. `name`: the member "name" of the same object (or "key", "variable" and the like), or NULL. cJSON's
 * objects are lists: it is looked up once an object, because an object of a stranger may have a million members. */
struct place {
    const cJSON *parent, *name;
};

static bool is_one_of_words(const char *const words[], const char *key)
{
    for (size_t i = 0; key != NULL && words[i] != NULL; i++) {
        if (strcasecmp(words[i], key) == 0)
            return true;
    }
    return false;
}

/* The member that says the name of the object's value. */
static const cJSON *name_in(const cJSON *object)
{
    static const char *const words[] = {"name", "key", "k", "variable", "var", "field", "option", "setting", "label",
                                        "parameter", "ParameterKey", "header", NULL};
    const cJSON *found = NULL;
    const cJSON *child;
    cJSON_ArrayForEach(child, object)
    {
        if (!cJSON_IsString(child) || !is_one_of_words(words, child->string))
            continue;
        if (strcasecmp(child->string, "name") == 0)
            return child;
        found = found != NULL ? found : child;
    }
    return found;
}

/* The name that gives the value away, as in {"name": "env.HF_TOKEN", "value": "..."} and
 * ["--token", "..."]. */
static const char *name_of_value(const struct place *place, const cJSON *item)
{
    const char *key = item->string;
    if (place->parent != NULL && cJSON_IsArray(place->parent) && item != place->parent->child && cJSON_IsString(item->prev) &&
        item->prev->valuestring[0] == '-' && strchr(item->prev->valuestring, '=') == NULL)
        return item->prev->valuestring;
    static const char *const words[] = {"value", "val", "v", "ParameterValue", NULL};
    const char *name = cJSON_GetStringValue(place->name);
    return name != NULL && is_one_of_words(words, key) ? name : key;
}

/* --- spans of a text as spans of a piece of it --- */

/* `all` are sorted by their beginning and may overlap. The pieces follow each other: what ends before one is passed
 * for good, and those before `*next` are not looked at again. */
static void take_piece(struct redact_spans *out, struct redact_spans *all, size_t *next, size_t from,
                       size_t len)
{
    for (size_t i = *next; i < all->count && all->list[i].from < from + len; i++) {
        struct redact_span span = all->list[i];
        if (span.to <= from) {
            all->list[i] = all->list[(*next)++];
            continue;
        }
        span.from = span.from > from ? span.from - from : 0;
        span.to = span.to < from + len ? span.to - from : len;
        redact_spans_add(out, span);
    }
}

/* If the name says what the value is, a secret or an identity is hidden whole, with its blanks. A
 * path keeps its last part. */
static bool hides_whole(const struct redact_span *span)
{
    return span->kind == REDACT_SECRET || span->kind == REDACT_ID ||
           span->kind == REDACT_ACCOUNT || span->kind == REDACT_TEXT;
}

static bool starts_with_span(const struct redact_spans *spans)
{
    for (size_t i = 0; i < spans->count; i++) {
        if (spans->list[i].from == 0 && hides_whole(&spans->list[i]))
            return true;
    }
    return false;
}

/* Searches the value as if the text were "name=value". */
static int search_named(const struct walk *w, const char *name, const char *value,
                        struct redact_spans *out)
{
    struct buf line = BUF_INIT;
    struct redact_spans spans = {0};
    struct redact_spans found = {0};
    buf_printf(&line, "%s=%s", name, value);
    const struct redact_text t = {buf_str(&line), line.len};
    size_t at = strlen(name) + 1;
    size_t next = 0;
    int e = buf_failed(&line) ? -ENOMEM : redact_search(w->redactor, &t, w->learning, &spans);
    if (e == 0 && name[0] == '-') {
        const struct redact_text argument = {t.p, t.len + 1}; /* with the NUL that ends it */
        e = redact_arguments(w->redactor, &argument, w->learning, &spans);
    }
    redact_spans_sort(&spans);
    if (e == 0)
        take_piece(&found, &spans, &next, at, strlen(value));
    bool before = starts_with_span(out);
    for (size_t i = 0; e == 0 && i < found.count; i++) {
        struct redact_span span = found.list[i];
        if (span.from == 0 && hides_whole(&span) && !before)
            span.to = strlen(value);
        redact_spans_add(out, span);
    }
    if (e == 0)
        e = found.failed < 0 ? found.failed : out->failed;
    free(spans.list);
    free(found.list);
    buf_release(&line);
    return e;
}

static int set_string(cJSON *item, const struct buf *text)
{
    char *copy = buf_failed(text) ? NULL : cJSON_malloc(text->len + 1);
    if (copy == NULL)
        return -ENOMEM;
    memcpy(copy, buf_str(text), text->len + 1);
    cJSON_free(item->valuestring);
    item->valuestring = copy;
    item->type = (item->type & ~0xff) | cJSON_String;
    return 0;
}

static int learn_spans(const struct walk *w, const struct redact_text *t,
                       const struct redact_spans *spans)
{
    int e = 0;
    for (size_t i = 0; e == 0 && i < spans->count; i++) {
        if (spans->list[i].rule != NULL && spans->list[i].rule->learn)
            e = redact_learn_span(w->redactor, t, &spans->list[i]);
    }
    return e;
}

/* Redacts the value of a string or number item. `spans` were found from the text around it. */
static int redact_value(const struct walk *w, const struct place *place, cJSON *item,
                        struct redact_spans *spans)
{
    char number[40];
    const char *value = item->valuestring;
    if (cJSON_IsNumber(item)) {
        (void)snprintf(number, sizeof number, "%.17g", item->valuedouble);
        value = number;
    }
    const struct redact_text t = {value, strlen(value)};
    const char *name = name_of_value(place, item);
    int r =
        cJSON_IsString(item) && t.len > 0 ? redact_search(w->redactor, &t, w->learning, spans) : 0;
    if (r == 0 && name != NULL && t.len > 0)
        r = search_named(w, name, value, spans);
    struct redact_span whole = {0};
    const char *of_list = name == NULL && place->parent != NULL ? place->parent->string : NULL;
    if (r == 0 && (name != NULL || of_list != NULL) && cJSON_IsString(item))
        r = redact_asks_for_secret(w->redactor, name != NULL ? name : of_list, value, &whole); /* also {"api_keys": ["...", "..."]} */
    if (r > 0) {
        whole.from = 0;
        whole.to = t.len;
        redact_spans_add(spans, whole);
        r = spans->failed;
        if (r == 0 && w->learning)
            r = redact_learn_whole(w->redactor, REDACT_SECRET, value, t.len, whole.label);
    }
    if (r == 0 && w->learning)
        return learn_spans(w, &t, spans);
    if (r < 0 || spans->count == 0)
        return r;
    struct buf out = BUF_INIT;
    redact_spans_settle(spans);
    redact_apply(w->redactor, &t, spans, &out);
    r = set_string(item, &out);
    buf_release(&out);
    return r;
}

/* A short key without signs loses only a name that is known. A user whose name is one of our words must not change
 * that word. */
static void keep_known_names(const struct walk *w, const struct redact_text *t, struct redact_spans *spans)
{
    size_t kept = 0;
    bool ours = redact_is_known(w->redactor->rules->vocabulary, KNOWN_WORDS, t->p, t->len);
    for (size_t i = 0; !ours && i < spans->count; i++)
        if (spans->list[i].rule == NULL)
            spans->list[kept++] = spans->list[i];
    spans->count = kept;
}

/* {"/home/alice/x": ...}, {"hf_...": 1}: a key may hold anything. */
static int redact_key(const struct walk *w, cJSON *item)
{
    const struct redact_text t = {item->string, item->string != NULL ? strlen(item->string) : 0};
    struct redact_spans spans = {0};
    if (t.len == 0 || w->learning)
        return 0;
    int r = redact_search(w->redactor, &t, false, &spans);
    if (strpbrk(item->string, "/@\\:= ") == NULL && t.len < KEY_MIN)
        keep_known_names(w, &t, &spans);
    struct buf out = BUF_INIT;
    char *copy = NULL;
    if (r == 0 && spans.count > 0) {
        redact_apply(w->redactor, &t, &spans, &out);
        copy = buf_failed(&out) ? NULL : cJSON_malloc(out.len + 1);
        r = copy == NULL ? -ENOMEM : 0;
    }
    if (copy != NULL) {
        memcpy(copy, buf_str(&out), out.len + 1);
        if ((item->type & cJSON_StringIsConst) == 0)
            cJSON_free(item->string);
        item->type &= ~cJSON_StringIsConst;
        item->string = copy;
    }
    free(spans.list);
    buf_release(&out);
    return r;
}

/* The strings of a list with a sign between them. False: it holds something else, or less than two. */
static bool join_list(const cJSON *array, char sign, struct buf *line)
{
    const cJSON *item;
    size_t count = 0;
    cJSON_ArrayForEach(item, array)
    {
        if (!cJSON_IsString(item))
            return false;
        if (count++ > 0)
            buf_putc(line, sign);
        buf_puts(line, item->valuestring);
    }
    return count > 1 && !buf_failed(line);
}

/* ["curl", "-u", "name:password"]: only the whole line shows which word is a secret. With NULs between its words, it also shows
 * where an argument of several words ends. Both lines have the same bytes in the same places. */
static int search_list(const struct walk *w, const cJSON *array, struct redact_spans *out,
                       struct buf *line)
{
    struct buf parted;
    buf_init(&parted, LIST_MAX);
    int r = 0;
    if (join_list(array, ' ', line) && join_list(array, '\0', &parted)) {
        const struct redact_text t = {buf_str(line), line->len};
        const struct redact_text second = {buf_str(&parted), parted.len};
        r = redact_search(w->redactor, &t, w->learning, out);
        if (r == 0 && memchr(second.p, ' ', second.len) != NULL)
            r = redact_search(w->redactor, &second, w->learning, out);
    }
    buf_release(&parted);
    return r;
}

static int walk(const struct walk *w, const struct place *place, cJSON *item);

static int walk_array(const struct walk *w, cJSON *array) /* NOLINT(misc-no-recursion) */
{
    const struct place place = {array, NULL};
    struct redact_spans all = {0};
    struct buf line;
    size_t at = 0;
    size_t next = 0;
    buf_init(&line, LIST_MAX);
    int r = search_list(w, array, &all, &line);
    bool joined = line.len > 0 && !buf_failed(&line);
    redact_spans_sort(&all); /* those that are only learned are not settled */
    for (cJSON *item = array->child; r == 0 && item != NULL; item = item->next) {
        size_t len = cJSON_IsString(item) ? strlen(item->valuestring) : 0;
        if (joined && cJSON_IsString(item)) {
            struct redact_spans own = {0};
            take_piece(&own, &all, &next, at, len);
            r = redact_value(w, &place, item, &own);
            free(own.list);
        } else {
            r = walk(w, &place, item);
        }
        at += len + 1;
    }
    free(all.list);
    buf_release(&line);
    return r;
}

/* As deep as cJSON's parser goes (CJSON_NESTING_LIMIT, 1000). */
static int walk(const struct walk *w, const struct place *place,
                cJSON *item) /* NOLINT(misc-no-recursion) */
{
    int r = redact_key(w, item);
    if (r < 0 || is_kept(w, item->string))
        return r;
    if (cJSON_IsString(item) || cJSON_IsNumber(item)) {
        struct redact_spans spans = {0};
        r = redact_value(w, place, item, &spans);
        free(spans.list);
        return r;
    }
    if (cJSON_IsArray(item))
        return walk_array(w, item);
    const struct place inside = {item, name_in(item)};
    for (cJSON *child = item->child; r == 0 && child != NULL; child = child->next)
        r = walk(w, &inside, child);
    return r;
}

int redact_json(struct redactor *redactor, struct cJSON *document, const char *const keep[])
{
    const struct walk w = {redactor, keep, false};
    return walk(&w, &(struct place){0}, document);
}

int redactor_learn_json(struct redactor *redactor, const struct cJSON *document)
{
    const struct walk w = {redactor, NULL, true};
    return walk(&w, &(struct place){0}, (cJSON *)(uintptr_t)document); /* learning alters nothing */
}
