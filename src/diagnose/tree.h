/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internal to the tree: expressions, nodes, evaluation. Used by tree_*.c, verdict.c and their
 * tests; other files include verdict.h.
 *
 * The expression language (also described for its readers at the top of templates/tree.json):
 *
 *   or, and, not, ( )             three-valued: a missing input gives "undecided", unless the
 *                                 other side alone decides (false and ?, true or ?)
 *   < <= > >= == !=               numbers, or texts (== and != only, in any case)
 *   + - * /                       numbers
 *   12, 0.97, 256 MiB, 2 GiB      numbers, with KiB MiB GiB TiB
 *   'text', true, false
 *   oom.total_bytes               a fact or feature by its name (the value that says most about
 *                                 the failure); alone in a condition: not zero, not ""
 *   t.name                        a condition named under "terms"
 *   present(x)                    the fact is there; never undecided
 *   sure(condition)               yes when it holds; no when it does not or cannot be decided
 *   said(x)                       a message: no when its log was read and lacks it
 *   contains(x, 'text')           text holds text, in any case
 *   version(x)                    "2.9.1+rocm6.4" -> a number that compares as versions do
 *   near(x, y)                    differ by at most 1 % of the larger
 *   min(x, y, ...) max(x, y, ...) abs(x) floor(x) ceil(x) round(x)
 *   percent(part, whole)          100 * part / whole; undecided where whole is not above 0
 *   power_of_two(x)               the smallest one that is not below x, for x > 0
 *   if(condition, x, y)           x when it holds, y when it does not
 *   number(x)                     a text that is nothing but a number
 *   size_in(x)                    "RX 7900 XTX 24 GB": the largest size in a text, in bytes
 *   first(x, y, ...)              the first that is there
 *   gpu.this.X                    gpu.N.X of the GPU that the failure is about (f.gpu, else 0)
 *   baseline(x) peak(x) impact(x) after(x)   the fact's value of that moment
 */
#ifndef DIAGNOSE_TREE_H
#define DIAGNOSE_TREE_H

#include "diagnose/evidence.h"
#include "diagnose/fact.h"
#include "diagnose/verdict.h"

#include <stdbool.h>
#include <stddef.h>

struct cJSON;
struct rc_err;
struct buf;

#define TREE_NODES_MAX VERDICT_STEPS_MAX
#define TREE_TERMS_MAX 160
#define TREE_DEFECTS_MAX 64
#define TREE_BOUNDS_MAX 4
#define TREE_LACKS_MAX 16
#define EXPR_ARGS_MAX 8
#define EXPR_DEPTH_MAX 64
#define EXPR_PARTS_MAX 2000
#define EVAL_NAMES_MAX 48

enum expr_op {
    EXPR_NUMBER,
    EXPR_TEXT,
    EXPR_BOOLEAN,
    EXPR_FACT,
    EXPR_TERM,
    EXPR_CALL,
    EXPR_OR,
    EXPR_AND,
    EXPR_NOT,
    EXPR_COMPARE,
    EXPR_ARITHMETIC,
    EXPR_NEGATE,
};

enum expr_function {
    CALL_PRESENT,
    CALL_SURE,
    CALL_SAID,
    CALL_CONTAINS,
    CALL_VERSION,
    CALL_NEAR,
    CALL_MIN,
    CALL_MAX,
    CALL_ABS,
    CALL_FLOOR,
    CALL_CEIL,
    CALL_ROUND,
    CALL_PERCENT,
    CALL_POWER,
    CALL_IF,
    CALL_NUMBER_OF,
    CALL_SIZE_IN,
    CALL_FIRST,
    CALL_BASELINE,
    CALL_PEAK,
    CALL_IMPACT,
    CALL_AFTER,
};

struct expr {
    enum expr_op op;
    enum expr_function function; /* EXPR_CALL */
    char sign[3];                /* EXPR_COMPARE, EXPR_ARITHMETIC: "<", "<=", "+" ... */
    double number;               /* EXPR_NUMBER, EXPR_BOOLEAN (0 or 1) */
    char *text;                  /* EXPR_TEXT, EXPR_FACT (the name) */
    const struct expr *term;     /* EXPR_TERM; owned by the tree */
    size_t count;                /* operands or arguments */
    struct expr *arg[];          /* room as the operation needs; most of the tree's 9,000 parts have none */
};

/* Terms that an expression may name. */
struct expr_term {
    char *name; /* with the "t." */
    struct expr *expr;
};

struct expr_terms {
    size_t count;
    struct expr_term term[TREE_TERMS_MAX];
};

/* Parse one expression; NULL with "column N: reason" in *err. `terms` may be NULL. */
struct expr *expr_parse(const char *text, const struct expr_terms *terms, struct rc_err *err);
void expr_free(struct expr *e);

/* A number for comparing versions, from a text like "2.9.1"; -1 if the text has no number. */
double version_number(const char *text);

enum value_kind { VALUE_UNDECIDED, VALUE_NUMBER, VALUE_TEXT, VALUE_BOOLEAN };

struct value {
    enum value_kind kind;
    double number;    /* VALUE_NUMBER, VALUE_BOOLEAN */
    const char *text; /* VALUE_TEXT; lives as long as the facts and the tree */
};

