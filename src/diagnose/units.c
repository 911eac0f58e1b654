/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/units.h"

#include <stdlib.h>
#include <string.h>

#include "diagnose/fact.h"
#include "diagnose/log_words.h"
#include "diagnose/rules.h"
#include "diagnose/text.h"

#define NONE SIZE_MAX
/* A test prints no more than this around tests inside it. */
#define OUTER_MAX ((size_t)256 << 10)
/* So many bytes are searched for the beginnings of tests. */
#define SEARCH_MAX ((size_t)64 << 20)

/* Offsets of lines; NONE = there is no such line. */
struct units {
    struct text all;
    char *copy;      /* NULL: no line was left out so far */
    size_t after;    /* the byte after the last line in which a test ended; NONE = no test was seen */
    size_t bad;      /* the last test that failed */
    bool badly;      /* it is the last one that ended */
    size_t begun;    /* the last test that began */
    size_t all_begun; /* the last line after which the first of several tests begins */
    size_t together; /* the last line that says that tests run at the same time */
    size_t failure;  /* the last line that tells a failure */
    size_t searched; /* bytes */
    int64_t count;
};

static bool is_failure(const struct line_words *line)
{
    return line_says(line, LOG_WORDS_FAILURE_RARE | LOG_WORDS_FAILURE_COMMON) || line_is(line, RULE_OTHER_FAILURE);
}

static struct text line_at(const struct units *u, size_t at)
{
    struct text rest = text_skip(u->all, at), line = {"", 0};
    (void)text_next_line(&rest, &line);
    return line;
}

/* The first line from `from` to `to` that has the name. */
static size_t first_named(struct units *u, size_t from, size_t to, struct text name)
{
    u->searched += to - from;
    struct text rest = text_first(text_skip(u->all, from), to - from), line;
    while (text_next_line(&rest, &line))
        if (text_has_word(line, name))
            return (size_t)(line.at - u->all.at);
    return NONE;
}

/* The last line before `to` that has the name. */
static size_t last_named(struct units *u, size_t to, struct text name)
{
    size_t least = to > OUTER_MAX ? to - OUTER_MAX : 0;
    while (to > least && u->searched < SEARCH_MAX) {
        const char *before = memrchr(u->all.at, '\n', to - 1);
        size_t at = before != NULL ? (size_t)(before - u->all.at) + 1 : 0;
        u->searched += to - at;
        if (text_has_word(text_trim((struct text){u->all.at + at, to - at}), name))
            return at;
        to = at;
    }
    return NONE;
}

/* The line in which the test began that ends in the line `at`. After a test that failed its output may follow: only a line that
 * names the next test ends it. */
static size_t begin_of(struct units *u, struct text name, size_t at, bool sure)
{
    size_t after = u->after == NONE ? 0 : u->after;
    if (name.len == 0)
        return u->begun != NONE && u->begun >= after ? u->begun : NONE;
    size_t found = first_named(u, after, at, name);
    if (found == NONE && after > 0)
        found = last_named(u, after, name);
    if (found == NONE && sure && u->after != NONE && !u->badly)
        found = after;
    else if (found != NONE && !sure) {
        const struct line_words line = line_words_of(line_at(u, found));
        found = line_is(&line, RULE_UNIT_BEGINS) ? found : NONE;
    }
    return found != NONE && u->bad != NONE && found <= u->bad ? NONE : found;
}

static bool copy_all(struct units *u)
{
    if (u->copy == NULL && (u->copy = malloc(u->all.len + 1)) != NULL) {
        memcpy(u->copy, u->all.at, u->all.len);
        u->copy[u->all.len] = '\0';
    }
    return u->copy != NULL;
}

static void leave_out(struct units *u, size_t from, size_t to)
{
    u->searched += to - from;
    struct text rest = text_first(text_skip(u->all, from), to - from), line;
    while (copy_all(u) && text_next_line(&rest, &line)) {
        const struct line_words words = line_words_of(line);
        u->count += is_failure(&words);
        memset(u->copy + (line.at - u->all.at), ' ', line.len);
    }
    u->failure = NONE;
}

/* The test that ends in the line passed. Another one that began in it and has not ended may have failed in the rest. */
static void passed(struct units *u, const struct line_words *line, size_t at, bool sure)
{
    struct rule_takes takes = {.count = 0};
    rule_take(sure ? RULE_UNIT_PASSED : RULE_UNIT_PERHAPS_PASSED, line->text, &takes);
    struct text name = text_trim(rule_taken_text(&takes, "_unit"));
    bool itself = is_failure(line);
    if (u->searched > SEARCH_MAX)
        return;
    if (!itself && (u->failure == NONE || (u->bad != NONE && u->failure < u->bad)))
        return;
    size_t from = begin_of(u, name, at, sure), to = itself ? at + line->text.len : at;
    bool mixed = u->together != NONE && from <= u->together; /* another one may have written what stands there */
    if (from == NONE || mixed || (!itself && u->failure < from))
        return;
    bool other = name.len > 0 && u->begun != NONE && u->begun > from && u->begun >= u->after && !text_has_word(line_at(u, u->begun), name);
    leave_out(u, from, other ? u->begun : to);
}

/* All tests from that line on passed: what was printed around them is theirs, too. */
static void all_passed(struct units *u, size_t end)
{
    bool none_failed = u->bad == NONE || u->bad < u->all_begun;
    if (u->all_begun != NONE && none_failed && u->failure != NONE && u->failure >= u->all_begun)
        leave_out(u, u->all_begun, end);
    u->all_begun = NONE;
}

static void look_at(struct units *u, const struct line_words *line, size_t at, size_t end)
{
    bool sure = line_is(line, RULE_UNIT_PASSED), perhaps = !sure && line_is(line, RULE_UNIT_PERHAPS_PASSED);
    bool failed = line_is(line, RULE_UNIT_FAILED);
    if (failed)
        u->bad = at;
    else if (sure || perhaps)
        passed(u, line, at, sure);
    else if (line_is(line, RULE_UNIT_BEGINS))
        u->begun = at;
    if (line_is(line, RULE_UNITS_TOGETHER))
        u->together = at;
    bool all_begin = line_is(line, RULE_UNITS_FOLLOW);
    if (all_begin)
        u->all_begun = at;
    if (line_is(line, RULE_UNITS_ALL_PASSED))
        all_passed(u, end);
    if (failed || sure || all_begin) {
        u->after = end;
        u->badly = failed;
    }
    if (is_failure(line))
        u->failure = at;
}

char *units_without_passed(struct facts *facts, const char *text, size_t len, const char *source)
{
    struct units u = {.all = {text, len}, .after = NONE, .bad = NONE, .begun = NONE, .all_begun = NONE, .together = NONE, .failure = NONE};
    struct text rest = u.all, line;
    while (text_next_line(&rest, &line)) {
        const struct line_words words = line_words_of(line);
        look_at(&u, &words, (size_t)(line.at - text), (size_t)(rest.at - text));
    }
    if (u.count > 0)
        (void)facts_set_integer(facts, "log.passed_failures", FACT_LOG, u.count, source != NULL ? source : "text");
    return u.copy;
}
