/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Evaluates expressions over facts, with three values: yes, no, undecided.
 *
 * A fact that is absent, unreadable or blind has no value. An expression that depends on it is
 * undecided, and its name goes into eval.missing, unless another operand decides.
 */
#include "diagnose/tree.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static struct value undecided(void)
{
    return (struct value){.kind = VALUE_UNDECIDED};
}

static struct value number(double n)
{
    return (struct value){.kind = VALUE_NUMBER, .number = n};
}

static struct value boolean(bool b)
{
    return (struct value){.kind = VALUE_BOOLEAN, .number = b};
}

static void note_missing(struct eval *ev, const char *name)
{
    for (size_t i = 0; i < ev->missing_count; i++) {
        if (strcmp(ev->missing[i], name) == 0)
            return;
    }
    if (ev->missing_count < EVAL_NAMES_MAX)
        ev->missing[ev->missing_count++] = name;
}

static void note_used(struct eval *ev, const struct fact *f)
{
    for (size_t i = 0; i < ev->used_count; i++) {
        if (ev->used[i] == f)
            return;
    }
    if (ev->used_count < EVAL_NAMES_MAX)
        ev->used[ev->used_count++] = f;
}

/* "gpu.this.X" -> "gpu.N.X" in `out`, any other name as it is. */
const char *fact_real_name(const struct facts *facts, const char *name, char out[FACT_REAL_NAME])
{
    static const char this_gpu[] = "gpu.this.";
    int64_t gpu = 0;
    if (strncmp(name, this_gpu, sizeof(this_gpu) - 1) != 0)
        return name;
    (void)facts_get_integer(facts, "f.gpu", &gpu);
    (void)snprintf(out, FACT_REAL_NAME, "gpu.%d.%s", (int)gpu, name + sizeof(this_gpu) - 1);
    return out;
}

static const struct fact *best_fact(const struct eval *ev, const char *name)
{
    char real[FACT_REAL_NAME];
    return facts_best(ev->facts, fact_real_name(ev->facts, name, real));
}

static struct value value_of(struct eval *ev, const struct fact *f, const char *name)
{
    if (f == NULL || f->status != FACT_PRESENT) {
        note_missing(ev, name);
        return undecided();
    }
    note_used(ev, f);
    switch (f->type) {
    case FACT_INTEGER:
        return number((double)f->integer);
    case FACT_REAL:
        return number(f->real);
    case FACT_BOOLEAN:
        return boolean(f->integer != 0);
    case FACT_TEXT:
        break;
    }
    return (struct value){.kind = VALUE_TEXT, .text = f->text != NULL ? f->text : ""};
}

static const struct fact *present_fact(const struct eval *ev, const char *name)
{
    const struct fact *f = best_fact(ev, name);
    return f != NULL && f->status == FACT_PRESENT ? f : NULL;
}

static enum answer truth(struct value v)
{
    switch (v.kind) {
    case VALUE_UNDECIDED:
        return ANSWER_UNDECIDED;
    case VALUE_TEXT:
        return v.text[0] != '\0' ? ANSWER_YES : ANSWER_NO;
    case VALUE_NUMBER:
    case VALUE_BOOLEAN:
        break;
    }
    return v.number != 0 ? ANSWER_YES : ANSWER_NO;
}

static struct value from_answer(enum answer a)
{
    return a == ANSWER_UNDECIDED ? undecided() : boolean(a == ANSWER_YES);
}

/* `decider` is the value of an operand that decides alone: yes for "or", no for "and". */
static struct value eval_junction(struct eval *ev, const struct expr *e, enum answer decider)
{
    size_t missing_before = ev->missing_count;
    enum answer left = truth(eval_value(ev, e->arg[0]));
    if (left == decider)
        return from_answer(left);
    enum answer right = truth(eval_value(ev, e->arg[1]));
    if (right == decider) {
        ev->missing_count = missing_before;
        return from_answer(right);
    }
    return from_answer(left == ANSWER_UNDECIDED ? left : right);
}

