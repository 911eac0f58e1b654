/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contents of the decision tree's files -> struct tree. tree_files.c finds the files.
 *
 * People write these files by hand, so everything in them is checked when they are read: unknown
 * keys, classes, facts, placeholders and expressions are refused with file, line and reason.
 */
#include "diagnose/tree.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "diagnose/tree_loader.h"

static const char *const classes[] = {
    "capacity",      "fragmentation", "leak",           "sdma",       "gtt-limit",
    "held-by-other", "host-oom",      "page-fault",     "gpu-hang",   "hw-ras",
    "arch-mismatch", "no-device",     "resource-limit", "collective", "version-mismatch",
    "app-bug",       "unknown",
};

static int read_rule(const struct loader *l, const cJSON *object, struct tree_rule *rule)
{
    static const char *const keys[] = {"if", "say", "source", "verify", "lowers", NULL};
    int r = loader_check_keys(l, object, keys);
    if (r == 0)
        r = loader_expr(l, object, "if", false, &rule->when);
    if (r == 0)
        r = loader_template(l, object, "say", true, &rule->say);
    if (r == 0)
        r = loader_text(l, object, "source", false, &rule->source);
    if (r == 0)
        r = loader_template(l, object, "verify", false, &rule->verify);
    const cJSON *lowers = cJSON_GetObjectItemCaseSensitive(object, "lowers");
    if (r == 0 && lowers != NULL && !cJSON_IsBool(lowers))
        r = loader_wrong_key(l, "lowers", "must be true or false");
    rule->lowers = lowers == NULL || cJSON_IsTrue(lowers);
    return r;
}

/* A clause of the tree's head, or NULL. */
static const cJSON *shared_clause(const struct loader *l, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(l->tree->clauses, name);
}

static int make_room(struct tree_rules *rules, int count)
{
    rules->rule = calloc((size_t)count + 1, sizeof(*rules->rule));
    return rules->rule != NULL ? 0 : -ENOMEM;
}

/* A list of rules and of names of shared clauses; a single text stands for one rule that always holds. */
static int read_rules(const struct loader *l, const cJSON *node, const char *key,
                      struct tree_rules *rules)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(node, key);
    if (list == NULL)
        return 0;
    if (make_room(rules, cJSON_GetArraySize(list)) < 0)
        return -ENOMEM;
    if (cJSON_IsString(list)) {
        rules->count = 1;
        return loader_template(l, node, key, true, &rules->rule[0].say);
    }
    if (!cJSON_IsArray(list))
        return loader_wrong_key(l, key, "must be a list of {\"if\", \"say\"}");
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, list)
    {
        const cJSON *rule = cJSON_IsString(item) ? shared_clause(l, item->valuestring) : item;
        if (cJSON_IsString(item) && rule == NULL)
            return loader_wrong(l, item->valuestring, "'%s': no such clause '%s'", key, item->valuestring);
        if (!cJSON_IsObject(rule))
            return loader_wrong_key(l, key, "must be a list of {\"if\", \"say\"}");
        int r = read_rule(l, rule, &rules->rule[rules->count++]);
        if (r < 0)
            return r;
    }
    return 0;
}

bool tree_is_class(const char *name)
{
    if (strncmp(name, "site-", strlen("site-")) == 0)
        return true;
    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
        if (strcmp(classes[i], name) == 0)
            return true;
    }
    return false;
}

void tree_class_names(struct buf *out)
{
    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
        buf_printf(out, "%s%s", i > 0 ? ", " : "", classes[i]);
}

static int check_class(const struct loader *l, const char *name)
{
    return tree_is_class(name) ? 0 : loader_wrong(l, name, "no such class '%s'", name);
}

static int read_confidence(const struct loader *l, const cJSON *object, struct tree_node *node)
{
    static const char *const keys[] = {"high", "medium", NULL};
    const cJSON *c = cJSON_GetObjectItemCaseSensitive(object, "confidence");
    if (c == NULL)
        return 0;
    if (!cJSON_IsObject(c))
        return loader_wrong_key(l, "confidence", "must be {\"high\": ..., \"medium\": ...}");
    int r = loader_check_keys(l, c, keys);
    if (r == 0)
        r = loader_expr(l, c, "high", false, &node->high);
    return r == 0 ? loader_expr(l, c, "medium", false, &node->medium) : r;
}

static int read_node_texts(const struct loader *l, const cJSON *object, struct tree_node *node)
{
    int r = loader_text(l, object, "question", true, &node->question);
    if (r == 0)
        r = loader_text(l, object, "class", true, &node->class_name);
    if (r == 0)
        r = check_class(l, node->class_name);
    if (r == 0)
        r = loader_text(l, object, "subclass", false, &node->subclass);
    if (r == 0)
        r = loader_template(l, object, "sentence", true, &node->sentence);
    return r == 0 ? loader_template(l, object, "attach", false, &node->attach) : r;
}

static int read_node_body(const struct loader *l, const cJSON *object, struct tree_node *node)
{
    static const char *const keys[] = {"id",       "question",   "test", "class",   "subclass",
                                       "sentence", "confidence", "why",  "against", "advice",
                                       "file_at",  "attach",     NULL};
    int r = loader_check_keys(l, object, keys);
    if (r == 0)
        r = read_node_texts(l, object, node);
    if (r == 0)
        r = loader_expr(l, object, "test", true, &node->test);
    if (r == 0)
        r = read_confidence(l, object, node);
    if (r == 0)
        r = read_rules(l, object, "why", &node->why);
    if (r == 0)
        r = read_rules(l, object, "against", &node->against);
    if (r == 0)
        r = read_rules(l, object, "advice", &node->advice);
    return r == 0 ? read_rules(l, object, "file_at", &node->file_at) : r;
}

