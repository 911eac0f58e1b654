/* SPDX-License-Identifier: Apache-2.0 */
/* Frees what tree_parse() made, and looks up its labels. */
#include "diagnose/tree.h"

#include "diagnose/computed.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

static void rules_release(struct tree_rules *rules)
{
    for (size_t i = 0; i < rules->count; i++) {
        expr_free(rules->rule[i].when);
        free(rules->rule[i].say);
        free(rules->rule[i].source);
        free(rules->rule[i].verify);
    }
    free(rules->rule);
}

static void node_release(struct tree_node *n)
{
    free(n->id);
    free(n->question);
    free(n->class_name);
    free(n->subclass);
    free(n->sentence);
    free(n->attach);
    expr_free(n->test);
    expr_free(n->high);
    expr_free(n->medium);
    rules_release(&n->why);
    rules_release(&n->against);
    rules_release(&n->advice);
    rules_release(&n->file_at);
}

void tree_free(struct tree *tree)
{
    if (tree == NULL)
        return;
    for (size_t i = 0; i < tree->node_count; i++)
        node_release(&tree->node[i]);
    for (size_t i = 0; i < tree->terms.count; i++) {
        free(tree->terms.term[i].name);
        expr_free(tree->terms.term[i].expr);
    }
    for (size_t i = 0; i < tree->defect_count; i++) {
        struct tree_defect *d = &tree->defect[i];
        free(d->id);
        expr_free(d->when);
        free(d->classes);
        free(d->say);
        free(d->source);
        free(d->verify);
    }
    for (size_t i = 0; i < tree->label_count; i++) {
        free(tree->label[i].name);
        free(tree->label[i].label);
    }
    for (size_t i = 0; i < tree->input_count; i++)
        free(tree->input[i]);
    cJSON_Delete(tree->clauses);
    expr_free(tree->yields[0]);
    expr_free(tree->yields[1]);
    for (size_t i = 0; i < tree->bound_count; i++) {
        expr_free(tree->bound[i].level[0]);
        expr_free(tree->bound[i].level[1]);
        free(tree->bound[i].classes);
        free(tree->bound[i].says);
        free(tree->bound[i].adds);
    }
    for (size_t i = 0; i < tree->lack_count; i++) {
        free(tree->lack[i].facts);
        expr_free(tree->lack[i].when);
        free(tree->lack[i].say);
        free(tree->lack[i].get);
    }
    computed_free(tree->computed);
    evidence_release(&tree->evidence);
    free(tree->label);
    free(tree->input);
    free(tree);
}

const char *tree_label(const struct tree *tree, const char *name)
{
    for (size_t i = 0; i < tree->label_count; i++) {
        if (strcmp(tree->label[i].name, name) == 0)
            return tree->label[i].label;
    }
    return name;
}
