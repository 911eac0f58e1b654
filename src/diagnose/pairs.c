/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/pairs.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "diagnose/log_words.h"
#include "diagnose/quantity.h"
#include "diagnose/text_facts.h"

#define COMMANDS_MAX 32
#define LINE_MAX_BYTES 1024
#define PROMPT_MAX 48
#define SETTING_MAX 80
#define TABLE_LINE_MAX 200

struct command {
    struct text variables, words;
    unsigned line;
    bool failed, worked, of_table;
};

/* The header of a table of trials, with a variable as the name of a column. */
struct table {
    struct text variable;
    size_t columns, column;
    char separator;
};

struct session {
    struct command command[COMMANDS_MAX];
    char setting[COMMANDS_MAX][SETTING_MAX]; /* of a row of a table */
    size_t count;
    struct table table;
};

/* "$ ls", "user@host:~$ ls": the text after the prompt. */
static bool take_prompt(struct text *line)
{
    ptrdiff_t at = text_find(*line, "$ ");
    if (at < 0 || at > PROMPT_MAX || memchr(line->at, ' ', (size_t)at) != NULL)
        return false;
    *line = text_trim(text_skip(*line, (size_t)at + 2));
    return line->len > 0;
}

/* "NAME=value", as a shell takes it in front of a command. */
static bool is_assignment(struct text word)
{
    size_t i = 0;
    while (i < word.len && (isupper((unsigned char)word.at[i]) || isdigit((unsigned char)word.at[i]) || word.at[i] == '_'))
        i++;
    return i > 1 && i < word.len && word.at[i] == '=';
}

static struct text take_variables(struct text *words)
{
    struct text rest = *words, word, all = {words->at, 0};
    while (text_next_word(&rest, &word) && is_assignment(word)) {
        all.len = (size_t)(word.at + word.len - all.at);
        *words = text_trim(text_skip(*words, (size_t)(rest.at - words->at)));
    }
    return all;
}

/* "mismatched 57344 / 12582912", "0 errors": the first number of a line that counts what is wrong. */
static bool counts_wrong(struct text line, uint64_t *ret)
{
    while (line.len > 0 && !isdigit((unsigned char)line.at[0]))
        line = text_skip(line, 1);
    return text_take_u64(&line, ret);
}

/* The output tells how the command ended; a failure counts more than figures before it. */
static void take_outcome(struct command *c, struct text line)
{
    struct text head = text_first(line, LINE_MAX_BYTES);
    uint64_t words = log_words_in(head.at, head.len, 0), wrong = 0;
    ptrdiff_t rc = text_ifind(head, "rc=");
    bool nonzero = rc >= 0 && (size_t)rc + 3 < head.len && head.at[rc + 3] >= '1' && head.at[rc + 3] <= '9';
    bool none = (words & LOG_WORDS_NONE_WRONG) != 0;
    bool counted = !none && (words & LOG_WORDS_COUNTS_WRONG) != 0 && counts_wrong(head, &wrong);
    bool denied = none || (words & LOG_WORDS_FAILURE_DENIED) != 0 || (counted && wrong == 0);
    c->failed |= nonzero || (counted && wrong > 0) || (!denied && (words & LOG_WORDS_COMMAND_FAILED) != 0);
    c->worked |= denied || (words & LOG_WORDS_COMMAND_WORKED) != 0;
}

/* "- HSA_ENABLE_SDMA=0: works", "with NCCL_P2P_DISABLE=1 ok", "without: hangs": a trial in a list. */
static bool take_listed(struct text *line, struct text *variables)
{
    static const char *const heads[] = {"- ", "* ", "with ", "With "}, *const none[] = {"without", "default", "unset", "baseline"};
    struct text t = text_trim(*line);
    if (t.len == 0 || (strchr("-*wWdDuUbB", t.at[0]) == NULL && memchr(t.at, '=', t.len) == NULL))
        return false;
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++)
        if (text_starts(t, heads[i]))
            t = text_trim(text_skip(t, strlen(heads[i])));
    if (t.len > 0 && t.at[0] == '`')
        t = text_skip(t, 1);
    *variables = take_variables(&t);
    while (variables->len > 0 && strchr("`:,", variables->at[variables->len - 1]) != NULL)
        variables->len--;
    bool listed = variables->len > 0;
    for (size_t i = 0; i < sizeof none / sizeof none[0] && !listed; i++)
        listed = t.len > strlen(none[i]) && strncasecmp(t.at, none[i], strlen(none[i])) == 0;
    *line = t;
    return listed && t.len > 0;
}

static struct command *add_command(struct session *s, unsigned number)
{
    if (s->count == COMMANDS_MAX)
        return NULL;
    struct command *c = &s->command[s->count++];
    *c = (struct command){.line = number};
    return c;
}

static void read_listed(struct session *s, struct text line, struct text variables, unsigned number)
{
    struct command *c = add_command(s, number);
    if (c == NULL)
        return;
    c->variables = variables;
    take_outcome(c, line);
}

/* "run   NCCL_P2P_DISABLE   result" */
static bool is_name_of_variable(struct text word)
{
    size_t i = 0;
    while (i < word.len && (isupper((unsigned char)word.at[i]) || isdigit((unsigned char)word.at[i]) || word.at[i] == '_'))
        i++;
    return i == word.len && i >= 6 && i < SETTING_MAX / 2 && memchr(word.at, '_', i) != NULL;
}

