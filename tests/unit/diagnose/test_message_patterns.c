/* SPDX-License-Identifier: Apache-2.0 */
/* Each known message alone gives its class, and no other class at high confidence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "diagnose/fact.h"
#include "diagnose/verdict.h"
#include "tree_fixture.h"

/* Messages that give no class yet: a warning alone is ignored. */
static const char *const silent[] = {"didn't recover within timeout"};

static bool is_silent(const char *text)
{
    for (size_t i = 0; i < sizeof silent / sizeof silent[0]; i++)
        if (strstr(text, silent[i]) != NULL)
            return true;
    return false;
}

/* "\n" of the file becomes a line's end. */
static void unescape(char *text)
{
    for (char *at = text; (at = strstr(at, "\\n")) != NULL; at++) {
        *at = '\n';
        memmove(at + 1, at + 2, strlen(at + 2) + 1);
    }
}

static bool is_listed(const char *classes, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = classes; at != NULL; at = strchr(at, ','), at += at != NULL)
        if (strncmp(at, name, n) == 0 && (at[n] == ',' || at[n] == '\0'))
            return true;
    return false;
}

static void test_each_shape_alone(void **state)
{
    struct tree *tree = fixture_tree();
    char *all = fixture_read("tests/fixtures/message_patterns.tsv"), *save = NULL;
    unsigned rows = 0, wrong = 0;
    (void)state;
    for (char *line = strtok_r(all, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
        char *text = strchr(line, '\t');
        if (line[0] == '#' || text == NULL)
            continue;
        *text++ = '\0';
        unescape(text);
        struct facts *facts = facts_new();
        struct verdict v = {0};
        any_text_to_facts(facts, text, strlen(text), "text");
        assert_int_equal(diagnose(facts, tree, &v, NULL), 0);
        rows++;
        if (!is_listed(line, v.class_name) && !is_silent(text)) {
            print_error("%s, not %s: %s\n", v.class_name, line, text);
            wrong++;
        }
        verdict_release(&v);
        facts_free(facts);
    }
    print_message("%u shapes, %u without their class\n", rows, wrong);
    assert_true(rows >= 230);
    assert_int_equal(wrong, 0);
    free(all);
    tree_free(tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_shape_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
