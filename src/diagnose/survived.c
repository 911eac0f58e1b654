/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/survived.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "diagnose/bystander.h"
#include "diagnose/log_words.h"
#include "diagnose/messages.h"

/* One line may be a setting; two steps, requests or epochs show that the program continued. */
#define WENT_ON_LINES 2
#define SEVERAL_WENT_ON_LINES 10 /* other ranks may write some more lines before they notice */
/* Longest quotation. */
#define QUOTED_MAX 400
#define SENTENCE_WORDS 3
/* A longer text is a log: it quotes nobody, and would be read once more. */
#define QUOTING_MAX ((size_t)64 << 10)

struct ending {
    unsigned line;     /* of the error that ended the program; 0 = not known */
    unsigned survived; /* failures up to this line are survived */
    unsigned begins;   /* the first traceback of its chain; 0 = none, or it may come of a library that did not load */
    bool is_own;       /* it names no GPU */
    bool is_raised;    /* an exception of Python */
    bool may_follow;   /* a crash, or an error of loading: an earlier failure may be its cause */
    bool is_refusal;   /* memory was refused, with figures: no earlier failure is its cause */
    struct text says;  /* "KeyError: 'loss'" */
};

struct search {
    struct runtime_state runtime;
    unsigned last, before_last; /* lines that show progress */
    unsigned told;              /* the last one in which the program says so itself; 0 = none */
    unsigned after;             /* such lines after the ending */
    unsigned since;             /* such lines after the last exception of any kind, or the ending */
    unsigned went_on;           /* the program went on after failures up to this line, however it ended */
    unsigned chain;             /* where the last traceback began, with those that it was raised in */
    bool open;                  /* its exception has not come yet */
    bool chained;               /* the next one was raised in it */
    bool aside;                 /* the next one was raised in a destructor */
    bool other_ended;           /* an exception tells that another process has ended */
    bool ended_well;            /* the last such line says that the program reached its end */
    bool several;               /* so many such lines in a row that no other rank wrote them */
    bool fatal;                 /* something ended, so that what came later is of another program */
    bool any_handled;           /* a line says that its failure was handled */
    int64_t failure_lines;
    struct line_words previous; /* line */
    struct text rank_says;      /* the last error that a rank raised on its own: "[rank2]: ValueError: ..." */
    struct ending found;
};

#define FAILURE (LOG_WORDS_FAILURE_RARE | LOG_WORDS_FAILURE_COMMON)

/* Does the line tell a failure? */
static bool says_failure(const struct line_words *line)
{
    return line_says(line, FAILURE) || line_is(line, RULE_OTHER_FAILURE);
}

/* The line itself says that its failure was handled, or is no failure of this run. */
static bool says_handled(const struct line_words *line)
{
    return says_failure(line) && line_is(line, RULE_HANDLED);
}

static bool is_failure(struct text line)
{
    const struct line_words words = line_words_of(line);
    return says_failure(&words);
}

/* "[rank3]:" */
static struct text rank_of(struct text line)
{
    return text_starts(line, "[rank") ? text_until(line, "]") : (struct text){"", 0};
}

