/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A log of several hosts, ranks or containers, in which each line begins with the mark of its writer: "node01: ",
 * "[1,3]<stderr>:", "worker-2 | ", "(Worker pid=4711, ip=10.0.0.3) ". Pure.
 */
#ifndef DIAGNOSE_STREAMS_H
#define DIAGNOSE_STREAMS_H

#include <stdbool.h>

#include "diagnose/text.h"

/* With more writers, the log is read as one. */
#define STREAMS_MAX 64

struct streams {
    unsigned count; /* 0 = the lines are of one writer, as far as they say */
    struct stream {
        struct text mark;
        unsigned lines;
        bool fails;       /* one of its lines tells a failure */
        unsigned survived; /* it went on after its failures up to this line */
    } list[STREAMS_MAX];
};

void streams_find(struct text all, struct streams *ret);

/* The writer of the line; NULL = it has none of these marks, or `streams` is NULL. */
const struct stream *stream_of_line(const struct streams *streams, struct text line);

/* The lines of one writer without their mark, and empty lines for all others, so that lines keep their numbers. NULL: memory
 * is short. free() it. */
char *stream_own(struct text all, struct text mark, size_t *ret_len);

#endif
