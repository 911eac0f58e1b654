/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The class of invented reports (tests/fixtures/texts.txt): each kind of evidence with neighbours that no
 * rule was written for, and healthy texts that look like them. None of them is sure enough for a high
 * confidence, except what a runtime says of its driver, and a count that is printed beside its limit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../tree/tree_fixture.h"
#include "diagnose/fact.h"
#include "diagnose/text.h"
#include "diagnose/verdict.h"

#define LEAST_TEXTS 50

struct report {
    char wanted[32], gpu[64];
    const char *text;
    size_t len;
};

static void judge(const struct report *r, struct tree *tree)
{
    struct facts *facts = facts_new();
    struct verdict v = {0};
    if (r->gpu[0] != '\0')
        (void)facts_set_text(facts, "report.gpu", FACT_STATIC, r->gpu, "the report");
    any_text_to_facts(facts, r->text, r->len, "text");
    assert_int_equal(diagnose(facts, tree, &v, NULL), 0);
    const char *node = fixture_last_node(&v);
    bool may_be_sure = strcmp(node, "library-missing") == 0 || strcmp(node, "file-descriptors-full") == 0;
    bool too_sure = strcmp(v.confidence, "high") == 0 && !may_be_sure;
    if (strcmp(v.class_name, r->wanted) != 0 || too_sure)
        fail_msg("'%.*s' is %s (%s, %s), wanted %s", (int)(r->len < 200 ? r->len : 200), r->text, v.class_name,
                 v.confidence, fixture_last_node(&v), r->wanted);
    verdict_release(&v);
    facts_free(facts);
}

/* "=== CLASS | GPU" begins a report, "--- " ends it. */
static bool next_report(struct text *rest, struct report *r)
{
    struct text line, gpu;
    while (text_next_line(rest, &line) && !text_starts(line, "=== "))
        ;
    if (!text_starts(line, "=== "))
        return false;
    assert_true(text_after(line, "|", &gpu));
    (void)text_copy(text_trim(text_until(text_skip(line, 4), "|")), r->wanted, sizeof r->wanted);
    (void)text_copy(text_trim(gpu), r->gpu, sizeof r->gpu);
    r->text = rest->at;
    struct text ahead = *rest;
    while (text_next_line(&ahead, &line) && !text_starts(line, "=== ") && !text_starts(line, "--- "))
        *rest = ahead;
    r->len = (size_t)(rest->at - r->text);
    return r->len > 0;
}

static void test_each_text_has_its_class(void **state)
{
    char *all = fixture_read("tests/fixtures/texts.txt");
    struct text rest = {all, strlen(all)};
    struct report r;
    unsigned count = 0;
    for (; next_report(&rest, &r); count++)
        judge(&r, *state);
    assert_true(count >= LEAST_TEXTS);
    free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_text_has_its_class)};
    return cmocka_run_group_tests(tests, fixture_load_tree, fixture_free_tree);
}
