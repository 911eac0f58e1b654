/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store of facts: an array in order of insertion with a hash index over (name, when).
 *
 * Runs in the finisher and in `rocmcrash triage`. Texts come from logs of unknown origin. The store
 * turns them into valid UTF-8 without control characters, and bounds them, so that readers of facts
 * need no checks.
 */
#include "diagnose/fact.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

/* Bounds of the store, far above a real run (about 600 facts on an eight-GPU machine). */
#define FACTS_MAX 65536u
#define NAME_MAX_LEN 160u
#define TEXT_MAX_LEN 4096u
#define FIRST_CAPACITY 256u

struct facts {
    struct fact *items;
    size_t count;
    size_t capacity;
    uint32_t *index; /* open addressing, twice the capacity, 0 = empty, else item + 1 */
    size_t index_size;
};

static uint64_t hash_key(const char *name, enum fact_when when)
{
    uint64_t h = UINT64_C(1469598103934665603) ^ (uint64_t)when;
    for (const char *p = name; *p != '\0'; p++)
        h = (h ^ (unsigned char)*p) * UINT64_C(1099511628211);
    return h ^ (h >> 29);
}

static size_t find_slot(const struct facts *f, const char *name, enum fact_when when)
{
    size_t slot = hash_key(name, when) & (f->index_size - 1);
    while (f->index[slot] != 0) {
        const struct fact *item = &f->items[f->index[slot] - 1];
        if (item->when == when && strcmp(item->name, name) == 0)
            break;
        slot = (slot + 1) & (f->index_size - 1);
    }
    return slot;
}

static int reserve(struct facts *f, size_t capacity)
{
    struct fact *items = realloc(f->items, capacity * sizeof *items);
    if (items == NULL)
        return -ENOMEM;
    f->items = items;
    uint32_t *index = calloc(capacity * 2, sizeof *index);
    if (index == NULL)
        return -ENOMEM;
    free(f->index);
    f->index = index;
    f->index_size = capacity * 2;
    f->capacity = capacity;
    for (size_t i = 0; i < f->count; i++)
        f->index[find_slot(f, items[i].name, items[i].when)] = (uint32_t)(i + 1);
    return 0;
}

struct facts *facts_new(void)
{
    struct facts *f = calloc(1, sizeof *f);
    if (f != NULL && reserve(f, FIRST_CAPACITY) < 0) {
        facts_free(f);
        f = NULL;
    }
    return f;
}

static void release_strings(struct fact *item)
{
    free((void *)(uintptr_t)item->text);
    free((void *)(uintptr_t)item->source);
    free((void *)(uintptr_t)item->reason);
    item->text = item->source = item->reason = NULL;
}

void facts_free(struct facts *f)
{
    if (f == NULL)
        return;
    for (size_t i = 0; i < f->count; i++) {
        release_strings(&f->items[i]);
        free((void *)(uintptr_t)f->items[i].name);
    }
    free(f->items);
    free(f->index);
    free(f);
}

/* Bounded copy in which every control character and invalid byte has become '?'. */
static char *clean_copy(const char *text)
{
    size_t len = strnlen(text, TEXT_MAX_LEN);
    char *copy = malloc(len + 1);
    if (copy == NULL)
        return NULL;
    for (size_t i = 0; i < len;) {
        const unsigned char *p = (const unsigned char *)text + i;
        size_t n = utf8_length(p, len - i);
        bool control = (*p < 0x20 && *p != '\n' && *p != '\t') || *p == 0x7f;
        if (n == 0 || control) {
            copy[i++] = '?';
            continue;
        }
        memcpy(copy + i, p, n);
        i += n;
    }
    copy[len] = '\0';
    return copy;
}

/* A copy of an optional text; false only when out of memory. */
static bool copy_optional(const char **ret, const char *text)
{
    *ret = NULL;
    if (text == NULL)
        return true;
    *ret = clean_copy(text);
    return *ret != NULL;
}