/* No consequence of another failure. An exception that names the GPU often is one, except a refused allocation. */
static bool is_first_hand(const struct search *s, const struct line_words *line)
{
    return !s->aside && (!line_is(line, RULE_NAMES_GPU) || line_is(line, RULE_OF_MEMORY)) && !line_is(line, RULE_PASSED_ON) &&
           !line_is(line, RULE_TELLS_OF_ANOTHER) && !line_is(line, RULE_WARNING);
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

static void note_ending(struct search *s, const struct line_words *line, unsigned n, bool raised)
{
    unsigned survived = survived_up_to(s);
    s->found = (struct ending){.line = n, .survived = survived, .is_own = !line_is(line, RULE_NAMES_GPU), .is_raised = raised, .says = text_trim(line->text)};
    s->fatal |= !raised;
    if (raised && s->found.is_own && rank_of(line->text).len > 0)
        s->rank_says = line->text;
    s->found.may_follow = raised ? line_is(line, RULE_RAISED_BY_LOADING) : text_has(line->text, "egmentation fault");
    s->found.is_refusal = raised && !s->found.is_own && line_is(line, RULE_OF_MEMORY) && text_has_digit(line->text);
    s->after = 0;
    if (s->open && !s->found.may_follow)
        s->found.begins = s->chain;
}

/* "SLURM_STEP_GPUS=0,1" is no step. */
static bool is_setting(struct text line)
{
    return isupper((unsigned char)line.at[0]) && memchr(line.at, '=', line.len) != NULL && memchr(line.at, ' ', line.len) == NULL;
}

static void note_progress(struct search *s, const struct line_words *line, unsigned n)
{
    bool inside = line->text.at[0] == ' ' || line->text.at[0] == '\t' || is_setting(line->text);
    bool goes_on = line_is(line, RULE_GOING_ON);
    bool counts = line_says(line, LOG_WORDS_PROGRESS) && text_has_digit(line->text);
    bool succeeded = line_is(line, RULE_SUCCEEDED) && !says_failure(&s->previous); /* a loop of the shell is "done", too */
    if (inside || (!goes_on && !succeeded && (!counts || says_failure(line)))) /* "ok 500, failed 0" tells of none */
        return;
    bool told = succeeded || (goes_on && !says_failure(line)); /* the program says so itself: no second line is needed */
    s->before_last = told ? n : s->last;
    s->told = told ? n : s->told;
    s->ended_well = succeeded;
    s->last = goes_on ? n + 1 : n; /* a failure that the line itself tells is before it */
    s->after += !goes_on;
    s->since += succeeded ? WENT_ON_LINES : !goes_on;
    s->several |= s->since >= SEVERAL_WENT_ON_LINES;
}

static void look_at(struct search *s, const struct scan *scan, const struct line_words *line)
{
    unsigned before = s->runtime.exception_line;
    note_traceback(s, line, scan->line);
    if (s->found.line + 1 == scan->line && text_has(line->text, "what():"))
        s->found.is_own &= !line_is(line, RULE_NAMES_GPU); /* the text of a C++ exception */
    runtime_line(scan, &s->runtime, line);
    bool raised = s->runtime.exception_line != before;
    if (raised ? is_first_hand(s, line) : line_is(line, RULE_ENDING))
        note_ending(s, line, scan->line, raised);
    else
        note_progress(s, line, scan->line);
    s->previous = *line;
    s->any_handled |= says_handled(line);
    s->failure_lines += line_says(line, FAILURE) && !line_says(line, LOG_WORDS_FAILURE_DENIED);
    if (!raised)
        return;
    if (line_is(line, RULE_TELLS_OF_ANOTHER) || line_is(line, RULE_PASSED_ON))
        s->other_ended = true;
    if (!line_is(line, RULE_TELLS_OF_ANOTHER))
        s->went_on = survived_up_to(s);
    else if (s->told > 0) /* the other process may have failed by what stands before, but this one said that it goes on */
        s->went_on = s->told - 1;
    s->ended_well = false;
    s->fatal |= s->open;
    s->since = 0;
    s->open = s->aside = false;
}

struct going {
    unsigned on;      /* the program went on after failures up to this line, however it ended */
    bool well;        /* and it ended well */
    bool several;     /* with so many lines that no other rank wrote them */
    bool other_ended; /* another process ended */
    bool any_handled;
    struct text rank_says;
    int64_t failure_lines;
};

static struct ending find_ending(struct text all, unsigned before, struct going *ret)
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
    if (s.after >= WENT_ON_LINES)
        s.found.line = 0; /* it went on after this, too */
    *ret = (struct going){.on = s.since >= WENT_ON_LINES ? s.before_last - 1 : s.went_on,
                          .well = s.ended_well && !s.fatal && s.since >= WENT_ON_LINES,
                          .several = s.several,
                          .other_ended = s.other_ended,
                          .any_handled = s.any_handled,
                          .failure_lines = s.failure_lines,
                          .rank_says = s.rank_says};
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

/* A copy, in which all lines keep their places. */
struct copy {
    char *text;
    bool any; /* a part of it was blanked */
};

static struct copy copy_of(struct text all)
{
    struct copy copy = {.text = all.len > 0 ? calloc(1, all.len + 1) : NULL};
    if (copy.text != NULL)
        memcpy(copy.text, all.at, all.len);
    return copy;
}

static void blank_line(struct copy *copy, struct text all, struct text line)
{
    memset(copy->text + (line.at - all.at), ' ', line.len);
    copy->any = true;
}

static bool is_handled(struct text line)
{
    const struct line_words words = line_words_of(line);
    return says_handled(&words);
}

/* A handled failure is not the cause of a refused request, nor of an error of the program's own. */
static bool leaves_out(const struct ending *ending, struct text line, unsigned n)
{
    unsigned begins = ending->begins > 0 || ending->may_follow ? ending->begins : ending->line;
    return (ending->is_refusal || (ending->is_own && n < begins)) && is_handled(line);
}

/* Blanks the failures that are survived or quoted. */
static void blank_survived(struct copy *copy, struct text all, unsigned before, const struct ending *ending)
{
    struct text rest = all, line, previous = {"", 0};
    for (unsigned n = before + 1; n < ending->line && text_next_line(&rest, &line); n++, previous = line) {
        if (!is_failure(line))
            continue;
        if (n <= ending->survived || leaves_out(ending, line, n) || (ending->is_own && is_comment(previous, line))) {
            blank_line(copy, all, line);
        } else if ((ending->is_own || ending->is_refusal) && !text_starts(line, "{")) { /* all texts of JSON are quoted */
            copy->any |= blank_quotes(copy->text + (line.at - all.at), line.len);
        }
    }
}

/* Blanks all failures before an error of the program's own. */
static void blank_earlier(struct copy *copy, struct text all, unsigned before, const struct ending *ending)
{
    struct text rest = all, line;
    for (unsigned n = before + 1; ending->is_own && n < ending->begins && text_next_line(&rest, &line); n++)
        if (n > ending->survived && is_failure(line))
            blank_line(copy, all, line);
}

/* Blanks all failures whose line says that they were handled, whatever ended the program. */
static void blank_handled(struct copy *copy, struct text all)
{
    struct text rest = all, line;
    while (copy->text != NULL && text_next_line(&rest, &line))
        if (is_handled(line))
            blank_line(copy, all, line);
}

/* A mended line has another doubt already. Whose GPU it is does not depend on what failed. A reporter's own words
 * (report.*) may well speak of a GPU error that ended the program. */
static bool may_mark(const struct fact *f, const struct ending *ending)
{
    unsigned line = fact_source_line(f);
    return f->when == FACT_LOG && line > 0 && line < ending->line && strncmp(f->name, "vendor.", 7) != 0 &&
           (ending->is_own || strncmp(f->name, "report.", 7) != 0) && !fact_is_repaired(f) &&
           !fact_has_mark(f, FACT_MARK_TRANSLATED);
}

/* Several processes write these, in no order. */
static bool is_of_several(const struct fact *f)
{
    static const char *const names[] = {"msg.killed", "msg.worker_killed", "msg.oom_kill_told", "msg.collective_timeout",
                                        "msg.collective_error", "msg.remote_process_exited"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(f->name, names[i]) == 0)
            return true;
    return false;
}

/* Survived is more than followed, and followed is as much as handled. What the kernel says of a process does not depend on how another
 * one ended. */
static bool may_be_followed(const struct fact *f)
{
    return !fact_has_mark(f, FACT_MARK_SURVIVED) && !fact_has_mark(f, FACT_MARK_FOLLOWED) && !fact_has_mark(f, FACT_MARK_OTHERS_ERROR) &&
           strncmp(f->name, "kmsg.", 5) != 0;
}

struct reading_again {
    struct facts *facts;
    size_t from;
    const char *source;
    const text_reader *readers;
    struct text all;
    bool several; /* progress tells of all ranks */
};

/* Reads the copy, and marks what only the whole text says. */
static bool mark_lost(const struct reading_again *r, const struct copy *copy, const struct ending *ending, const char *how)
{
    bool any = false, survived = strcmp(how, FACT_MARK_SURVIVED) == 0;
    bool going_on = strcmp(how, FACT_MARK_WENT_ON) == 0 || strcmp(how, FACT_MARK_ENDED_WELL) == 0;
    struct facts *again = copy->any ? facts_new() : NULL;
    for (size_t i = 0; again != NULL && r->readers[i] != NULL; i++)
        r->readers[i](again, copy->text, r->all.len, r->source);
    for (size_t i = r->from; again != NULL && i < facts_count(r->facts); i++) {
        const struct fact *f = facts_at(r->facts, i);
        if (!may_mark(f, ending) || (!survived && !may_be_followed(f)) || (going_on && !r->several && is_of_several(f)) || facts_find(again, f->name, FACT_LOG) != NULL)
            continue;
        facts_mark(r->facts, i, how);
        any = true;
    }
    facts_free(again);
    return any;
}

/* A refused request with figures need not be an exception: the last failure may be a line of an engine. */
static void end_by_refusal(struct ending *ending, const struct reading_again *r, unsigned before)
{
    struct text rest = r->all, line = {"", 0};
    unsigned at = 0;
    for (size_t i = r->from; i < facts_count(r->facts); i++) {
        const struct fact *f = facts_at(r->facts, i);
        if (f->when == FACT_LOG && strcmp(f->name, "oom.requested_bytes") == 0)
            at = fact_source_line(f);
    }
    if (at <= ending->line || at <= before)
        return;
    for (unsigned n = before; n < at; n++)
        if (!text_next_line(&rest, &line))
            return;
    if (!is_handled(line))
        *ending = (struct ending){.line = at, .is_refusal = true, .says = text_trim(line)};
}

static void doubt_handled(const struct reading_again *r)
{
    const struct ending any_line = {.line = UINT_MAX};
    struct copy copy = copy_of(r->all);
    blank_handled(&copy, r->all);
    (void)mark_lost(r, &copy, &any_line, FACT_MARK_HANDLED);
    free(copy.text);
}

/* A sentence has some words beside what it quotes. */
static bool is_sentence(struct text line)
{
    unsigned words = 0;
    for (size_t at = 0; at < line.len; at++) {
        size_t from = at;
        while (at < line.len && islower((unsigned char)line.at[at]) != 0)
            at++;
        words += at - from >= 2 && (from == 0 || line.at[from - 1] == ' ') && (at == line.len || strchr(" ,.:;", line.at[at]) != NULL);
    }
    return words >= SENTENCE_WORDS;
}

/* Somebody tells of messages that stand in quotation marks in a sentence. */
static void doubt_quoted(const struct reading_again *r)
{
    const struct ending any_line = {.line = UINT_MAX};
    const struct text all = r->all.len <= QUOTING_MAX ? r->all : (struct text){"", 0};
    struct copy copy = copy_of(all), without = copy_of(all);
    struct text rest = all, line;
    while (copy.text != NULL && without.text != NULL && text_next_line(&rest, &line)) {
        char *at = without.text + (line.at - all.at);
        if (!blank_quotes(at, line.len) || !is_sentence((struct text){at, line.len}))
            continue;
        memcpy(copy.text + (line.at - all.at), at, line.len);
        copy.any = true;
    }
    (void)mark_lost(r, &copy, &any_line, FACT_MARK_QUOTED);
    free(copy.text);
    free(without.text);
}

static bool any_up_to(const struct reading_again *r, unsigned line)
{
    const struct ending any_line = {.line = line + 1};
    for (size_t i = r->from; i < facts_count(r->facts); i++)
        if (may_mark(facts_at(r->facts, i), &any_line) && may_be_followed(facts_at(r->facts, i)))
            return true;
    return false;
}

/* The program made progress after these failures, however it ended. Returns the text without them if it ended well. */
static char *doubt_went_on(const struct reading_again *r, unsigned before, const struct going *going)
{
    const struct ending any_line = {.line = UINT_MAX};
    struct copy copy = copy_of(going->on > before && any_up_to(r, going->on) ? r->all : (struct text){"", 0});
    struct text rest = r->all, line;
    for (unsigned n = before + 1; copy.text != NULL && n <= going->on && text_next_line(&rest, &line); n++)
        if (is_failure(line))
            blank_line(&copy, r->all, line);
    bool any = mark_lost(r, &copy, &any_line, going->well ? FACT_MARK_ENDED_WELL : FACT_MARK_WENT_ON);
    if (any && going->well)
        return copy.text;
    free(copy.text);
    return NULL;
}

/* Returns the text without what the program survived or quoted; NULL = nothing was. */
static char *doubt_earlier(const struct reading_again *again, unsigned before, struct ending ending, bool others)
{
    struct text all = again->all;
    end_by_refusal(&ending, again, before);
    struct copy copy = copy_of(ending.line > 0 ? all : (struct text){"", 0});
    struct scan at = {.facts = again->facts, .source = again->source != NULL ? again->source : "text", .line = ending.line};
    if (copy.text == NULL)
        return NULL;
    blank_survived(&copy, all, before, &ending);
    bool any = mark_lost(again, &copy, &ending, FACT_MARK_SURVIVED) || others;
    if (any && ending.is_own)
        scan_text(&at, "log.ended_by", ending.says);
    struct copy rest = any ? copy_of((struct text){copy.text, all.len}) : (struct copy){NULL, false};
    copy.any = false;
    blank_earlier(&copy, all, before, &ending);
    if (mark_lost(again, &copy, &ending, FACT_MARK_FOLLOWED))
        scan_text(&at, "log.followed_by", ending.says);
    free(copy.text);
    return rest.text;
}

/* The kernel's records are of another time or of another process than the error that ended the program. */
static bool doubt_kernel(const struct reading_again *r, const struct ending *ending)
{
    bool old = false;
    for (size_t i = r->from; i < facts_count(r->facts); i++)
        old |= fact_has_mark(facts_at(r->facts, i), FACT_MARK_LONG_BEFORE);
    return bystander_doubt(r->facts, r->from, r->all, ending->is_raised) || old;
}

/* A process that was killed for want of memory writes no last words: it was another one. */
static bool doubt_kill(const struct reading_again *r)
{
    bool any = false;
    for (size_t i = r->from; i < facts_count(r->facts); i++)
        any |= strcmp(facts_at(r->facts, i)->name, "msg.killed") == 0 || strcmp(facts_at(r->facts, i)->name, "msg.worker_killed") == 0;
    if (any)
        return false;
    for (size_t i = r->from; i < facts_count(r->facts); i++) {
        if (strcmp(facts_at(r->facts, i)->name, "msg.oom_kill_told") != 0)
            continue;
        facts_mark(r->facts, i, FACT_MARK_OTHERS_ERROR);
        any = true;
    }
    return any;
}

/* One rank ended by an error of its own; the others lost it. */
static bool doubt_other_ranks(const struct reading_again *r, struct text says)
{
    const struct ending any_line = {.line = UINT_MAX};
    struct text own = rank_of(says), rest = r->all, line;
    struct copy copy = copy_of(own.len > 0 ? r->all : (struct text){"", 0});
    while (copy.text != NULL && text_next_line(&rest, &line)) {
        struct text rank = rank_of(line);
        bool same = rank.len == own.len && memcmp(rank.at, own.at, own.len) == 0;
        if (rank.len > 0 && !same && (rule_is_on(RULE_PASSED_ON, line) || rule_is_on(RULE_LOST_PEER, line)))
            blank_line(&copy, r->all, line);
    }
    bool any = mark_lost(r, &copy, &any_line, FACT_MARK_OTHERS_ERROR);
    free(copy.text);
    return any;
}

/* Finds lines of other times, processes and ranks than that of the error that ended the program. */
static bool doubt_others(const struct reading_again *r, const struct ending *ending, const struct going *going)
{
    bool ranks = doubt_other_ranks(r, going->rank_says);
    if (ending->line == 0 || !ending->is_own)
        return ranks;
    bool kernel = doubt_kernel(r, ending), kill = !going->other_ended && doubt_kill(r);
    return ranks || kernel || kill;
}

static void blank_kernel(char *text, size_t len)
{
    struct text rest = {text, len}, line;
    while (text_next_line(&rest, &line))
        if (bystander_is_kernel(line))
            memset(text + (line.at - text), ' ', line.len);
}

struct survived survived_doubt(struct facts *facts, size_t from, const char *data, size_t len, const char *source,
                               const text_reader readers[])
{
    unsigned before;
    struct going going;
    struct text all = text_tail(data, len, &before);
    struct ending ending = find_ending(all, before, &going);
    struct reading_again again = {facts, from, source, readers, all, going.several};
    bool others = doubt_others(&again, &ending, &going);
    char *rest = doubt_earlier(&again, before, ending, others);
    char *well = doubt_went_on(&again, before, &going);
    if (going.any_handled)
        doubt_handled(&again);
    doubt_quoted(&again);
    if (rest != NULL && others)
        blank_kernel(rest, all.len);
    char *shortest = well != NULL ? well : rest;
    if (shortest != rest)
        free(rest);
    return (struct survived){.text = shortest, .len = all.len, .failure_lines = going.failure_lines};
}
