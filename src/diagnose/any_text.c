/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the readers of a text: the output of a run, a kernel log, or pasted text of an unknown
 * kind. Used by the finisher and by `triage`, so that a run's own output and the same text in an
 * issue are read alike. Pure.
 */
#include <stdlib.h>
#include <string.h>

#include "diagnose/fact.h"
#include "diagnose/kernel_window.h"
#include "diagnose/messages.h"
#include "diagnose/program_time.h"
#include "diagnose/quantity.h"
#include "diagnose/rank_lines.h"
#include "diagnose/survived.h"
#include "diagnose/text.h"
#include "diagnose/text_cut.h"
#include "diagnose/text_repair.h"
#include "diagnose/text_translate.h"
#include "diagnose/units.h"
#include "diagnose/verdict.h"
#include "diagnose/vocabulary.h"
#include "diagnose/wording.h"

typedef text_reader reader;

static bool has_prefix(const struct facts *facts, size_t from, size_t to, const char *prefix)
{
    for (size_t i = from; i < to; i++)
        if (strncmp(facts_at(facts, i)->name, prefix, strlen(prefix)) == 0)
            return true;
    return false;
}

/* Line `number` (1 = first). */
static struct text line_of(struct text rest, unsigned number)
{
    struct text line = {"", 0};
    while (number > 0 && text_next_line(&rest, &line))
        number--;
    return number == 0 ? line : (struct text){"", 0};
}

static bool has_same_line(struct text a, struct text b, unsigned number)
{
    return text_same(line_of(a, number), line_of(b, number));
}

/* Repairs of lines that a locale has translated, or that were wrapped or cut when somebody pasted them. A
 * run's own output gets only the first OUTPUT_REPAIRS: none of its lines was cut. */
#define OUTPUT_REPAIRS 2
static const struct repair {
    char *(*mend)(const char *data, size_t len, size_t *ret_len);
    const char *how, *fact, *source;
} repairs[] = {
    {text_translate, FACT_MARK_TRANSLATED, "log.translated", "messages in another language"},
    {text_unwrap, FACT_MARK_JOINED, "log.joined", "lines that were wrapped"},
    {text_complete, FACT_MARK_COMPLETED, "log.completed", "lines that were cut"},
};
#define REPAIRS (sizeof repairs / sizeof repairs[0])

/* The text as it was given, read by itself. Most repairs do not need it, so it is read when one does. */
struct given {
    struct text text;
    const char *source;
    const reader *readers;
    struct facts *facts;
};

/* Does the given text say the same? */
static bool says_same(struct given *given, const struct fact *f)
{
    if (given->facts == NULL) {
        given->facts = facts_new();
        for (size_t i = 0; given->facts != NULL && given->readers[i] != NULL; i++)
            given->readers[i](given->facts, given->text.at, given->text.len, given->source);
    }
    const struct fact *alone = given->facts != NULL ? facts_find(given->facts, f->name, f->when) : NULL;
    return alone != NULL && fact_says_same(f, alone);
}

/* Marks a fact that comes from a repaired line, unless the original line gives the same value. */
static void mark_repaired(struct facts *facts, size_t from, struct text mended, struct given *given,
                          const struct repair *repair)
{
    bool any = false;
    for (size_t i = from; i < facts_count(facts); i++) {
        const struct fact *f = facts_at(facts, i);
        unsigned line = fact_source_line(f);
        if (line == 0 || has_same_line(given->text, mended, line) || says_same(given, f))
            continue;
        facts_mark(facts, i, repair->how);
        any = true;
    }
    if (any)
        (void)facts_set_boolean(facts, repair->fact, FACT_STATIC, true, repair->source);
}

/* Reads the text once more after each of the first `count` repairs that changes it. */
static void read_repaired(struct facts *facts, const char *text, size_t len, const char *source,
                          const reader readers[], size_t count)
{
    struct given given = {.text = {text, len}, .source = source, .readers = readers};
    for (const struct repair *repair = repairs; repair < repairs + count; repair++) {
        size_t mended_len = 0, before = facts_count(facts);
        char *mended = repair->mend(text, len, &mended_len);
        for (size_t i = 0; mended != NULL && readers[i] != NULL; i++)
            readers[i](facts, mended, mended_len, source);
        if (mended != NULL)
            mark_repaired(facts, before, (struct text){mended, mended_len}, &given, repair);
        free(mended);
    }
    facts_free(given.facts);
}