/* Names are ours: printable ASCII without space, so that they need no quoting anywhere. */
static bool name_is_valid(const char *name)
{
    size_t len = name != NULL ? strnlen(name, NAME_MAX_LEN + 1) : 0;
    if (len == 0 || len > NAME_MAX_LEN)
        return false;
    for (size_t i = 0; i < len; i++)
        if (name[i] <= ' ' || name[i] > '~' || name[i] == '"' || name[i] == '\\')
            return false;
    return true;
}

static int add_item(struct facts *f, const char *name, struct fact *values)
{
    if (f->count >= FACTS_MAX)
        return -E2BIG;
    if (f->count == f->capacity) {
        int r = reserve(f, f->capacity * 2);
        if (r < 0)
            return r;
    }
    values->name = strdup(name);
    if (values->name == NULL)
        return -ENOMEM;
    size_t slot = find_slot(f, name, values->when);
    f->items[f->count++] = *values;
    f->index[slot] = (uint32_t)f->count;
    return 0;
}

/* Store `value` (its texts are copied) under name; the first present value wins. */
static int set(struct facts *f, const char *name, const struct fact *value)
{
    if (!name_is_valid(name) || value->when > FACT_LOG)
        return -EINVAL;
    size_t slot = find_slot(f, name, value->when);
    struct fact *old = f->index[slot] != 0 ? &f->items[f->index[slot] - 1] : NULL;
    if (old != NULL && (old->status == FACT_PRESENT || value->status != FACT_PRESENT))
        return 0;

    struct fact copy = *value;
    copy.text = copy.source = copy.reason = NULL;
    int r = -ENOMEM;
    if (copy_optional(&copy.text, value->text) && copy_optional(&copy.source, value->source) &&
        copy_optional(&copy.reason, value->reason)) {
        if (old == NULL) {
            r = add_item(f, name, &copy);
        } else {
            release_strings(old);
            copy.name = old->name;
            *old = copy;
            r = 0;
        }
    }
    if (r < 0)
        release_strings(&copy);
    return r;
}

int facts_set_integer(struct facts *f, const char *name, enum fact_when when, int64_t value,
                      const char *source)
{
    return set(
        f, name,
        &(struct fact){.type = FACT_INTEGER, .when = when, .integer = value, .source = source});
}

int facts_set_real(struct facts *f, const char *name, enum fact_when when, double value,
                   const char *source)
{
    if (!isfinite(value))
        return facts_set_missing(f, name, when, FACT_UNREADABLE, "not a finite number", source);
    return set(f, name,
               &(struct fact){.type = FACT_REAL, .when = when, .real = value, .source = source});
}

int facts_set_text(struct facts *f, const char *name, enum fact_when when, const char *value,
                   const char *source)
{
    if (value == NULL)
        return -EINVAL;
    return set(f, name,
               &(struct fact){.type = FACT_TEXT, .when = when, .text = value, .source = source});
}

int facts_set_boolean(struct facts *f, const char *name, enum fact_when when, bool value,
                      const char *source)
{
    return set(
        f, name,
        &(struct fact){.type = FACT_BOOLEAN, .when = when, .integer = value, .source = source});
}

int facts_set_missing(struct facts *f, const char *name, enum fact_when when,
                      enum fact_status status, const char *reason, const char *source)
{
    if (status == FACT_PRESENT || status > FACT_BLIND)
        return -EINVAL;
    return set(f, name,
               &(struct fact){.status = status,
                              .when = when,
                              .source = source,
                              .reason = reason != NULL ? reason : "no reason given"});
}

void facts_mark(struct facts *f, size_t index, const char *mark)
{
    struct fact *item = &f->items[index];
    char *source = NULL;
    if (item->source == NULL || asprintf(&source, "%s, %s", item->source, mark) < 0)
        return;
    free((void *)(uintptr_t)item->source);
    item->source = source;
}

bool fact_has_mark(const struct fact *fact, const char *mark)
{
    const char *at = fact->source;
    while (at != NULL && (at = strstr(at, mark)) != NULL) {
        if (at - fact->source >= 2 && memcmp(at - 2, ", ", 2) == 0)
            return true;
        at++;
    }
    return false;
}

