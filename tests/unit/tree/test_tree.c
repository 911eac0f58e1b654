/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shipped tree against fact sets: every node from both sides, the worked numbers, missing
 * input. Its advice: test_tree_advice.c.
 */
#include "tree_fixture.h"

#include "diagnose/computed.h"
#include "diagnose/fact.h"
#include "diagnose/features.h"
#include "diagnose/tree.h"
#include "diagnose/verdict.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

static void each_node_is_reached_and_its_neighbour_is_not(void **state)
{
    struct tree *tree = *state;
    cJSON *rows = fixture_json("tests/fixtures/tree/nodes.json");
    const cJSON *row = NULL;
    size_t failures = 0;
    cJSON_ArrayForEach(row, rows)
    {
        const char *node = fixture_text(row, "node");
        const cJSON *facts = cJSON_GetObjectItemCaseSensitive(row, "facts");
        struct verdict yes = fixture_judge(tree, facts, NULL);
        if (strcmp(fixture_last_node(&yes), node) != 0 ||
            strcmp(yes.class_name, fixture_text(row, "class")) != 0) {
            print_error("%s: reached %s, class %s\n", node, fixture_last_node(&yes), yes.class_name);
            failures++;
        }
        verdict_release(&yes);
        struct verdict no = fixture_judge(tree, facts, cJSON_GetObjectItemCaseSensitive(row, "not"));
        const char *becomes = fixture_text(row, "becomes");
        if (strcmp(fixture_last_node(&no), node) == 0 ||
            (becomes != NULL && strcmp(fixture_last_node(&no), becomes) != 0)) {
            print_error("%s: the negative reached %s, not %s\n", node, fixture_last_node(&no),
                        becomes != NULL ? becomes : "another");
            failures++;
        }
        verdict_release(&no);
    }
    cJSON_Delete(rows);
    assert_int_equal(failures, 0);
}

static void every_node_has_a_fixture(void **state)
{
    const struct tree *tree = *state;
    cJSON *rows = fixture_json("tests/fixtures/tree/nodes.json");
    for (size_t i = 0; i < tree->node_count; i++) {
        const cJSON *row = NULL;
        bool found = false;
        cJSON_ArrayForEach(row, rows) found |= strcmp(fixture_text(row, "node"), tree->node[i].id) == 0;
        if (!found)
            fail_msg("node %s has no row in tests/fixtures/tree/nodes.json", tree->node[i].id);
    }
    cJSON_Delete(rows);
}

static size_t check_worked(struct tree *tree, const cJSON *row)
{
    const char *want = fixture_text(row, "confidence");
    const char *also = fixture_text(row, "also");
    const char *advice = fixture_text(row, "advice");
    struct verdict v = fixture_judge(tree, cJSON_GetObjectItemCaseSensitive(row, "facts"), NULL);
    bool ok = strcmp(v.class_name, fixture_text(row, "class")) == 0 &&
              strcmp(fixture_last_node(&v), fixture_text(row, "node")) == 0 &&
              (strcmp(want, "any") == 0 || strcmp(want, v.confidence) == 0) &&
              (also == NULL || fixture_list_holds(&v.also, also)) &&
              (advice == NULL || fixture_list_holds(&v.advice, advice));
    if (!ok)
        print_error("%s: %s %s %s\n", fixture_text(row, "source"), fixture_last_node(&v), v.class_name,
                    v.confidence);
    verdict_release(&v);
    return !ok;
}

static void worked_numbers_give_the_expected_class(void **state)
{
    cJSON *rows = fixture_json("tests/fixtures/tree/worked.json");
    const cJSON *row = NULL;
    size_t failures = 0;
    cJSON_ArrayForEach(row, rows) failures += check_worked(*state, row);
    cJSON_Delete(rows);
    assert_int_equal(failures, 0);
}

static bool is_wrong_and_sure(struct tree *tree, const cJSON *facts, const cJSON *change,
                              const char *want, const char *what)
{
    struct verdict v = fixture_judge(tree, facts, change);
    bool wrong = strcmp(v.confidence, "high") == 0 && strcmp(v.class_name, "unknown") != 0 &&
                 strcmp(v.class_name, want) != 0;
    if (wrong)
        print_error("without %s: %s at high, not %s\n", what, v.class_name, want);
    verdict_release(&v);
    return wrong;
}