/* A log given by the user is cut to the time of the run. */
static void read_given_log(struct facts *facts, const char *text, size_t len, const char *source)
{
    size_t kept_len = len;
    char *kept = kernel_window(facts, text, len, &kept_len);
    kernel_log_to_facts(facts, kept != NULL ? kept : text, kept_len, source);
    free(kept);
}

void output_to_facts(struct facts *facts, const char *text, size_t len, const char *source)
{
    static const reader readers[] = {messages_to_facts, quantities_to_facts, NULL};
    size_t own_len = len, before = facts_count(facts);
    char *copy = rank_lines_own(facts, text, len, &own_len);
    char *rest = units_without_passed(facts, copy != NULL ? copy : text, own_len, source);
    const char *own = rest != NULL ? rest : copy != NULL ? copy : text;
    messages_to_facts(facts, own, own_len, source);
    read_repaired(facts, own, own_len, source, readers, OUTPUT_REPAIRS);
    quantities_to_facts(facts, own, own_len, source);
    free(survived_doubt(facts, before, own, own_len, source, readers).text);
    rank_lines_doubt(facts, before, text, len);
    free(rest);
    free(copy);
}

static void read_any_text(struct facts *facts, const char *text, size_t len, const char *source)
{
    static const reader readers[] = {messages_to_facts, kernel_log_to_facts, quantities_to_facts, NULL};
    static const reader all_readers[] = {messages_to_facts, pasted_to_facts, kernel_log_to_facts, prose_to_facts, quantities_to_facts, NULL};
    size_t before = facts_count(facts);
    messages_to_facts(facts, text, len, source);
    size_t messages = facts_count(facts);
    pasted_to_facts(facts, text, len, source);
    size_t pasted = facts_count(facts);
    kernel_log_to_facts(facts, text, len, source);
    prose_to_facts(facts, text, len, source);
    read_repaired(facts, text, len, source, readers, REPAIRS);
    quantities_to_facts(facts, text, len, source);
    struct survived rest = survived_doubt(facts, before, text, len, source, all_readers);
    struct text whole = {text, len};
    wording_to_facts(facts, whole, rest.text != NULL ? (struct text){rest.text, rest.len} : whole, source);
    free(rest.text);
    /* Does the text report a failure? A table of a healthy machine does not. */
    if (rest.failure_lines > 0 && facts_find(facts, "log.failure_lines", FACT_STATIC) == NULL)
        (void)facts_set_integer(facts, "log.failure_lines", FACT_STATIC, rest.failure_lines, source != NULL ? source : "text");
    /* A table of rocm-smi is not the program's output: a missing message in it means nothing. */
    bool said =
        has_prefix(facts, before, messages, "msg.") || has_prefix(facts, before, messages, "oom.");
    bool table =
        has_prefix(facts, messages, pasted, "gpu.") || has_prefix(facts, messages, pasted, "host.");
    if (said || !table)
        (void)facts_set_boolean(facts, "log.output_read", FACT_STATIC, true,
                                source != NULL ? source : "text");
}

/* Without the failures of tests that passed, and of workers that were started again. NULL: there are none. */
static char *without_others(struct facts *facts, const char *text, size_t len, const char *source)
{
    char *passed = units_without_passed(facts, text, len, source);
    char *restarted = survived_without_restarted(passed != NULL ? passed : text, len);
    if (restarted == NULL)
        return passed;
    free(passed);
    return restarted;
}

/* Without the kernel's records of another time: their words say nothing about this failure, either. */
void any_text_to_facts(struct facts *facts, const char *text, size_t len, const char *source)
{
    size_t kept_len = len;
    program_time_to_facts(facts, text, len, source);
    char *kept = kernel_window(facts, text, len, &kept_len);
    char *rest = without_others(facts, kept != NULL ? kept : text, kept_len, source);
    read_any_text(facts, rest != NULL ? rest : kept != NULL ? kept : text, kept_len, source);
    free(rest);
    free(kept);
}

void kernel_text_to_facts(struct facts *facts, const char *text, size_t len, const char *source)
{
    static const reader readers[] = {read_given_log, NULL};
    read_given_log(facts, text, len, source);
    vocabulary_to_facts(facts, text, len, source);
    wording_to_facts(facts, (struct text){text, len}, (struct text){text, len}, source);
    read_repaired(facts, text, len, source, readers, REPAIRS);
}