static bool is_numeric(struct value v)
{
    return v.kind == VALUE_NUMBER || v.kind == VALUE_BOOLEAN;
}

static struct value compare_numbers(const char *sign, double a, double b)
{
    if (strcmp(sign, "<") == 0)
        return boolean(a < b);
    if (strcmp(sign, "<=") == 0)
        return boolean(a <= b);
    if (strcmp(sign, ">") == 0)
        return boolean(a > b);
    if (strcmp(sign, ">=") == 0)
        return boolean(a >= b);
    return boolean((a == b) == (sign[0] == '='));
}

static struct value eval_compare(struct eval *ev, const struct expr *e)
{
    struct value a = eval_value(ev, e->arg[0]);
    struct value b = eval_value(ev, e->arg[1]);
    if (a.kind == VALUE_UNDECIDED || b.kind == VALUE_UNDECIDED)
        return undecided();
    if (is_numeric(a) && is_numeric(b))
        return compare_numbers(e->sign, a.number, b.number);
    bool equality = strcmp(e->sign, "==") == 0 || strcmp(e->sign, "!=") == 0;
    if (a.kind == VALUE_TEXT && b.kind == VALUE_TEXT && equality)
        return boolean((strcasecmp(a.text, b.text) == 0) == (e->sign[0] == '='));
    return undecided(); /* a text where a number was expected: no answer, never a wrong one */
}

static struct value eval_arithmetic(struct eval *ev, const struct expr *e)
{
    struct value a = eval_value(ev, e->arg[0]);
    struct value b = eval_value(ev, e->arg[1]);
    if (!is_numeric(a) || !is_numeric(b))
        return undecided();
    switch (e->sign[0]) {
    case '+':
        return number(a.number + b.number);
    case '-':
        return number(a.number - b.number);
    case '*':
        return number(a.number * b.number);
    default:
        return b.number != 0 ? number(a.number / b.number) : undecided();
    }
}

/* A message counts as "not said" only if the log that would hold it was read. */
static struct value eval_said(struct eval *ev, const char *name)
{
    const struct fact *f = best_fact(ev, name);
    if (f != NULL)
        return from_answer(truth(value_of(ev, f, name)));
    const char *log = strncmp(name, "kmsg.", 5) == 0 ? "f.kernel_log_read" : "f.output_read";
    const struct fact *read = present_fact(ev, log);
    if (read != NULL && read->integer != 0) {
        ev->was_silent = true;
        return boolean(false);
    }
    note_missing(ev, log);
    return undecided();
}

static struct value eval_contains(struct eval *ev, const struct expr *e)
{
    const struct expr *in = e->arg[0];
    bool message = in->op == EXPR_FACT &&
                   (strncmp(in->text, "msg.", 4) == 0 || strncmp(in->text, "kmsg.", 5) == 0);
    if (message && best_fact(ev, in->text) == NULL)
        return eval_said(ev, in->text); /* a message that was not said contains nothing */
    struct value hay = eval_value(ev, in);
    struct value needle = eval_value(ev, e->arg[1]);
    if (hay.kind != VALUE_TEXT || needle.kind != VALUE_TEXT)
        return undecided();
    return boolean(strcasestr(hay.text, needle.text) != NULL);
}

double version_number(const char *text)
{
    double part[3] = {0, 0, 0};
    while (*text != '\0' && !isdigit((unsigned char)*text))
        text++;
    if (*text == '\0')
        return -1;
    for (size_t i = 0; i < 3 && isdigit((unsigned char)*text); i++) {
        char *end = NULL;
        part[i] = (double)(strtoul(text, &end, 10) % 100000u);
        text = *end == '.' ? end + 1 : "";
    }
    return part[0] * 1e10 + part[1] * 1e5 + part[2];
}

static struct value eval_version(struct eval *ev, const struct expr *e)
{
    struct value v = eval_value(ev, e->arg[0]);
    if (v.kind != VALUE_TEXT)
        return undecided();
    double n = version_number(v.text);
    return n >= 0 ? number(n) : undecided();
}

