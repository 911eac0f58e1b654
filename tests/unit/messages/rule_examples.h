/* SPDX-License-Identifier: Apache-2.0 */
/* The examples of templates/messages.rules, as a table made at build time. */
#ifndef RULE_EXAMPLES_H
#define RULE_EXAMPLES_H

#include "diagnose/rules.h"

#define RULE_EXAMPLE_FACTS_MAX 12

struct rule_example {
    unsigned rule;
    enum rule_scope scope;
    bool match; /* false: the rule must not apply */
    const char *text;
    const char *facts[RULE_EXAMPLE_FACTS_MAX]; /* that the rule says; NULL-terminated */
};

extern const struct rule_example rule_examples[];
extern const size_t rule_examples_count;

#endif
