/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks the tree: every node is asked, the first yes is the verdict, later ones are "also seen".
 * Nodes that lack an input are listed, never guessed.
 */
#include "diagnose/verdict.h"

#include "base/buf.h"
#include "base/err.h"
#include "diagnose/features.h"
#include "diagnose/tree.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBERS_SHOWN 6
#define LACKING_MAX 128
#define RUNNER_UP_WEIGHT 1.5F

static const char *const confidence_names[] = {"low", "medium", "high"};

struct judge {
    const struct facts *facts;
    const struct tree *tree;
    struct verdict *verdict;
    bool out_of_memory;
    struct prior evidence; /* for each class, evidence that decides nothing alone */
    size_t lacking_count;
    const char *lacking[LACKING_MAX]; /* the names of missing facts; the tree's */
    const struct tree_node *rival; /* the surest of the nodes that said yes later */
};

static char *copy_text(struct judge *j, const char *text)
{
    char *copy = strdup(text != NULL ? text : "");
    j->out_of_memory |= copy == NULL;
    return copy;
}

void verdict_list_take(struct verdict_list *list, char *text)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->text[i], text) == 0) {
            free(text);
            return;
        }
    }
    if (list->count == VERDICT_LIST_MAX)
        free(text);
    else
        list->text[list->count++] = text;
}

void verdict_list_release(struct verdict_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->text[i]);
    list->count = 0;
}

static void list_take(struct judge *j, struct verdict_list *list, char *text)
{
    if (text == NULL)
        j->out_of_memory = true;
    else
        verdict_list_take(list, text);
}

static enum answer ask(const struct judge *j, const struct expr *e)
{
    struct eval ev = {.facts = j->facts};
    return eval_answer(&ev, e);
}

static bool holds(const struct judge *j, const struct expr *when)
{
    return when == NULL || ask(j, when) == ANSWER_YES;
}

static void note_lacking(struct judge *j, const char *name)
{
    for (size_t i = 0; i < j->lacking_count; i++)
        if (strcmp(j->lacking[i], name) == 0)
            return;
    if (j->lacking_count < LACKING_MAX)
        j->lacking[j->lacking_count++] = name;
}

/* "program output: not given", "host.ttm_pages_limit: no such file" */
static void list_missing(struct judge *j, struct verdict_list *list, const char *name)
{
    const struct fact *f = facts_best(j->facts, name);
    char line[400];
    const char *reason = "not known";
    int64_t read = 0;
    /* without a kernel log the log is missing, not each of its lines */
    if (f == NULL && strncmp(name, "kmsg.", 5) == 0 &&
        (!facts_get_integer(j->facts, "f.kernel_log_read", &read) || read == 0)) {
        name = "f.kernel_log_read";
        f = facts_best(j->facts, name);
    }
    note_lacking(j, name);
    if (f != NULL && f->status == FACT_PRESENT && f->type == FACT_BOOLEAN)
        reason = f->source != NULL ? f->source : "was not read"; /* "read: no" */
    else if (f != NULL && f->reason != NULL && f->reason[0] != '\0')
        reason = f->reason;
    (void)snprintf(line, sizeof(line), "%.120s: %.250s", tree_label(j->tree, name), reason);
    list_take(j, list, copy_text(j, line));
}

static char *numbers_text(const struct judge *j, const struct eval *ev)
{
    struct buf out = BUF_INIT;
    char value[120];
    size_t shown = 0;
    for (size_t i = 0; i < ev->used_count && shown < NUMBERS_SHOWN; i++) {
        const struct fact *f = ev->used[i];
        fact_format(f, value, sizeof(value));
        buf_printf(&out, "%s%s %s", shown > 0 ? ", " : "", tree_label(j->tree, f->name), value);
        if (f->source != NULL && strncmp(f->source, "computed", 8) == 0)
            buf_puts(&out, " [computed]"); /* its inputs are in facts.json */
        else if (f->source != NULL && f->source[0] != '\0')
            buf_printf(&out, " [%s]", f->source);
        shown++;
    }
    char *text = buf_failed(&out) ? NULL : strdup(buf_str(&out));
    buf_release(&out);
    return text;
}

