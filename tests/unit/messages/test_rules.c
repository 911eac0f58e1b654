/* SPDX-License-Identifier: Apache-2.0 */
/*
 * templates/messages.rules by its own examples: each "match" gives the rule's facts, no "never"
 * does, and every rule is needed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "diagnose/messages.h"
#include "diagnose/verdict.h"
#include "rule_examples.h"

static struct facts *read_example(const struct rule_example *e)
{
    struct facts *facts = facts_new();
    size_t len = strlen(e->text);
    if (e->scope == SCOPE_KERNEL)
        kernel_log_to_facts(facts, e->text, len, "text");
    else if (e->scope == SCOPE_PROSE)
        prose_to_facts(facts, e->text, len, "text");
    else if (e->scope == SCOPE_PASTED)
        pasted_to_facts(facts, e->text, len, "text");
    else
        messages_to_facts(facts, e->text, len, "text");
    return facts;
}

static char *json_of(const struct rule_example *e)
{
    struct facts *facts = read_example(e);
    cJSON *json = facts_to_json(facts);
    char *text = cJSON_PrintUnformatted(json);
    cJSON_Delete(json);
    facts_free(facts);
    return text;
}

static unsigned missing(const struct rule_example *e, const char **ret_first)
{
    struct facts *facts = read_example(e);
    unsigned count = 0;
    for (size_t i = 0; i < RULE_EXAMPLE_FACTS_MAX && e->facts[i] != NULL; i++) {
        if (facts_best(facts, e->facts[i]) == NULL && count++ == 0)
            *ret_first = e->facts[i];
    }
    facts_free(facts);
    return count;
}

static void test_examples(void **state)
{
    unsigned matches = 0, others = 0, wrong = 0;
    (void)state;
    for (size_t i = 0; i < rule_examples_count; i++) {
        const struct rule_example *e = &rule_examples[i];
        const char *first = NULL;
        matches += e->match;
        others += !e->match;
        bool gives = missing(e, &first) == 0;
        if (gives == e->match || e->facts[0] == NULL)
            continue;
        print_error("rule %s %s %s: %s\n", rules[e->rule].name, gives ? "applies to" : "does not give",
                    gives ? "" : first, e->text);
        wrong++;
    }
    assert_int_equal(wrong, 0);
    assert_true(matches > 500);
    assert_true(others > 10);
}

/* Without the rule, one of its examples says less. */
static void test_every_rule_is_needed(void **state)
{
    unsigned wrong = 0;
    (void)state;
    for (size_t i = 0; i < rule_examples_count;) {
        unsigned rule = rule_examples[i].rule;
        bool needed = false;
        for (; i < rule_examples_count && rule_examples[i].rule == rule; i++) {
            char *with = json_of(&rule_examples[i]);
            rules_left_out = rule;
            char *without = json_of(&rule_examples[i]);
            rules_left_out = RULES_COUNT;
            needed = needed || (rule_examples[i].match && strcmp(with, without) != 0);
            free(with);
            free(without);
        }
        if (!needed) {
            print_error("rule %s is not needed for its examples\n", rules[rule].name);
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_examples),
        cmocka_unit_test(test_every_rule_is_needed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
