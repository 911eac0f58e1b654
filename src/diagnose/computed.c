/* SPDX-License-Identifier: Apache-2.0 */
/*
 * templates/computed.json -> facts. Each entry has one or several ways to compute it; the first way
 * whose condition holds and whose inputs are there gives the value.
 */
#include "diagnose/computed.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fs.h"
#include "diagnose/fact.h"
#include "diagnose/features_internal.h"
#include "diagnose/tree.h"
#include "diagnose/tree_loader.h"

#define FILE_BYTES_MAX ((size_t)4 << 20)
#define ENTRIES_MAX 256
#define WAYS_MAX 6
#define REASONS_MAX 3

struct way {
    struct expr *when; /* NULL = always */
    struct expr *is;
    char *source; /* NULL = the inputs that were read */
};

struct reason {
    struct expr *when; /* NULL = always */
    char *say;
};

struct entry {
    char *name;
    struct expr *only_if; /* NULL = always; else the fact is not set if it does not hold */
    bool quiet;           /* not set, and not reported missing, if it cannot be computed */
    size_t way_count;
    struct way way[WAYS_MAX];
    size_t reason_count;
    struct reason absent[REASONS_MAX];
};

struct computed {
    size_t count;
    struct entry entry[ENTRIES_MAX];
};

/* --- reading the file --- */

static int read_way(const struct loader *l, const cJSON *object, struct way *way)
{
    static const char *const keys[] = {"if", "is", "source", NULL};
    int r = cJSON_IsObject(object) ? 0 : loader_wrong_key(l, "is", "must be texts or objects");
    if (r == 0)
        r = loader_check_keys(l, object, keys);
    if (r == 0)
        r = loader_expr(l, object, "if", false, &way->when);
    if (r == 0)
        r = loader_text(l, object, "source", false, &way->source);
    return r == 0 ? loader_expr(l, object, "is", true, &way->is) : r;
}

/* One expression (a text or its lines), or a list of ways. */
static int read_ways(const struct loader *l, const cJSON *object, struct entry *e)
{
    const cJSON *is = cJSON_GetObjectItemCaseSensitive(object, "is");
    const cJSON *item = NULL;
    if (!cJSON_IsArray(is) || !cJSON_IsObject(is->child)) {
        e->way_count = 1;
        return loader_expr(l, object, "is", true, &e->way[0].is);
    }
    cJSON_ArrayForEach(item, is)
    {
        if (e->way_count == WAYS_MAX)
            return loader_wrong_key(l, "is", "has too many entries");
        int r = read_way(l, item, &e->way[e->way_count++]);
        if (r < 0)
            return r;
    }
    return 0;
}

static int read_absent(const struct loader *l, const cJSON *object, struct entry *e)
{
    static const char *const keys[] = {"if", "say", NULL};
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(object, "absent");
    const cJSON *item = NULL;
    if (list != NULL && !cJSON_IsArray(list))
        return loader_wrong_key(l, "absent", "must be a list of {\"if\", \"say\"}");
    cJSON_ArrayForEach(item, list)
    {
        if (e->reason_count == REASONS_MAX || !cJSON_IsObject(item))
            return loader_wrong_key(l, "absent", "must be a short list of {\"if\", \"say\"}");
        struct reason *reason = &e->absent[e->reason_count++];
        int r = loader_check_keys(l, item, keys);
        if (r == 0)
            r = loader_expr(l, item, "if", false, &reason->when);
        if (r == 0)
            r = loader_text(l, item, "say", true, &reason->say);
        if (r < 0)
            return r;
    }
    return 0;
}

static int read_entry(struct loader *l, const cJSON *object, struct entry *e)
{
    static const char *const keys[] = {"fact", "only_if", "is", "absent", "quiet", NULL};
    int r = cJSON_IsObject(object) ? 0 : loader_wrong(l, NULL, "a fact must be an object");
    if (r == 0)
        r = loader_text(l, object, "fact", true, &e->name);
    if (r < 0 || e->name == NULL)
        return r;
    l->item = e->name;
    if (!fact_name_plausible(e->name, strlen(e->name)))
        r = loader_wrong(l, e->name, "is not the name of a fact");
    if (r == 0)
        r = loader_check_keys(l, object, keys);
    if (r == 0)
        r = loader_expr(l, object, "only_if", false, &e->only_if);
    if (r == 0)
        r = read_ways(l, object, e);
    if (r == 0)
        r = read_absent(l, object, e);
    e->quiet = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(object, "quiet"));
    l->item = NULL;
    return r;
}

static int read_all(struct loader *l, const cJSON *root, struct computed *c)
{
    static const char *const keys[] = {"format", "how_to_read", "computed", NULL};
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(root, "computed");
    const cJSON *item = NULL;
    int r = loader_check_format(l, root);
    if (r == 0)
        r = loader_check_keys(l, root, keys);
    if (r == 0 && !cJSON_IsArray(list))
        r = loader_wrong_key(l, "computed", "must be a list");
    cJSON_ArrayForEach(item, list)
    {
        if (r == 0 && c->count == ENTRIES_MAX)
            r = loader_wrong(l, NULL, "more than %d facts", ENTRIES_MAX);
        if (r == 0)
            r = read_entry(l, item, &c->entry[c->count++]);
    }
    return r;
}

