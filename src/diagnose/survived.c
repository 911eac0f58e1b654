/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/survived.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "diagnose/bystander.h"
#include "diagnose/log_words.h"
#include "diagnose/messages.h"
#include "diagnose/streams.h"

/* One line may be a setting; two steps, requests or epochs show that the program continued. */
#define WENT_ON_LINES 2
/* Longest quotation. */
#define QUOTED_MAX 400
#define SENTENCE_WORDS 3
#define DOCUMENT_SENTENCES 4
#define DOCUMENT_WORDS 5
/* So many bytes are read for all of several hosts together. */
#define STREAMS_READ_MAX ((size_t)64 << 20)
/* A longer text is a log: it quotes nobody, and would be read once more. */
#define QUOTING_MAX ((size_t)64 << 10)

struct search {
    struct runtime_state runtime;
    unsigned first, last, before_last; /* lines that show progress */
    unsigned trial, trial_before; /* the last two lines of trials that did not fail */
    unsigned restarted;         /* the last line that says that a worker is there again */
    unsigned told;              /* the last one in which the program says so itself; 0 = none */
    unsigned since;             /* such lines after the last exception of any kind */
    unsigned went_on;           /* the program went on after failures up to this line, however it ended */
    unsigned chain;             /* where the last traceback began, with those that it was raised in */
    bool open;                  /* its exception has not come yet */
    bool chained;               /* the next one was raised in it */
    bool aside;                 /* the next one was raised in a destructor */
    bool ended_well;            /* the last such line says that the program reached its end */
    bool fatal;                 /* something ended, so that what came later is of another program */
    unsigned command;           /* the last line in which somebody starts a program in a shell; 0 = none */
    unsigned earlier;           /* an error of the program's own ended it, and failures before this line are earlier ones; 0 = none */
    unsigned ended;             /* line of that error */
    struct text says;           /* "KeyError: 'loss'" */
    bool own;                   /* that error names no GPU */
    bool raised;                /* it is an exception of Python */
    bool terminated;            /* the line before says that an exception of C++ ended the program */
    bool handled;               /* a line says that its failure was handled */
    int64_t failure_lines;
    struct line_words previous; /* line */
};

#define FAILURE (LOG_WORDS_FAILURE_RARE | LOG_WORDS_FAILURE_COMMON)

/* Does the line tell a failure? */
static bool says_failure(const struct line_words *line)
{
    return line_says(line, FAILURE) || line_is(line, RULE_OTHER_FAILURE);
}

static bool says_handled(const struct line_words *line)
{
    return line_is(line, RULE_HANDLED) && says_failure(line);
}

static bool is_failure(struct text line)
{
    const struct line_words words = line_words_of(line);
    return says_failure(&words);
}

static void note_traceback(struct search *s, const struct line_words *line, unsigned n)
{
    s->aside |= line_is(line, RULE_RAISED_ASIDE);
    s->chained |= line_is(line, RULE_EXCEPTION_CHAIN);
    if (!line_is(line, RULE_TRACEBACK_BEGINS))
        return;
    if (!s->chained)
        s->chain = n;
    else if (s->chain == 0)
        s->chain = 1; /* where its first traceback begins is not known */
    s->chained = false;
    s->open = true;
}

/* Two lines of progress stand between these failures and the one that was raised now. */
static unsigned survived_up_to(const struct search *s)
{
    unsigned line = s->before_last > 0 ? s->before_last - 1 : 0;
    return s->open && line >= s->chain ? s->chain - 1 : line;
}

/* "SLURM_STEP_GPUS=0,1" is no step. */
static bool is_setting(struct text line)
{
    return isupper((unsigned char)line.at[0]) && memchr(line.at, '=', line.len) != NULL && memchr(line.at, ' ', line.len) == NULL;
}

