/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A log of any length -> the lines that may say why a program failed. Pure.
 *
 * All of it is searched. Kept are the beginning, the end, and every line with a word of failure
 * together with its neighbours; where those are too many, the first and the last of them. A line
 * that is not kept becomes an empty one, so that the others keep their numbers.
 */
#ifndef DIAGNOSE_CONDENSE_H
#define DIAGNOSE_CONDENSE_H

#include <stddef.h>

/* A shorter text is kept whole. */
#define CONDENSE_ABOVE_BYTES ((size_t)8 << 20)

struct condensed {
    char *text; /* NUL-terminated; free() it */
    size_t len;
    size_t lines_found;  /* with a word of failure */
    size_t lines_left;   /* of those: not kept, as there were too many */
};

/* 0, or -ENOMEM. Not for a text of CONDENSE_ABOVE_BYTES or less. */
int condense(const char *data, size_t len, struct condensed *ret);

#endif