struct computed *computed_parse(const char *json, size_t len, const char *name, struct rc_err *err)
{
    char *text = strndup(json, len);
    struct computed *c = calloc(1, sizeof(*c));
    struct loader l = {.text = text, .near = text, .file = name, .err = err};
    cJSON *root = text != NULL && c != NULL ? loader_json(&l, strlen(text)) : NULL;
    int r = root != NULL ? read_all(&l, root, c) : -EINVAL;
    if (r == -ENOMEM || text == NULL || c == NULL)
        r = rc_err_set(err, -ENOMEM, "out of memory while reading '%s'", name);
    cJSON_Delete(root);
    free(text);
    if (r == 0)
        return c;
    computed_free(c);
    return NULL;
}

struct computed *computed_read(const char *path, struct rc_err *err)
{
    RC_AUTO_FREE char *text = NULL;
    ssize_t len = fs_read_all(path, FILE_BYTES_MAX, &text);
    if (len >= 0)
        return computed_parse(text, (size_t)len, path, err);
    (void)rc_err_errno(err, (int)len, "cannot read '%s'", path);
    return NULL;
}

void computed_free(struct computed *c)
{
    for (size_t i = 0; c != NULL && i < c->count; i++) {
        struct entry *e = &c->entry[i];
        free(e->name);
        expr_free(e->only_if);
        for (size_t k = 0; k < e->way_count; k++) {
            expr_free(e->way[k].when);
            expr_free(e->way[k].is);
            free(e->way[k].source);
        }
        for (size_t k = 0; k < e->reason_count; k++) {
            expr_free(e->absent[k].when);
            free(e->absent[k].say);
        }
    }
    free(c);
}

/* --- computing --- */

static bool holds(const struct facts *facts, const struct expr *condition)
{
    struct eval ev = {.facts = facts};
    return condition == NULL || eval_answer(&ev, condition) == ANSWER_YES;
}

static void store(struct facts *facts, const struct entry *e, const struct way *way,
                  const struct eval *ev, struct value v)
{
    const char *inputs[EVAL_NAMES_MAX];
    char source[FEATURE_SOURCE_MAX];
    for (size_t i = 0; i < ev->used_count; i++)
        inputs[i] = ev->used[i]->name;
    if (way->source != NULL)
        (void)snprintf(source, sizeof(source), "%s", way->source);
    else
        feature_source(facts, inputs, ev->used_count, source, sizeof(source));
    if (v.kind == VALUE_BOOLEAN)
        (void)facts_set_boolean(facts, e->name, FACT_IMPACT, v.number != 0, source);
    else if (v.kind == VALUE_TEXT)
        (void)facts_set_text(facts, e->name, FACT_IMPACT, v.text, source);
    else
        feature_set_number(facts, e->name, v.number, source);
}

static void store_missing(struct facts *facts, const struct entry *e, const struct eval *missing)
{
    for (size_t i = 0; i < e->reason_count; i++) {
        if (holds(facts, e->absent[i].when)) {
            (void)facts_set_missing(facts, e->name, FACT_IMPACT, FACT_ABSENT, e->absent[i].say,
                                    "features");
            return;
        }
    }
    feature_missing(facts, e->name, missing->missing, missing->missing_count);
}

/* Adds the inputs that one way lacks to those that the ways before it lack. */
static void add_missing(struct eval *all, const struct eval *ev)
{
    for (size_t i = 0; i < ev->missing_count; i++) {
        bool known = all->missing_count == EVAL_NAMES_MAX;
        for (size_t k = 0; k < all->missing_count && !known; k++)
            known = strcmp(all->missing[k], ev->missing[i]) == 0;
        if (!known)
            all->missing[all->missing_count++] = ev->missing[i];
    }
}

static void derive(struct facts *facts, const struct entry *e)
{
    struct eval all = {.facts = facts};
    if (!holds(facts, e->only_if))
        return;
    for (size_t i = 0; i < e->way_count; i++) {
        struct eval ev = {.facts = facts};
        enum answer answer = ANSWER_YES;
        if (e->way[i].when != NULL)
            answer = eval_answer(&ev, e->way[i].when);
        ev.used_count = 0; /* the source names the inputs of the value */
        struct value v = {.kind = VALUE_UNDECIDED};
        if (answer == ANSWER_YES)
            v = eval_value(&ev, e->way[i].is);
        if (v.kind != VALUE_UNDECIDED) {
            store(facts, e, &e->way[i], &ev, v);
            return;
        }
        add_missing(&all, &ev);
    }
    if (!e->quiet)
        store_missing(facts, e, &all);
}

void computed_derive(const struct computed *c, struct facts *facts)
{
    for (size_t i = 0; c != NULL && i < c->count; i++)
        derive(facts, &c->entry[i]);
}
