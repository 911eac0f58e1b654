/* SPDX-License-Identifier: Apache-2.0 */
/* --explain: false and unknown conditions with their values, for every class. */
#include "tree_fixture.h"

#include "base/err.h"
#include "diagnose/explain.h"
#include "diagnose/fact.h"
#include "diagnose/tree.h"
#include "diagnose/verdict.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

/* Worked number 3: free 6.22 and idle 7.10 GiB, requested 6.64. */
struct case_of {
    struct tree *tree;
    struct facts *facts;
    struct verdict verdict;
};

static int set_up(void **state)
{
    static struct case_of c;
    cJSON *rows = fixture_json("tests/fixtures/tree/worked.json");
    c.tree = fixture_tree();
    c.facts =
        fixture_facts(cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(rows, 2), "facts"), NULL);
    assert_int_equal(diagnose(c.facts, c.tree, &c.verdict, NULL), 0);
    assert_string_equal(c.verdict.class_name, "fragmentation");
    cJSON_Delete(rows);
    *state = &c;
    return 0;
}

static int tear_down(void **state)
{
    struct case_of *c = *state;
    verdict_release(&c->verdict);
    facts_free(c->facts);
    tree_free(c->tree);
    return 0;
}

static const struct explain_node *node_of(const struct explanation *e, const char *id)
{
    for (size_t i = 0; i < e->count; i++)
        if (strcmp(e->node[i].id, id) == 0)
            return &e->node[i];
    fail_msg("no node %s", id);
    return NULL;
}

static bool holds_part(const struct verdict_list *list, const char *part)
{
    for (size_t i = 0; i < list->count; i++)
        if (strstr(list->text[i], part) != NULL)
            return true;
    return false;
}

static void false_conditions_name_their_values(void **state)
{
    struct case_of *c = *state;
    struct explanation e;
    assert_int_equal(explain_class(c->facts, c->tree, &c->verdict, "capacity", &e, NULL), 0);
    const struct explain_node *n = node_of(&e, "larger-than-gpu");
    assert_string_equal(n->answer, "no");
    assert_true(holds_part(&n->fails, "requested > GPU total [requested 6.64 GiB, GPU total"));
    assert_int_equal(n->unknown.count, 0);
    assert_false(n->later);
    explanation_release(&e);
    assert_int_equal(e.count, 0);
}

static void unknown_conditions_name_what_is_missing(void **state)
{
    struct case_of *c = *state;
    struct explanation e;
    assert_int_equal(explain_class(c->facts, c->tree, &c->verdict, "leak", &e, NULL), 0);
    const struct explain_node *n = node_of(&e, "leak-while-running");
    assert_true(holds_part(&n->unknown, "missing: samples, rising steps"));
    explanation_release(&e);
}

static void the_class_that_it_is_holds(void **state)
{
    struct case_of *c = *state;
    struct explanation e;
    assert_int_equal(explain_class(c->facts, c->tree, &c->verdict, "fragmentation", &e, NULL), 0);
    const struct explain_node *n = node_of(&e, "idle-by-message");
    assert_string_equal(n->answer, "yes");
    assert_false(n->later);
    assert_true(n->holds.count > 0);
    assert_int_equal(n->fails.count, 0);
    explanation_release(&e);
}

/* For a false "(a and b) or c": the false operand of the "and", and c. For a true one: the true
 * operands. A long expression is not cut. */
static void only_what_decides_is_printed(void **state)
{
    static const char text[] =
        "{\"format\": 1, \"nodes\": ["
        "{\"id\": \"no\", \"question\": \"?\", \"class\": \"leak\", \"sentence\": \"s\", \"test\":"
        " \"(oom.total_bytes > 5 and oom.free_bytes > 100) or oom.requested_bytes > 9\"},"
        "{\"id\": \"yes\", \"question\": \"?\", \"class\": \"leak\", \"sentence\": \"s\", \"test\":"
        " \"oom.free_bytes > 100 or sure(oom.total_bytes > 5)\"},"
        "{\"id\": \"z\", \"question\": \"?\", \"class\": \"unknown\", \"sentence\": \"s\","
        " \"test\": \"true\"}]}";
    struct rc_err err = {""};
    struct explanation e;
    struct verdict v;
    (void)state;
    struct tree *tree = tree_parse(text, strlen(text), "t.json", &err);
    struct facts *facts = facts_new();
    assert_non_null(tree);
    assert_int_equal(facts_set_integer(facts, "oom.total_bytes", FACT_LOG, 10, "s"), 0);
    assert_int_equal(facts_set_integer(facts, "oom.free_bytes", FACT_LOG, 1, "s"), 0);
    assert_int_equal(facts_set_integer(facts, "oom.requested_bytes", FACT_LOG, 2, "s"), 0);
    assert_int_equal(diagnose(facts, tree, &v, &err), 0);
    assert_int_equal(explain_class(facts, tree, &v, "leak", &e, &err), 0);
    assert_string_equal(node_of(&e, "no")->fails.text[0],
                        "oom.free_bytes > 100 or oom.requested_bytes > 9 [oom.free_bytes 1 bytes, "
                        "oom.requested_bytes 2 bytes]");
    assert_string_equal(node_of(&e, "yes")->holds.text[0],
                        "oom.total_bytes > 5 [oom.total_bytes 10 bytes]");
    explanation_release(&e);
    verdict_release(&v);
    facts_free(facts);
    tree_free(tree);
}

/* "unknown" holds for everything, but a node before it had decided. */
static void a_later_yes_is_told_apart(void **state)
{
    struct case_of *c = *state;
    struct explanation e;
    assert_int_equal(explain_class(c->facts, c->tree, &c->verdict, "unknown", &e, NULL), 0);
    assert_true(node_of(&e, "unknown")->later);
    explanation_release(&e);
}

static void every_class_can_be_explained_and_is_json(void **state)
{
    struct case_of *c = *state;
    for (size_t i = 0; i < c->tree->node_count; i++) {
        struct explanation e;
        const char *name = c->tree->node[i].class_name;
        assert_int_equal(explain_class(c->facts, c->tree, &c->verdict, name, &e, NULL), 0);
        (void)node_of(&e, c->tree->node[i].id);
        cJSON *json = explanation_to_json(&e);
        assert_int_equal(cJSON_GetArraySize(json), (int)e.count);
        const cJSON *node = cJSON_GetArrayItem(json, 0);
        assert_true(cJSON_IsArray(cJSON_GetObjectItemCaseSensitive(node, "false")));
        assert_true(cJSON_IsArray(cJSON_GetObjectItemCaseSensitive(node, "unknown")));
        assert_true(cJSON_IsArray(cJSON_GetObjectItemCaseSensitive(node, "true")));
        cJSON_Delete(json);
        explanation_release(&e);
    }
}

static void an_unknown_class_is_refused_with_the_list(void **state)
{
    struct case_of *c = *state;
    struct explanation e;
    struct rc_err err = {""};
    assert_int_equal(explain_class(c->facts, c->tree, &c->verdict, "bogus", &e, &err), -ESRCH);
    assert_non_null(strstr(err.msg, "bogus"));
    assert_non_null(strstr(err.msg, "page-fault"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(false_conditions_name_their_values),
        cmocka_unit_test(unknown_conditions_name_what_is_missing),
        cmocka_unit_test(the_class_that_it_is_holds),
        cmocka_unit_test(only_what_decides_is_printed),
        cmocka_unit_test(a_later_yes_is_told_apart),
        cmocka_unit_test(every_class_can_be_explained_and_is_json),
        cmocka_unit_test(an_unknown_class_is_refused_with_the_list),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