static void add_step(struct judge *j, const struct tree_node *node, enum answer answer,
                     const struct eval *ev)
{
    struct verdict *v = j->verdict;
    if (v->steps == VERDICT_STEPS_MAX)
        return;
    struct verdict_step *step = &v->path[v->steps++];
    step->node = copy_text(j, node->id);
    step->question = copy_text(j, node->question);
    step->answer = copy_text(j, eval_answer_word(answer, ev));
    step->numbers = numbers_text(j, ev);
    j->out_of_memory |= step->numbers == NULL;
}

/* `otherwise`: the condition for a rule without one of its own. If that is NULL, too, the rule is a
 * plain remark and is always added. */
static void add_rules(struct judge *j, const struct tree_rules *rules, const struct expr *otherwise,
                      struct verdict_list *list)
{
    for (size_t i = 0; i < rules->count; i++) {
        const struct tree_rule *rule = &rules->rule[i];
        const struct expr *when = rule->when != NULL ? rule->when : otherwise;
        struct eval ev = {.facts = j->facts};
        if (when == NULL || eval_answer(&ev, when) == ANSWER_YES)
            list_take(j, list, template_fill_because(rule->say, j->facts, &ev));
    }
}

/* Marks of lines that are less sure than they look, and how many steps of confidence each costs. Joined
 * lines may not belong together, a cut line may have ended differently, and another rank may have
 * written a line. */
#define NO_NODE 3
static const struct doubt {
    const char *mark;
    int steps, most; /* the most that the confidence can be then: 0 = low, 2 = high */
    const char *says;
    int yields_to; /* a later node of this confidence or more; NO_NODE = to none */
} doubts[] = {
    {FACT_MARK_PERHAPS_OTHERS, 2, 2, "another rank may have written the lines: they are not marked, and ranks share the file", NO_NODE},
    {FACT_MARK_ONE_OF_RANKS, 1, 2, "more than one rank failed, and the lines are not marked with the one that wrote them", NO_NODE},
    {FACT_MARK_ENDED_WELL, 2, 0, "the program went on after these lines and ended well", 0},
    {FACT_MARK_WENT_ON, 0, 1, "the program made progress after these lines", 1},
    {FACT_MARK_HANDLED, 0, 1, "the lines are marked as a warning, or say themselves that the program went on or that it was at another time", 1},
    {FACT_MARK_QUOTED, 0, 1, "the message stands in quotation marks in a sentence: it may only be told of", 0},
    {FACT_MARK_FOLLOWED, 0, 1, "an error of the program itself came later: it may only have quoted these lines, or gone on after them", NO_NODE},
    {FACT_MARK_BYSTANDER, 0, 1, "the kernel names another process than the program that failed in this text", 1},
    {FACT_MARK_LONG_BEFORE, 0, 1, "the kernel log goes on for a day or more after these lines, or the machine was started again: they may be of an earlier failure", 1},
    {FACT_MARK_JOINED, 1, 2, "it stands on lines that were repaired because they looked wrapped (joined) or cut (completed)", NO_NODE},
    {FACT_MARK_COMPLETED, 1, 2, "it stands on lines that were repaired because they looked wrapped (joined) or cut (completed)", NO_NODE},
};

/* The largest doubt of the facts that decided `e`; NULL = none. */
static const struct doubt *doubt_of(const struct judge *j, const struct expr *e)
{
    struct eval ev = {.facts = j->facts};
    if (e == NULL || eval_answer(&ev, e) != ANSWER_YES)
        return NULL;
    for (size_t k = 0; k < sizeof doubts / sizeof doubts[0]; k++)
        for (size_t i = 0; i < ev.used_count; i++)
            if (fact_has_mark(ev.used[i], doubts[k].mark))
                return &doubts[k];
    return NULL;
}