static void note_progress(struct search *s, const struct line_words *line, unsigned n)
{
    bool inside = bystander_is_kernel(line->text) || line->text.at[0] == ' ' || line->text.at[0] == '\t' || is_setting(line->text);
    bool goes_on = line_is(line, RULE_GOING_ON);
    bool counts = (line_says(line, LOG_WORDS_PROGRESS) && text_has_digit(line->text)) || line_is(line, RULE_TRIAL);
    bool succeeded = line_is(line, RULE_SUCCEEDED) && !says_failure(&s->previous); /* a loop of the shell is "done", too */
    if (inside || (!goes_on && !succeeded && (!counts || says_failure(line)))) /* "ok 500, failed 0" tells of none */
        return;
    bool told = succeeded || (goes_on && !says_failure(line)); /* the program says so itself: no second line is needed */
    if (line_is(line, RULE_TRIAL) && !says_failure(line)) {
        s->trial_before = s->trial;
        s->trial = n;
    }
    s->before_last = told ? n : s->last;
    s->told = told ? n : s->told;
    s->ended_well = succeeded;
    s->first = s->first == 0 ? n : s->first;
    s->last = goes_on ? n + 1 : n; /* a failure that the line itself tells is before it */
    s->since += succeeded ? WENT_ON_LINES : !goes_on;
}

/* The error that ended the program, so far. A crash, a library that did not load, and what one rank says of another may be
 * consequences of an earlier failure. */
static void note_ending(struct search *s, const struct line_words *line, unsigned n, bool raised)
{
    bool follows = raised ? line_is(line, RULE_PASSED_ON) || line_is(line, RULE_TELLS_OF_ANOTHER) || line_is(line, RULE_RAISED_BY_LOADING)
                          : text_has(line->text, "egmentation fault");
    s->own = !line_is(line, RULE_NAMES_GPU) && !line_is(line, RULE_WARNING);
    s->raised = raised;
    s->ended = n;
    s->says = text_trim(line->text);
    s->earlier = !s->own || follows ? 0 : s->open && raised && s->chain > s->command ? s->chain : s->command;
    s->terminated = text_has(line->text, "terminate called");
}

static void note_exception(struct search *s, const struct line_words *line, unsigned n)
{
    if (!s->aside)
        note_ending(s, line, n, true);
    s->aside = false;
    if (!line_is(line, RULE_TELLS_OF_ANOTHER))
        s->went_on = survived_up_to(s);
    else if (s->told > 0) /* the other process may have failed by what stands before, but this one said that it goes on */
        s->went_on = s->told - 1;
    s->ended_well = false;
    s->fatal |= s->open;
    s->since = 0;
    s->open = false;
}

static void look_at(struct search *s, const struct scan *scan, const struct line_words *line)
{
    unsigned before = s->runtime.exception_line;
    note_traceback(s, line, scan->line);
    runtime_line(scan, &s->runtime, line);
    if (bystander_is_command(line->text)) {
        s->command = scan->line;
        s->first = 0;
    }
    if (line_is(line, RULE_UNIT_FAILED) && !line_is(line, RULE_TRIAL))
        s->first = 0; /* other tests run on whatever this one met */
    s->ended_well &= !line_is(line, RULE_UNIT_BEGINS);
    if (s->terminated && text_has(line->text, "what():") && line_is(line, RULE_NAMES_GPU))
        s->earlier = 0;
    s->terminated = false;
    if (s->runtime.exception_line != before) {
        note_exception(s, line, scan->line);
    } else if (line_is(line, RULE_ENDING)) {
        note_ending(s, line, scan->line, false);
        s->went_on = s->own ? survived_up_to(s) : s->trial_before > 0 ? s->trial_before - 1 : s->went_on;
        s->fatal = true;
        s->since = 0;
    } else {
        note_progress(s, line, scan->line);
    }
    s->previous = *line;
    s->handled |= says_handled(line);
    if (line_is(line, RULE_RESTARTED) && !says_failure(line))
        s->restarted = scan->line;
    s->failure_lines += line_says(line, FAILURE) && !line_says(line, LOG_WORDS_FAILURE_DENIED);
}

static struct search look_through(struct text all, unsigned before)
{
    struct search s = {.previous = {.lists = 0}};
    struct scan scan = {.line = before};
    struct text line;
    while (text_next_line(&all, &line)) {
        scan.line++;
        if (line.len <= 3)
            continue;
        const struct line_words words = line_words_of(line);
        look_at(&s, &scan, &words);
    }
    if (s.first == 0)
        s.first = UINT_MAX; /* nothing is after it */
    if (s.since >= WENT_ON_LINES) {
        s.went_on = s.before_last - 1;
        s.earlier = s.ended = 0;
        s.own = false;
    }
    return s;
}

