/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/site_rules.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "diagnose/site_shape.h"

#define SHAPES_MAX 512
#define SETS_MAX 256
#define EXAMPLES_MAX 512
#define GROUPS_MAX 8
#define NAME_BYTES 48
#define VALUE_BYTES 200

enum role { ROLE_LINE, ROLE_ALSO, ROLE_UNLESS, ROLE_TAKE };

/* Shapes, sets and examples are stored in file order; each rule owns a range of each. */
struct site_shape {
    struct rule_shape shape;
    enum role role;
    unsigned group; /* of ROLE_ALSO */
};

struct site_set {
    uint16_t fact;
    struct rule_value value;
    char text[VALUE_BYTES];
};

struct site_example {
    struct text text;
    unsigned line;
    bool must_match;
};

struct run_of {
    unsigned first, count;
};

struct site_rule {
    char name[NAME_BYTES];
    unsigned line, groups;
    struct run_of shapes, sets, examples;
    int counts; /* fact, -1 = none */
};

struct site_rules {
    char *text; /* examples point into it */
    unsigned rule_count, shape_count, set_count, example_count;
    struct site_rule rules[SITE_RULES_MAX];
    struct site_shape shapes[SHAPES_MAX];
    struct site_set sets[SETS_MAX];
    struct site_example examples[EXAMPLES_MAX];
    struct shape_store store;
};

bool site_fact_name(const char *name, size_t len)
{
    static const char prefix[] = "site.";
    size_t begin = sizeof prefix - 1;
    if (len <= begin || strncmp(name, prefix, begin) != 0 || name[len - 1] == '.')
        return false;
    for (size_t i = begin; i < len; i++) {
        bool letter = islower((unsigned char)name[i]) || isdigit((unsigned char)name[i]);
        if (!letter && name[i] != '_' && (name[i] != '.' || name[i - 1] == '.'))
            return false;
    }
    return true;
}

/* --- reading --- */

static int add_shape(struct site_rules *s, struct site_rule *rule, enum role role,
                     struct text shape, struct rc_err *err)
{
    if (s->shape_count == SHAPES_MAX)
        return rc_err_set(err, -EINVAL, "more than %d shapes", SHAPES_MAX);
    struct site_shape *to = &s->shapes[s->shape_count++];
    to->role = role;
    to->group = role == ROLE_ALSO ? rule->groups - 1 : 0;
    rule->shapes.count++;
    return shape_parse(&s->store, shape, &to->shape, err);
}

/* "A | B": a bar with a blank on either side separates two shapes. */
static int add_shapes(struct site_rules *s, struct site_rule *rule, enum role role,
                      struct text rest, struct rc_err *err)
{
    struct text one;
    int r = 0;
    while (r == 0 && text_before(rest, " | ", &one)) {
        rest = text_skip(rest, one.len + strlen(" | "));
        r = add_shape(s, rule, role, text_trim(one), err);
    }
    return r == 0 ? add_shape(s, rule, role, text_trim(rest), err) : r;
}

static int add_also(struct site_rules *s, struct site_rule *rule, struct text rest,
                    struct rc_err *err)
{
    if (rule->groups++ == GROUPS_MAX)
        return rc_err_set(err, -EINVAL, "more than %d 'also'", GROUPS_MAX);
    return add_shapes(s, rule, ROLE_ALSO, rest, err);
}

static int add_set(struct site_rules *s, struct site_rule *rule, struct text rest,
                   struct rc_err *err)
{
    struct text name;
    if (s->set_count == SETS_MAX)
        return rc_err_set(err, -EINVAL, "more than %d 'set'", SETS_MAX);
    struct site_set *set = &s->sets[s->set_count];
    if (!text_next_word(&rest, &name) || text_trim(rest).len == 0)
        return rc_err_set(err, -EINVAL, "set what? 'set FACT VALUE'");
    int fact = shape_store_fact(&s->store, name, err);
    if (fact < 0)
        return fact;
    char *end = NULL;
    (void)text_copy(text_trim(rest), set->text, sizeof set->text);
    errno = 0;
    long long number = strtoll(set->text, &end, 10);
    set->fact = (uint16_t)fact;
    if (strcmp(set->text, "true") == 0 || strcmp(set->text, "false") == 0)
        set->value = (struct rule_value){.type = VALUE_BOOLEAN, .integer = set->text[0] == 't'};
    else if (errno == 0 && *end == '\0')
        set->value = (struct rule_value){.type = VALUE_INTEGER, .integer = number};
    else
        set->value = (struct rule_value){.type = VALUE_TEXT, .text = {set->text, strlen(set->text)}};
    s->set_count++;
    rule->sets.count++;
    return 0;
}

