/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A site's own message rules: the language of templates/messages.rules, read while running. Of its
 * words these are known: rule, line, also, or, unless, take, set, count, match, never. Facts are named
 * "site.X". Pure but for the memory of the rules.
 */
#ifndef DIAGNOSE_SITE_RULES_H
#define DIAGNOSE_SITE_RULES_H

#include <stdbool.h>
#include <stddef.h>

struct facts;
struct rc_err;
struct site_rules;

/* Not more rules, as each is tried on each line. */
#define SITE_RULES_MAX 100

/* "site." and lower case letters, digits, '_' and further parts with '.'. */
bool site_fact_name(const char *name, size_t len);

/* NULL with "NAME:LINE: ..." in *err: a mistake, an example that a rule does not obey, or no memory.
 * Caller frees. */
struct site_rules *site_rules_parse(const char *text, size_t len, const char *name,
                                    struct rc_err *err);
void site_rules_free(struct site_rules *rules);
size_t site_rules_count(const struct site_rules *rules);
/* What the lines of the text say, with the source "SOURCE line N"; the first value of a fact stays. */
void site_rules_to_facts(const struct site_rules *rules, struct facts *facts, const char *text,
                         size_t len, const char *source);

#endif