/* The node says yes because of lines that the program survived, or that are of another time, process or person. */
static bool is_survived(const struct judge *j, const struct tree_node *node)
{
    const struct doubt *doubt = doubt_of(j, node->test);
    return doubt != NULL && doubt->yields_to != NO_NODE;
}

static int doubted(int level, const struct doubt *doubt)
{
    if (doubt == NULL)
        return level;
    level = level < doubt->most ? level : doubt->most;
    return level > doubt->steps ? level - doubt->steps : 0;
}

static bool class_listed(const char *classes, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = classes; (at = strstr(at, name)) != NULL; at++) {
        bool begins = at == classes || at[-1] == ' ';
        if (begins && (at[n] == ' ' || at[n] == '\0'))
            return true;
    }
    return strcmp(classes, "*") == 0;
}

/* The most that the confidence of this class can be by one bound: 0 = low, 2 = high. */
static int bound_level(const struct judge *j, const struct tree_bound *bound, const char *class_name)
{
    if (bound->classes != NULL && !class_listed(bound->classes, class_name))
        return 2;
    for (int level = 0; level < 2; level++)
        if (bound->level[level] != NULL && holds(j, bound->level[level]))
            return level;
    return 2;
}

static int at_most(const struct judge *j, const char *class_name)
{
    int most = 2;
    for (size_t i = 0; i < j->tree->bound_count; i++) {
        int level = bound_level(j, &j->tree->bound[i], class_name);
        most = level < most ? level : most;
    }
    return most;
}

static int node_confidence(const struct judge *j, const struct tree_node *node)
{
    int level = 0, most = at_most(j, node->class_name);
    const struct expr *sure = NULL;
    if (node->high != NULL && ask(j, node->high) == ANSWER_YES) {
        sure = node->high;
        level = 2;
    } else if (node->medium != NULL && ask(j, node->medium) == ANSWER_YES) {
        sure = node->medium;
        level = 1;
    }
    int of_test = doubted(level, doubt_of(j, node->test)), of_sure = doubted(level, doubt_of(j, sure));
    level = of_test < of_sure ? of_test : of_sure;
    level = level < most ? level : most;
    for (size_t i = 0; i < node->against.count && level > 0; i++) {
        const struct tree_rule *rule = &node->against.rule[i];
        if (rule->lowers && holds(j, rule->when)) {
            level--;
            break; /* one step for all of them, because they are rarely independent */
        }
    }
    return level;
}

/* Missing facts that would raise the confidence. */
static void add_confidence_missing(struct judge *j, const struct tree_node *node)
{
    const struct expr *wanted[] = {node->high, node->medium};
    for (size_t k = 0; k < 2; k++) {
        struct eval ev = {.facts = j->facts};
        if (wanted[k] == NULL || eval_answer(&ev, wanted[k]) != ANSWER_UNDECIDED)
            continue;
        for (size_t i = 0; i < ev.missing_count; i++)
            list_missing(j, &j->verdict->missing, ev.missing[i]);
    }
}

static void join_list(struct buf *out, const struct verdict_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        buf_printf(out, "%s%s", i > 0 ? "; " : "", list->text[i]);
}

/* A class is named once, by the first node that said yes. */
static bool is_told(const struct verdict_list *also, const char *class_name)
{
    size_t len = strlen(class_name);
    for (size_t i = 0; i < also->count; i++)
        if (strncmp(also->text[i], class_name, len) == 0 && strchr(" ,", also->text[i][len]) != NULL)
            return true;
    return false;
}