/* Counts the facts whose absence gives a wrong answer at high confidence. */
static size_t starve(struct tree *tree, const cJSON *facts, const char *want)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(facts, "facts");
    size_t failures = 0;
    for (int i = 0; list != NULL && i < cJSON_GetArraySize(list); i++) {
        cJSON *left = cJSON_Duplicate(facts, 1);
        cJSON_DeleteItemFromArray(cJSON_GetObjectItemCaseSensitive(left, "facts"), i);
        failures +=
            is_wrong_and_sure(tree, left, NULL, want, fixture_text(cJSON_GetArrayItem(list, i), "name"));
        cJSON_Delete(left);
    }
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, facts)
    {
        if (list != NULL)
            break;
        cJSON *change = cJSON_CreateObject();
        cJSON_AddNullToObject(change, item->string);
        failures += is_wrong_and_sure(tree, facts, change, want, item->string);
        cJSON_Delete(change);
    }
    return failures;
}

/* Without one fact the answer may be less sure or unknown, but never another one at high confidence. */
static void removing_a_fact_never_makes_a_wrong_answer_sure(void **state)
{
    cJSON *rows = fixture_json("tests/fixtures/tree/worked.json");
    const cJSON *row = NULL;
    size_t failures = 0;
    cJSON_ArrayForEach(row, rows)
    {
        const cJSON *facts = cJSON_GetObjectItemCaseSensitive(row, "facts");
        failures += starve(*state, facts, fixture_text(row, "class"));
    }
    cJSON_Delete(rows);
    assert_int_equal(failures, 0);
}

static void missing_input_is_undecided_and_listed(void **state)
{
    cJSON *facts = cJSON_Parse("{\"oom.requested_bytes\": \"4 GiB\", \"gpu.0.is_apu\": true,"
                               " \"kmsg.readable\": null}");
    struct verdict v = fixture_judge(*state, facts, NULL);
    assert_string_equal(v.class_name, "unknown");
    assert_true(fixture_list_holds(&v.missing, "kernel log"));
    assert_true(fixture_list_holds(&v.missing, "free by the runtime"));
    bool undecided = false;
    for (size_t i = 0; i < v.steps; i++)
        undecided |= strcmp(v.path[i].answer, "undecided") == 0;
    assert_true(undecided);
    verdict_release(&v);
    cJSON_Delete(facts);
}

static void nothing_at_all_is_unknown_with_a_list(void **state)
{
    struct verdict v = {0};
    struct facts *facts = facts_new();
    assert_int_equal(diagnose(facts, *state, &v, NULL), 0);
    assert_string_equal(v.class_name, "unknown");
    assert_string_equal(v.vendor, "unknown");
    assert_true(v.missing.count > 5);
    facts_free(facts);
    verdict_release(&v);
}

/* The message is the same, word for word. Only the counters differ, and the verdict follows them. */
static void the_verdict_follows_the_counters(void **state)
{
    static const char text[] =
        "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
        "capacity of 23.98 GiB of which 1.10 GiB is free. Of the allocated memory 6.00 GiB is "
        "allocated by PyTorch, and 120.00 MiB is reserved by PyTorch but unallocated.\n";
    static const struct {
        const char *facts;
        const char *class_name;
        const char *subclass;
    } rows[] = {
        {"{\"gpu.0.is_apu\": false}", "held-by-other", ""},
        {"{\"gpu.0.is_apu\": false, \"others.vram_bytes\": \"16.5 GiB\", \"others.largest_pid\": "
         "9}",
         "held-by-other", ""},
        {"{\"gpu.0.is_apu\": false, \"proc.0.kfd_vram_bytes\": \"22.5 GiB\"}", "capacity",
         "other allocator in the same process"},
        {"{\"gpu.0.is_apu\": false, \"proc.0.fds_count\": 1020, \"proc.0.fds_limit\": 1024}",
         "resource-limit", "file descriptors"},
        {"{\"gpu.0.is_apu\": true, \"host.mem_total_bytes\": \"47.9 GiB\"}", "gtt-limit", ""},
        {"{\"gpu.0.is_apu\": true, \"gpu.0.vram.total_bytes\": \"64 GiB\"}", "gtt-limit",
         "carve-out unused"},
        {"{\"kmsg.first_bad\": \"hw-ras\"}", "hw-ras", ""},
        {"{\"kmsg.first_bad\": \"host-oom\", \"kmsg.oom_kill_pid\": 5}", "host-oom", ""},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct verdict v = {0};
        cJSON *json = cJSON_Parse(rows[i].facts);
        assert_non_null(json);
        struct facts *facts = fixture_facts(json, NULL);
        messages_to_facts(facts, text, strlen(text), "stderr");
        assert_int_equal(diagnose(facts, *state, &v, NULL), 0);
        if (strcmp(v.class_name, rows[i].class_name) != 0 ||
            strcmp(v.subclass, rows[i].subclass) != 0)
            fail_msg("%s: %s (%s)", rows[i].facts, v.class_name, v.subclass);
        verdict_release(&v);
        facts_free(facts);
        cJSON_Delete(json);
    }
}