enum answer { ANSWER_NO, ANSWER_YES, ANSWER_UNDECIDED };

/* One evaluation: the facts that were read, and those that were missing. */
struct eval {
    const struct facts *facts;
    size_t used_count;
    const struct fact *used[EVAL_NAMES_MAX];
    size_t missing_count;
    const char *missing[EVAL_NAMES_MAX]; /* names, owned by the expression */
    bool was_silent;                     /* a log was read, and lacked a message that was asked for */
};

/* Says of these missing facts what could change the verdict (verdict_lacks.c): 0 or -ENOMEM. */
int verdict_add_lacks(struct verdict *v, const struct facts *facts, const struct tree *tree, const char *const *names,
                      size_t count);
/* "yes", "no", "undecided"; "not asked" for a no that stands on no fact and no log: nobody measured it. */
const char *eval_answer_word(enum answer answer, const struct eval *ev);

#define FACT_REAL_NAME 176
/* "gpu.this.X" -> "gpu.N.X", written to `out`; any other name as it is. */
const char *fact_real_name(const struct facts *facts, const char *name, char out[FACT_REAL_NAME]);

struct value eval_value(struct eval *ev, const struct expr *e);
/* An undecided answer adds to ev->missing; a decided one leaves it unchanged. */
enum answer eval_answer(struct eval *ev, const struct expr *e);

/* {"if": expression, "say": template, ...}; `when` NULL = always. */
struct tree_rule {
    struct expr *when;
    char *say;
    char *source; /* advice: where it comes from */
    char *verify; /* advice: how to see that it helped */
    bool lowers;  /* against: takes one step of confidence */
};

struct tree_rules {
    size_t count;
    struct tree_rule *rule;
};

struct tree_node {
    char *id;
    char *question;
    char *class_name;
    char *subclass;
    char *sentence;
    char *attach;
    struct expr *test;
    struct expr *high;
    struct expr *medium;
    struct tree_rules why;
    struct tree_rules against;
    struct tree_rules advice;
    struct tree_rules file_at; /* the first that holds is used */
};

/* One row of the table of known defects. */
struct tree_defect {
    char *id;
    struct expr *when;
    char *classes; /* space separated, "*" = any */
    char *say;
    char *source;
    char *verify;
};

struct tree_label {
    char *name;  /* fact */
    char *label; /* in words */
};

/* "at_most": what keeps every verdict of some classes from being sure. */
struct tree_bound {
    struct expr *level[2]; /* is it no surer than low, than medium? NULL = never */
    char *classes;         /* space separated; NULL = all but "unknown" */
    char *says;            /* then: against */
    char *adds;            /* then: the end of the verdict's sentence; NULL = none */
};

/* "lacks": what people should know of missing facts, in words. */
struct tree_lack {
    char *facts; /* space separated beginnings of their names */
    struct expr *when;
    char *say;
    char *get; /* how to get it; NULL = not possible */
    bool has_reason; /* the reason why the first of them is missing is told */
};

struct tree {
    struct expr_terms terms;
    struct cJSON *clauses; /* rules that several nodes share, by name; NULL = none */
    struct expr *yields[2]; /* does a low, a medium verdict yield to evidence for another class? NULL = never */
    size_t bound_count;
    struct tree_bound bound[TREE_BOUNDS_MAX];
    size_t lack_count;
    struct tree_lack lack[TREE_LACKS_MAX];
    size_t node_count;
    struct tree_node node[TREE_NODES_MAX];
    struct computed *computed; /* NULL = none */
    size_t defect_count;
    struct tree_defect defect[TREE_DEFECTS_MAX];
    struct evidence evidence;
    size_t label_count;
    struct tree_label *label;
    size_t input_count; /* facts that a good verdict needs: listed if the class is unknown */
    char **input;
};

/* A class of this tree, or one that a site may add ("site-..."). */
bool tree_is_class(const char *name);
/* Appends "gtt-limit, capacity, ...". */
void tree_class_names(struct buf *out);
/* The label of a fact in the tree, else its name. */
const char *tree_label(const struct tree *tree, const char *name);

/* "6.22 GiB", "yes", "97 %", "gfx1100": by type and by the unit at the end of the name. */
void fact_format(const struct fact *f, char *out, size_t size);
/* "1.50 GiB", "12.0 MiB", "512 bytes" */
void fact_format_bytes(double bytes, char *out, size_t size);
/* Replace {fact.name} by values, "(unknown)" if there is none. A clause [[...]] with an unknown
 * fact is left out. With `cite`, append the sources of the values in square brackets. Caller frees;
 * NULL when out of memory. */
char *template_fill(const char *text, const struct facts *facts, bool cite);
/* The same with citations; a text without a value cites the facts of its condition. */
char *template_fill_because(const char *text, const struct facts *facts,
                            const struct eval *because);
/* First {name} in `text` that is not well formed or not a fact name, or NULL. */
const char *template_check(const char *text, char *bad, size_t size);
/* Could this be a fact's name (known first word)? */
bool fact_name_plausible(const char *name, size_t len);

#endif
