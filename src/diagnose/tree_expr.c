/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Expressions of the decision tree: text -> syntax tree, with the column of what is wrong.
 *
 * Recursive descent with a depth limit. A name of no known kind ("gup.0.x") is an error at load,
 * not an "undecided" later. The tests check that a fact of that name exists.
 */
#include "diagnose/tree.h"

#include "base/err.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct parser {
    const char *start;
    const char *at;
    const struct expr_terms *terms;
    struct rc_err *err;
    int depth;
    unsigned parts;
    bool failed;
};

static const struct {
    const char *name;
    enum expr_function function;
    size_t min_args;
    size_t max_args;
    bool fact_only; /* its arguments are fact names */
} functions[] = {
    {"present", CALL_PRESENT, 1, 1, true},
    {"sure", CALL_SURE, 1, 1, false},
    {"said", CALL_SAID, 1, 1, true},
    {"contains", CALL_CONTAINS, 2, 2, false},
    {"version", CALL_VERSION, 1, 1, false},
    {"near", CALL_NEAR, 2, 2, false},
    {"min", CALL_MIN, 1, EXPR_ARGS_MAX, false},
    {"max", CALL_MAX, 1, EXPR_ARGS_MAX, false},
    {"abs", CALL_ABS, 1, 1, false},
    {"floor", CALL_FLOOR, 1, 1, false},
    {"ceil", CALL_CEIL, 1, 1, false},
    {"round", CALL_ROUND, 1, 1, false},
    {"percent", CALL_PERCENT, 2, 2, false},
    {"power_of_two", CALL_POWER, 1, 1, false},
    {"if", CALL_IF, 3, 3, false},
    {"number", CALL_NUMBER_OF, 1, 1, false},
    {"size_in", CALL_SIZE_IN, 1, 1, false},
    {"first", CALL_FIRST, 1, EXPR_ARGS_MAX, false},
    {"baseline", CALL_BASELINE, 1, 1, true},
    {"peak", CALL_PEAK, 1, 1, true},
    {"impact", CALL_IMPACT, 1, 1, true},
    {"after", CALL_AFTER, 1, 1, true},
};

static struct expr *parse_or(struct parser *p);

static struct expr *fail(struct parser *p, const char *at, const char *reason, const char *what,
                         size_t what_len)
{
    if (!p->failed) {
        int column = (int)(at - p->start) + 1;
        int shown = what_len > 60 ? 60 : (int)what_len;
        if (what != NULL)
            (void)rc_err_set(p->err, -EINVAL, "column %d: %s '%.*s'", column, reason, shown, what);
        else
            (void)rc_err_set(p->err, -EINVAL, "column %d: %s", column, reason);
    }
    p->failed = true;
    return NULL;
}

/* `room`: how many operands or arguments it can hold. */
static struct expr *expr_new(struct parser *p, enum expr_op op, size_t room)
{
    /* "1+1+1+..." is as deep as it is long. */
    if (++p->parts > EXPR_PARTS_MAX)
        return fail(p, p->at, "too long", NULL, 0);
    struct expr *e = calloc(1, sizeof(*e) + room * sizeof(struct expr *));
    if (e == NULL)
        return fail(p, p->at, "out of memory", NULL, 0);
    e->op = op;
    return e;
}

void expr_free(struct expr *e)
{
    if (e == NULL)
        return;
    for (size_t i = 0; i < e->count; i++)
        expr_free(e->arg[i]);
    free(e->text);
    free(e);
}

static void skip_space(struct parser *p)
{
    while (isspace((unsigned char)*p->at))
        p->at++;
}

static size_t word_length(const char *s)
{
    size_t n = 0;
    if (!isalpha((unsigned char)s[0]) && s[0] != '_')
        return 0;
    while (isalnum((unsigned char)s[n]) || s[n] == '_' || s[n] == '.')
        n++;
    return n;
}

/* Is `word` the `len` bytes at `name`? */
static bool is_word(const char *word, const char *name, size_t len)
{
    return word[0] == name[0] && strncmp(word, name, len) == 0 && word[len] == '\0';
}

static bool take_word(struct parser *p, const char *word)
{
    skip_space(p);
    if (*p->at != *word) /* nearly always */
        return false;
    size_t n = strlen(word);
    if (word_length(p->at) != n || strncmp(p->at, word, n) != 0)
        return false;
    p->at += n;
    return true;
}

static bool take_sign(struct parser *p, const char *sign)
{
    skip_space(p);
    if (*p->at != *sign)
        return false;
    size_t n = strlen(sign);
    if (strncmp(p->at, sign, n) != 0)
        return false;
    p->at += n;
    return true;
}

