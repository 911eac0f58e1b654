/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fact store and its JSON when any allocation fails: they return an error, damage no stored fact and leak nothing
 * (the sanitizer build sees leaks).
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "diagnose/fact.h"
#include "diagnose/verdict.h"
#include "starved.h"

static void *json_malloc(size_t size)
{
    return starved() ? NULL : __real_malloc(size);
}

/* Allocation n fails, once; true when all of it succeeded. */
static bool fill_and_write(long n)
{
    char name[32];
    bool all = true;
    allocations_left = n;
    struct facts *f = facts_new();
    if (f == NULL) {
        allocations_left = -1;
        return false;
    }
    for (int i = 0; i < 300; i++) { /* grows once, at 256 */
        (void)snprintf(name, sizeof name, "fact.%d", i);
        int r = facts_set_text(f, name, FACT_LOG, "value", "source");
        all = all && r == 0;
        assert_true(r == 0 || r == -ENOMEM);
    }
    all = facts_set_missing(f, "m", FACT_LOG, FACT_ABSENT, "why", "s") == 0 && all;
    all = facts_set_integer(f, "m", FACT_LOG, INT64_MAX, "s") == 0 && all;
    all = facts_set_missing(f, "gone", FACT_LOG, FACT_BLIND, "why", "s") == 0 && all;
    all = facts_set_real(f, "whole", FACT_LOG, 2.0, "s") == 0 && all;
    all = facts_set_real(f, "part", FACT_LOG, 2.5, "s") == 0 && all;
    all = facts_set_boolean(f, "b", FACT_LOG, true, "s") == 0 && all;
    cJSON *json = facts_to_json(f);
    all = all && json != NULL;
    allocations_left = -1;
    for (size_t i = 0; i < facts_count(f); i++) {
        const struct fact *fact = facts_at(f, i);
        assert_non_null(fact->name);
        assert_ptr_equal(fact, facts_find(f, fact->name, fact->when));
        if (fact->type == FACT_TEXT && fact->status == FACT_PRESENT)
            assert_string_equal("value", fact->text);
    }
    cJSON_Delete(json);
    facts_free(f);
    return all;
}

static void test_every_allocation_fails_once(void **state)
{
    (void)state;
    cJSON_Hooks hooks = {.malloc_fn = json_malloc, .free_fn = free};
    cJSON_InitHooks(&hooks);
    long n = 0;
    while (n < 20000 && !fill_and_write(n))
        n++;
    cJSON_InitHooks(NULL);
    assert_true(n > 1000);
    assert_true(n < 20000);
}

static void test_parsers_lose_the_fact_only(void **state)
{
    (void)state;
    static const char text[] =
        "HIP out of memory. Tried to allocate 6.64 GiB. GPU 0 has a total capacity of 19.92 GiB of "
        "which 6.22 GiB is free.\n[ 1.0] ring sdma0 timeout, signaled seq=1, emitted seq=2\n"
        "HIP_VISIBLE_DEVICES=0\nMem: 1000 2 3\n";
    for (long n = 0; n < 60; n++) {
        allocations_left = -1;
        struct facts *f = facts_new();
        allocations_left = n;
        messages_to_facts(f, text, sizeof text - 1, "a");
        kernel_log_to_facts(f, text, sizeof text - 1, "b");
        pasted_to_facts(f, text, sizeof text - 1, "c");
        environment_to_facts(f, text, sizeof text - 1, "d");
        allocations_left = -1;
        assert_true(facts_count(f) > 10); /* one fact is lost, not the rest of the text */
        facts_free(f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_allocation_fails_once),
        cmocka_unit_test(test_parsers_lose_the_fact_only),
    };
    return cmocka_run_group_tests_name("facts_starved", tests, NULL, NULL);
}
