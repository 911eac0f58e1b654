/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Class and confidence of invented logs (tests/fixtures/units.txt) with a failure that is not the run's: in a test that passed, a
 * trial before others, one of several hosts that went on, or told of in a document. Beside them stand those where it is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../tree/tree_fixture.h"
#include "diagnose/fact.h"
#include "diagnose/text.h"
#include "diagnose/verdict.h"

#define LEAST_TEXTS 25
#define BEGINS "@@@ "

static void judge(struct text wanted, struct text log, struct tree *tree)
{
    struct facts *facts = facts_new();
    struct verdict v = {0};
    char answer[64];
    any_text_to_facts(facts, log.at, log.len, "text");
    assert_int_equal(diagnose(facts, tree, &v, NULL), 0);
    (void)snprintf(answer, sizeof answer, "%s %s", v.class_name, v.confidence);
    if (!text_equals(wanted, answer))
        fail_msg("'%.*s' is %s (%s), wanted %.*s", (int)(log.len < 300 ? log.len : 300), log.at, answer, fixture_last_node(&v),
                 (int)wanted.len, wanted.at);
    verdict_release(&v);
    facts_free(facts);
}

static void test_each_log_has_its_verdict(void **state)
{
    char *all = fixture_read("tests/fixtures/units.txt");
    struct text rest = {all, strlen(all)}, before, line;
    unsigned count = 0;
    assert_true(text_before(rest, "\n" BEGINS, &before));
    rest = text_skip(rest, before.len + 1);
    for (; rest.len > 0; count++) {
        assert_true(text_next_line(&rest, &line));
        struct text log = text_before(rest, "\n" BEGINS, &before) ? text_first(rest, before.len + 1) : rest;
        judge(text_skip(line, strlen(BEGINS)), log, *state);
        rest = text_skip(rest, log.len);
    }
    assert_true(count >= LEAST_TEXTS);
    free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_log_has_its_verdict)};
    return cmocka_run_group_tests(tests, fixture_load_tree, fixture_free_tree);
}
