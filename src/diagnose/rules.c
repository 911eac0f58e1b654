/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the rules of templates/messages.rules over lines of text; see rules.h.
 */
#include "diagnose/rules.h"

#include <string.h>

unsigned rules_left_out = RULES_COUNT;

static bool one_of(struct rule_list list, struct text line, struct rule_takes *takes)
{
    for (unsigned i = 0; i < list.count; i++)
        if (shape_match(line, &rule_shapes[list.first + i], takes))
            return true;
    return false;
}

void rule_take(unsigned rule, struct text text, struct rule_takes *takes)
{
    struct rule_list list = rules[rule].takes;
    for (unsigned i = 0; i < list.count; i++)
        (void)shape_match(text, &rule_shapes[list.first + i], takes);
}

const struct rule_value *rule_taken(const struct rule_takes *takes, const char *fact)
{
    for (unsigned i = 0; i < takes->count; i++)
        if (strcmp(rule_fact_names[takes->list[i].fact], fact) == 0)
            return &takes->list[i].value;
    return NULL;
}

int64_t rule_taken_integer(const struct rule_takes *takes, const char *fact, int64_t otherwise)
{
    const struct rule_value *v = rule_taken(takes, fact);
    return v != NULL ? v->integer : otherwise;
}

struct text rule_taken_text(const struct rule_takes *takes, const char *fact)
{
    const struct rule_value *v = rule_taken(takes, fact);
    return v != NULL ? v->text : (struct text){"", 0};
}

static bool is_in_block(const struct rules_run *run, const struct rule *rule)
{
    unsigned begun = run->block_line[rule->block];
    return rule->block == 0 ||
           (begun != 0 && (rule->within == 0 || run->s->line - begun <= rule->within));
}

/* Has the line what the rule asks of it, without its block and context? Only then `takes` counts. Its list is large
 * and most lines take nothing: no byte of it is cleared. */
static bool has_wording(const struct rule *rule, struct text line, struct rule_takes *takes)
{
    takes->count = 0;
    if (rule->line.count > 0 && !one_of(rule->line, line, takes))
        return false;
    for (unsigned i = 0; i < rule->also.count; i++)
        if (!one_of(rule_groups[rule->also.first + i], line, takes))
            return false;
    return !one_of(rule->unless, line, takes);
}

bool rule_is_on(unsigned rule, struct text line)
{
    struct rule_takes takes;
    return has_wording(&rules[rule], line, &takes);
}

bool line_is(const struct line_words *line, unsigned rule)
{
    return (line->asked >> (rules[rule].asked - 1u) & 1) != 0 && rule_is_on(rule, line->text);
}

static bool applies(const struct rules_run *run, const struct rule *rule, struct text line, struct rule_takes *takes)
{
    return (!run->context_only || rule->context) && is_in_block(run, rule) && has_wording(rule, line, takes);
}

void rule_say(const struct scan *s, unsigned line, const char *name, const struct rule_value *v)
{
    struct scan at = *s;
    at.line = line;
    switch (v->type) {
    case VALUE_INTEGER:
        scan_integer(&at, name, v->integer);
        break;
    case VALUE_REAL:
        scan_real(&at, name, v->real);
        break;
    case VALUE_TEXT: /* an empty one is no value */
        if (text_trim(v->text).len > 0)
            scan_text(&at, name, v->text);
        break;
    case VALUE_BOOLEAN:
        scan_boolean(&at, name, v->integer != 0);
        break;
    }
}

static void keep(struct rules_run *run, enum rule_keep how, uint16_t fact,
                 const struct rule_value *value)
{
    struct rule_slot *slot = &run->slots[fact];
    struct rule_value v = *value;
    if (how == KEEP_SUM && slot->line != 0) {
        if (v.integer > INT64_MAX - slot->value.integer)
            return;
        v.integer += slot->value.integer;
    }
    if (how == KEEP_MAX && slot->line != 0 && v.integer <= slot->value.integer)
        return;
    slot->value = v;
    slot->line = run->s->line;
}

/* "gpu.#.name" -> "gpu.3.name" */
static void say_of_gpu(const struct rules_run *run, const char *name, const struct rule_value *v)
{
    char own[SCAN_NAME_MAX];
    if (run->gpu < RULE_GPUS_MAX && (v->type == VALUE_TEXT || v->integer >= 0))
        rule_say(run->s, run->s->line, scan_gpu_name(own, run->gpu, name + strlen("gpu.#.")), v);
}

/* "_x" that is not kept is only for the reader; "oom." of a record belongs to the record. */
static void put(struct rules_run *run, const struct rule *rule, enum rule_keep how, uint16_t fact,
                const struct rule_value *value)
{
    const char *name = rule_fact_names[fact];
    if ((name[0] == '_' && how == KEEP_FIRST) || (rule->record != NULL && strncmp(name, "oom.", 4) == 0))
        return;
    if (strncmp(name, "gpu.#.", 6) == 0)
        say_of_gpu(run, name, value);
    else if (how == KEEP_FIRST)
        rule_say(run->s, run->s->line, name, value);
    else
        keep(run, how, fact, value);
}

