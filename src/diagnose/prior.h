/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much something speaks for each class of failure: small numbers that are added up. Pure.
 */
#ifndef DIAGNOSE_PRIOR_H
#define DIAGNOSE_PRIOR_H

#include <stdbool.h>
#include <stddef.h>

#define PRIOR_CLASSES 16

struct prior {
    float weight[PRIOR_CLASSES]; /* in the order of prior_class() */
};

/* "capacity", ...; NULL beyond the last one. */
const char *prior_class(size_t index);
/* -1: there is no such class. */
int prior_index(const char *name, size_t len);
/* "capacity 5, held-by-other 1", up to the first tab or newline: false where it is wrong. */
bool prior_parse(const char *text, struct prior *ret);
void prior_add(struct prior *sum, const struct prior *more, float factor);
/* Index of the largest weight but for that of `but` (-1 = none); -1 when all are 0. Of equal ones the
 * first. */
int prior_best(const struct prior *p, int but);

#endif