static struct value eval_near(struct eval *ev, const struct expr *e)
{
    struct value a = eval_value(ev, e->arg[0]);
    struct value b = eval_value(ev, e->arg[1]);
    if (!is_numeric(a) || !is_numeric(b))
        return undecided();
    return boolean(fabs(a.number - b.number) <= 0.01 * fmax(fabs(a.number), fabs(b.number)));
}

static struct value eval_extreme(struct eval *ev, const struct expr *e)
{
    double best = 0;
    for (size_t i = 0; i < e->count; i++) {
        struct value v = eval_value(ev, e->arg[i]);
        if (!is_numeric(v))
            return undecided();
        if (i == 0 || (e->function == CALL_MAX ? v.number > best : v.number < best))
            best = v.number;
    }
    return number(best);
}

static struct value eval_rounded(struct eval *ev, const struct expr *e)
{
    struct value v = eval_value(ev, e->arg[0]);
    if (!is_numeric(v))
        return undecided();
    switch (e->function) {
    case CALL_FLOOR:
        return number(floor(v.number));
    case CALL_CEIL:
        return number(ceil(v.number));
    case CALL_ROUND:
        return number(round(v.number));
    case CALL_POWER:
        return v.number > 0 ? number(exp2(ceil(log2(v.number)))) : undecided();
    default:
        return number(fabs(v.number));
    }
}

static struct value eval_percent(struct eval *ev, const struct expr *e)
{
    struct value part = eval_value(ev, e->arg[0]);
    struct value whole = eval_value(ev, e->arg[1]);
    if (!is_numeric(part) || !is_numeric(whole) || whole.number <= 0)
        return undecided();
    return number(100.0 * part.number / whole.number);
}

static struct value eval_if(struct eval *ev, const struct expr *e)
{
    enum answer a = truth(eval_value(ev, e->arg[0]));
    return a == ANSWER_UNDECIDED ? undecided() : eval_value(ev, e->arg[a == ANSWER_YES ? 1 : 2]);
}

/* The largest "24 GB" or "24 GiB" of a text, in bytes; for memory both mean GiB. 0: none. The
 * largest, because a carve-out is a part of the memory that the text names, too. */
static double size_in(const char *text)
{
    double best = 0;
    for (const char *at = text; (at = strpbrk(at, "0123456789")) != NULL;) {
        char *end = NULL;
        double n = strtod(at, &end);
        const char *unit = end + strspn(end, " ");
        bool gib = strncmp(unit, "GB", 2) == 0 || strncmp(unit, "GiB", 3) == 0;
        if (gib && n > best && n < 4096 && strncmp(unit, "GB carve", 8) != 0)
            best = n;
        at = end > at ? end : at + 1;
    }
    return best * 0x1p30;
}

static struct value eval_number_in(struct eval *ev, const struct expr *e)
{
    struct value v = eval_value(ev, e->arg[0]);
    char *end = NULL;
    if (e->function == CALL_NUMBER_OF && is_numeric(v))
        return v;
    if (v.kind != VALUE_TEXT)
        return undecided();
    double n = e->function == CALL_SIZE_IN ? size_in(v.text) : strtod(v.text, &end);
    bool found = e->function == CALL_SIZE_IN ? n > 0 : end != v.text && *end == '\0';
    return found && isfinite(n) ? number(n) : undecided();
}

static struct value eval_first(struct eval *ev, const struct expr *e)
{
    size_t missing_before = ev->missing_count;
    for (size_t i = 0; i < e->count; i++) {
        struct value v = eval_value(ev, e->arg[i]);
        if (v.kind != VALUE_UNDECIDED) {
            ev->missing_count = missing_before;
            return v;
        }
    }
    return undecided();
}