/* "gtt-limit (subclass), medium: reasons for; against: reasons against" */
static void add_also(struct judge *j, const struct tree_node *node)
{
    struct verdict_list why = {0};
    struct verdict_list against = {0};
    struct buf line = BUF_INIT;
    const char *sub = node->subclass != NULL ? node->subclass : "";
    if (strcmp(node->class_name, "unknown") == 0 ||
        strcmp(node->class_name, j->verdict->class_name) == 0)
        return; /* the same class: no rival */
    bool told = is_told(&j->verdict->also, node->class_name);
    if (j->rival == NULL || node_confidence(j, node) > node_confidence(j, j->rival))
        j->rival = node;
    if (told)
        return;
    add_rules(j, &node->why, node->test, &why);
    add_rules(j, &node->against, NULL, &against);
    buf_printf(&line, "%s", node->class_name);
    if (sub[0] != '\0')
        buf_printf(&line, " (%s)", sub);
    buf_printf(&line, ", %s: ", confidence_names[node_confidence(j, node)]);
    if (why.count > 0)
        join_list(&line, &why);
    else
        buf_puts(&line, node->question);
    if (against.count > 0) {
        buf_puts(&line, "; against: ");
        join_list(&line, &against);
    }
    list_take(j, &j->verdict->also, copy_text(j, buf_failed(&line) ? NULL : buf_str(&line)));
    buf_release(&line);
    verdict_list_release(&why);
    verdict_list_release(&against);
}

static void take_advice(struct judge *j, const char *say, const char *source, const char *verify)
{
    struct verdict *v = j->verdict;
    struct buf line = BUF_INIT;
    char *text = template_fill(say, j->facts, false);
    char *check = verify != NULL ? template_fill(verify, j->facts, false) : NULL;
    buf_puts(&line, text != NULL ? text : "");
    if (check != NULL)
        buf_printf(&line, " To see that it helped: %s", check);
    if (source != NULL)
        buf_printf(&line, " [source: %s]", source);
    if (v->verify == NULL && v->advice.count == 0)
        v->verify = copy_text(j, check);
    list_take(j, &v->advice, copy_text(j, buf_failed(&line) ? NULL : buf_str(&line)));
    buf_release(&line);
    free(text);
    free(check);
}

static void add_defects(struct judge *j, const struct tree_node *node)
{
    for (size_t i = 0; i < j->tree->defect_count; i++) {
        const struct tree_defect *d = &j->tree->defect[i];
        if (class_listed(d->classes, node->class_name) && holds(j, d->when))
            take_advice(j, d->say, d->source, d->verify);
    }
}

/* A run has left a bundle; a text that was pasted has none. */
static void add_file_at(struct judge *j, const struct tree_node *node)
{
    static const char bundle[] = "the bundle";
    struct buf line = BUF_INIT;
    for (size_t i = 0; i < node->file_at.count; i++) {
        if (!holds(j, node->file_at.rule[i].when))
            continue;
        char *text = template_fill(node->file_at.rule[i].say, j->facts, false);
        buf_puts(&line, text != NULL ? text : "");
        free(text);
        break;
    }
    if (node->attach != NULL) {
        char *text = template_fill(node->attach, j->facts, false);
        bool is_bundle = text != NULL && strncmp(text, bundle, sizeof bundle - 1) == 0;
        buf_printf(&line, "%sattach: %s%s", line.len > 0 ? "; " : "",
                   is_bundle || !facts_is_present(j->facts, "run.program") ? "" : "the bundle, and if it lacks this: ", text != NULL ? text : "");
        free(text);
    }
    j->verdict->file_at = copy_text(j, buf_str(&line));
    buf_release(&line);
}

/* Missing inputs that a good verdict needs. */
static void add_unknown_missing(struct judge *j)
{
    for (size_t i = 0; i < j->tree->input_count; i++) {
        const struct fact *f = facts_best(j->facts, j->tree->input[i]);
        bool is_flag = f != NULL && f->status == FACT_PRESENT && f->type == FACT_BOOLEAN;
        if (f == NULL || f->status != FACT_PRESENT || (is_flag && f->integer == 0))
            list_missing(j, &j->verdict->missing, j->tree->input[i]);
    }
    if (j->verdict->missing.count == 0)
        list_take(j, &j->verdict->missing,
                  copy_text(j, "nothing that the tree asks for was missing: no rule knows this "
                               "failure"));
}