static int add_example(struct site_rules *s, struct site_rule *rule, struct text rest, bool match,
                       unsigned line, struct rc_err *err)
{
    if (s->example_count == EXAMPLES_MAX)
        return rc_err_set(err, -EINVAL, "more than %d examples", EXAMPLES_MAX);
    s->examples[s->example_count++] =
        (struct site_example){.text = rest, .line = line, .must_match = match};
    rule->examples.count++;
    return 0;
}

static int new_rule(struct site_rules *s, struct text name, unsigned line, struct rc_err *err)
{
    if (s->rule_count == SITE_RULES_MAX)
        return rc_err_set(err, -EINVAL, "more than %d rules", SITE_RULES_MAX);
    struct site_rule *rule = &s->rules[s->rule_count];
    if (name.len == 0 || name.len >= NAME_BYTES)
        return rc_err_set(err, -EINVAL, "a rule needs a name of less than %d bytes", NAME_BYTES);
    *rule = (struct site_rule){.line = line,
                               .shapes.first = s->shape_count,
                               .sets.first = s->set_count,
                               .examples.first = s->example_count,
                               .counts = -1};
    (void)text_copy(name, rule->name, sizeof rule->name);
    for (unsigned i = 0; i < s->rule_count; i++)
        if (strcmp(s->rules[i].name, rule->name) == 0)
            return rc_err_set(err, -EINVAL, "a second rule '%s'", rule->name);
    s->rule_count++;
    return 0;
}

static int read_word(struct site_rules *s, struct site_rule *rule, struct text key,
                     struct text rest, unsigned line, struct rc_err *err)
{
    struct text trimmed = text_trim(rest);
    if (text_equals(key, "line"))
        return add_shapes(s, rule, ROLE_LINE, trimmed, err);
    if (text_equals(key, "also"))
        return add_also(s, rule, trimmed, err);
    if (text_equals(key, "or") && rule->groups > 0)
        return add_shapes(s, rule, ROLE_ALSO, trimmed, err);
    if (text_equals(key, "unless"))
        return add_shapes(s, rule, ROLE_UNLESS, trimmed, err);
    if (text_equals(key, "take"))
        return add_shapes(s, rule, ROLE_TAKE, trimmed, err);
    if (text_equals(key, "set"))
        return add_set(s, rule, trimmed, err);
    if (text_equals(key, "match") || text_equals(key, "never"))
        return add_example(s, rule, rest, text_equals(key, "match"), line, err);
    if (!text_equals(key, "count"))
        return rc_err_set(err, -EINVAL, "a site's rules have no word '%.*s'",
                          (int)(key.len < 40 ? key.len : 40), key.at);
    rule->counts = shape_store_fact(&s->store, trimmed, err);
    return rule->counts < 0 ? rule->counts : 0;
}

static int read_line(struct site_rules *s, struct text line, unsigned number, struct rc_err *err)
{
    struct text key;
    struct text rest = line;
    if (!text_next_word(&rest, &key) || key.at[0] == '#')
        return 0;
    rest = rest.len > 0 ? text_skip(rest, 1) : rest; /* an example may begin with blanks */
    if (text_equals(key, "rule"))
        return new_rule(s, text_trim(rest), number, err);
    if (s->rule_count == 0)
        return rc_err_set(err, -EINVAL, "no rule yet");
    return read_word(s, &s->rules[s->rule_count - 1], key, rest, number, err);
}

/* --- trying a line --- */

static bool match_shape(const struct site_rules *s, struct text line, const struct site_shape *shape,
                        struct rule_takes *takes)
{
    return shape_match_parts(line, &shape->shape, s->store.parts, s->store.words, takes);
}