static struct expr *pair(struct parser *p, enum expr_op op, const char *sign, struct expr *a,
                         struct expr *b)
{
    struct expr *e = a != NULL && b != NULL ? expr_new(p, op, 2) : NULL;
    if (e == NULL) {
        expr_free(a);
        expr_free(b);
        return NULL;
    }
    (void)strncpy(e->sign, sign, sizeof(e->sign) - 1);
    e->arg[0] = a;
    e->arg[1] = b;
    e->count = 2;
    return e;
}

static struct expr *parse_number(struct parser *p)
{
    static const struct {
        const char *name;
        double scale;
    } units[] = {
        {"KiB", 1024.0},
        {"MiB", 1048576.0},
        {"GiB", 1073741824.0},
        {"TiB", 1099511627776.0},
    };
    char *end = NULL;
    struct expr *e = expr_new(p, EXPR_NUMBER, 0);
    if (e == NULL)
        return NULL;
    e->number = strtod(p->at, &end);
    p->at = end;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (take_word(p, units[i].name)) {
            e->number *= units[i].scale;
            break;
        }
    }
    return e;
}

static struct expr *parse_quoted(struct parser *p)
{
    const char *open = p->at++;
    const char *close = strchr(p->at, '\'');
    if (close == NULL)
        return fail(p, open, "text without closing quote", NULL, 0);
    struct expr *e = expr_new(p, EXPR_TEXT, 0);
    if (e == NULL)
        return NULL;
    e->text = strndup(p->at, (size_t)(close - p->at));
    p->at = close + 1;
    if (e->text == NULL) {
        expr_free(e);
        return fail(p, open, "out of memory", NULL, 0);
    }
    return e;
}

static struct expr *parse_arguments(struct parser *p, struct expr *call, const char *name,
                                    size_t name_len, size_t index)
{
    do {
        struct expr *arg = parse_or(p);
        if (arg == NULL) {
            expr_free(call);
            return NULL;
        }
        if (call->count == functions[index].max_args) {
            expr_free(arg);
            expr_free(call);
            return fail(p, name, "too many arguments for", name, name_len);
        }
        call->arg[call->count++] = arg;
        if (functions[index].fact_only && arg->op != EXPR_FACT) {
            expr_free(call);
            return fail(p, name, "needs the name of a fact:", name, name_len);
        }
    } while (take_sign(p, ","));
    if (!take_sign(p, ")")) {
        expr_free(call);
        return fail(p, p->at, "')' expected after the arguments of", name, name_len);
    }
    if (call->count < functions[index].min_args) {
        expr_free(call);
        return fail(p, name, "too few arguments for", name, name_len);
    }
    return call;
}

static struct expr *parse_call(struct parser *p, const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        if (!is_word(functions[i].name, name, len))
            continue;
        struct expr *call = expr_new(p, EXPR_CALL, functions[i].max_args);
        if (call == NULL)
            return NULL;
        call->function = functions[i].function;
        return parse_arguments(p, call, name, len, i);
    }
    return fail(p, name, "unknown function", name, len);
}

#define TERM_PREFIX strlen("t.")

static struct expr *parse_term(struct parser *p, const char *name, size_t len)
{
    for (size_t i = 0; p->terms != NULL && i < p->terms->count; i++) {
        const struct expr_term *term = &p->terms->term[i];
        if (!is_word(term->name + TERM_PREFIX, name + TERM_PREFIX, len - TERM_PREFIX))
            continue;
        struct expr *e = expr_new(p, EXPR_TERM, 0);
        if (e != NULL)
            e->term = term->expr;
        return e;
    }
    return fail(p, name, "no such term (terms may use only earlier ones):", name, len);
}

static struct expr *parse_name(struct parser *p)
{
    const char *name = p->at;
    size_t len = word_length(name);
    p->at += len;
    if (take_sign(p, "("))
        return parse_call(p, name, len);
    if (is_word("true", name, len) || is_word("false", name, len)) {
        struct expr *e = expr_new(p, EXPR_BOOLEAN, 0);
        if (e != NULL)
            e->number = len == 4;
        return e;
    }
    if (len > TERM_PREFIX && strncmp(name, "t.", TERM_PREFIX) == 0)
        return parse_term(p, name, len);
    if (!fact_name_plausible(name, len))
        return fail(p, name, "not a fact, feature, term or function:", name, len);
    struct expr *e = expr_new(p, EXPR_FACT, 0);
    if (e == NULL)
        return NULL;
    e->text = strndup(name, len);
    if (e->text == NULL) {
        expr_free(e);
        return fail(p, name, "out of memory", NULL, 0);
    }
    return e;
}

