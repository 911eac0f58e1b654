/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/pairs.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "diagnose/log_words.h"
#include "diagnose/text_facts.h"

#define COMMANDS_MAX 32
#define LINE_MAX_BYTES 1024
#define PROMPT_MAX 48

struct command {
    struct text variables, words;
    unsigned line;
    bool failed, worked;
};

struct session {
    struct command command[COMMANDS_MAX];
    size_t count;
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

/* The output tells how the command ended; a failure counts more than figures before it. */
static void take_outcome(struct command *c, struct text line)
{
    struct text head = text_first(line, LINE_MAX_BYTES);
    uint64_t words = log_words_in(head.at, head.len, 0);
    ptrdiff_t rc = text_ifind(head, "rc=");
    bool nonzero = rc >= 0 && (size_t)rc + 3 < head.len && head.at[rc + 3] >= '1' && head.at[rc + 3] <= '9';
    c->failed |= nonzero || (words & LOG_WORDS_COMMAND_FAILED) != 0;
    c->worked |= (words & LOG_WORDS_COMMAND_WORKED) != 0;
}

static void read_line(struct session *s, struct text line, unsigned number)
{
    struct text words = line, result;
    if (!take_prompt(&words)) {
        if (s->count > 0)
            take_outcome(&s->command[s->count - 1], line);
        return;
    }
    if (s->count == COMMANDS_MAX)
        return;
    struct command *c = &s->command[s->count++];
    *c = (struct command){.line = number};
    if (text_after(words, "->", &result)) { /* the outcome beside the command */
        take_outcome(c, result);
        (void)text_before(words, "->", &words);
    }
    c->words = text_trim(words);
    c->variables = take_variables(&c->words);
}

static bool is_same(struct text a, struct text b)
{
    return a.len == b.len && memcmp(a.at, b.at, a.len) == 0;
}

/* The command with the variable worked; without it, it failed. */
static bool is_pair(const struct command *with, const struct command *without)
{
    return with->variables.len > 0 && without->variables.len == 0 && with->words.len > 0 &&
           is_same(with->words, without->words) && with->worked && !with->failed && without->failed;
}

void pairs_to_facts(struct facts *facts, const char *data, size_t len, const char *source)
{
    struct text rest = {data, len}, line;
    struct session s = {.count = 0};
    struct scan at = {.facts = facts, .source = source != NULL ? source : "text"};
    for (unsigned number = 1; text_next_line(&rest, &line); number++)
        read_line(&s, line, number);
    for (size_t i = 0; i < s.count; i++)
        for (size_t k = 0; k < s.count; k++)
            if (is_pair(&s.command[i], &s.command[k])) {
                at.line = s.command[i].line;
                scan_text(&at, "report.pair_variable", s.command[i].variables);
                return;
            }
}
