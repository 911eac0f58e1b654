/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the messages of failing GPU programs in a stream of bytes: all patterns at once, one table
 * look-up a byte, across chunk ends, in constant memory and without allocating. Used by the relay
 * process; what the messages mean is decided later, from the kept text.
 */
#ifndef WATCH_MATCH_H
#define WATCH_MATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/words.h"

enum match_kind {
    MATCH_OOM,   /* an allocation was refused */
    MATCH_FAULT, /* the GPU hit an address or instruction it must not */
    MATCH_HANG,  /* the GPU stopped answering */
    MATCH_ERROR, /* the program ends by an error that has to do with the GPU, memory, resources or a crash */
    MATCH_PLAIN, /* it ends by an error that may be anything: an exception of Python */
    MATCH_REPORT, /* no failure: what an engine or framework says of its memory while it starts */
    MATCH_KINDS,
};

struct match_pattern {
    enum match_kind kind;
    const char *text;
};

/* Made from the "watch" lines of templates/messages.rules: what is watched for is what is read. */
extern const struct match_pattern match_patterns[];
extern const size_t match_pattern_count;
extern const struct words match_words;

/* "oom", "fault", "hang", "error", "plain", "report". */
const char *match_kind_name(enum match_kind kind);

struct matcher {
    uint16_t state;
    uint64_t count[MATCH_KINDS];       /* occurrences so far */
    uint16_t first_index[MATCH_KINDS]; /* pattern of the first occurrence, valid when count > 0 */
    /* Where the first and the last failure end in what was fed last; 0 = there is none. */
    size_t first_end, last_end;
};

void matcher_init(struct matcher *m);
/* Bytes were skipped: what follows does not continue what came before. */
void matcher_gap(struct matcher *m);
void matcher_feed(struct matcher *m, const void *data, size_t len);
/* Does a line by itself tell of memory or of a failure? (Not by MATCH_PLAIN, which may be anything.) */
bool match_line(const char *line, size_t len);

#endif