static bool read_table_header(struct text line, struct table *ret)
{
    struct text rest = text_trim(line), cell;
    *ret = (struct table){.separator = memchr(line.at, '|', line.len) != NULL ? '|' : QUANTITY_WIDE};
    for (; quantity_next_cell(&rest, ret->separator, &cell); ret->columns++)
        if (is_name_of_variable(cell) && ret->variable.len == 0) {
            ret->variable = cell;
            ret->column = ret->columns;
        }
    return ret->variable.len > 0 && ret->columns > 1;
}

/* A row of the table: the setting, and how it ended. */
static bool read_table_row(struct session *s, struct text line, unsigned number)
{
    struct text rest = text_trim(line), cell, value = {"", 0};
    size_t columns = 0;
    for (; s->table.columns > 0 && quantity_next_cell(&rest, s->table.separator, &cell); columns++)
        value = columns == s->table.column ? cell : value;
    if (columns == 0 || columns != s->table.columns || value.len == 0 || value.len >= SETTING_MAX / 2)
        return false;
    struct command *c = add_command(s, number);
    if (c == NULL)
        return true;
    char *setting = s->setting[s->count - 1];
    int n = snprintf(setting, SETTING_MAX, "%.*s=%.*s", (int)s->table.variable.len, s->table.variable.at, (int)value.len, value.at);
    c->variables = (struct text){setting, (size_t)n};
    c->of_table = true; /* it speaks by a row that failed only */
    take_outcome(c, line);
    return true;
}

static void read_line(struct session *s, struct text line, unsigned number)
{
    struct text words = line, result, variables;
    struct table table;
    if (line.len < TABLE_LINE_MAX && memchr(line.at, '_', line.len) != NULL &&
        (quantity_has_wide_gaps(line) || memchr(line.at, '|', line.len) != NULL) && read_table_header(line, &table)) {
        s->table = table;
        return;
    }
    if (read_table_row(s, line, number))
        return;
    if (!take_prompt(&words)) {
        if (take_listed(&words, &variables))
            read_listed(s, words, variables, number);
        else if (s->count > 0)
            take_outcome(&s->command[s->count - 1], line);
        return;
    }
    struct command *c = add_command(s, number);
    if (c == NULL)
        return;
    if (text_after(words, "->", &result)) { /* the outcome beside the command */
        take_outcome(c, result);
        (void)text_before(words, "->", &words);
    }
    c->words = text_trim(words);
    c->variables = take_variables(&c->words);
}

static bool is_same(struct text a, struct text b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

/* "NAME=1" and "NAME=0": one variable with two values. */
static bool is_other_value(struct text a, struct text b)
{
    struct text name = text_until(a, "="), other = text_until(b, "=");
    return name.len > 0 && is_same(name, other) && !is_same(a, b) && memchr(a.at, ' ', a.len) == NULL &&
           memchr(b.at, ' ', b.len) == NULL;
}

static bool has_worked(const struct command *c)
{
    return c->worked && !c->failed;
}

/* The command with the variable worked; without it, or with another value of it, it failed. */
static bool is_pair(const struct command *with, const struct command *without)
{
    return with->variables.len > 0 && is_same(with->words, without->words) && has_worked(with) && without->failed &&
           (without->variables.len == 0 || is_other_value(with->variables, without->variables));
}

/* Each value has one outcome: what failed with the same setting elsewhere proves nothing. */
static bool is_contradicted(const struct session *s, const struct command *with)
{
    for (size_t i = 0; i < s->count; i++)
        if (is_same(s->command[i].variables, with->variables) && s->command[i].failed)
            return true;
    return false;
}

static const struct command *find_pair(const struct session *s)
{
    for (size_t i = 0; i < s->count; i++)
        for (size_t k = 0; k < s->count; k++)
            if (is_pair(&s->command[i], &s->command[k]) && !is_contradicted(s, &s->command[i]))
                return &s->command[i];
    return NULL;
}

/* A trial with a setting that worked, where none without it did. */
static const struct command *find_setting(const struct session *s)
{
    const struct command *found = NULL;
    for (size_t i = 0; i < s->count; i++) {
        const struct command *c = &s->command[i];
        if (has_worked(c) && c->variables.len == 0)
            return NULL;
        if (found == NULL && has_worked(c) && !c->of_table && !is_contradicted(s, c))
            found = c;
    }
    return found;
}

void pairs_to_facts(struct facts *facts, const char *data, size_t len, const char *source)
{
    struct text rest = {data, len}, line;
    struct session s = {.count = 0};
    struct scan at = {.facts = facts, .source = source != NULL ? source : "text"};
    for (unsigned number = 1; text_next_line(&rest, &line); number++)
        read_line(&s, line, number);
    const struct command *pair = find_pair(&s), *setting = find_setting(&s);
    if (pair != NULL) {
        at.line = pair->line;
        scan_text(&at, "report.pair_variable", pair->variables);
    } else if (setting != NULL) {
        at.line = setting->line;
        scan_text(&at, "report.setting_works", setting->variables);
    }
}
