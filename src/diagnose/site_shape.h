/* SPDX-License-Identifier: Apache-2.0 */
/* Parses a shape of a message rule, as message_rules/compile.py does it at build time. */
#ifndef DIAGNOSE_SITE_SHAPE_H
#define DIAGNOSE_SITE_SHAPE_H

#include "diagnose/rules.h"

struct rc_err;

#define SHAPE_PARTS_MAX 1024
#define SHAPE_FACTS_MAX 256
#define SHAPE_FACT_BYTES 64
#define SHAPE_WORDS_BYTES 65536

/* Holds the parsed shapes of a site's rules. */
struct shape_store {
    size_t part_count, fact_count, words_used;
    struct rule_part parts[SHAPE_PARTS_MAX];
    char facts[SHAPE_FACTS_MAX][SHAPE_FACT_BYTES]; /* rule_part.fact is an index */
    char words[SHAPE_WORDS_BYTES]; /* rule_part.words is an offset */
};

/* The index of a fact, added if it is new; -EINVAL if the name is not that of a site's fact. */
int shape_store_fact(struct shape_store *store, struct text name, struct rc_err *err);
/* 0, or -EINVAL with *err. */
int shape_parse(struct shape_store *store, struct text shape, struct rule_shape *ret,
                struct rc_err *err);

#endif