static struct expr *parse_primary(struct parser *p)
{
    skip_space(p);
    if (take_sign(p, "(")) {
        struct expr *e = parse_or(p);
        if (e != NULL && !take_sign(p, ")")) {
            expr_free(e);
            return fail(p, p->at, "')' expected", NULL, 0);
        }
        return e;
    }
    if (isdigit((unsigned char)*p->at))
        return parse_number(p);
    if (*p->at == '\'')
        return parse_quoted(p);
    if (word_length(p->at) > 0)
        return parse_name(p);
    if (*p->at == '\0')
        return fail(p, p->at, "the expression ends too early", NULL, 0);
    return fail(p, p->at, "cannot read", p->at, strlen(p->at));
}

/* NULL if `inner` is NULL; takes ownership of it. */
static struct expr *expr_of_one(struct parser *p, enum expr_op op, struct expr *inner)
{
    struct expr *e = inner != NULL ? expr_new(p, op, 1) : NULL;
    if (e == NULL) {
        expr_free(inner);
        return NULL;
    }
    e->arg[0] = inner;
    e->count = 1;
    return e;
}

static struct expr *parse_unary(struct parser *p)
{
    if (!take_sign(p, "-"))
        return parse_primary(p);
    return expr_of_one(p, EXPR_NEGATE, parse_primary(p));
}

static struct expr *parse_product(struct parser *p)
{
    struct expr *e = parse_unary(p);
    while (e != NULL) {
        const char *sign = take_sign(p, "*") ? "*" : take_sign(p, "/") ? "/" : NULL;
        if (sign == NULL)
            break;
        e = pair(p, EXPR_ARITHMETIC, sign, e, parse_unary(p));
    }
    return e;
}

static struct expr *parse_sum(struct parser *p)
{
    struct expr *e = parse_product(p);
    while (e != NULL) {
        const char *sign = take_sign(p, "+") ? "+" : take_sign(p, "-") ? "-" : NULL;
        if (sign == NULL)
            break;
        e = pair(p, EXPR_ARITHMETIC, sign, e, parse_product(p));
    }
    return e;
}

static struct expr *parse_compare(struct parser *p)
{
    static const char *const signs[] = {"<=", ">=", "==", "!=", "<", ">"};
    struct expr *e = parse_sum(p);
    if (e == NULL)
        return NULL;
    for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++) {
        if (take_sign(p, signs[i]))
            return pair(p, EXPR_COMPARE, signs[i], e, parse_sum(p));
    }
    return e;
}

static struct expr *parse_not(struct parser *p)
{
    if (++p->depth > EXPR_DEPTH_MAX)
        return fail(p, p->at, "nested too deeply", NULL, 0);
    struct expr *e = NULL;
    if (take_word(p, "not")) {
        e = expr_of_one(p, EXPR_NOT, parse_not(p));
        if (e == NULL)
            return NULL;
    } else {
        e = parse_compare(p);
    }
    p->depth--;
    return e;
}

static struct expr *parse_and(struct parser *p)
{
    struct expr *e = parse_not(p);
    while (e != NULL && take_word(p, "and"))
        e = pair(p, EXPR_AND, "", e, parse_not(p));
    return e;
}

static struct expr *parse_or(struct parser *p)
{
    struct expr *e = parse_and(p);
    while (e != NULL && take_word(p, "or"))
        e = pair(p, EXPR_OR, "", e, parse_and(p));
    return e;
}

struct expr *expr_parse(const char *text, const struct expr_terms *terms, struct rc_err *err)
{
    struct parser p = {.start = text, .at = text, .terms = terms, .err = err};
    struct expr *e = parse_or(&p);
    if (e == NULL)
        return NULL;
    skip_space(&p);
    if (*p.at != '\0') {
        (void)fail(&p, p.at, "unexpected", p.at, strlen(p.at));
        expr_free(e);
        return NULL;
    }
    return e;
}

bool fact_name_plausible(const char *name, size_t len)
{
    static const char *const first_words[] = {
        "err.", "evidence.", "quantity.", "series.", "event.", "run.",    "stack.",    "target.", "oom.",    "msg.", "kmsg.",       "gpu.",      "proc.",
        "others.", "siblings.", "host.",   "env.",    "f.",   "report.",     "software.", "log.",
        "ledger.", "models.",   "torch.",  "account.", "hook.",  "vendor.", "jax.", "tensorflow.", "site.", "snap.",
        "cupy.", "onnxruntime.", "wording.",
    };
    for (size_t i = 0; i < sizeof(first_words) / sizeof(first_words[0]); i++) {
        size_t n = strlen(first_words[i]);
        if (name[0] == first_words[i][0] && len > n && strncmp(name, first_words[i], n) == 0)
            return name[len - 1] != '.';
    }
    return false;
}