static struct value eval_moment(struct eval *ev, const struct expr *e)
{
    enum fact_when when = FACT_AFTER;
    if (e->function == CALL_BASELINE)
        when = FACT_BASELINE;
    else if (e->function == CALL_PEAK)
        when = FACT_PEAK;
    else if (e->function == CALL_IMPACT)
        when = FACT_IMPACT;
    char real[FACT_REAL_NAME];
    const char *name = fact_real_name(ev->facts, e->arg[0]->text, real);
    return value_of(ev, facts_find(ev->facts, name, when), e->arg[0]->text);
}

static struct value eval_present(struct eval *ev, const char *name)
{
    const struct fact *f = present_fact(ev, name);
    if (f != NULL)
        note_used(ev, f);
    return boolean(f != NULL);
}

/* An undecided operand counts as no; nothing is missing then. */
static bool eval_sure(struct eval *ev, const struct expr *e)
{
    size_t missing_before = ev->missing_count;
    enum answer a = truth(eval_value(ev, e));
    ev->missing_count = missing_before;
    return a == ANSWER_YES;
}

static struct value eval_call(struct eval *ev, const struct expr *e)
{
    switch (e->function) {
    case CALL_PRESENT:
        return eval_present(ev, e->arg[0]->text);
    case CALL_SURE:
        return boolean(eval_sure(ev, e->arg[0]));
    case CALL_SAID:
        return eval_said(ev, e->arg[0]->text);
    case CALL_CONTAINS:
        return eval_contains(ev, e);
    case CALL_VERSION:
        return eval_version(ev, e);
    case CALL_NEAR:
        return eval_near(ev, e);
    case CALL_MIN:
    case CALL_MAX:
        return eval_extreme(ev, e);
    case CALL_ABS:
    case CALL_FLOOR:
    case CALL_CEIL:
    case CALL_ROUND:
    case CALL_POWER:
        return eval_rounded(ev, e);
    case CALL_PERCENT:
        return eval_percent(ev, e);
    case CALL_IF:
        return eval_if(ev, e);
    case CALL_NUMBER_OF:
    case CALL_SIZE_IN:
        return eval_number_in(ev, e);
    case CALL_FIRST:
        return eval_first(ev, e);
    default:
        return eval_moment(ev, e);
    }
}

struct value eval_value(struct eval *ev, const struct expr *e)
{
    switch (e->op) {
    case EXPR_NUMBER:
        return number(e->number);
    case EXPR_BOOLEAN:
        return boolean(e->number != 0);
    case EXPR_TEXT:
        return (struct value){.kind = VALUE_TEXT, .text = e->text};
    case EXPR_FACT:
        return value_of(ev, best_fact(ev, e->text), e->text);
    case EXPR_TERM:
        return eval_value(ev, e->term);
    case EXPR_OR:
        return eval_junction(ev, e, ANSWER_YES);
    case EXPR_AND:
        return eval_junction(ev, e, ANSWER_NO);
    case EXPR_NOT: {
        enum answer a = truth(eval_value(ev, e->arg[0]));
        return a == ANSWER_UNDECIDED ? undecided() : boolean(a == ANSWER_NO);
    }
    case EXPR_COMPARE:
        return eval_compare(ev, e);
    case EXPR_ARITHMETIC:
        return eval_arithmetic(ev, e);
    case EXPR_NEGATE: {
        struct value v = eval_value(ev, e->arg[0]);
        return is_numeric(v) ? number(-v.number) : undecided();
    }
    case EXPR_CALL:
        return eval_call(ev, e);
    }
    return undecided();
}

const char *eval_answer_word(enum answer answer, const struct eval *ev)
{
    static const char *const words[] = {"no", "yes", "undecided"};
    return answer == ANSWER_NO && ev->used_count == 0 && !ev->was_silent ? "not asked" : words[answer];
}

enum answer eval_answer(struct eval *ev, const struct expr *e)
{
    size_t missing_before = ev->missing_count;
    enum answer a = truth(eval_value(ev, e));
    if (a != ANSWER_UNDECIDED)
        ev->missing_count = missing_before;
    return a;
}
