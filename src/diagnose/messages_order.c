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

/* Raised because of another process' or an inner failure. */
static const char *const passed_on[] = {
    "ChildFailedError", "CalledProcessError", "EngineDeadError", "RayTaskError",  "RayActorError",
    "DistBackendError", "ValidationError",    "BrokenProcess",   "BrokenPipe",    "Connection",
    "Disconnected",     "KeyboardInterrupt",  "SystemExit",      "WorkerLost",    "ProcessExited",
    "ProcessRaised",    "EngineCore",         "EngineGenerat",   "HTTPException", "Timeout",
};

static const char *const memory_words[] = {"OutOfMemory", "ut of memory", "OOM",
                                           "MemoryError", "ALLOC_FAILED", "Tried to allocate",
                                           "ngine core"};

static const char *const chain_words[] = {"During handling of the above exception",
                                          "direct cause of the following exception"};

static bool has_any(struct text in, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (text_has(in, words[i]))
            return true;
    return false;
}

#define HAS_ANY(text, words) has_any(text, words, sizeof(words) / sizeof(words)[0])

/* Not part of a traceback, a native stack or a message that goes on over lines. */
static bool is_ordinary(struct text line)
{
    static const char *const parts[] = {"Traceback (most recent", "File \"",     "frame #",
                                        "See documentation",      "If reserved", "Exception raised",
                                        "expandable_segments",    "^^^"};
    return line.len > 3 && line.at[0] != ' ' && line.at[0] != '\t' && !HAS_ANY(line, parts) &&
           !HAS_ANY(line, memory_words);
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
    if (HAS_ANY(exception, memory_words) || HAS_ANY(message, memory_words) ||
        HAS_ANY(exception, passed_on))
        return;
    for (unsigned n = first; n < st->exception_line; n++) {
        (void)text_next_line(&all, &line);
        if (n <= log->last.line)
            continue;
        if (HAS_ANY(line, chain_words))
            return;
        ordinary += is_ordinary(line);
    }
    if (ordinary < WENT_ON_LINES)
        return;
    struct scan at = *s;
    at.line = st->exception_line;
    scan_text(&at, "msg.exception_after_oom", exception);
}
