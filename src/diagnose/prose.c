/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prose_to_facts(): reads a reporter's own words: memory grows or is not freed, copies hang, a run
 * without SDMA passes, the GPU faults, hangs or is not found.
 *
 * Pure; runs in `triage` over pasted text only, never over a program's output, which has other
 * readers. The words are in templates/messages.rules.
 */
#include "diagnose/messages.h"

/* Longer lines are logs or dumps, not sentences. */
#define SENTENCE_MAX 600

/* "name=value", "[12:34:56]" and a driver's lines come from a log, not from a person. A few such signs in a
 * long sentence do no harm. A title is short. */
static bool is_sentence(struct text line, bool is_title)
{
    static const bool is_odd[256] = {['='] = true, ['{'] = true, ['}'] = true, ['['] = true, [']'] = true,
                                     ['|'] = true, ['<'] = true, ['>'] = true, ['\\'] = true};
    size_t spaces = 0, odd = 0;
    if (line.len > SENTENCE_MAX)
        return false;
    for (size_t i = 0; i < line.len; i++) {
        spaces += line.at[i] == ' ';
        odd += is_odd[(unsigned char)line.at[i]];
    }
    return spaces >= (is_title ? 1 : 3) && odd <= 2 + spaces / 12 && !text_has(line, "amdgpu: ") &&
           !text_has(line, "kernel: ");
}

void prose_to_facts(struct facts *facts, const char *data, size_t len, const char *source)
{
    unsigned before;
    struct text rest = text_tail(data, len, &before), line;
    struct scan s = {.facts = facts, .source = source != NULL ? source : "text", .line = before};
    struct rules_run run = {.s = &s, .scope = SCOPE_PROSE};
    char letters[SENTENCE_MAX];
    while (text_next_line(&rest, &line)) {
        s.line++;
        if (!is_sentence(line, s.line == before + 1))
            continue;
        rules_line(&run, text_lower(line, letters));
    }
    rules_emit(&run);
}