static int read_node(struct loader *l, const cJSON *object)
{
    struct tree *tree = l->tree;
    char item[80];
    if (tree->node_count == TREE_NODES_MAX)
        return loader_wrong(l, NULL, "more than %d nodes", TREE_NODES_MAX);
    struct tree_node *node = &tree->node[tree->node_count++];
    l->item = "a node";
    if (!cJSON_IsObject(object))
        return loader_wrong(l, NULL, "must be an object");
    int r = loader_text(l, object, "id", true, &node->id);
    if (r < 0)
        return r;
    loader_go_to(l, node->id);
    (void)snprintf(item, sizeof(item), "node '%.60s'", node->id);
    l->item = item;
    for (size_t i = 0; i + 1 < tree->node_count; i++) {
        if (strcmp(tree->node[i].id, node->id) == 0) {
            r = loader_wrong(l, node->id, "this id was used before");
            break;
        }
    }
    if (r == 0)
        r = read_node_body(l, object, node);
    l->item = NULL;
    return r;
}

int tree_read_nodes(struct loader *l, const cJSON *root)
{
    const cJSON *nodes = cJSON_GetObjectItemCaseSensitive(root, "nodes");
    const cJSON *item = NULL;
    if (!cJSON_IsArray(nodes))
        return loader_wrong_key(l, "nodes", "must be a list");
    cJSON_ArrayForEach(item, nodes)
    {
        int r = read_node(l, item);
        if (r < 0)
            return r;
    }
    return 0;
}

int tree_check_last_node(const struct loader *l)
{
    const struct tree *tree = l->tree;
    const struct tree_node *last = tree->node_count > 0 ? &tree->node[tree->node_count - 1] : NULL;
    if (last == NULL || strcmp(last->class_name, "unknown") != 0 ||
        last->test->op != EXPR_BOOLEAN || last->test->number == 0)
        return loader_wrong(l, "\"nodes\"",
                            "the last node must have class 'unknown' and test 'true'");
    return 0;
}

static int read_terms(struct loader *l, const cJSON *root)
{
    const cJSON *terms = cJSON_GetObjectItemCaseSensitive(root, "terms");
    const cJSON *item = NULL;
    struct expr_terms *out = &l->tree->terms;
    if (terms != NULL && !cJSON_IsObject(terms))
        return loader_wrong_key(l, "terms", "must be {name: expression}");
    cJSON_ArrayForEach(item, terms)
    {
        if (item->string[0] == '#')
            continue;
        if (out->count == TREE_TERMS_MAX)
            return loader_wrong_key(l, "terms", "has too many entries");
        if (strncmp(item->string, "t.", 2) != 0)
            return loader_wrong_key(l, item->string, "must begin with 't.'");
        struct expr *e = NULL;
        int r = loader_expr(l, terms, item->string, true, &e);
        if (r < 0)
            return r;
        struct expr_term *term = &out->term[out->count++];
        term->expr = e;
        term->name = strdup(item->string);
        if (term->name == NULL)
            return -ENOMEM;
    }
    return 0;
}

static int read_labels(struct loader *l, const cJSON *root)
{
    const cJSON *labels = cJSON_GetObjectItemCaseSensitive(root, "labels");
    const cJSON *item = NULL;
    struct tree *tree = l->tree;
    if (labels == NULL)
        return 0;
    if (!cJSON_IsObject(labels))
        return loader_wrong_key(l, "labels", "must be {fact: words}");
    tree->label = calloc((size_t)cJSON_GetArraySize(labels) + 1, sizeof(*tree->label));
    if (tree->label == NULL)
        return -ENOMEM;
    cJSON_ArrayForEach(item, labels)
    {
        if (!cJSON_IsString(item))
            return loader_wrong_key(l, item->string, "must be a text");
        if (!fact_name_plausible(item->string, strlen(item->string)))
            return loader_wrong_key(l, item->string, "is not the name of a fact");
        struct tree_label *label = &tree->label[tree->label_count++];
        label->name = strdup(item->string);
        label->label = strdup(item->valuestring);
        if (label->name == NULL || label->label == NULL)
            return -ENOMEM;
    }
    return 0;
}

static int read_inputs(struct loader *l, const cJSON *root)
{
    const cJSON *inputs = cJSON_GetObjectItemCaseSensitive(root, "inputs");
    const cJSON *item = NULL;
    struct tree *tree = l->tree;
    if (inputs == NULL)
        return 0;
    if (!cJSON_IsArray(inputs))
        return loader_wrong_key(l, "inputs", "must be a list of facts");
    tree->input = calloc((size_t)cJSON_GetArraySize(inputs) + 1, sizeof(*tree->input));
    if (tree->input == NULL)
        return -ENOMEM;
    cJSON_ArrayForEach(item, inputs)
    {
        if (!cJSON_IsString(item) ||
            !fact_name_plausible(item->valuestring, strlen(item->valuestring)))
            return loader_wrong(l, cJSON_IsString(item) ? item->valuestring : "\"inputs\"",
                                "'inputs' holds something that is not the name of a fact");
        tree->input[tree->input_count] = strdup(item->valuestring);
        if (tree->input[tree->input_count++] == NULL)
            return -ENOMEM;
    }
    return 0;
}

int tree_read_words(struct loader *l, const cJSON *root)
{
    int r = read_terms(l, root);
    if (r == 0)
        r = read_labels(l, root);
    if (r == 0)
        r = read_inputs(l, root);
    return r;
}
