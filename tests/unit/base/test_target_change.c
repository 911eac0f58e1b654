/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/target_change.h"

static void hand_over(const char *text)
{
    assert_int_equal(0, setenv(TARGET_CHANGE, text, 1));
}

/* The number of entries of that variable in the program's environment; *ret_value is the last value. */
static int entries_of(const char *name, const char **ret_value)
{
    const char **list = target_change_environment();
    size_t len = strlen(name);
    int count = 0;
    *ret_value = NULL;
    assert_non_null(list);
    for (const char **entry = list; *entry != NULL; entry++)
        if (strncmp(*entry, name, len) == 0 && (*entry)[len] == '=') {
            *ret_value = *entry + len + 1;
            count++;
        }
    free(list);
    return count;
}

static void test_a_variable(void **state)
{
    const char *value;
    (void)state;
    assert_int_equal(0, setenv("RC_A", "old", 1));
    assert_int_equal(0, setenv("RC_AB", "other", 1));
    hand_over("set RC_A=a=b");
    assert_string_equal(getenv("RC_A"), "old");
    assert_string_equal(target_change_variable("RC_A"), "a=b");
    assert_string_equal(target_change_variable("RC_AB"), "other");
    assert_int_equal(entries_of("RC_A", &value), 1);
    assert_string_equal(value, "a=b");
    assert_int_equal(entries_of("RC_AB", &value), 1);
    assert_int_equal(entries_of(TARGET_CHANGE, &value), 0);
    assert_false(target_change_is_limit());
    assert_true(target_change_is_variable());
    assert_int_equal(0, target_change_apply());
    assert_string_equal(getenv("RC_A"), "a=b");
    assert_false(target_change_is_variable());
    assert_null(getenv(TARGET_CHANGE));
}

static void test_no_variable(void **state)
{
    const char *value;
    (void)state;
    assert_int_equal(0, setenv("RC_A", "old", 1));
    hand_over("unset RC_A");
    assert_null(target_change_variable("RC_A"));
    assert_true(target_change_is_variable());
    assert_int_equal(entries_of("RC_A", &value), 0);
    assert_int_equal(0, target_change_apply());
    assert_null(getenv("RC_A"));
}

static void test_a_limit(void **state)
{
    struct rlimit limit;
    char text[64];
    (void)state;
    assert_int_equal(0, getrlimit(RLIMIT_NOFILE, &limit));
    (void)snprintf(text, sizeof text, "limit %d 200 %llu", RLIMIT_NOFILE, (unsigned long long)limit.rlim_max);
    hand_over(text);
    assert_true(target_change_is_limit());
    assert_false(target_change_is_variable());
    assert_int_equal(0, target_change_apply());
    assert_int_equal(0, getrlimit(RLIMIT_NOFILE, &limit));
    assert_int_equal(limit.rlim_cur, 200);
}

static void test_none_and_garbage(void **state)
{
    static const char *const texts[] = {"", "set", "unset", "limits", "1", "frob A=1"};
    (void)state;
    assert_int_equal(0, target_change_apply());
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        hand_over(texts[i]);
        assert_int_equal(0, target_change_apply());
        assert_null(getenv(TARGET_CHANGE));
    }
    hand_over("limit 7 x 9");
    assert_int_equal(-EINVAL, target_change_apply());
    hand_over("limit 7 9 8");
    assert_int_equal(-EINVAL, target_change_apply());
    hand_over("unset =");
    assert_int_equal(-EINVAL, target_change_apply());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_variable),
        cmocka_unit_test(test_no_variable),
        cmocka_unit_test(test_a_limit),
        cmocka_unit_test(test_none_and_garbage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
