/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A site's own message rules: a part of the language of templates/messages.rules, read at run time.
 * Known words: rule, line, also, or, unless, take, set, count, match, never. Facts are named "site.X".
 * Pure, except for the memory of the rules.
 */
#ifndef DIAGNOSE_SITE_RULES_H
#define DIAGNOSE_SITE_RULES_H

#include <stdbool.h>
#include <stddef.h>

struct facts;
struct rc_err;
struct site_rules;

/* Bounded, because each rule is tried on each line. */
#define SITE_RULES_MAX 100

/* "site." and lower case letters, digits, '_' and further parts with '.'. */
bool site_fact_name(const char *name, size_t len);

/* NULL with "NAME:LINE: ..." in *err: a syntax error, an example that contradicts its rule, or no
 * memory. Caller frees. */
struct site_rules *site_rules_parse(const char *text, size_t len, const char *name,
                                    struct rc_err *err);
void site_rules_free(struct site_rules *rules);
size_t site_rules_count(const struct site_rules *rules);
/* Sets facts from the lines of the text, with the source "SOURCE line N"; the first value of a fact
 * stays. */
void site_rules_to_facts(const struct site_rules *rules, struct facts *facts, const char *text,
                         size_t len, const char *source);

#endif
