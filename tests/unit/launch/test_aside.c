/* SPDX-License-Identifier: Apache-2.0 */
/* The lines at the end of a run that name the bundles that were made while it went on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "launch/aside.h"
#include "record/shared.h"

#define MAKER 4242 /* nobody waits for it or sends it a signal */

static struct shared last; /* too large for a stack */
static struct aside_paths made;
static struct shared run; /* whose bundles they are */

static void assert_told(struct aside *a, const char *expected)
{
    char text[1024] = "";
    FILE *file = tmpfile();
    assert_non_null(file);
    int saved = dup(STDERR_FILENO);
    assert_true(saved >= 0);
    (void)fflush(stderr);
    assert_true(dup2(fileno(file), STDERR_FILENO) >= 0);
    aside_tell(a, "it stood still");
    (void)fflush(stderr);
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    assert_int_equal(close(saved), 0);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    assert_int_equal(fclose(file), 0);
    assert_string_equal(text, expected);
}

static void end_one(struct aside *a, const char *path)
{
    (void)snprintf(last.bundle_path, sizeof last.bundle_path, "%s", path);
    a->snapshot = &last;
    a->count++;
    a->child = MAKER;
    assert_true(aside_ended(a, &run, MAKER));
    assert_int_equal(strlen(run.aside_bundle), path[0] == '\0' ? 0 : 1); /* "/a/1.tar.gz" is "1" */
}

static void test_each_bundle_is_named(void **state)
{
    struct aside a = {.made = &made};
    (void)state;
    memset(&made, 0, sizeof made);
    assert_told(&a, "");
    end_one(&a, "/a/1.tar.gz");
    end_one(&a, "/a/2.tar.gz");
    assert_told(&a, "rocmcrash: it stood still; bundle of that moment: /a/1.tar.gz\n"
                    "rocmcrash: it stood still; bundle of that moment: /a/2.tar.gz\n");
    end_one(&a, "");
    assert_told(&a, "rocmcrash: it stood still; bundle of that moment: /a/1.tar.gz\n"
                    "rocmcrash: it stood still; bundle of that moment: /a/2.tar.gz\n"
                    "rocmcrash: it stood still; no bundle of that moment could be made\n");
}

static void test_the_last_is_named_without_memory_for_all(void **state)
{
    struct aside a = {.made = NULL};
    (void)state;
    end_one(&a, "/a/1.tar.gz");
    end_one(&a, "/a/2.tar.gz");
    assert_told(&a, "rocmcrash: it stood still; bundle of that moment: /a/2.tar.gz\n");
    end_one(&a, "");
    assert_told(&a, "rocmcrash: it stood still; no bundle of that moment could be made\n");
}

static void test_one_that_is_being_made(void **state)
{
    struct aside a = {.made = NULL, .snapshot = &last, .count = 1, .child = MAKER};
    (void)state;
    last.bundle_path[0] = '\0';
    assert_told(&a, "rocmcrash: it stood still; the bundle of that moment is still being made\n");
    (void)snprintf(last.bundle_path, sizeof last.bundle_path, "/a/1.tar.gz");
    assert_told(&a, "rocmcrash: it stood still; bundle of that moment: /a/1.tar.gz\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_bundle_is_named),
        cmocka_unit_test(test_the_last_is_named_without_memory_for_all),
        cmocka_unit_test(test_one_that_is_being_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
