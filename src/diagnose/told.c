/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/told.h"

#include <ctype.h>
#include <string.h>

#include "diagnose/log_words.h"
#include "diagnose/messages.h"
#include "diagnose/program_time.h"

/* "(that was yesterday)" speaks of so many lines before it. */
#define LINES_BEFORE 3
#define NO_TEST SIZE_MAX
/* A program's failure so long before another one is an earlier failure. */
#define DAY_S 86400.0

/* The lines belong to it, by a line before them. */
enum block {
    BLOCK_NO,
    BLOCK_PARAGRAPH, /* after "the other machine prints:" */
    BLOCK_COMMIT,    /* of git log: its lines are indented */
    BLOCK_PATCH,
    BLOCK_ANSWER, /* of a model, up to the next prompt */
    BLOCK_PASSED  /* the output of a passed test */
};

struct telling {
    char *copy;
    struct text all;
    enum block block;
    bool begun, indented; /* the paragraph */
    bool passed;          /* the last result of a test */
    size_t test;          /* where a test began whose result has not come yet */
    double last;          /* date of the program's last failure; -1 = none has one */
    bool any;
};

bool told_failure(struct text line)
{
    const uint64_t failure = LOG_WORDS_FAILURE_RARE | LOG_WORDS_FAILURE_COMMON;
    return (log_words_in(line.at, line.len, failure) & failure) != 0 || rule_is_on(RULE_TOLD_FAILURE, line);
}

static void blank(struct telling *t, struct text line)
{
    memset(t->copy + (line.at - t->all.at), ' ', line.len);
    t->any = true;
}

static bool is_indented(struct text line)
{
    return line.len > 0 && (line.at[0] == ' ' || line.at[0] == '\t');
}

static bool in_paragraph(struct telling *t, struct text line)
{
    bool empty = text_trim(line).len == 0;
    if (!t->begun && !empty) {
        t->begun = true;
        t->indented = is_indented(line);
    }
    return !t->begun || (!empty && is_indented(line) >= t->indented);
}

static bool in_block(struct telling *t, struct text line)
{
    switch (t->block) {
    case BLOCK_PARAGRAPH:
        return in_paragraph(t, line);
    case BLOCK_COMMIT:
        return line.len == 0 || is_indented(line) || text_starts(line, "Author: ") || text_starts(line, "Date: ");
    case BLOCK_PATCH:
        return line.len > 0 && strchr("+- @", line.at[0]) != NULL;
    case BLOCK_ANSWER:
        return !text_starts(line, ">>> ");
    case BLOCK_PASSED:
        return !rule_is_on(RULE_TEST_RESULT, line);
    default:
        return false;
    }
}

/* "It worked on the other node. Now I get:" */
static struct text last_sentence(struct text line)
{
    for (size_t at = line.len; at > 2; at--)
        if (line.at[at - 2] == '.' && line.at[at - 1] == ' ' && at < line.len)
            return text_skip(line, at);
    return line;
}

static enum block begins(const struct telling *t, struct text line)
{
    if (line.len == 0)
        return BLOCK_NO;
    char end = line.at[line.len - 1];
    if ((end == ':' || isalpha((unsigned char)end)) && rule_is_on(RULE_TOLD_NEXT, last_sentence(line)))
        return BLOCK_PARAGRAPH;
    if (text_starts(line, "commit ") && text_has_digit(line))
        return BLOCK_COMMIT;
    if (text_starts(line, "diff --git ") || text_starts(line, "@@ "))
        return BLOCK_PATCH;
    if (text_starts(line, ">>> ") && line.at[line.len - 1] == '?')
        return BLOCK_ANSWER;
    if (t->passed && rule_is_on(RULE_TEST_OUTPUT, line))
        return BLOCK_PASSED;
    return BLOCK_NO;
}

/* A line tells of the lines just before it. */
static void blank_before(struct telling *t, struct text line)
{
    struct text before = {t->all.at, (size_t)(line.at - t->all.at)};
    for (unsigned i = 0; i < LINES_BEFORE && before.len > 0; i++) {
        before.len--; /* the end of its last line */
        const char *end = memrchr(before.at, '\n', before.len);
        size_t from = end != NULL ? (size_t)(end - before.at) + 1 : 0;
        struct text last = text_skip(before, from);
        if (text_trim(last).len == 0)
            return;
        if (told_failure(last))
            blank(t, last);
        before.len = from;
    }
}

static void blank_from(struct telling *t, size_t from, struct text end)
{
    struct text rest = {t->all.at + from, (size_t)(end.at - t->all.at) - from}, line;
    while (text_next_line(&rest, &line))
        if (told_failure(line))
            blank(t, line);
}

/* The output of a test stands before its result (GoogleTest) or after it (pytest). */
static void note_test(struct telling *t, struct text line)
{
    if (text_starts(line, "[ RUN  "))
        t->test = (size_t)(line.at - t->all.at);
    if (text_starts(line, "[       OK ]") && t->test != NO_TEST)
        blank_from(t, t->test, line);
    if (text_starts(line, "[       OK ]") || text_starts(line, "[  FAILED  ]"))
        t->test = NO_TEST;
    if (rule_is_on(RULE_TEST_RESULT, line))
        t->passed = text_has(line, "PASS");
}

static bool is_long_before(const struct telling *t, struct text line)
{
    double at = t->last < 0 ? -1 : program_date(line);
    return at >= 0 && t->last - at >= DAY_S;
}

static void look_at(struct telling *t, struct text line)
{
    bool inside = in_block(t, line), failure = told_failure(line);
    note_test(t, line);
    if (failure && (inside || rule_is_on(RULE_TOLD, line) || is_long_before(t, line)))
        blank(t, line);
    bool opens = memchr(line.at, '(', line.len) != NULL || memchr(line.at, '^', line.len) != NULL;
    if (opens && rule_is_on(RULE_TOLD_BEFORE, line))
        blank_before(t, line);
    if (inside)
        return;
    t->block = begins(t, line);
    t->begun = false;
    if (failure && t->block == BLOCK_ANSWER)
        blank(t, line); /* the question */
}

static double last_failure(struct text rest)
{
    struct text line;
    double last = -1;
    while (text_next_line(&rest, &line)) {
        double at = program_date(line);
        if (at > last && told_failure(line))
            last = at;
    }
    return last;
}

bool told_blank(char *copy, struct text all)
{
    struct telling t = {.copy = copy, .all = all, .test = NO_TEST, .last = last_failure(all)};
    struct text rest = all, line;
    while (text_next_line(&rest, &line))
        look_at(&t, line);
    return t.any;
}
