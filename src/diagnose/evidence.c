/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/evidence.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "diagnose/tree.h"
#include "diagnose/tree_loader.h"

/* Names that "for" may hold: weights that facts have computed. */
static const struct evidence_named {
    const char *name;
    struct {
        const char *class_fact, *weight_fact;
    } pair[2];
} named[] = {
    {"the error code", {{"err.class", "err.weight"}, {"err.second", "err.second_weight"}}},
    {"the wording", {{"wording.class", "wording.weight"}, {"wording.class", "wording.extra"}}},
};

static const struct evidence_named *named_weights(const char *name)
{
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++)
        if (strcmp(name, named[i].name) == 0)
            return &named[i];
    return NULL;
}

static int read_row(struct loader *l, const cJSON *object)
{
    static const char *const keys[] = {"id", "if", "for", "say", NULL};
    struct evidence *e = &l->tree->evidence;
    char *weights = NULL;
    if (e->row_count == EVIDENCE_ROWS_MAX)
        return loader_wrong_key(l, "evidence", "has too many rows");
    struct evidence_row *row = &e->row[e->row_count++];
    int r = cJSON_IsObject(object) ? loader_text(l, object, "id", true, &row->id)
                                    : loader_wrong_key(l, "evidence", "must be a list of objects");
    if (r < 0)
        return r;
    loader_go_to(l, row->id);
    r = loader_check_keys(l, object, keys);
    if (r == 0)
        r = loader_expr(l, object, "if", true, &row->when);
    if (r == 0)
        r = loader_text(l, object, "for", true, &weights);
    if (r == 0)
        r = loader_template(l, object, "say", true, &row->say);
    row->named = r == 0 ? named_weights(weights) : NULL;
    if (r == 0 && row->named == NULL && !prior_parse(weights, &row->prior))
        r = loader_wrong_key(l, "for", "must be \"class weight, class weight\"");
    free(weights);
    return r;
}

static int read_pair(struct loader *l, const cJSON *item)
{
    struct evidence *e = &l->tree->evidence;
    const char *name = item->string;
    size_t first = strcspn(name, " ");
    if (e->pair_count == EVIDENCE_PAIRS_MAX)
        return loader_wrong_key(l, "decides", "has too many entries");
    struct evidence_pair *pair = &e->pair[e->pair_count++];
    *pair = (struct evidence_pair){.first = prior_index(name, first), .second = -1};
    if (name[first] == ' ')
        pair->second = prior_index(name + first + 1, strlen(name + first + 1));
    if (pair->first < 0 || (name[first] == ' ' && pair->second < 0) || !cJSON_IsString(item))
        return loader_wrong_key(l, name, "must be a class or two, with a text");
    pair->say = strdup(item->valuestring);
    return pair->say != NULL ? 0 : -ENOMEM;
}

int evidence_read(struct loader *l, const cJSON *root)
{
    const cJSON *rows = cJSON_GetObjectItemCaseSensitive(root, "evidence");
    const cJSON *pairs = cJSON_GetObjectItemCaseSensitive(root, "decides");
    const cJSON *item = NULL;
    int r = 0;
    cJSON_ArrayForEach(item, rows)
    {
        if (r == 0)
            r = read_row(l, item);
    }
    cJSON_ArrayForEach(item, pairs)
    {
        if (r == 0)
            r = read_pair(l, item);
    }
    return r;
}

void evidence_release(struct evidence *e)
{
    for (size_t i = 0; i < e->row_count; i++) {
        free(e->row[i].id);
        expr_free(e->row[i].when);
        free(e->row[i].say);
    }
    for (size_t i = 0; i < e->pair_count; i++)
        free(e->pair[i].say);
}

static void add_named(const struct facts *facts, const char *class_fact, const char *weight_fact,
                      struct prior *sum)
{
    const char *name = NULL;
    const struct fact *weight = facts_best(facts, weight_fact);
    int index = facts_get_text(facts, class_fact, &name) ? prior_index(name, strlen(name)) : -1;
    if (index >= 0 && weight != NULL && weight->status == FACT_PRESENT)
        sum->weight[index] += (float)(weight->type == FACT_REAL ? weight->real : (double)weight->integer);
}

