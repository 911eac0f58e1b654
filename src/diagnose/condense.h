/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A log of any length -> the lines that may say why a program failed. Pure.
 *
 * Searches the whole log. Keeps its beginning, its end, and every line with a word of failure
 * together with its neighbours; if those are too many, the first and the last of them. The other
 * lines become empty, so that line numbers stay.
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
    size_t lines_left;   /* of those: left out, because there were too many */
};

/* 0, or -ENOMEM. Not for a text of CONDENSE_ABOVE_BYTES or less. */
int condense(const char *data, size_t len, struct condensed *ret);

#endif