/* Why the verdict is not surer, and what its sentence must not leave out. */
static void add_bounds(struct judge *j, const struct tree_node *node)
{
    struct verdict *v = j->verdict;
    for (size_t i = 0; i < j->tree->bound_count; i++) {
        const struct tree_bound *bound = &j->tree->bound[i];
        if (bound_level(j, bound, node->class_name) == 2)
            continue;
        list_take(j, &v->against, template_fill(bound->says, j->facts, false));
        char *longer = NULL;
        if (bound->adds == NULL || v->sentence == NULL)
            continue;
        if (asprintf(&longer, "%s %s", v->sentence, bound->adds) < 0) {
            j->out_of_memory = true;
            continue;
        }
        free(v->sentence);
        v->sentence = longer;
    }
}

static void set_primary(struct judge *j, const struct tree_node *node)
{
    struct verdict *v = j->verdict;
    const char *vendor = NULL;
    bool unknown = strcmp(node->class_name, "unknown") == 0;
    v->class_name = copy_text(j, node->class_name);
    v->subclass = copy_text(j, node->subclass);
    v->vendor = copy_text(j, facts_get_text(j->facts, "f.vendor", &vendor) ? vendor : "unknown");
    v->confidence = copy_text(j, confidence_names[node_confidence(j, node)]);
    v->sentence = template_fill(node->sentence, j->facts, false);
    j->out_of_memory |= v->sentence == NULL;
    add_rules(j, &node->why, node->test, &v->why);
    add_rules(j, &node->against, NULL, &v->against);
    const struct doubt *doubt = doubt_of(j, node->test);
    if (doubt != NULL)
        list_take(j, &v->against, copy_text(j, doubt->says));
    if (!unknown)
        add_bounds(j, node);
    for (size_t i = 0; i < node->advice.count; i++) {
        const struct tree_rule *rule = &node->advice.rule[i];
        if (holds(j, rule->when))
            take_advice(j, rule->say, rule->source, rule->verify);
    }
    add_defects(j, node);
    add_file_at(j, node);
    add_confidence_missing(j, node);
    if (unknown)
        add_unknown_missing(j);
}

/* An unsure verdict yields to clear evidence for another class, which a later node decides on. A site's own
 * class does not: there is no evidence for or against it. One that the words of the report leave open does not either.
 * (No class's name is part of another's.) */
static bool yields(const struct judge *j, const struct tree_node *node)
{
    const char *stronger = NULL, *likely = NULL;
    if (prior_index(node->class_name, strlen(node->class_name)) < 0 ||
        !facts_get_text(j->facts, "evidence.class", &stronger) ||
        strcmp(node->class_name, stronger) == 0 ||
        (facts_get_text(j->facts, "wording.likely", &likely) && strstr(likely, node->class_name) != NULL))
        return false;
    size_t level = (size_t)node_confidence(j, node);
    return level < 2 && j->tree->yields[level] != NULL && holds(j, j->tree->yields[level]);
}

/* A node after this one knows a class, is at least so sure, and no survived failure is its reason. */
static bool other_decides(const struct judge *j, size_t at, int least)
{
    for (size_t i = at + 1; i < j->tree->node_count; i++) {
        const struct tree_node *node = &j->tree->node[i];
        if (strcmp(node->class_name, "unknown") != 0 && ask(j, node->test) == ANSWER_YES && !is_survived(j, node) &&
            node_confidence(j, node) >= least)
            return true;
    }
    return false;
}

/* The program went on after its lines, or they are of another time; and another node is sure enough. */
static bool steps_back(const struct judge *j, size_t at)
{
    const struct tree_node *node = &j->tree->node[at];
    const struct doubt *doubt = doubt_of(j, node->test);
    return doubt != NULL && doubt->yields_to != NO_NODE && other_decides(j, at, doubt->yields_to);
}

