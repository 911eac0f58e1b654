/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ended the program when an allocation had failed before: the allocation, or a later error.
 *
 * Pure. Programs catch "out of memory", make the batch smaller and go on; hours later something
 * else ends them. But an exception that was raised while the first was handled, or that only passes
 * it on to a parent process, is the same failure.
 */
#include "diagnose/messages.h"

#include <string.h>

/* So many ordinary lines in between show that the program went on. */
#define WENT_ON_LINES 8

/* Not part of a traceback, a native stack or a message that goes on over lines. */
static bool is_ordinary(struct text line)
{
    return line.len > 3 && line.at[0] != ' ' && line.at[0] != '\t' &&
           !rule_is_on(RULE_GOES_ON, line) && !rule_is_on(RULE_OF_MEMORY, line);
}

/* "first" is the number of the first line of `all`. */
void order_emit(const struct scan *s, struct text all, unsigned first, const struct oom_log *log,
                const struct runtime_state *st)
{
    struct text exception = {st->exception, strlen(st->exception)};
    struct text message = {st->message, strlen(st->message)};
    struct text line;
    unsigned ordinary = 0;
    if (log->count == 0 || st->exception_line <= log->last.line)
        return;
    if (rule_is_on(RULE_OF_MEMORY, exception) || rule_is_on(RULE_OF_MEMORY, message) ||
        rule_is_on(RULE_PASSED_ON, exception))
        return;
    for (unsigned n = first; n < st->exception_line; n++) {
        (void)text_next_line(&all, &line);
        if (n <= log->last.line)
            continue;
        if (rule_is_on(RULE_EXCEPTION_CHAIN, line))
            return;
        ordinary += is_ordinary(line);
    }
    if (ordinary < WENT_ON_LINES)
        return;
    struct scan at = *s;
    at.line = st->exception_line;
    scan_text(&at, "msg.exception_after_oom", exception);
}
