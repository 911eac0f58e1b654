/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every code of every vocabulary gives a class when it is alone, in any spelling, or has a reason why not. Text that
 * only looks like a code gives no fact.
 */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "diagnose/fact.h"
#include "diagnose/verdict.h"
#include "diagnose/vocabulary.h"
#include "tree_fixture.h"

static struct tree *tree;

static bool has_class(const char *text)
{
    struct facts *facts = facts_new();
    struct verdict v = {0};
    any_text_to_facts(facts, text, strlen(text), "text");
    assert_int_equal(diagnose(facts, tree, &v, NULL), 0);
    bool known = strcmp(v.class_name, "unknown") != 0;
    assert_true(!known || strcmp(v.confidence, "high") != 0 || strstr(text, "alone") == NULL);
    verdict_release(&v);
    facts_free(facts);
    return known;
}

static bool finds(const char *text, const char *code)
{
    struct facts *facts = facts_new();
    const char *found = "";
    vocabulary_to_facts(facts, text, strlen(text), "text");
    bool any = facts_get_text(facts, "err.code", &found);
    bool same = code != NULL ? any && strcmp(found, code) == 0 : !any;
    if (!same)
        print_error("'%s' gives '%s'\n", text, found);
    facts_free(facts);
    return same;
}

static void test_coverage(void **state)
{
    size_t classes = 0, reasons = 0, silent = 0;
    (void)state;
    for (size_t i = 0; i < vocabulary_count(); i++) {
        const struct code *c = vocabulary_at(i);
        char text[200];
        if (c->prior == NULL) {
            reasons++;
            continue;
        }
        bool system = text_equals(c->domain, "errno");
        (void)snprintf(text, sizeof text, "%s: %.*s\n", system ? "kfd ioctl failed" : "call failed", (int)c->name.len,
                       c->name.at);
        classes++;
        /* one sign alone is not always enough: a weight of 2 is too little */
        int best = prior_best(c->prior, -1);
        assert_true(best >= 0);
        if (c->prior->weight[best] >= 3 && !has_class(text)) {
            print_error("no class: %s", text);
            silent++;
        }
    }
    print_message("%zu codes: %zu with a class, %zu with a reason, %zu silent\n", vocabulary_count(), classes, reasons,
                  silent);
    assert_int_equal(silent, 0);
    assert_true(vocabulary_count() > 800);
}

static void test_spellings(void **state)
{
    static const char *const rows[][2] = {
        {"x.cpp:3: hipErrorSharedObjectInitFailed", "hipErrorSharedObjectInitFailed"},
        {"failed: HIP_ERROR_SharedObjectInitFailed", "hipErrorSharedObjectInitFailed"},
        {"failed with hip error 303", "hipErrorSharedObjectInitFailed"},
        {"failed: hipError_t(303)", "hipErrorSharedObjectInitFailed"},
        {"hipModuleLoad returned error code 303", "hipErrorSharedObjectInitFailed"},
        {"hipModuleLoad -> 303", "hipErrorSharedObjectInitFailed"},
        {"error: shared object initialization failed", "hipErrorSharedObjectInitFailed"},
        {"HSA status 0x1010", "HSA_STATUS_ERROR_INVALID_CODE_OBJECT"},
        {"hsa_executable_freeze failed: 4112", "HSA_STATUS_ERROR_INVALID_CODE_OBJECT"},
        {"ROCBLAS_STATUS_MEMORY_ERROR", "rocblas_status_memory_error"},
        {"StatusCode.RESOURCE_EXHAUSTED while reserving", "StatusCodeResourceExhausted"},
        {"absl::StatusCode::kResourceExhausted", "StatusCodeResourceExhausted"},
        {"worker gone, exit code 137", "SIGKILL"},
        {"returncode=-7", "SIGBUS"},
        {"killed by signal 11", "SIGSEGV"},
        {"exited with 3221225477", "STATUS_ACCESS_VIOLATION"},
        {"exit code -1073741819", "STATUS_ACCESS_VIOLATION"},
        {"vkQueueSubmit: ErrorDeviceLost", "VK_ERROR_DEVICE_LOST"},
        {"kfd: create queue failed, ret -12", "ENOMEM"},
        {"hipMemsetAsync() failed (error code = HIP:700)", "hipErrorIllegalAddress"},
        {"openat(AT_FDCWD, \"/dev/kfd\", O_RDWR) = -1 ENOENT (of KFD)", "ENOENT"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_true(finds(rows[i][0], rows[i][1]));
}

static void test_what_is_no_code(void **state)
{
    static const char *const rows[] = {
        "hipSuccess", "exit code 0", "exit status 1", "hipMalloc was called 719 times", "ROCm 6.3 with 2 devices",
        "HIP version: 6.2.41133", "the signal is 11 dB", "a page was not found", "permission denied by the user",
        "openat(AT_FDCWD, \"/opt/rocm/lib/tls/libhsa-runtime64.so.1\", O_RDONLY) = -1 ENOENT (No such file)",
        "[hsakmt_ioctl] fd=3, ret=0, errno=1", "solver.hip:700 failed",
        "if (err != hipErrorNotReady) {", "    return hipErrorOutOfMemory;", "W0601 10:00:00 hipErrorUnknown ignored",
        "memory: 137 GiB", "rank 9 of 16 is up", "I ran out of memory yesterday", "took 700 ms on gpu 2",
        "[12:00:01] cuda 12.4, driver 550", "NCCL INFO Channel 00/02 : 0 1",
        "  File \"a.py\", line 9, in f\n    raise Oops(hipErrorUnknown)",
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_true(finds(rows[i], NULL));
}

static void test_call(void **state)
{
    struct facts *facts = facts_new();
    static const char text[] = "HIP error: unspecified launch failure\n  in function run at a.cu:3\n  hipMemcpyAsync(d, s, n)\n";
    const char *call = NULL;
    (void)state;
    vocabulary_to_facts(facts, text, sizeof text - 1, "stderr");
    assert_true(facts_get_text(facts, "err.api", &call));
    assert_string_equal(call, "hipMemcpyAsync");
    assert_string_equal(facts_find(facts, "err.code", FACT_LOG)->source, "stderr line 1");
    facts_free(facts);
}

static void test_garbage(void **state)
{
    char text[4096];
    uint32_t random = 1;
    (void)state;
    for (int round = 0; round < 200; round++) {
        for (size_t i = 0; i < sizeof text; i++) {
            random = random * 1664525u + 1013904223u;
            text[i] = round % 2 == 0 ? (char)(random >> 24) : "hip error 2(-):_x0\n"[(random >> 24) % 19];
        }
        struct facts *facts = facts_new();
        vocabulary_to_facts(facts, text, sizeof text, "garbage");
        facts_free(facts);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_coverage), cmocka_unit_test(test_spellings), cmocka_unit_test(test_what_is_no_code),
        cmocka_unit_test(test_call),     cmocka_unit_test(test_garbage),
    };
    tree = fixture_tree();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tree_free(tree);
    return failed;
}