static bool is_in_word(const char *at, const char *begin, const char *end)
{
    return at >= begin && at < end && text_is_word(*at);
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
        if (memchr(at, '{', (size_t)(open - at)) != NULL)
            break; /* members of a structure */
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

/* A copy, in which all lines keep their places. */
static char *copy_of(struct text all)
{
    char *copy = all.len > 0 ? calloc(1, all.len + 1) : NULL;
    if (copy != NULL)
        memcpy(copy, all.at, all.len);
    return copy;
}

/* A mended line has another doubt already. */
static bool is_of_line(const struct fact *f)
{
    return f->when == FACT_LOG && fact_source_line(f) > 0 && !fact_is_repaired(f) && !fact_has_mark(f, FACT_MARK_TRANSLATED);
}

/* The owner of the GPU does not depend on what failed, and what the kernel says of a process does not depend on how another one
 * ended. A reporter's own words may well speak of the error that ended the program. */
static bool may_mark(const struct fact *f)
{
    static const char *const others[] = {"vendor.", "kmsg.", "report."};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strncmp(f->name, others[i], strlen(others[i])) == 0)
            return false;
    return is_of_line(f);
}

struct reading_again {
    struct facts *facts;
    size_t from;
    const char *source;
    const text_reader *readers;
    struct text all;
    unsigned before; /* lines before it that are left out */
    unsigned from_line, to_line; /* the program made progress before and after these: the kernel's records among them count, too */
};

static bool is_kernel(const struct fact *f)
{
    return strncmp(f->name, "kmsg.", strlen("kmsg.")) == 0;
}

static bool may_mark_here(const struct reading_again *r, const struct fact *f)
{
    bool between = fact_source_line(f) > r->from_line && fact_source_line(f) <= r->to_line;
    return may_mark(f) || (between && is_kernel(f) && is_of_line(f));
}

/* The first bad event may be another one, then. */
static bool still_says(const struct facts *again, const struct fact *f)
{
    const struct fact *other = facts_find(again, f->name, FACT_LOG);
    return other != NULL && (strncmp(f->name, "kmsg.first_bad", strlen("kmsg.first_bad")) != 0 || fact_says_same(f, other));
}

/* Reads the copy, and marks what only the whole text says. */
static bool mark_lost(const struct reading_again *r, const char *copy, const char *how)
{
    bool any = false;
    struct facts *again = facts_new();
    for (size_t i = 0; again != NULL && r->readers[i] != NULL; i++)
        r->readers[i](again, copy, r->all.len, r->source);
    for (size_t i = r->from; again != NULL && i < facts_count(r->facts); i++) {
        const struct fact *f = facts_at(r->facts, i);
        if (!may_mark_here(r, f) || still_says(again, f))
            continue;
        facts_mark(r->facts, i, how);
        any = true;
    }
    facts_free(again);
    return any;
}

static unsigned words_of_sentence(struct text line)
{
    unsigned words = 0;
    for (size_t at = 0; at < line.len; at++) {
        size_t from = at;
        while (at < line.len && islower((unsigned char)line.at[at]) != 0)
            at++;
        words += at - from >= 2 && (from == 0 || line.at[from - 1] == ' ') && (at == line.len || strchr(" ,.:;", line.at[at]) != NULL);
    }
    return words;
}

/* A sentence has some words beside what it quotes. */
static bool is_sentence(struct text line)
{
    return words_of_sentence(line) >= SENTENCE_WORDS;
}

/* A sentence has words in front of the kernel's record in it. */
static bool is_told(struct text line)
{
    static const char *const begins[] = {"amdgpu", "[drm", "drm", "radeon", "EDAC", "Out of memory", "Memory cgroup", "oom", "NVRM", "mce", "{"};
    line = text_trim(line);
    while (line.len > 0 && strchr(">*-|`# ", line.at[0]) != NULL)
        line = text_skip(line, 1);
    if (bystander_is_stamped(line))
        return false;
    for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++)
        if (text_starts(line, begins[i]))
            return false;
    return is_sentence(line);
}

/* Somebody tells of messages that stand in quotation marks in a sentence. Where an error of the program's own comes later, it need
 * be no sentence: 'case 3 expects "..."'. */
static void doubt_quoted(const struct reading_again *r, unsigned ended)
{
    const struct text all = r->all.len <= QUOTING_MAX ? r->all : (struct text){"", 0};
    char *copy = copy_of(all), *without = copy_of(all);
    struct text rest = all, line;
    bool any = false;
    for (unsigned n = r->before + 1; copy != NULL && without != NULL && text_next_line(&rest, &line); n++) {
        char *at = without + (line.at - all.at);
        bool tells = n < ended && !text_starts(line, "{"); /* all texts of JSON are quoted */
        if (!blank_quotes(at, line.len) || !(tells || is_sentence((struct text){at, line.len})))
            continue;
        memcpy(copy + (line.at - all.at), at, line.len);
        any = true;
    }
    if (any)
        (void)mark_lost(r, copy, FACT_MARK_QUOTED);
    free(copy);
    free(without);
}

