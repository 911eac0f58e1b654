/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shipped tree judges a capacity failure while each allocation in turn fails: it gives a verdict with a class, or
 * -ENOMEM and no leak (the sanitizer build sees leaks).
 */
#include "starved.h"
#include "tree_fixture.h"

#include "base/err.h"
#include "diagnose/fact.h"
#include "diagnose/verdict.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* True if that allocation was never reached. */
static bool judge_without(const struct tree *tree, long n)
{
    static const char text[] =
        "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 6.64 GiB. GPU 0 has a total "
        "capacity of 19.92 GiB of which 1.22 GiB is free. Of the allocated memory 17.50 GiB is "
        "allocated by PyTorch, and 120.00 MiB is reserved by PyTorch but unallocated.\n";
    struct verdict verdict = {0};
    struct rc_err err = {""};
    struct facts *facts = facts_new();
    messages_to_facts(facts, text, sizeof text - 1, "output");
    allocations_left = n;
    int r = diagnose(facts, tree, &verdict, &err);
    bool reached = allocations_left < 0;
    allocations_left = -1;
    if (r != 0)
        assert_int_equal(r, -ENOMEM);
    else if (!reached || strcmp(verdict.class_name, "unknown") != 0) /* a lost feature decides nothing */
        assert_string_equal(verdict.class_name, "capacity");
    assert_true(reached || r == 0);
    verdict_release(&verdict);
    facts_free(facts);
    return !reached;
}

static void test_every_allocation_fails_once(void **state)
{
    (void)state;
    struct tree *tree = fixture_tree();
    long n = 0;
    while (n < 50000 && !judge_without(tree, n))
        n++;
    tree_free(tree);
    assert_true(n > 300);
    assert_true(n < 50000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_allocation_fails_once),
    };
    return cmocka_run_group_tests_name("tree_starved", tests, NULL, NULL);
}