const char *fact_mark_of_doubt(const struct fact *fact)
{
    static const char *const marks[] = {FACT_MARK_PERHAPS_OTHERS, FACT_MARK_ONE_OF_RANKS, FACT_MARK_ENDED_WELL,
                                        FACT_MARK_WENT_ON,        FACT_MARK_HANDLED, FACT_MARK_FOLLOWED, FACT_MARK_QUOTED, FACT_MARK_BYSTANDER,       FACT_MARK_LONG_BEFORE};
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++)
        if (fact_has_mark(fact, marks[i]))
            return marks[i];
    return NULL;
}

bool fact_is_repaired(const struct fact *fact)
{
    return fact_has_mark(fact, FACT_MARK_JOINED) || fact_has_mark(fact, FACT_MARK_COMPLETED);
}

unsigned fact_source_line(const struct fact *fact)
{
    static const char word[] = " line ";
    const char *last = NULL;
    for (const char *at = fact->source; at != NULL && (at = strstr(at, word)) != NULL; at++)
        last = at;
    return last != NULL ? (unsigned)strtoul(last + sizeof word - 1, NULL, 10) : 0;
}

bool fact_says_same(const struct fact *a, const struct fact *b)
{
    if (a->status != b->status || a->type != b->type)
        return false;
    if (a->type == FACT_TEXT && a->status == FACT_PRESENT)
        return strcmp(a->text, b->text) == 0;
    return a->type == FACT_REAL ? !(a->real < b->real || a->real > b->real) : a->integer == b->integer;
}

size_t facts_count(const struct facts *f)
{
    return f->count;
}

const struct fact *facts_at(const struct facts *f, size_t index)
{
    return index < f->count ? &f->items[index] : NULL;
}

const struct fact *facts_find(const struct facts *f, const char *name, enum fact_when when)
{
    size_t slot = find_slot(f, name, when);
    return f->index[slot] != 0 ? &f->items[f->index[slot] - 1] : NULL;
}

const struct fact *facts_best(const struct facts *f, const char *name)
{
    static const enum fact_when order[] = {FACT_IMPACT, FACT_LOG,   FACT_STATIC,
                                           FACT_PEAK,   FACT_AFTER, FACT_BASELINE};
    const struct fact *missing = NULL;
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        const struct fact *fact = facts_find(f, name, order[i]);
        if (fact == NULL)
            continue;
        if (fact->status == FACT_PRESENT)
            return fact;
        if (missing == NULL)
            missing = fact;
    }
    return missing;
}

bool facts_get_integer(const struct facts *f, const char *name, int64_t *ret)
{
    const struct fact *fact = facts_best(f, name);
    if (fact == NULL || fact->status != FACT_PRESENT)
        return false;
    if (fact->type == FACT_INTEGER || fact->type == FACT_BOOLEAN) {
        *ret = fact->integer;
        return true;
    }
    /* 2^63 is a double, INT64_MAX is not: compare below it. */
    if (fact->type == FACT_REAL && fact->real >= -0x1p63 && fact->real < 0x1p63 &&
        trunc(fact->real) == fact->real) {
        *ret = (int64_t)fact->real;
        return true;
    }
    return false;
}

bool facts_get_number(const struct facts *facts, const char *name, double *ret)
{
    const struct fact *f = facts_best(facts, name);
    if (f == NULL || f->status != FACT_PRESENT || f->type == FACT_TEXT)
        return false;
    *ret = f->type == FACT_REAL ? f->real : (double)f->integer;
    return true;
}

bool facts_is_present(const struct facts *facts, const char *name)
{
    const struct fact *f = facts_best(facts, name);
    return f != NULL && f->status == FACT_PRESENT;
}

bool facts_get_text(const struct facts *f, const char *name, const char **ret)
{
    const struct fact *fact = facts_best(f, name);
    if (fact == NULL || fact->status != FACT_PRESENT || fact->type != FACT_TEXT)
        return false;
    *ret = fact->text;
    return true;
}
