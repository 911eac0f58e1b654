/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides what ended a program in which an allocation failed: the allocation or a later error.
 *
 * Pure. A program may catch "out of memory", reduce the batch and continue. Hours later another
 * error ends it. But an exception that is raised while the first one is handled, or that only
 * passes it on to a parent process, is the same failure.
 */
#include "diagnose/messages.h"

#include <string.h>

/* So many ordinary lines in between show that the program continued. */
#define WENT_ON_LINES 8

/* Not part of a traceback, a native stack or a message of several lines. */
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
