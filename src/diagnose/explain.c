/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Splits a node's test at each "and", and says for each part whether it holds and which operands
 * decide; see explain.h.
 */
#include "diagnose/explain.h"

#include "base/buf.h"
#include "base/err.h"
#include "diagnose/tree.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VALUES_SHOWN 6

struct explainer {
    const struct facts *facts;
    const struct tree *tree;
    struct explain_node *node;
    struct eval read; /* inputs that the printed condition reads and lacks */
    bool out_of_memory;
};

static void print(struct explainer *x, const struct expr *e, unsigned depth, struct buf *out);

static const struct expr *without_terms(const struct expr *e)
{
    while (e->op == EXPR_TERM)
        e = e->term;
    return e;
}

static enum answer answer_of(const struct explainer *x, const struct expr *e)
{
    struct eval ev = {.facts = x->facts};
    return eval_answer(&ev, e);
}

static bool is_junction(const struct expr *e)
{
    return e->op == EXPR_OR || e->op == EXPR_AND;
}

/* The operands with the same answer as the junction decide it: the true ones of a true "or", the
 * false ones of a false "and". If there is only one, it is printed in place of the junction. */
static const struct expr *deciding_side(const struct explainer *x, const struct expr *e)
{
    e = without_terms(e);
    while (is_junction(e)) {
        bool left = answer_of(x, e->arg[0]) == answer_of(x, e);
        bool right = answer_of(x, e->arg[1]) == answer_of(x, e);
        if (left == right)
            break;
        e = without_terms(e->arg[left ? 0 : 1]);
    }
    return e;
}

static void print_junction(struct explainer *x, const struct expr *e, unsigned depth,
                           struct buf *out)
{
    for (size_t i = 0; i < e->count; i++) {
        const struct expr *part = deciding_side(x, e->arg[i]);
        bool inner = is_junction(part) && part->op != e->op;
        if (i > 0)
            buf_puts(out, e->op == EXPR_OR ? " or " : " and ");
        buf_puts(out, inner ? "(" : "");
        print(x, part, depth, out);
        buf_puts(out, inner ? ")" : "");
    }
}

static void print_list(struct explainer *x, const struct expr *e, const char *between,
                       unsigned depth, struct buf *out)
{
    for (size_t i = 0; i < e->count; i++) {
        buf_puts(out, i > 0 ? between : "");
        print(x, e->arg[i], depth, out);
    }
}

static void print_number(double n, struct buf *out)
{
    static const struct {
        double factor;
        const char *unit;
    } units[] = {{0x1p40, "TiB"}, {0x1p30, "GiB"}, {0x1p20, "MiB"}};
    for (size_t i = 0; i < 3; i++) {
        if (n >= units[i].factor) {
            buf_printf(out, "%g %s", n / units[i].factor, units[i].unit);
            return;
        }
    }
    buf_printf(out, "%g", n);
}

static void print_call(struct explainer *x, const struct expr *e, unsigned depth, struct buf *out)
{
    static const char *const names[] = {
        "known", "sure",   "said",    "contains", "version",
        "near",  "min",    "max",     "abs",      "floor",
        "ceil",  "round",  "percent", "power of two", "if",
        "number", "size in", "first of", "before the start", "peak",
        "at the failure", "after the end"};
    if (e->function == CALL_SURE) {
        print(x, e->arg[0], depth, out);
        return;
    }
    buf_printf(out, "%s(", names[e->function]);
    if (e->count == 1 && e->arg[0]->op == EXPR_FACT) /* the function itself evaluates it */
        buf_puts(out, tree_label(x->tree, e->arg[0]->text));
    else
        print_list(x, e, ", ", depth, out);
    buf_puts(out, ")");
}

static void print_not(struct explainer *x, const struct expr *e, unsigned depth, struct buf *out)
{
    buf_puts(out, "not (");
    print(x, e->arg[0], depth + 1, out);
    buf_puts(out, ")");
}

/* The deciding part of the expression, with the labels of facts and with terms expanded. */
static void print(struct explainer *x, const struct expr *whole, unsigned depth, struct buf *out)
{
    const struct expr *e = deciding_side(x, whole);
    char sign[6];
    if (depth > EXPR_DEPTH_MAX)
        return;
    switch (e->op) {
    case EXPR_NUMBER:
        print_number(e->number, out);
        break;
    case EXPR_BOOLEAN:
        buf_puts(out, e->number != 0 ? "true" : "false");
        break;
    case EXPR_TEXT:
        buf_printf(out, "'%s'", e->text);
        break;
    case EXPR_FACT:
        (void)eval_value(&x->read, e);
        buf_puts(out, tree_label(x->tree, e->text));
        break;
    case EXPR_CALL:
        if (e->function != CALL_SURE)
            (void)eval_value(&x->read, e);
        print_call(x, e, depth + 1, out);
        break;
    case EXPR_NOT:
        print_not(x, e, depth, out);
        break;
    case EXPR_NEGATE:
        buf_puts(out, "-");
        print(x, e->arg[0], depth + 1, out);
        break;
    case EXPR_OR:
    case EXPR_AND:
        print_junction(x, e, depth + 1, out);
        break;
    default:
        (void)snprintf(sign, sizeof(sign), " %.3s ", e->sign);
        print_list(x, e, sign, depth + 1, out);
    }
}

static void values(const struct explainer *x, const struct eval *ev, struct buf *out)
{
    char value[120];
    for (size_t i = 0; i < ev->used_count && i < VALUES_SHOWN; i++) {
        fact_format(ev->used[i], value, sizeof(value));
        buf_printf(out, "%s%s %s", i > 0 ? ", " : " [", tree_label(x->tree, ev->used[i]->name),
                   value);
    }
    buf_puts(out, ev->used_count > 0 ? "]" : "");
}

