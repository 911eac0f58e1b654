/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Weights of evidence for each class of failure: small numbers that are added up. Pure.
 */
#ifndef DIAGNOSE_PRIOR_H
#define DIAGNOSE_PRIOR_H

#include <stdbool.h>
#include <stddef.h>

enum {
    PRIOR_CAPACITY,
    PRIOR_FRAGMENTATION,
    PRIOR_LEAK,
    PRIOR_SDMA,
    PRIOR_GTT_LIMIT,
    PRIOR_HELD_BY_OTHER,
    PRIOR_HOST_OOM,
    PRIOR_PAGE_FAULT,
    PRIOR_GPU_HANG,
    PRIOR_HW_RAS,
    PRIOR_ARCH_MISMATCH,
    PRIOR_NO_DEVICE,
    PRIOR_RESOURCE_LIMIT,
    PRIOR_COLLECTIVE,
    PRIOR_VERSION_MISMATCH,
    PRIOR_APP_BUG,
    PRIOR_CLASSES
};

struct prior {
    float weight[PRIOR_CLASSES]; /* in the order of prior_class() */
};

/* "capacity", ...; NULL beyond the last one. */
const char *prior_class(size_t index);
/* -1: there is no such class. */
int prior_index(const char *name, size_t len);
/* "capacity 5, held-by-other 1", up to the first tab or newline; false on a syntax error. */
bool prior_parse(const char *text, struct prior *ret);
void prior_add(struct prior *sum, const struct prior *more, float factor);
/* Index of the largest weight, except that of `but` (-1 = none); -1 if all are 0. The first of equal
 * ones. */
int prior_best(const struct prior *p, int but);

#endif