/* -1 when it is not known */
static int64_t feature_of(const struct tree *tree, const char *json_text, const char *name)
{
    cJSON *json = fixture_quoted(json_text);
    struct facts *facts = fixture_facts(json, NULL);
    int64_t value = -1;
    features_derive(facts, tree->computed);
    (void)facts_get_integer(facts, name, &value);
    facts_free(facts);
    cJSON_Delete(json);
    return value;
}

#define THREE                                                                                      \
    "'gpu.count': 3, 'gpu.0.vram.total_bytes': '16 GiB', 'gpu.1.vram.total_bytes': "               \
    "'16 GiB', 'gpu.2.vram.total_bytes': '16 GiB'"

/* HIP's list selects within ROCr's. A GPU that the list does not name is unknown. */
static void the_gpu_of_an_ordinal_is_found_through_both_lists(void **state)
{
    static const struct {
        const char *more;
        int gpu;
    } rows[] = {
        {", 'oom.device': 1", 1},
        {", 'oom.device': 1, 'env.HIP_VISIBLE_DEVICES': '2,0'", 0},
        {", 'oom.device': 0, 'env.ROCR_VISIBLE_DEVICES': '1,2'", 1},
        {", 'oom.device': 0, 'env.ROCR_VISIBLE_DEVICES': '1,2', 'env.HIP_VISIBLE_DEVICES': '1'", 2},
        {", 'oom.device': 1, 'env.ROCR_VISIBLE_DEVICES': '1,2', 'env.HIP_VISIBLE_DEVICES': '1'",
         -1},
        {", 'oom.device': 0, 'env.ROCR_VISIBLE_DEVICES': 'GPU-8f1a2b3c4d5e6f70'", -1},
        {", 'oom.device': 0, 'env.HIP_VISIBLE_DEVICES': '1', 'env.CUDA_VISIBLE_DEVICES': '2'", 1},
        {", 'oom.device': 0, 'ledger.refused.gpu': 2", 2}, /* by the kernel's id, not counted */
        {", 'gpu.1.vram.used_bytes': '15 GiB', 'gpu.2.ledger_vram_bytes': '2 GiB'", 2},
        {", 'gpu.1.vram.used_bytes': '15 GiB'", 1},
        {", 'oom.device': 1e300", -1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[400];
        (void)snprintf(text, sizeof(text), "{" THREE "%s}", rows[i].more);
        if (feature_of(*state, text, "f.gpu") != rows[i].gpu)
            fail_msg("%s: %d", rows[i].more, (int)feature_of(*state, text, "f.gpu"));
    }
}

/* "Stop pid 9" is not said when pid 9 may hold another GPU. */
static void the_holder_is_named_when_it_is_on_this_gpu(void **state)
{
#define HOLDER ", 'oom.device': 1, 'others.largest_pid': 9, 'others.largest_bytes': '10 GiB'"
    (void)state;
    assert_int_equal(
        feature_of(*state, "{" THREE HOLDER ", 'gpu.1.others_kfd_vram_bytes': '12 GiB'}", "f.holder_pid"),
        9);
    assert_int_equal(
        feature_of(*state, "{" THREE HOLDER ", 'gpu.1.others_kfd_vram_bytes': '4 GiB'}", "f.holder_pid"),
        -1);
    assert_int_equal(feature_of(*state, "{" THREE HOLDER "}", "f.holder_pid"), -1);
    assert_int_equal(feature_of(*state, "{" THREE HOLDER ", 'oom.holder_pid': 7}", "f.holder_pid"), 7);
    assert_int_equal(feature_of(*state, "{'gpu.count': 1, 'gpu.0.vram.total_bytes': '16 GiB'" HOLDER "}",
                                "f.holder_pid"),
                     9);
}

/* Eight ranks on eight GPUs hold much memory, but not on this GPU. */
static void siblings_count_where_they_hold_it(void **state)
{
    static const struct {
        int64_t before, now; /* of GPU 1, GiB; -1 = not read */
        int64_t here;
    } rows[] = {{1, 1, 68}, {1, 61, 8}, {1, 100, 0}, {80, 80, 68}, {-1, 61, -1}, {1, -1, -1}};
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct facts *facts = facts_new();
        int64_t bytes = -1;
        facts_set_integer(facts, "gpu.count", FACT_STATIC, 2, "s");
        facts_set_integer(facts, "gpu.0.vram.total_bytes", FACT_STATIC, INT64_C(140) << 30, "s");
        facts_set_integer(facts, "gpu.1.vram.total_bytes", FACT_STATIC, INT64_C(140) << 30, "s");
        facts_set_integer(facts, "oom.device", FACT_LOG, 0, "s");
        facts_set_integer(facts, "siblings.vram_bytes", FACT_IMPACT, INT64_C(68) << 30, "s");
        if (rows[i].before >= 0)
            facts_set_integer(facts, "gpu.1.vram.used_bytes", FACT_BASELINE, rows[i].before << 30,
                              "s");
        if (rows[i].now >= 0)
            facts_set_integer(facts, "gpu.1.vram.used_bytes", FACT_IMPACT, rows[i].now << 30, "s");
        features_derive(facts, ((const struct tree *)*state)->computed);
        (void)facts_get_integer(facts, "f.siblings_bytes", &bytes);
        if (bytes != (rows[i].here < 0 ? -1 : rows[i].here << 30))
            fail_msg("row %zu: %lld", i, (long long)bytes);
        facts_free(facts);
    }
}