static bool any_up_to(const struct reading_again *r, unsigned line)
{
    for (size_t i = r->from; i < facts_count(r->facts); i++)
        if (may_mark_here(r, facts_at(r->facts, i)) && fact_source_line(facts_at(r->facts, i)) <= line)
            return true;
    return false;
}

/* A copy without the failures up to a line, or those of one of several hosts up to the line that it survived. NULL = there are none. */
static char *without_failures(struct text all, unsigned before, unsigned up_to, const struct streams *streams)
{
    char *copy = copy_of(all);
    struct text rest = all, line;
    bool any = false;
    for (unsigned n = before + 1; copy != NULL && text_next_line(&rest, &line); n++) {
        const struct stream *of = stream_of_line(streams, line);
        if (n > (of != NULL ? of->survived : up_to) || !is_failure(line))
            continue;
        memset(copy + (line.at - all.at), ' ', line.len);
        any = true;
    }
    if (any)
        return copy;
    free(copy);
    return NULL;
}

/* The program made progress after these failures, however it ended. Returns the text without them if it ended well. */
static char *doubt_went_on(const struct reading_again *r, const struct search *found)
{
    bool well = found->ended_well && !found->fatal && found->since >= WENT_ON_LINES;
    bool any = found->went_on > r->before && any_up_to(r, found->went_on);
    char *copy = any ? without_failures(r->all, r->before, found->went_on, NULL) : NULL;
    if (copy != NULL && mark_lost(r, copy, well ? FACT_MARK_ENDED_WELL : FACT_MARK_WENT_ON) && well)
        return copy;
    free(copy);
    return NULL;
}

/* Notes for each of several hosts up to which line it survived its failures: it made progress itself. `restarted`: and says that it was
 * started again. Adds the lines among which they are to `r`. */
static void note_survivors(struct reading_again *r, struct streams *streams, bool restarted)
{
    size_t left = STREAMS_READ_MAX;
    for (unsigned i = 0; i < streams->count; i++) {
        struct stream *of = &streams->list[i];
        size_t len = 0;
        bool reads = of->fails && r->all.len <= left;
        left -= reads ? r->all.len : 0;
        char *own = reads ? stream_own(r->all, of->mark, &len) : NULL;
        const struct search found = look_through((struct text){own != NULL ? own : "", len}, r->before);
        free(own);
        of->survived = !restarted || found.went_on < found.restarted ? found.went_on : found.restarted > 0 ? found.restarted - 1 : 0;
        if (of->survived == 0)
            continue;
        r->from_line = found.first < r->from_line ? found.first : r->from_line;
        r->to_line = of->survived > r->to_line ? of->survived : r->to_line;
    }
}

static void doubt_streams(struct reading_again *r, struct streams *streams, const struct search *together)
{
    r->from_line = together->first;
    r->to_line = together->went_on;
    note_survivors(r, streams, false);
    char *copy = r->to_line > 0 ? without_failures(r->all, r->before, together->went_on, streams) : NULL;
    if (copy != NULL)
        (void)mark_lost(r, copy, FACT_MARK_WENT_ON);
    free(copy);
}

static bool any_failure(struct text all)
{
    struct text line;
    while (text_next_line(&all, &line))
        if (is_failure(line))
            return true;
    return false;
}

char *survived_without_restarted(const char *data, size_t len)
{
    struct streams streams;
    struct reading_again r = {.all = {data, len}};
    streams_find(r.all, &streams);
    note_survivors(&r, &streams, true);
    char *copy = r.to_line > 0 ? without_failures(r.all, 0, 0, &streams) : NULL;
    if (copy != NULL && any_failure((struct text){copy, len}))
        return copy;
    free(copy);
    return NULL;
}

