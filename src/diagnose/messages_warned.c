/* SPDX-License-Identifier: Apache-2.0 */
/*
 * At its start a program may warn of something and continue. If the text has no other failure, the
 * warning counts as the failure, but never at high confidence. Else the warning is kept under another
 * name, which no node of the tree reads.
 */
#include <stdio.h>
#include <string.h>

#include "diagnose/messages.h"

/* Failures that rule out the warning as the cause. */
static bool failed_otherwise(const struct rules_run *run)
{
    const struct facts *facts = run->s->facts;
    if (facts_find(facts, "oom.seen", FACT_LOG) != NULL)
        return true;
    for (size_t i = 0; i < rule_ending_facts_count; i++)
        if (facts_find(facts, rule_fact_names[rule_ending_facts[i]], FACT_LOG) != NULL)
            return true;
    const struct fact *raised = facts_find(facts, "msg.python_exception", FACT_LOG);
    if (raised != NULL && raised->text != NULL &&
        rule_is_on(RULE_RAISED_BY_LOADING, text_of(raised->text)))
        return false;
    return raised != NULL;
}

/* Lines that were counted. */
static void settle_counts(const struct rules_run *run, bool otherwise)
{
    char name[SCAN_NAME_MAX];
    for (size_t i = 0; i < RULE_FACTS; i++) {
        const struct rule_slot *slot = &run->slots[i];
        if (slot->warned == 0 || slot->count > 0)
            continue;
        (void)snprintf(name, sizeof name, "msg.%s%s", otherwise ? "warned." : "",
                       rule_fact_names[i] + strlen("msg."));
        scan_integer_at(run->s, slot->warned_line, name, slot->warned);
        if (!otherwise)
            scan_boolean_at(run->s, slot->warned_line, "msg.only_warned", true);
    }
}

/* Names that the loader did not find: outside an exception, then in a warning. */
static void settle_names(const struct scan *s)
{
    static const struct {
        const char *from, *to, *why;
    } rows[] = {
        {"msg.aside.library_missing", "msg.library_missing", "msg.only_aside"},
        {"msg.aside.undefined_symbol", "msg.undefined_symbol", "msg.only_aside"},
        {"msg.warned.library_missing", "msg.library_missing", "msg.only_warned"},
        {"msg.warned.undefined_symbol", "msg.undefined_symbol", "msg.only_warned"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct fact *f = facts_find(s->facts, rows[i].from, FACT_LOG);
        if (f == NULL || f->text == NULL || facts_find(s->facts, rows[i].to, FACT_LOG) != NULL)
            continue;
        const char *source = f->source; /* `f` itself moves when the store grows */
        (void)facts_set_text(s->facts, rows[i].to, FACT_LOG, f->text, source);
        (void)facts_set_boolean(s->facts, rows[i].why, FACT_LOG, true, source);
    }
}

/* The same words were on a line that is no warning. */
static bool counted(const struct rules_run *run)
{
    for (size_t i = 0; i < RULE_FACTS; i++)
        if (rule_fact_is_warned_of[i] && run->slots[i].count > 0)
            return true;
    return false;
}

void warned_settle(const struct rules_run *run)
{
    bool otherwise = failed_otherwise(run) || counted(run);
    settle_counts(run, otherwise);
    if (!otherwise)
        settle_names(run->s);
}
