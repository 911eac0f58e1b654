/* SPDX-License-Identifier: Apache-2.0 */
/* The same failure has the same signature, whatever its sizes, builds and machine; different failures
 * have different ones. */
#include "diagnose/fact.h"
#include "diagnose/signature.h"
#include "diagnose/verdict.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

static void id_of(const char *class_name, const char *facts_json, char ret[SIGNATURE_ID_SIZE])
{
    struct facts *facts = facts_new();
    cJSON *doc = cJSON_Parse(facts_json);
    assert_non_null(doc);
    assert_int_equal(facts_from_json(facts, doc, NULL), 0);
    struct verdict verdict = {.class_name = (char *)(uintptr_t)class_name, .subclass = (char[]){""}};
    signature_id(&verdict, facts, ret);
    cJSON_Delete(doc);
    facts_free(facts);
}

#define FAILURE                                                                                    \
    "\"err.api\":\"hipMalloc\",\"err.code\":\"hipErrorOutOfMemory\",\"stack.top\":\"ggml_cuda_pool\""

static void one_failure_has_one_signature(void **state)
{
    char first[SIGNATURE_ID_SIZE];
    char again[SIGNATURE_ID_SIZE];
    (void)state;
    id_of("capacity", "{" FAILURE ",\"oom.requested_bytes\":1024,\"software.rocm_version\":\"6.2.0-66\"}", first);
    id_of("capacity", "{" FAILURE ",\"oom.requested_bytes\":4096,\"software.rocm_version\":\"6.4.3\"}", again);
    assert_string_equal(first, again);
    assert_int_equal(strncmp(first, "rc-", 3), 0);
    assert_int_equal(strlen(first), 15);
}

static void each_part_counts(void **state)
{
    static const struct {
        const char *class_name, *facts;
    } others[] = {
        {"leak", "{" FAILURE "}"},
        {"capacity", "{" FAILURE ",\"gpu.0.gfx\":\"gfx1100\"}"},
        {"capacity", "{" FAILURE ",\"msg.python_exception\":\"MemoryError\"}"},
        {"capacity", "{\"err.api\":\"hipMalloc\",\"err.code\":\"hipErrorOutOfMemory\"}"},
        /* The ledger saw the call itself. */
        {"capacity", "{" FAILURE ",\"ledger.hip.function\":\"hipMallocAsync\"}"},
    };
    char first[SIGNATURE_ID_SIZE];
    (void)state;
    id_of("capacity", "{" FAILURE "}", first);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        char other[SIGNATURE_ID_SIZE];
        id_of(others[i].class_name, others[i].facts, other);
        assert_string_not_equal(first, other);
    }
}

#define SEGV "\"target.failed_signal_name\":\"SEGV\",\"target.failed_comm\":\"segv\","
#define HANG "\"snap.life\":\"The process is alive\",\"snap.comm\":\"python3\",\"target.signal_name\":\"TERM\","

static void own_failures_are_told_apart(void **state)
{
    static const char *const facts[] = {
        "{" SEGV "\"stack.place\":\"main+0x10 (segv)\",\"stack.top\":\"main\"}",
        "{\"target.failed_signal_name\":\"FPE\",\"stack.place\":\"main+0x10 (segv)\",\"stack.top\":\"main\"}",
        "{" SEGV "\"stack.place\":\"main+0x10 (other)\",\"stack.top\":\"main\"}",
        "{" SEGV "\"stack.place\":\"f+0x10 (segv)\",\"stack.top\":\"f\"}",
        "{\"target.failed_signal_name\":\"ABRT\",\"stack.place\":\"main+0x10 (segv)\",\"msg.cxx_type\":\"std::out_of_range\"}",
        "{\"msg.python_exception\":\"ValueError\",\"msg.python_place\":\"err.py:3 in f\"}",
        "{\"msg.python_exception\":\"ValueError\",\"msg.python_place\":\"err.py:9 in g\"}",
        "{" HANG "\"f.stands_at\":\"hang.py:2 in <module>\"}",
        "{" HANG "\"f.stands_at\":\"abba.py:15 in <module>\"}",
        "{\"snap.life\":\"The process is alive\",\"snap.comm\":\"sh\"}",
        "{\"snap.life\":\"The process is alive\",\"snap.comm\":\"timeout\"}",
        "{\"target.failed_signal_name\":\"SEGV\",\"target.failed_comm\":\"stripped\"}",
        "{\"target.failed_signal_name\":\"SEGV\",\"target.failed_comm\":\"stripped2\"}",
    };
    char ids[sizeof facts / sizeof facts[0]][SIGNATURE_ID_SIZE];
    (void)state;
    for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++) {
        id_of("unknown", facts[i], ids[i]);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(ids[k], ids[i]);
    }
}

