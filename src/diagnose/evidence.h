/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Evidence that decides nothing alone: each row of the tree's "evidence" whose condition holds adds
 * its weights to its classes. The sums become facts (evidence.*) for the last nodes of the tree, and
 * give the runner-up of every verdict.
 */
#ifndef DIAGNOSE_EVIDENCE_H
#define DIAGNOSE_EVIDENCE_H

#include "diagnose/prior.h"

struct cJSON;
struct evidence_named;
struct expr;
struct facts;
struct loader;
struct tree;

#define EVIDENCE_ROWS_MAX 256
#define EVIDENCE_PAIRS_MAX 64

struct evidence_row {
    char *id;
    struct expr *when;
    struct prior prior;
    const struct evidence_named *named; /* the weights are facts: err.class, err.weight, ...; NULL = `prior` */
    char *say;
};

/* The question that decides between two classes. */
struct evidence_pair {
    int first, second; /* second -1: any other class */
    char *say;
};

struct evidence {
    size_t row_count, pair_count;
    struct evidence_row row[EVIDENCE_ROWS_MAX];
    struct evidence_pair pair[EVIDENCE_PAIRS_MAX];
};

/* "evidence" and "decides" of a stage, if they are there. */
int evidence_read(struct loader *l, const struct cJSON *root);
void evidence_release(struct evidence *);

/* Sums up and sets the facts evidence.*: class, weight, second, second_weight, margin, says. */
struct prior evidence_derive(struct facts *, const struct tree *);
/* The question that would decide between two classes; NULL: the tree has none. */
const char *evidence_decides(const struct tree *, const char *class_name, const char *other);

#endif
