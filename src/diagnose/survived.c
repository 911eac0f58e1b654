/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/survived.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "diagnose/log_words.h"
#include "diagnose/messages.h"

/* One line may be a setting; two steps, requests or epochs show that the program continued. */
#define WENT_ON_LINES 2
/* Longest quotation. */
#define QUOTED_MAX 400

struct ending {
    unsigned line;     /* of the error that ended the program; 0 = not known */
    unsigned survived; /* failures up to this line are survived */
    struct text says;  /* "KeyError: 'loss'" */
    bool is_own;       /* it names no GPU */
};

struct search {
    struct runtime_state runtime;
    unsigned line, last, before_last; /* lines that show progress */
    unsigned after;                   /* such lines after the ending */
    bool aside;                       /* what follows is raised in a destructor */
    struct ending found;
};

static bool tells_failure(struct text line)
{
    const uint64_t failure = LOG_WORDS_FAILURE_RARE | LOG_WORDS_FAILURE_COMMON;
    return (log_words_in(line.at, line.len, failure) & failure) != 0 || rule_is_on(RULE_TOLD_FAILURE, line);
}

/* An exception that is no consequence of another failure, or a message with which a program ends. */
static bool is_ending(struct search *s, const struct scan *scan, struct text line)
{
    unsigned before = s->runtime.exception_line;
    runtime_line(scan, &s->runtime, line);
    if (s->runtime.exception_line == before)
        return rule_is_on(RULE_ENDING, line);
    bool aside = s->aside;
    s->aside = false;
    return !aside && !rule_is_on(RULE_PASSED_ON, line) && !rule_is_on(RULE_TELLS_OF_ANOTHER, line) &&
           !rule_is_on(RULE_WARNING, line);
}

static void look_at(struct search *s, const struct scan *scan, struct text line)
{
    bool inside = line.at[0] == ' ' || line.at[0] == '\t';
    if (text_has(line, "Exception ignored in"))
        s->aside = true;
    if (is_ending(s, scan, line)) {
        unsigned known = s->before_last;
        s->found = (struct ending){scan->line, known > 0 ? known - 1 : 0, text_trim(line), !rule_is_on(RULE_NAMES_GPU, line)};
        s->after = 0;
    } else if (!inside && rule_is_on(RULE_GOING_ON, line)) {
        s->before_last = s->last;
        s->last = scan->line + 1; /* a failure that this line itself tells is before it */
    } else if (!inside && text_has_digit(line) && !tells_failure(line) &&
               (log_words_in(line.at, line.len, LOG_WORDS_PROGRESS) & LOG_WORDS_PROGRESS) != 0) {
        s->before_last = s->last;
        s->last = scan->line;
        s->after++;
    }
}

static struct ending find_ending(struct text all, unsigned before)
{
    struct search s = {.line = 0};
    struct scan scan = {.line = before};
    struct text line;
    while (text_next_line(&all, &line)) {
        scan.line++;
        if (line.len > 3)
            look_at(&s, &scan, line);
    }
    if (s.after >= WENT_ON_LINES)
        s.found.line = 0; /* it went on after this, too */
    return s.found;
}

static bool is_in_word(const char *at, const char *begin, const char *end)
{
    return at >= begin && at < end && (isalnum((unsigned char)*at) || *at == '_');
}

/* Blanks the messages that stand in quotation marks after a blank. The value of a field (error="...") and an
 * exception's own text (ImportError('...')) are no quotations, nor is a single word. */
static bool blank_quotes(char *at, size_t len)
{
    char *end = at + len;
    bool any = false;
    for (char *open = at; open < end; open++) {
        bool opens = *open == '"' || *open == '\'' || *open == '`';
        if (!opens || (open > at && open[-1] != ' '))
            continue;
        char *close = open + 1, *last = end - open > QUOTED_MAX ? open + QUOTED_MAX : end;
        while (close < last && (*close != *open || is_in_word(close + 1, at, end)))
            close++;
        size_t quoted = (size_t)(close - open) - 1;
        if (close == last)
            continue;
        if (memchr(open + 1, ' ', quoted) != NULL) {
            memset(open + 1, ' ', quoted);
            any = true;
        }
        open = close;
    }
    return any;
}

/* A comment in a script that was printed; a line that begins so after an empty one may be a heading. */
static bool is_comment(struct text previous, struct text line)
{
    struct text t = text_trim(line);
    return text_trim(previous).len > 0 && (text_starts(t, "# ") || text_starts(t, "// "));
}

/* The text without the failures that are survived or quoted; all lines keep their places. NULL: there are none. */
static char *without_survived(struct text all, unsigned before, const struct ending *ending)
{
    char *copy = malloc(all.len + 1);
    bool any = false;
    struct text rest = all, line, previous = {"", 0};
    if (copy == NULL)
        return NULL;
    memcpy(copy, all.at, all.len);
    copy[all.len] = '\0';
    for (unsigned n = before + 1; n < ending->line && text_next_line(&rest, &line); n++, previous = line) {
        char *at = copy + (line.at - all.at);
        if (!tells_failure(line))
            continue;
        if (n <= ending->survived || (ending->is_own && is_comment(previous, line))) {
            memset(at, ' ', line.len);
            any = true;
        } else if (ending->is_own && !text_starts(line, "{")) { /* all texts of JSON are quoted */
            any |= blank_quotes(at, line.len);
        }
    }
    if (!any) {
        free(copy);
        return NULL;
    }
    return copy;
}

/* A mended line has another doubt already. Whose GPU it is does not depend on what failed. A reporter's own words
 * (report.*) may well speak of a GPU error that ended the program. */
static bool may_mark(const struct fact *f, const struct ending *ending)
{
    unsigned line = fact_source_line(f);
    return f->when == FACT_LOG && line > 0 && line < ending->line && strncmp(f->name, "vendor.", 7) != 0 &&
           (ending->is_own || strncmp(f->name, "report.", 7) != 0) && !fact_is_repaired(f) && !fact_has_mark(f, FACT_MARK_TRANSLATED);
}

/* Marks what only the whole text says. */
static bool mark(struct facts *facts, size_t from, const struct facts *again, const struct ending *ending)
{
    bool any = false;
    for (size_t i = from; again != NULL && i < facts_count(facts); i++) {
        const struct fact *f = facts_at(facts, i);
        if (!may_mark(f, ending) || facts_find(again, f->name, FACT_LOG) != NULL)
            continue;
        facts_mark(facts, i, FACT_MARK_SURVIVED);
        any = true;
    }
    return any;
}

char *survived_doubt(struct facts *facts, size_t from, const char *data, size_t len, const char *source,
                     const text_reader readers[], size_t *ret_len)
{
    unsigned before;
    struct text all = text_tail(data, len, &before);
    struct ending ending = find_ending(all, before);
    char *rest = ending.line > 0 ? without_survived(all, before, &ending) : NULL;
    struct facts *again = rest != NULL ? facts_new() : NULL;
    for (size_t i = 0; again != NULL && readers[i] != NULL; i++)
        readers[i](again, rest, all.len, source);
    bool any = mark(facts, from, again, &ending);
    facts_free(again);
    if (!any) {
        free(rest);
        return NULL;
    }
    struct scan at = {.facts = facts, .source = source != NULL ? source : "text", .line = ending.line};
    if (ending.is_own)
        scan_text(&at, "log.ended_by", ending.says);
    *ret_len = all.len;
    return rest;
}