static bool rule_matches(const struct site_rules *s, const struct site_rule *rule, struct text line,
                         struct rule_takes *takes)
{
    unsigned groups = 0;
    bool on = false;
    struct rule_takes ignored = {.count = 0};
    const struct site_shape *shape = s->shapes + rule->shapes.first;
    for (unsigned i = 0; i < rule->shapes.count; i++, shape++) {
        if (shape->role == ROLE_UNLESS && match_shape(s, line, shape, &ignored))
            return false;
        if (shape->role == ROLE_LINE && !on)
            on = match_shape(s, line, shape, takes);
        if (shape->role == ROLE_ALSO && (groups & (1u << shape->group)) == 0)
            groups |= (unsigned)match_shape(s, line, shape, takes) << shape->group;
    }
    if (!on || groups != (1u << rule->groups) - 1)
        return false;
    shape = s->shapes + rule->shapes.first;
    for (unsigned i = 0; i < rule->shapes.count; i++, shape++)
        if (shape->role == ROLE_TAKE)
            (void)match_shape(s, line, shape, takes);
    return true;
}

/* --- checks --- */

static int check_rule(const struct site_rule *rule, const struct site_rules *s, unsigned *ret_line,
                      struct rc_err *err)
{
    bool has_line = false;
    for (unsigned i = 0; i < rule->shapes.count; i++)
        has_line = has_line || s->shapes[rule->shapes.first + i].role == ROLE_LINE;
    *ret_line = rule->line;
    if (!has_line)
        return rc_err_set(err, -EINVAL, "rule '%s' has no 'line'", rule->name);
    for (unsigned i = 0; i < rule->examples.count; i++) {
        const struct site_example *example = &s->examples[rule->examples.first + i];
        struct rule_takes takes = {.count = 0};
        *ret_line = example->line;
        if (rule_matches(s, rule, example->text, &takes) != example->must_match)
            return rc_err_set(err, -EINVAL, "the rule '%s' %s this example", rule->name,
                              example->must_match ? "does not match" : "matches");
    }
    return 0;
}

static int read_all(struct site_rules *s, struct text rest, unsigned *ret_line, struct rc_err *err)
{
    struct text line;
    int r = 0;
    while (r == 0 && text_next_line(&rest, &line)) {
        ++*ret_line;
        r = read_line(s, line, *ret_line, err);
    }
    for (unsigned i = 0; r == 0 && i < s->rule_count; i++)
        r = check_rule(&s->rules[i], s, ret_line, err);
    return r;
}

struct site_rules *site_rules_parse(const char *text, size_t len, const char *name,
                                    struct rc_err *err)
{
    struct site_rules *s = calloc(1, sizeof *s);
    unsigned line = 0;
    struct rc_err why = {""};
    if (s == NULL || (s->text = strndup(text, len)) == NULL) {
        free(s);
        (void)rc_err_set(err, -ENOMEM, "no memory for '%s'", name);
        return NULL;
    }
    if (read_all(s, text_of(s->text), &line, &why) == 0)
        return s;
    (void)rc_err_set(err, -EINVAL, "%s:%u: %s", name, line, why.msg);
    site_rules_free(s);
    return NULL;
}

void site_rules_free(struct site_rules *s)
{
    if (s == NULL)
        return;
    free(s->text);
    free(s);
}

size_t site_rules_count(const struct site_rules *s)
{
    return s->rule_count;
}

/* --- running --- */

static void say_rule(const struct site_rules *s, const struct site_rule *rule,
                     const struct rule_takes *takes, const struct scan *at)
{
    for (unsigned i = 0; i < takes->count; i++)
        rule_say(at, at->line, s->store.facts[takes->list[i].fact], &takes->list[i].value);
    for (unsigned i = 0; i < rule->sets.count; i++) {
        const struct site_set *set = &s->sets[rule->sets.first + i];
        rule_say(at, at->line, s->store.facts[set->fact], &set->value);
    }
}

void site_rules_to_facts(const struct site_rules *s, struct facts *facts, const char *text,
                         size_t len, const char *source)
{
    struct scan at = {.facts = facts, .source = source};
    struct text line;
    struct text rest = text_tail(text, len, &at.line);
    unsigned counts[SHAPE_FACTS_MAX] = {0};
    unsigned first[SHAPE_FACTS_MAX] = {0};
    while (text_next_line(&rest, &line)) {
        at.line++;
        for (unsigned i = 0; i < s->rule_count; i++) {
            const struct site_rule *rule = &s->rules[i];
            struct rule_takes takes = {.count = 0};
            if (!rule_matches(s, rule, line, &takes))
                continue;
            say_rule(s, rule, &takes, &at);
            if (rule->counts >= 0 && counts[rule->counts]++ == 0)
                first[rule->counts] = at.line;
        }
    }
    for (unsigned i = 0; i < s->store.fact_count; i++)
        if (counts[i] > 0)
            scan_integer_at(&at, first[i], s->store.facts[i], counts[i]);
}
