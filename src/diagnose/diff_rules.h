/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to diff: templates/diff.json as it was read. Used by diff*.c and their tests. */
#ifndef DIAGNOSE_DIFF_RULES_H
#define DIAGNOSE_DIFF_RULES_H

#include <stdbool.h>
#include <stddef.h>

#define DIFF_GROUPS_MAX 48
#define DIFF_TOLERANCES_MAX 32

struct diff_patterns {
    size_t count;
    char **pattern;
};

enum diff_compare_how { DIFF_VALUE, DIFF_SAID, DIFF_NAMES };

struct diff_group {
    char *id, *title, *why;
    struct diff_patterns facts;
    struct diff_patterns first_for; /* verdicts */
    enum diff_compare_how compare;
    bool absent_is_no; /* a fact that is not there is "not set" */
};

struct diff_tolerance {
    struct diff_patterns facts;
    double percent; /* of the larger */
    double units;   /* of the fact: bytes, ms */
};

struct diff_rules {
    struct diff_patterns ignore;
    size_t group_count;
    struct diff_group group[DIFF_GROUPS_MAX];
    size_t tolerance_count;
    struct diff_tolerance tolerance[DIFF_TOLERANCES_MAX];
};

/* Is `word` one of them? Case matters. */
bool diff_patterns_hold(const struct diff_patterns *patterns, const char *word);

#endif
