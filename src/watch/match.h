/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the messages of failing GPU programs in a stream of bytes. It searches for all patterns at once,
 * with one table look-up per byte, also across the ends of chunks, and allocates nothing. Used by the
 * relay process; the finisher interprets the messages later, from the text that was kept.
 */
#ifndef WATCH_MATCH_H
#define WATCH_MATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/words.h"

enum match_kind {
    MATCH_OOM,   /* an allocation was refused */
    MATCH_FAULT, /* the GPU used an invalid address or an illegal instruction */
    MATCH_HANG,  /* the GPU stopped answering */
    MATCH_ERROR, /* an error about the GPU, memory or resources, or a crash, ends the program */
    MATCH_PLAIN, /* any other error ends the program: an exception of Python */
    MATCH_REPORT, /* no failure: an engine or framework reports its memory while it starts */
    MATCH_KINDS,
};

struct match_pattern {
    enum match_kind kind;
    const char *text;
};

/* Made from the "watch" lines of templates/messages.rules, as are the finisher's tables: both know the
 * same messages. */
extern const struct match_pattern match_patterns[];
extern const size_t match_pattern_count;
extern struct words match_words;

/* "oom", "fault", "hang", "error", "plain", "report". */
const char *match_kind_name(enum match_kind kind);

struct matcher {
    size_t state;
    uint64_t count[MATCH_KINDS];       /* occurrences so far */
    uint16_t first_index[MATCH_KINDS]; /* pattern of the first occurrence, valid when count > 0 */
    /* Offsets in the last chunk: where its first and its last failure message end; 0 = none. */
    size_t first_end, last_end;
};

void matcher_init(struct matcher *m);
/* Bytes were skipped: the next bytes do not continue the last ones. */
void matcher_gap(struct matcher *m);
void matcher_feed(struct matcher *m, const void *data, size_t len);
/* Is this line about memory or a failure? MATCH_PLAIN does not count, because it may be any error. */
bool match_line(const char *line, size_t len);

#endif