/* Nothing missing could change a sure answer. A class "unknown" by another node than the last one has its reason. */
static bool lacks_nothing(const struct judge *j, const struct tree_node *node)
{
    bool is_last = node == &j->tree->node[j->tree->node_count - 1];
    return j->out_of_memory || strcmp(j->verdict->confidence, "high") == 0 ||
           (strcmp(node->class_name, "unknown") == 0 && !is_last);
}

static void walk(struct judge *j)
{
    const struct tree_node *primary = NULL, *yielded = NULL;
    for (size_t i = 0; i < j->tree->node_count && !j->out_of_memory; i++) {
        const struct tree_node *node = &j->tree->node[i];
        struct eval ev = {.facts = j->facts};
        enum answer answer = eval_answer(&ev, node->test);
        if (primary != NULL) {
            if (answer == ANSWER_YES)
                add_also(j, node);
            continue;
        }
        add_step(j, node, answer, &ev);
        if (answer == ANSWER_YES && (yields(j, node) || steps_back(j, i))) {
            yielded = yielded != NULL ? yielded : node;
        } else if (answer == ANSWER_YES) {
            primary = node;
            set_primary(j, node);
            if (!lacks_nothing(j, node) && verdict_add_lacks(j->verdict, j->facts, j->tree, j->lacking, j->lacking_count) < 0)
                j->out_of_memory = true;
            if (yielded != NULL)
                add_also(j, yielded);
        } else if (answer == ANSWER_UNDECIDED) {
            for (size_t k = 0; k < ev.missing_count; k++)
                list_missing(j, &j->verdict->missing, ev.missing[k]);
        }
    }
}

/* The surest node that also said yes, else the class with the most evidence. */
static void set_runner_up(struct judge *j)
{
    struct verdict *v = j->verdict;
    int own = prior_index(v->class_name, strlen(v->class_name));
    int next = prior_best(&j->evidence, own);
    const char *name = "";
    if (strcmp(v->class_name, "unknown") == 0)
        name = "";
    else if (j->rival != NULL)
        name = j->rival->class_name;
    else if (next >= 0 && j->evidence.weight[next] >= RUNNER_UP_WEIGHT)
        name = prior_class((size_t)next);
    v->runner_up = copy_text(j, name);
    v->decides = copy_text(j, name[0] != '\0' ? evidence_decides(j->tree, v->class_name, name) : "");
}

int diagnose(struct facts *facts, const struct tree *tree, struct verdict *ret, struct rc_err *err)
{
    struct verdict v = {0};
    struct judge j = {.facts = facts, .tree = tree, .verdict = &v};
    features_derive(facts, tree->computed);
    j.evidence = evidence_derive(facts, tree);
    walk(&j);
    if (v.class_name != NULL)
        set_runner_up(&j);
    if (v.verify == NULL)
        v.verify = copy_text(&j, NULL);
    if (v.class_name == NULL || j.out_of_memory) {
        verdict_release(&v);
        return rc_err_set(err, -ENOMEM, "out of memory while judging");
    }
    *ret = v;
    return 0;
}

void verdict_release(struct verdict *v)
{
    if (v == NULL)
        return;
    free(v->class_name);
    free(v->subclass);
    free(v->vendor);
    free(v->confidence);
    free(v->sentence);
    free(v->runner_up);
    free(v->decides);
    verdict_list_release(&v->also);
    verdict_list_release(&v->why);
    verdict_list_release(&v->against);
    verdict_list_release(&v->missing);
    verdict_list_release(&v->lacks);
    verdict_list_release(&v->advice);
    free(v->verify);
    free(v->file_at);
    for (size_t i = 0; i < v->steps; i++) {
        free(v->path[i].node);
        free(v->path[i].question);
        free(v->path[i].answer);
        free(v->path[i].numbers);
    }
    *v = (struct verdict){0};
}
