/* SPDX-License-Identifier: Apache-2.0 */
/*
 * any_text_to_facts(): text of a kind that nobody names: what people paste into an issue.
 *
 * Pure; runs in `triage`. Program output, a kernel log and what tools print may stand in one text,
 * so every reader gets all of it.
 */
#include <stdlib.h>
#include <string.h>

#include "diagnose/fact.h"
#include "diagnose/kernel_events.h"
#include "diagnose/messages.h"
#include "diagnose/quantity.h"
#include "diagnose/text_cut.h"
#include "diagnose/text_repair.h"
#include "diagnose/verdict.h"
#include "diagnose/vocabulary.h"

static bool has_prefix(const struct facts *facts, size_t from, size_t to, const char *prefix)
{
    for (size_t i = from; i < to; i++)
        if (strncmp(facts_at(facts, i)->name, prefix, strlen(prefix)) == 0)
            return true;
    return false;
}

/* Reads a repaired text once more. `fact` says that something was found only there. Takes `text`. */
static void read_repaired(struct facts *facts, char *text, size_t len, const char *fact, const char *source)
{
    size_t before = facts_count(facts);
    if (text == NULL)
        return;
    messages_to_facts(facts, text, len, source);
    kernel_log_to_facts(facts, text, len, source);
    size_t after = facts_count(facts);
    if (has_prefix(facts, before, after, "msg.") || has_prefix(facts, before, after, "oom.") ||
        has_prefix(facts, before, after, "kmsg.") || has_prefix(facts, before, after, "err."))
        (void)facts_set_boolean(facts, fact, FACT_STATIC, true, source);
    kernel_events_to_facts(facts, text, len, source);
    quantities_to_facts(facts, text, len, source);
    free(text);
}

static void read_joined(struct facts *facts, const char *text, size_t len, const char *source)
{
    size_t joined_len = 0;
    char *joined = text_unwrap(text, len, &joined_len);
    read_repaired(facts, joined, joined_len, "log.joined", source);
}

static void read_completed(struct facts *facts, const char *text, size_t len, const char *source)
{
    size_t completed_len = 0;
    char *completed = text_complete(text, len, &completed_len);
    read_repaired(facts, completed, completed_len, "log.completed", source);
}

void any_text_to_facts(struct facts *facts, const char *text, size_t len, const char *source)
{
    size_t before = facts_count(facts);
    messages_to_facts(facts, text, len, source);
    size_t messages = facts_count(facts);
    pasted_to_facts(facts, text, len, source);
    size_t pasted = facts_count(facts);
    kernel_log_to_facts(facts, text, len, source);
    kernel_events_to_facts(facts, text, len, source);
    prose_to_facts(facts, text, len, source);
    read_joined(facts, text, len, source);
    read_completed(facts, text, len, source);
    quantities_to_facts(facts, text, len, source);
    /* A table of rocm-smi is not the program's output: that it holds no message says nothing. */
    bool said =
        has_prefix(facts, before, messages, "msg.") || has_prefix(facts, before, messages, "oom.");
    bool table =
        has_prefix(facts, messages, pasted, "gpu.") || has_prefix(facts, messages, pasted, "host.");
    if (said || !table)
        (void)facts_set_boolean(facts, "log.output_read", FACT_STATIC, true,
                                source != NULL ? source : "text");
}

void kernel_text_to_facts(struct facts *facts, const char *text, size_t len, const char *source)
{
    kernel_log_to_facts(facts, text, len, source);
    kernel_events_to_facts(facts, text, len, source);
    vocabulary_to_facts(facts, text, len, source);
    read_completed(facts, text, len, source);
}