static struct prior weights_of(const struct facts *facts, const struct evidence_row *row)
{
    struct prior p = row->prior;
    for (size_t i = 0; row->named != NULL && i < 2 && row->named->pair[i].class_fact != NULL; i++)
        add_named(facts, row->named->pair[i].class_fact, row->named->pair[i].weight_fact, &p);
    return p;
}

/* The evidence for one class, in words. */
static void add_says(struct facts *facts, const struct tree *tree, const bool *holds, int class_index,
                     const char *fact)
{
    struct buf text = BUF_INIT;
    for (size_t i = 0; i < tree->evidence.row_count; i++) {
        if (!holds[i] || weights_of(facts, &tree->evidence.row[i]).weight[class_index] <= 0)
            continue;
        char *say = template_fill(tree->evidence.row[i].say, facts, true);
        if (say != NULL)
            buf_printf(&text, "%s%s", text.len > 0 ? "; " : "", say);
        free(say);
    }
    if (!buf_failed(&text) && text.len > 0)
        (void)facts_set_text(facts, fact, FACT_LOG, buf_str(&text), "computed from all evidence");
    buf_release(&text);
}

/* Lines after which the program went on, or that are of another time. */
static bool rests_on_survived(const struct eval *ev)
{
    static const char *const marks[] = {FACT_MARK_WENT_ON, FACT_MARK_ENDED_WELL, FACT_MARK_BYSTANDER, FACT_MARK_LONG_BEFORE};
    for (size_t i = 0; i < ev->used_count; i++)
        for (size_t k = 0; k < sizeof marks / sizeof marks[0]; k++)
            if (fact_has_mark(ev->used[i], marks[k]))
                return true;
    return false;
}

struct prior evidence_derive(struct facts *facts, const struct tree *tree)
{
    static const char source[] = "computed from all evidence";
    bool holds[EVIDENCE_ROWS_MAX] = {false};
    struct prior sum = {{0}};
    for (size_t i = 0; i < tree->evidence.row_count; i++) {
        const struct evidence_row *row = &tree->evidence.row[i];
        struct eval ev = {.facts = facts};
        holds[i] = eval_answer(&ev, row->when) == ANSWER_YES && !rests_on_survived(&ev);
        struct prior p = weights_of(facts, row);
        if (holds[i])
            prior_add(&sum, &p, 1.0F);
    }
    int best = prior_best(&sum, -1), second = best >= 0 ? prior_best(&sum, best) : -1;
    if (best < 0)
        return sum;
    double weight = (double)sum.weight[best], next = second >= 0 ? (double)sum.weight[second] : 0;
    (void)facts_set_text(facts, "evidence.class", FACT_LOG, prior_class((size_t)best), source);
    (void)facts_set_real(facts, "evidence.weight", FACT_LOG, weight, source);
    (void)facts_set_real(facts, "evidence.margin", FACT_LOG, weight - next, source);
    add_says(facts, tree, holds, best, "evidence.says");
    if (second >= 0) {
        (void)facts_set_text(facts, "evidence.second", FACT_LOG, prior_class((size_t)second), source);
        add_says(facts, tree, holds, second, "evidence.second_says");
    }
    return sum;
}

const char *evidence_decides(const struct tree *tree, const char *class_name, const char *other)
{
    int a = prior_index(class_name, strlen(class_name)), b = prior_index(other, strlen(other));
    const char *say = NULL;
    for (size_t i = 0; i < tree->evidence.pair_count; i++) {
        const struct evidence_pair *p = &tree->evidence.pair[i];
        if ((p->first == a && p->second == b) || (p->first == b && p->second == a))
            return p->say;
        if (p->first == b && p->second < 0)
            say = p->say;
    }
    return say;
}
