/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program may handle a failure, or only quote somebody's message, go on, and end later by another error. Then the
 * earlier message is not the cause, whatever its class. This finds the error that ended the program, and marks the facts
 * that stand only on earlier failures, on the kernel's records of another process (bystander.h), or on what another rank
 * or process did. Pure.
 */
#ifndef DIAGNOSE_SURVIVED_H
#define DIAGNOSE_SURVIVED_H

#include <stddef.h>
#include <stdint.h>

struct facts;

struct survived {
    char *text; /* without what was survived or quoted; NULL: there was nothing, or memory is short. free() it. */
    size_t len;
    int64_t failure_lines; /* lines of the whole text that tell a failure */
};

typedef void (*text_reader)(struct facts *, const char *text, size_t len, const char *source);

/* Reads the text again without the failures that the program survived or quoted. A fact from index `from` on that this
 * reading does not give gets FACT_MARK_SURVIVED, and log.ended_by is the error that ended the program if it names no
 * GPU. Then it is read without any failure before the traceback of such an error: other facts that are lost get
 * FACT_MARK_FOLLOWED (log.followed_by), for they may be the cause, or not. Facts that stand only on lines which say themselves
 * that the failure was handled (rule "handled") get FACT_MARK_SURVIVED if a refused request or such an error came later,
 * else FACT_MARK_HANDLED. Those that stand only in quotation marks in a sentence get FACT_MARK_QUOTED.
 *
 * If the program made progress after a failure, it gets FACT_MARK_WENT_ON, however the program ended; FACT_MARK_ENDED_WELL if
 * it says that it reached its end.
 *
 * `readers` ends with NULL. */
struct survived survived_doubt(struct facts *facts, size_t from, const char *text, size_t len, const char *source,
                               const text_reader readers[]);

#endif