/* The package number after the dash shows whether an Ubuntu kernel has the fix for gfx1151. */
static void the_kernel_for_gfx1151_is_told_by_its_package_number(void **state)
{
    static const struct {
        const char *kernel;
        int version;
        bool old;
    } rows[] = {
        {"6.18.4-arch1-1", 61804, false},
        {"6.18.3-200.fc43.x86_64", 61803, true},
        {"6.17.0-18-generic", 61700, true},
        {"6.17.0-19-generic", 61700, false},
        {"6.14.0-1017-oem", 61400, true},
        {"6.14.0-1018-oem", 61400, false},
        {"6.17.0-1003-oem", 61700, false},
        {"6.11.0-1027-oem", 61100, true},
        {"6.14.0-oem", 61400, false} /* cannot be known */,
    };
    static const char *const failures[] = {
        "'kmsg.first_bad': 'gpu-hang', 'kmsg.ring_timeout': 'gfx_0.0.0'", /* node gpu-hang */
        "'kmsg.first_bad': 'page-fault', 'kmsg.page_fault': 1",           /* defects.json */
    };
    for (size_t i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
        char text[400];
        (void)snprintf(text, sizeof(text),
                       "{'gpu.count': 1, 'gpu.0.gfx': 'gfx1151', 'gpu.0.is_apu': true, %s, "
                       "'host.kernel': '%s', 'host.kernel_version': %d}",
                       failures[i % 2], rows[i / 2].kernel, rows[i / 2].version);
        cJSON *json = fixture_quoted(text);
        struct verdict v = fixture_judge(*state, json, NULL);
        if (fixture_list_holds(&v.advice, "gfx1151 needs kernel") != rows[i / 2].old)
            fail_msg("%s: %s", rows[i / 2].kernel, v.class_name);
        assert_int_equal(v.advice.count > 1 && strcmp(v.advice.text[0], v.advice.text[1]) == 0, 0);
        verdict_release(&v);
        cJSON_Delete(json);
    }
}