/* The line says itself that its failure was handled, is a mere warning, or is not of this run. A person says it of the kernel's records. */
static void doubt_handled(const struct reading_again *r)
{
    struct text rest = r->all, line;
    for (unsigned n = r->before + 1; text_next_line(&rest, &line); n++) {
        const struct line_words words = line_words_of(line);
        if (!says_handled(&words))
            continue;
        bool told = is_told(line);
        for (size_t i = r->from; i < facts_count(r->facts); i++) {
            const struct fact *f = facts_at(r->facts, i);
            if (fact_source_line(f) == n && (may_mark(f) || (told && is_kernel(f) && is_of_line(f))))
                facts_mark(r->facts, i, FACT_MARK_HANDLED);
        }
    }
}

/* Most lines are sentences, no record of the kernel has a time or a host, and nobody speaks of himself. */
static bool is_document(struct text all)
{
    struct text line;
    unsigned lines = 0, sentences = 0;
    while (text_next_line(&all, &line)) {
        const struct line_words words = line_words_of(text_trim(line));
        if (bystander_is_stamped(words.text) || line_says(&words, LOG_WORDS_SPEAKER))
            return false;
        lines += words.text.len > 0;
        sentences += words_of_sentence(words.text) >= DOCUMENT_WORDS && !bystander_is_kernel(words.text);
    }
    return sentences >= DOCUMENT_SENTENCES && sentences > lines / 2;
}

/* A document shows records of the kernel without time and host, and nobody in it speaks of himself. */
static void doubt_shown(const struct reading_again *r)
{
    bool any = false;
    for (size_t i = r->from; i < facts_count(r->facts); i++)
        any |= is_kernel(facts_at(r->facts, i)) && is_of_line(facts_at(r->facts, i));
    if (!any || !is_document(r->all))
        return;
    for (size_t i = r->from; i < facts_count(r->facts); i++)
        if (is_kernel(facts_at(r->facts, i)) && is_of_line(facts_at(r->facts, i)))
            facts_mark(r->facts, i, FACT_MARK_QUOTED);
}

/* Another error ended the program, or a later one in the same shell. Returns the text without the earlier failures if the
 * program survived one of them. */
static char *doubt_followed(const struct reading_again *r, const struct search *found, bool of_another)
{
    static const char *const survived[] = {FACT_MARK_WENT_ON, FACT_MARK_QUOTED, FACT_MARK_HANDLED};
    struct scan at = {.facts = r->facts, .source = r->source != NULL ? r->source : "text", .line = found->ended};
    bool any = of_another, followed = false;
    for (size_t i = r->from; i < facts_count(r->facts); i++) {
        const struct fact *f = facts_at(r->facts, i);
        if (!may_mark(f) || fact_source_line(f) >= found->ended)
            continue;
        for (size_t k = 0; k < sizeof survived / sizeof survived[0]; k++)
            any |= found->own && found->raised && fact_has_mark(f, survived[k]);
        if (fact_source_line(f) >= found->earlier)
            continue;
        facts_mark(r->facts, i, FACT_MARK_FOLLOWED);
        followed = true;
    }
    if (followed)
        scan_text(&at, "log.followed_by", found->says);
    unsigned up_to = any ? found->ended - 1 : found->own && found->raised ? found->went_on : 0;
    char *rest = up_to > r->before ? without_failures(r->all, r->before, up_to, NULL) : NULL;
    if (any)
        scan_text(&at, "log.ended_by", found->says);
    return rest;
}

struct survived survived_doubt(struct facts *facts, size_t from, const char *data, size_t len, const char *source,
                               const text_reader readers[])
{
    unsigned before;
    struct text all = text_tail(data, len, &before);
    struct search found = look_through(all, before);
    struct streams streams;
    streams_find(all, &streams);
    struct reading_again again = {facts, from, source, readers, all, before, found.ended_well ? 0 : found.first, found.went_on};
    char *well = streams.count == 0 ? doubt_went_on(&again, &found) : NULL;
    if (streams.count > 0)
        doubt_streams(&again, &streams, &found);
    again.from_line = 0;
    again.to_line = UINT_MAX; /* a quotation may be of the kernel, too */
    doubt_quoted(&again, found.own ? found.ended : 0);
    again.to_line = 0;
    if (found.handled)
        doubt_handled(&again);
    doubt_shown(&again);
    bool of_another = found.own && bystander_doubt(facts, from, all, found.raised);
    char *rest = doubt_followed(&again, &found, of_another);
    if (well != NULL)
        free(rest);
    return (struct survived){.text = well != NULL ? well : rest, .len = all.len, .failure_lines = found.failure_lines};
}