static void missing(const struct explainer *x, const struct eval *ev, struct buf *out)
{
    for (size_t i = 0; i < ev->missing_count && i < VALUES_SHOWN; i++) {
        const struct fact *f = facts_best(x->facts, ev->missing[i]);
        bool reason = f != NULL && f->reason != NULL && f->reason[0] != '\0';
        buf_printf(out, "%s%s", i > 0 ? ", " : "; missing: ", tree_label(x->tree, ev->missing[i]));
        if (reason)
            buf_printf(out, " (%s)", f->reason);
    }
}

static void add(struct explainer *x, struct verdict_list *list, struct buf *line)
{
    char *text = buf_failed(line) ? NULL : strdup(buf_str(line));
    if (text == NULL)
        x->out_of_memory = true;
    else
        verdict_list_take(list, text);
}

static void add_condition(struct explainer *x, const struct expr *e)
{
    struct buf line = BUF_INIT;
    enum answer answer = answer_of(x, e);
    x->read = (struct eval){.facts = x->facts};
    print(x, e, 0, &line);
    values(x, &x->read, &line);
    if (answer != ANSWER_YES)
        missing(x, &x->read, &line);
    add(x,
        answer == ANSWER_YES  ? &x->node->holds
        : answer == ANSWER_NO ? &x->node->fails
                              : &x->node->unknown,
        &line);
    buf_release(&line);
}

/* The parts that must all hold. A term that is an "and" is split, too. */
static void take_apart(struct explainer *x, const struct expr *e)
{
    e = without_terms(e);
    if (e->op != EXPR_AND) {
        add_condition(x, e);
        return;
    }
    for (size_t i = 0; i < e->count; i++)
        take_apart(x, e->arg[i]);
}

static void explain_node(struct explainer *x, const struct tree_node *node, bool decided)
{
    struct eval ev = {.facts = x->facts};
    enum answer answer = eval_answer(&ev, node->test);
    x->node->id = strdup(node->id);
    x->node->question = strdup(node->question);
    x->node->answer = strdup(eval_answer_word(answer, &ev));
    x->node->later = decided && answer == ANSWER_YES;
    x->out_of_memory |= x->node->id == NULL || x->node->question == NULL || x->node->answer == NULL;
    take_apart(x, node->test);
}

static int no_such_class(const struct tree *tree, const char *name, struct rc_err *err)
{
    struct buf list = BUF_INIT;
    for (size_t i = 0; i < tree->node_count; i++) {
        bool seen = false;
        for (size_t k = 0; k < i; k++)
            seen |= strcmp(tree->node[k].class_name, tree->node[i].class_name) == 0;
        if (!seen)
            buf_printf(&list, "%s%s", i > 0 ? ", " : "", tree->node[i].class_name);
    }
    int r =
        rc_err_set(err, -ESRCH, "this tree has no class '%.40s'; it has %s", name, buf_str(&list));
    buf_release(&list);
    return r;
}

int explain_class(const struct facts *facts, const struct tree *tree, const struct verdict *verdict,
                  const char *class_name, struct explanation *ret, struct rc_err *err)
{
    struct explanation e = {.count = 0};
    struct explainer x = {.facts = facts, .tree = tree};
    const char *last = verdict->steps > 0 ? verdict->path[verdict->steps - 1].node : "";
    bool decided = false;
    bool any = false;
    for (size_t i = 0; i < tree->node_count; i++) {
        const struct tree_node *node = &tree->node[i];
        bool of_class = strcmp(node->class_name, class_name) == 0;
        any |= of_class;
        if (of_class && e.count < EXPLAIN_NODES_MAX) {
            x.node = &e.node[e.count++];
            explain_node(&x, node, decided);
        }
        decided |= strcmp(node->id, last) == 0;
    }
    if (any && !x.out_of_memory) {
        *ret = e;
        return 0;
    }
    explanation_release(&e);
    return any ? rc_err_set(err, -ENOMEM, "out of memory while explaining")
               : no_such_class(tree, class_name, err);
}

void explanation_release(struct explanation *e)
{
    for (size_t i = 0; i < e->count; i++) {
        free(e->node[i].id);
        free(e->node[i].question);
        free(e->node[i].answer);
        verdict_list_release(&e->node[i].holds);
        verdict_list_release(&e->node[i].fails);
        verdict_list_release(&e->node[i].unknown);
    }
    e->count = 0;
}

static void list_to_json(cJSON *node, const char *key, const struct verdict_list *list)
{
    cJSON *array = cJSON_AddArrayToObject(node, key);
    for (size_t i = 0; i < list->count; i++)
        cJSON_AddItemToArray(array, cJSON_CreateString(list->text[i]));
}

cJSON *explanation_to_json(const struct explanation *e)
{
    cJSON *list = cJSON_CreateArray();
    for (size_t i = 0; i < e->count; i++) {
        cJSON *node = cJSON_CreateObject();
        (void)cJSON_AddStringToObject(node, "node", e->node[i].id);
        (void)cJSON_AddStringToObject(node, "question", e->node[i].question);
        (void)cJSON_AddStringToObject(node, "answer", e->node[i].answer);
        (void)cJSON_AddBoolToObject(node, "decided_before", e->node[i].later);
        list_to_json(node, "false", &e->node[i].fails);
        list_to_json(node, "unknown", &e->node[i].unknown);
        list_to_json(node, "true", &e->node[i].holds);
        cJSON_AddItemToArray(list, node);
    }
    return list;
}