/* A verdict that knows little more than a word yields to what the report says as a whole. An excerpt says too little, and
 * words that leave its class open are not clear. */
static void a_low_verdict_yields_to_clear_words(void **state)
{
    static const struct {
        const char *facts, *class_name, *also, *confidence;
    } cases[] = {
        {"{'msg.hsa_status': 'HSA_STATUS_ERROR_EXCEPTION'}", "page-fault", "", "low"},
        {"{'msg.hsa_status': 'HSA_STATUS_ERROR_EXCEPTION', 'wording.class': 'app-bug', 'wording.percent': 85.0, 'wording.count': 80, 'wording.says': 'x'}", "app-bug", "page-fault", "medium"},
        {"{'msg.hsa_status': 'HSA_STATUS_ERROR_EXCEPTION', 'wording.class': 'app-bug', 'wording.percent': 85.0, 'wording.count': 21, 'wording.says': 'x'}", "page-fault", "", "low"},
        {"{'msg.hsa_status': 'HSA_STATUS_ERROR_EXCEPTION', 'wording.class': 'app-bug', 'wording.percent': 85.0, 'wording.count': 80, 'wording.likely': 'app-bug page-fault', 'wording.says': 'x'}", "page-fault", "app-bug", "low"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cJSON *facts = fixture_quoted(cases[i].facts);
        struct verdict v = fixture_judge(*state, facts, NULL);
        assert_string_equal(v.class_name, cases[i].class_name);
        assert_string_equal(v.confidence, cases[i].confidence);
        assert_true(cases[i].also[0] == '\0' || fixture_list_holds(&v.also, cases[i].also));
        verdict_release(&v);
        cJSON_Delete(facts);
    }
}

static const char *answer_to(const struct verdict *v, const char *node)
{
    for (size_t i = 0; i < v->steps; i++)
        if (strcmp(v->path[i].node, node) == 0)
            return v->path[i].answer;
    return "";
}

/* A "no" needs a number, or a log that was read: what nobody measured was not asked. */
static void a_question_without_any_input_is_not_asked(void **state)
{
    static const struct {
        const char *facts, *node, *answer;
    } cases[] = {
        {"{'kmsg.readable': true}", "alive-runs", "not asked"},
        {"{'snap.life': 'x', 'snap.cpu_percent': 3.0}", "alive-runs", "no"},
        {"{'snap.life': 'x'}", "alive-sleep", "undecided"},
        {"{}", "hardware-error-counted", "not asked"},
        {"{'gpu.0.errors_uncorrected_count@baseline': 1, 'f.uncorrected_new_count': 0}", "hardware-error-counted", "no"},
        {"{'log.output_read': true, 'kmsg.readable': true}", "no-device", "no"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cJSON *facts = fixture_quoted(cases[i].facts);
        struct verdict v = fixture_judge(*state, facts, NULL);
        if (strcmp(answer_to(&v, cases[i].node), cases[i].answer) != 0)
            fail_msg("%s: %s says '%s'", cases[i].facts, cases[i].node, answer_to(&v, cases[i].node));
        verdict_release(&v);
        cJSON_Delete(facts);
    }
}

/* Words, at most three, and none that could not change the verdict: neither a sure one, nor one whose reason is known. */
static void what_is_missing_is_told_in_words(void **state)
{
    static const struct {
        const char *facts, *says[3];
    } cases[] = {
        {"{'oom.seen': true, 'kmsg.readable': null}",
         {"The kernel log of that time. 'sudo dmesg -T' prints it.", "How much was requested", "The GPU's counters over the run"}},
        {"{'run.program': 'a', 'oom.seen': true, 'gpu.present': false, 'proc.0.uses_gpu': false}", {"Counters of a GPU: none was found."}},
        {"{'run.program': 'a', 'target.signal': 10, 'proc.0.uses_gpu': false}", {NULL}},
        {"{'run.program': 'a', 'target.signal': 9, 'kmsg.readable': null}", {NULL}},
        {"{'run.program': 'a', 'target.exit_code': 0, 'kmsg.readable': null}", {NULL}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cJSON *facts = fixture_quoted(cases[i].facts);
        struct verdict v = fixture_judge(*state, facts, NULL);
        size_t count = 0;
        for (; count < 3 && cases[i].says[count] != NULL; count++)
            if (v.lacks.count <= count || strstr(v.lacks.text[count], cases[i].says[count]) == NULL)
                fail_msg("%s: lack %zu is not '%s' but '%s'", cases[i].facts, count, cases[i].says[count],
                         v.lacks.count > count ? v.lacks.text[count] : "none");
        if (v.lacks.count != count)
            fail_msg("%s: also '%s'", cases[i].facts, v.lacks.text[count]);
        verdict_release(&v);
        cJSON_Delete(facts);
    }
}

/* A message of a GPU on a machine without one: the verdict stays, and says that nothing else speaks for it. */
static void a_message_alone_is_not_sure_without_a_gpu(void **state)
{
#define MESSAGE "{'run.program': 'a', 'oom.seen': true, 'oom.requested_bytes': '2 GiB', 'oom.free_bytes': '1 GiB', "           \
                "'oom.total_bytes': '24 GiB', 'oom.allocated_bytes': '22 GiB', 'oom.reserved_bytes': '22 GiB', 'proc.0.uses_gpu': %s, " \
                "'gpu.present': %s, 'gpu.none_why': 'no card'}"
    static const struct {
        const char *uses, *present;
        bool bounded;
    } cases[] = {{"false", "false", true}, {"true", "false", false}, {"false", "true", false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[600];
        (void)snprintf(text, sizeof text, MESSAGE, cases[i].uses, cases[i].present);
        cJSON *facts = fixture_quoted(text);
        struct verdict v = fixture_judge(*state, facts, NULL);
        assert_string_equal(v.class_name, "capacity");
        assert_int_equal(strcmp(v.confidence, "low") == 0, cases[i].bounded);
        assert_int_equal(fixture_list_holds(&v.against, "no GPU was found on this machine (no card)"), cases[i].bounded);
        assert_non_null(strstr(v.sentence, "were about 1.0 GiB too little"));
        assert_int_equal(strstr(v.sentence, "by the program's message: no GPU was found") != NULL, cases[i].bounded);
        verdict_release(&v);
        cJSON_Delete(facts);
    }
}

static void json_has_the_agreed_keys(void **state)
{
    static const char *const keys[] = {"class",  "subclass", "vendor",  "confidence", "sentence",
                                       "also",   "why",      "against", "missing",    "path",
                                       "advice", "verify",   "file_at"};
    cJSON *rows = fixture_json("tests/fixtures/tree/worked.json");
    const cJSON *row = cJSON_GetObjectItemCaseSensitive(rows->child, "facts");
    struct verdict v = fixture_judge(*state, row, NULL);
    struct facts *facts = fixture_facts(row, NULL);
    cJSON *json = verdict_to_json(&v, facts);
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        assert_non_null(cJSON_GetObjectItemCaseSensitive(json, keys[i]));
    cJSON_Delete(json);
    cJSON_Delete(rows);
    facts_free(facts);
    verdict_release(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_node_is_reached_and_its_neighbour_is_not),
        cmocka_unit_test(every_node_has_a_fixture),
        cmocka_unit_test(worked_numbers_give_the_expected_class),
        cmocka_unit_test(removing_a_fact_never_makes_a_wrong_answer_sure),
        cmocka_unit_test(missing_input_is_undecided_and_listed),
        cmocka_unit_test(nothing_at_all_is_unknown_with_a_list),
        cmocka_unit_test(the_verdict_follows_the_counters),
        cmocka_unit_test(the_gpu_of_an_ordinal_is_found_through_both_lists),
        cmocka_unit_test(siblings_count_where_they_hold_it),
        cmocka_unit_test(the_holder_is_named_when_it_is_on_this_gpu),
        cmocka_unit_test(the_kernel_for_gfx1151_is_told_by_its_package_number),
        cmocka_unit_test(a_low_verdict_yields_to_clear_words),
        cmocka_unit_test(a_question_without_any_input_is_not_asked),
        cmocka_unit_test(what_is_missing_is_told_in_words),
        cmocka_unit_test(a_message_alone_is_not_sure_without_a_gpu),
        cmocka_unit_test(json_has_the_agreed_keys),
    };
    return cmocka_run_group_tests(tests, fixture_load_tree, fixture_free_tree);
}