static void count(struct rules_run *run, unsigned fact, struct text line)
{
    struct rule_slot *slot = &run->slots[fact];
    if (slot->counted == run->s->line)
        return;
    slot->counted = run->s->line;
    if (rule_fact_is_warned_of[fact] && scan_is_warning(line)) {
        if (slot->warned++ == 0)
            slot->warned_line = run->s->line;
    } else if (slot->count++ == 0) {
        slot->count_line = run->s->line;
    }
}

void rules_forget(struct rules_run *run, const char *prefix)
{
    for (unsigned i = 0; i < RULE_FACTS; i++)
        if (strncmp(rule_fact_names[i], prefix, strlen(prefix)) == 0)
            run->slots[i].line = 0;
}

static void put_all(struct rules_run *run, const struct rule *rule, const struct rule_takes *takes)
{
    for (unsigned i = 0; i < takes->count; i++)
        put(run, rule, takes->list[i].keep, takes->list[i].fact, &takes->list[i].value);
    for (unsigned i = 0; i < rule->sets.count; i++) {
        const struct rule_set *set = &rule_sets[rule->sets.first + i];
        put(run, rule, rule->keep, set->fact, &set->value);
    }
}

static void try_rule(struct rules_run *run, const struct rule *rule, struct text line)
{
    struct rule_takes takes;
    if (!applies(run, rule, line, &takes) || rule == &rules[rules_left_out])
        return;
    run->any = true;
    if (rule->once && run->slots[rule->count[0] - 1].count > 0) {
        count(run, rule->count[0] - 1u, line);
        return;
    }
    rule_take((unsigned)(rule - rules), line, &takes);
    run->gpu = (unsigned)rule_taken_integer(&takes, "_gpu", run->block_gpu);
    if ((rule->reader != READ_NONE || rule->record != NULL || rule->bad != BAD_NONE) &&
        !run->act(run->arg, rule, line, &takes))
        return;
    if (rule->forget != NULL)
        rules_forget(run, rule->forget);
    put_all(run, rule, &takes);
    for (unsigned i = 0; i < 2 && rule->count[i] != 0; i++)
        count(run, rule->count[i] - 1u, line);
    for (unsigned i = 0; i < 2; i++)
        run->block_line[rule->end[i]] = 0; /* block 0 does not exist */
    if (rule->begin != 0) {
        run->block_line[rule->begin] = run->s->line;
        run->block_gpu = run->gpu;
    }
}

/* A rule is selected by a word of each of its groups: one of "line", one of each "also". */
static void select_rules(const struct rule_index *index, unsigned width, struct text line, uint64_t selected[RULES_WORDS])
{
    struct words_search s = words_search_of(index->words, line.at, line.len);
    memcpy(selected, index->always, (size_t)width * index->groups * sizeof *selected);
    for (const uint16_t *id; (id = words_next(&s)) != NULL;)
        for (; *id != WORDS_END; id++)
            selected[*id / 64] |= UINT64_C(1) << (*id % 64);
    for (const uint64_t *group = selected + width; group < selected + (size_t)width * index->groups; group += width)
        for (unsigned word = 0; word < width; word++)
            selected[word] &= group[word];
}

void rules_line(struct rules_run *run, struct text line)
{
    const struct rule_index *index = &rule_indexes[run->scope];
    const unsigned width = (index->count + 63) / 64;
    uint64_t selected[RULES_WORDS];
    select_rules(index, width, line, selected);
    for (unsigned word = 0; word < width; word++)
        for (uint64_t bits = selected[word]; bits != 0; bits &= bits - 1)
            try_rule(run, &rules[index->rules[word * 64 + (unsigned)__builtin_ctzll(bits)]], line);
}

const struct rule_slot *rules_kept(const struct rules_run *run, const char *fact)
{
    for (unsigned i = 0; i < RULE_FACTS; i++)
        if (run->slots[i].line != 0 && strcmp(rule_fact_names[i], fact) == 0)
            return &run->slots[i];
    return NULL;
}

void rules_keep_integer(struct rules_run *run, const char *fact, int64_t value)
{
    const struct rule_value v = {.type = VALUE_INTEGER, .integer = value};
    for (unsigned i = 0; i < RULE_FACTS; i++)
        if (strcmp(rule_fact_names[i], fact) == 0)
            keep(run, KEEP_LAST, (uint16_t)i, &v);
}

void rules_emit(const struct rules_run *run)
{
    for (unsigned i = 0; i < RULE_FACTS; i++) {
        const struct rule_slot *slot = &run->slots[i];
        if (slot->count > 0)
            scan_integer_at(run->s, slot->count_line, rule_fact_names[i], slot->count);
        if (slot->line != 0 && rule_fact_names[i][0] != '_')
            rule_say(run->s, slot->line, rule_fact_names[i], &slot->value);
    }
}
