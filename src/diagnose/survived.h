/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program may handle a failure, or only quote somebody's message, and go on. This marks the facts that stand only on
 * such lines. Pure.
 */
#ifndef DIAGNOSE_SURVIVED_H
#define DIAGNOSE_SURVIVED_H

#include <stddef.h>
#include <stdint.h>

struct facts;

struct survived {
    char *text; /* without the failures before a good end, or before another error if the program survived one; NULL: there were none, or memory is short. free() it. */
    size_t len;
    int64_t failure_lines; /* lines of the whole text that tell a failure */
};

typedef void (*text_reader)(struct facts *, const char *text, size_t len, const char *source);

/* Reads the text again without the failures after which the program made progress. A fact from index `from` on that this
 * reading does not give gets FACT_MARK_WENT_ON, however the program ended; FACT_MARK_ENDED_WELL if it says that it
 * reached its end. Those that stand only in quotation marks in a sentence get FACT_MARK_QUOTED, those on
 * lines which say that the failure was handled FACT_MARK_HANDLED, those before an error of the program's own FACT_MARK_FOLLOWED
 * (log.followed_by is that error, and log.ended_by if such a failure was survived), and the kernel's records of another process FACT_MARK_BYSTANDER (bystander.h).
 * `readers` ends with NULL. */
struct survived survived_doubt(struct facts *facts, size_t from, const char *text, size_t len, const char *source,
                               const text_reader readers[]);

/* The text without the failures of those of several hosts (streams.h) that were started again and went on, if a failure is left.
 * NULL: there are none, or memory is short. free() it; its length is that of the text. */
char *survived_without_restarted(const char *text, size_t len);

#endif