static void what_differs_between_runs_is_no_part(void **state)
{
    static const char *const pairs[][2] = {
        {"{" SEGV "\"stack.place\":\"main+0x10 (segv)\"}", "{" SEGV "\"stack.place\":\"main+0x2c (segv)\",\"target.failed_pid\":7}"},
        {"{" SEGV "\"stack.place\":\"f+0x10 (libx.so.1.2)\"}", "{" SEGV "\"stack.place\":\"f+0x1 (libx.so.1.3.0)\"}"},
        {"{" SEGV "\"stack.place\":\"libx.so.1+0x10\"}", "{" SEGV "\"stack.place\":\"libx.so.1+0x999\"}"},
        {"{\"msg.python_place\":\"<project2>.py:3 in f\"}", "{\"msg.python_place\":\"<project11>.py:3 in f\"}"},
        /* It was anywhere when somebody ended it. */
        {"{\"target.failed_signal_name\":\"KILL\",\"stack.place\":\"f+0x1 (a)\",\"target.failed_comm\":\"a\"}",
         "{\"target.failed_signal_name\":\"KILL\",\"stack.place\":\"g+0x1 (a)\",\"target.failed_comm\":\"a\"}"},
        /* A hang that was ended, and its snapshot. */
        {"{" HANG "\"f.stands_at\":\"hang.py:2 in <module>\"}",
         "{\"snap.life\":\"The process is alive\",\"snap.comm\":\"python3.12\",\"f.stands_at\":\"hang.py:2 in <module>\"}"},
    };
    char first[SIGNATURE_ID_SIZE];
    char again[SIGNATURE_ID_SIZE];
    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        id_of("app-bug", pairs[i][0], first);
        id_of("app-bug", pairs[i][1], again);
        assert_string_equal(first, again);
    }
}

static void versions_stand_beside_it_without_builds(void **state)
{
    struct facts *facts = facts_new();
    struct verdict verdict = {.class_name = (char[]){"leak"}, .subclass = (char[]){""}};
    cJSON *object = cJSON_CreateObject();
    (void)state;
    (void)facts_set_text(facts, "software.torch_version", FACT_STATIC, "2.5.1+rocm6.2", "x");
    (void)facts_set_text(facts, "software.rocm_version", FACT_STATIC, "6.2.0-66", "x");
    assert_true(signature_to_json(&verdict, facts, object));
    char *text = cJSON_PrintUnformatted(object);
    assert_non_null(strstr(text, "\"versions\":[\"rocm 6.2.0\",\"torch 2.5.1\"]"));
    assert_non_null(strstr(text, "\"of\":[\"class leak\"]"));
    cJSON_free(text);
    cJSON_Delete(object);
    facts_free(facts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_failure_has_one_signature),
        cmocka_unit_test(each_part_counts),
        cmocka_unit_test(own_failures_are_told_apart),
        cmocka_unit_test(what_differs_between_runs_is_no_part),
        cmocka_unit_test(versions_stand_beside_it_without_builds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
