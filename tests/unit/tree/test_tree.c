/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shipped tree against fact sets: every node from both sides, the worked numbers, missing
 * input, and what no advice may say.
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

static const char *text_of(const cJSON *row, const char *key)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(row, key));
}

static struct verdict judge(struct tree *tree, const cJSON *facts_json, const cJSON *change)
{
    struct verdict v = {0};
    struct facts *facts = fixture_facts(facts_json, change);
    assert_int_equal(diagnose(facts, tree, &v, NULL), 0);
    facts_free(facts);
    return v;
}

static const char *last_node(const struct verdict *v)
{
    return v->steps > 0 ? v->path[v->steps - 1].node : "";
}

static void each_node_is_reached_and_its_neighbour_is_not(void **state)
{
    struct tree *tree = *state;
    cJSON *rows = fixture_json("tests/fixtures/tree/nodes.json");
    const cJSON *row = NULL;
    size_t failures = 0;
    cJSON_ArrayForEach(row, rows)
    {
        const char *node = text_of(row, "node");
        const cJSON *facts = cJSON_GetObjectItemCaseSensitive(row, "facts");
        struct verdict yes = judge(tree, facts, NULL);
        if (strcmp(last_node(&yes), node) != 0 ||
            strcmp(yes.class_name, text_of(row, "class")) != 0) {
            print_error("%s: reached %s, class %s\n", node, last_node(&yes), yes.class_name);
            failures++;
        }
        verdict_release(&yes);
        struct verdict no = judge(tree, facts, cJSON_GetObjectItemCaseSensitive(row, "not"));
        const char *becomes = text_of(row, "becomes");
        if (strcmp(last_node(&no), node) == 0 ||
            (becomes != NULL && strcmp(last_node(&no), becomes) != 0)) {
            print_error("%s: the negative reached %s, not %s\n", node, last_node(&no),
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
        cJSON_ArrayForEach(row, rows) found |= strcmp(text_of(row, "node"), tree->node[i].id) == 0;
        if (!found)
            fail_msg("node %s has no row in tests/fixtures/tree/nodes.json", tree->node[i].id);
    }
    cJSON_Delete(rows);
}

static bool list_holds(const struct verdict_list *list, const char *part)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strstr(list->text[i], part) != NULL)
            return true;
    }
    return false;
}

static size_t check_worked(struct tree *tree, const cJSON *row)
{
    const char *want = text_of(row, "confidence");
    const char *also = text_of(row, "also");
    const char *advice = text_of(row, "advice");
    struct verdict v = judge(tree, cJSON_GetObjectItemCaseSensitive(row, "facts"), NULL);
    bool ok = strcmp(v.class_name, text_of(row, "class")) == 0 &&
              strcmp(last_node(&v), text_of(row, "node")) == 0 &&
              (strcmp(want, "any") == 0 || strcmp(want, v.confidence) == 0) &&
              (also == NULL || list_holds(&v.also, also)) &&
              (advice == NULL || list_holds(&v.advice, advice));
    if (!ok)
        print_error("%s: %s %s %s\n", text_of(row, "source"), last_node(&v), v.class_name,
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
    struct verdict v = judge(tree, facts, change);
    bool wrong = strcmp(v.confidence, "high") == 0 && strcmp(v.class_name, "unknown") != 0 &&
                 strcmp(v.class_name, want) != 0;
    if (wrong)
        print_error("without %s: %s at high, not %s\n", what, v.class_name, want);
    verdict_release(&v);
    return wrong;
}

/* How many single facts make a wrong answer sure when they are missing. */
static size_t starve(struct tree *tree, const cJSON *facts, const char *want)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(facts, "facts");
    size_t failures = 0;
    for (int i = 0; list != NULL && i < cJSON_GetArraySize(list); i++) {
        cJSON *left = cJSON_Duplicate(facts, 1);
        cJSON_DeleteItemFromArray(cJSON_GetObjectItemCaseSensitive(left, "facts"), i);
        failures +=
            is_wrong_and_sure(tree, left, NULL, want, text_of(cJSON_GetArrayItem(list, i), "name"));
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

/* Removing one fact may make it less sure or unknown, never another answer at high confidence. */
static void removing_a_fact_never_makes_a_wrong_answer_sure(void **state)
{
    cJSON *rows = fixture_json("tests/fixtures/tree/worked.json");
    const cJSON *row = NULL;
    size_t failures = 0;
    cJSON_ArrayForEach(row, rows)
    {
        const cJSON *facts = cJSON_GetObjectItemCaseSensitive(row, "facts");
        failures += starve(*state, facts, text_of(row, "class"));
    }
    cJSON_Delete(rows);
    assert_int_equal(failures, 0);
}

static void missing_input_is_undecided_and_listed(void **state)
{
    cJSON *facts = cJSON_Parse("{\"oom.requested_bytes\": \"4 GiB\", \"gpu.0.is_apu\": true,"
                               " \"kmsg.readable\": null}");
    struct verdict v = judge(*state, facts, NULL);
    assert_string_equal(v.class_name, "unknown");
    assert_true(list_holds(&v.missing, "kernel log"));
    assert_true(list_holds(&v.missing, "free by the runtime"));
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

/* The limit's advice: at most 90 % of RAM, exact, in both units. */
static void ttm_advice_computes_the_value(void **state)
{
    cJSON *rows = fixture_json("tests/fixtures/tree/worked.json");
    struct verdict v = judge(*state, cJSON_GetObjectItemCaseSensitive(rows->child, "facts"), NULL);
    /* 0.9 * 125.08 GiB = 112.57 */
    assert_true(list_holds(&v.advice, "amd-ttm --set 112 "));
    assert_true(list_holds(&v.advice, "ttm.pages_limit=29360128;") ||
                list_holds(&v.advice, "ttm.pages_limit=29360128 ") ||
                list_holds(&v.advice, "ttm.pages_limit=29360128;"));
    verdict_release(&v);
    cJSON_Delete(rows);
}

static const cJSON *fixture_of(const cJSON *rows, const char *node)
{
    const cJSON *row = NULL;
    cJSON_ArrayForEach(row, rows)
    {
        if (strcmp(text_of(row, "node"), node) == 0)
            return cJSON_GetObjectItemCaseSensitive(row, "facts");
    }
    fail_msg("no fixture of %s", node);
    return NULL;
}

/* Nobody is told to raise a limit that cannot be raised far enough, or to look at a process that
 * no line names. */
static void advice_fits_what_is_known(void **state)
{
    cJSON *rows = fixture_json("tests/fixtures/tree/nodes.json");
    cJSON *huge = cJSON_Parse("{\"ledger.refused.size_bytes\": \"90 GiB\","
                              " \"host.mem_available_bytes\": \"95 GiB\"}");
    struct verdict v = judge(*state, fixture_of(rows, "ttm-limit-by-ledger"), NULL);
    assert_true(list_holds(&v.advice, "amd-ttm --set 115 ")); /* 0.9 * 128 GiB */
    verdict_release(&v);
    v = judge(*state, fixture_of(rows, "ttm-limit-by-ledger"), huge);
    assert_string_equal(v.class_name, "gtt-limit");
    assert_true(list_holds(&v.advice, "No limit is enough"));
    assert_false(list_holds(&v.advice, "amd-ttm"));
    verdict_release(&v);
    v = judge(*state, fixture_of(rows, "own-need-too-large-by-ledger"), NULL);
    assert_true(list_holds(&v.advice, "Make it smaller by "));
    verdict_release(&v);
    v = judge(*state, fixture_of(rows, "gpu-hang"), NULL);
    assert_string_equal(v.sentence, "The GPU stopped answering.");
    assert_false(list_holds(&v.advice, "the process that the kernel names"));
    verdict_release(&v);
    cJSON_Delete(huge);
    cJSON_Delete(rows);
}

/* Reasons against are rarely independent: all of them together take one step. */
static void several_reasons_against_lower_once(void **state)
{
    static const char *const more[] = {
        "{}", "{\"kmsg.page_fault_client\": \"CPC\"}",
        "{\"kmsg.page_fault_client\": \"CPC\","
        " \"msg.memory_access_fault_address\": \"(nil)\"}"};
    cJSON *rows = fixture_json("tests/fixtures/tree/nodes.json");
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) {
        cJSON *change = cJSON_Parse(more[i]);
        struct verdict v = judge(*state, fixture_of(rows, "page-fault"), change);
        assert_string_equal(v.class_name, "page-fault");
        assert_string_equal(v.confidence, i == 0 ? "high" : "medium");
        verdict_release(&v);
        cJSON_Delete(change);
    }
    cJSON_Delete(rows);
}

/* Advice that is known to be false or dangerous must not be in any template at all. */
static void no_template_gives_false_advice(void **state)
{
    static const char *const never[] = {
        "HSA_OVERRIDE_GFX_VERSION=10",
        "HSA_OVERRIDE_GFX_VERSION=11",
        "HSA_XNACK=1",
        "amdgpu.gttsize=",
        "vm_size=",
        "page_pool_size",
        "NO_HIP_MEMORY_CACHING",
        "garbage_collection_threshold",
        "owngrade",
        "HSA_ENABLE_INTERRUPT",
        "amd_iommu=off",
        "HIP_HIDDEN_FREE_MEM",
        "MODE=\"0666\"",
        "gpureset",
    };
    static const char *const files[] = {"templates/tree.json", "templates/defects.json"};
    (void)state;
    for (size_t f = 0; f < 2; f++) {
        char *text = fixture_read(files[f]);
        for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++) {
            if (strstr(text, never[i]) != NULL)
                fail_msg("%s holds '%s'", files[f], never[i]);
        }
        free(text);
    }
}

static void advice_never_sets_both_allocator_options(void **state)
{
    const struct tree *tree = *state;
    for (size_t i = 0; i < tree->node_count; i++) {
        for (size_t k = 0; k < tree->node[i].advice.count; k++) {
            const char *say = tree->node[i].advice.rule[k].say;
            bool both = strstr(say, "expandable_segments:True") != NULL &&
                        strstr(say, "max_split_size_mb:") != NULL;
            if (both)
                fail_msg("node %s", tree->node[i].id);
            assert_non_null(tree->node[i].advice.rule[k].source);
            assert_non_null(tree->node[i].advice.rule[k].verify);
        }
    }
}

/* expandable_segments only where this torch honours it */
static void expandable_segments_only_where_it_works(void **state)
{
    cJSON *rows = fixture_json("tests/fixtures/tree/worked.json");
    const cJSON *facts = cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(rows, 2), "facts");
    cJSON *newer = cJSON_Parse("{\"software.torch_version\": \"2.12.0+rocm7.2\"}");
    struct verdict v = judge(*state, facts, NULL);
    assert_false(list_holds(&v.advice, "expandable_segments:True"));
    verdict_release(&v);
    v = judge(*state, facts, newer);
    assert_true(list_holds(&v.advice, "expandable_segments:True alone"));
    verdict_release(&v);
    cJSON_Delete(newer);
    cJSON_Delete(rows);
}

/* One message, word for word; only the counters differ, and the verdict follows them. */
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

static cJSON *quoted_json(const char *text)
{
    char *copy = strdup(text);
    assert_non_null(copy);
    for (char *p = copy; *p != '\0'; p++)
        *p = *p == '\'' ? '"' : *p;
    cJSON *json = cJSON_Parse(copy);
    assert_non_null(json);
    free(copy);
    return json;
}

/* -1 when it is not known */
static int64_t feature_of(const struct tree *tree, const char *json_text, const char *name)
{
    cJSON *json = quoted_json(json_text);
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

/* HIP's list counts within ROCr's; a list that does not name it leaves it unknown. */
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

/* Eight ranks on eight GPUs hold much, but not here. */
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

/* Ubuntu's kernels carry the fix for gfx1151 under a number behind the dash. */
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
        {"6.14.0-oem", 61400, false} /* cannot be told */,
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
        cJSON *json = quoted_json(text);
        struct verdict v = judge(*state, json, NULL);
        if (list_holds(&v.advice, "gfx1151 wants kernel") != rows[i / 2].old)
            fail_msg("%s: %s", rows[i / 2].kernel, v.class_name);
        assert_int_equal(v.advice.count > 1 && strcmp(v.advice.text[0], v.advice.text[1]) == 0, 0);
        verdict_release(&v);
        cJSON_Delete(json);
    }
}

/* Whoever reads a bundle wants to look for himself: each reason says where it was read. */
static void no_reason_is_without_a_source(void **state)
{
    cJSON *rows = fixture_json("tests/fixtures/tree/nodes.json");
    const cJSON *row = NULL;
    size_t failures = 0;
    cJSON_ArrayForEach(row, rows)
    {
        struct verdict v = judge(*state, cJSON_GetObjectItemCaseSensitive(row, "facts"), NULL);
        for (size_t i = 0; i < v.why.count; i++) {
            const char *why = v.why.text[i];
            bool cited = why[strlen(why) - 1] == ']' && strstr(why, "computed from f.") == NULL;
            if (!cited)
                print_error("%s: %s\n", last_node(&v), why);
            failures += !cited;
        }
        verdict_release(&v);
    }
    cJSON_Delete(rows);
    assert_int_equal(failures, 0);
}

static size_t names_the_unknown(const char *said, const char *what, const char *node)
{
    if (strstr(said, "(unknown)") == NULL)
        return 0;
    print_error("%s -> %s: names what is not known: %s\n", what, node, said);
    return 1;
}

static size_t wording_faults(struct tree *tree, const cJSON *facts, const cJSON *change,
                             const char *what)
{
    struct verdict v = judge(tree, facts, change);
    size_t faults = 0;
    if (v.why.count == 0 && strcmp(v.class_name, "unknown") != 0) {
        print_error("%s -> %s: no reason is given\n", what, last_node(&v));
        faults++;
    }
    const struct verdict_list *lists[] = {&v.why, &v.against, &v.advice};
    for (size_t l = 0; l < 3; l++)
        for (size_t i = 0; i < lists[l]->count; i++)
            faults += names_the_unknown(lists[l]->text[i], what, last_node(&v));
    faults += names_the_unknown(v.sentence, what, last_node(&v));
    verdict_release(&v);
    return faults;
}

/* Each answer has a reason, and no sentence holds a place that could not be filled. */
static void every_answer_has_reasons_in_whole_sentences(void **state)
{
    static const char *const files[] = {"tests/fixtures/tree/nodes.json",
                                        "tests/fixtures/tree/worked.json"};
    size_t faults = 0;
    for (size_t f = 0; f < 2; f++) {
        cJSON *rows = fixture_json(files[f]);
        const cJSON *row = NULL;
        cJSON_ArrayForEach(row, rows)
        {
            const cJSON *facts = cJSON_GetObjectItemCaseSensitive(row, "facts");
            const cJSON *change = cJSON_GetObjectItemCaseSensitive(row, "not");
            const char *what = text_of(row, f == 0 ? "node" : "source");
            faults += wording_faults(*state, facts, NULL, what);
            if (change != NULL)
                faults += wording_faults(*state, facts, change, what);
        }
        cJSON_Delete(rows);
    }
    assert_int_equal(faults, 0);
}

static struct verdict judge_text(struct tree *tree, const char *json)
{
    cJSON *facts = cJSON_Parse(json);
    assert_non_null(facts);
    struct verdict v = judge(tree, facts, NULL);
    cJSON_Delete(facts);
    return v;
}

/* "Run it under rocmcrash" is for those who did not. */
static void nobody_is_told_to_do_what_he_did(void **state)
{
    static const char *const runs[] = {
        "{\"run.program\": \"python3\", \"target.exit_code\": 1}",
        "{\"run.program\": \"python3\", \"target.exit_code\": 1, \"msg.hip_out_of_memory\": 1}",
        "{\"run.program\": \"python3\", \"oom.seen\": true, \"oom.requested_bytes\": \"124 MiB\","
        " \"oom.total_bytes\": \"20 GiB\", \"oom.free_bytes\": \"554 MiB\","
        " \"oom.allocated_bytes\": \"15 GiB\", \"gpu.0.is_apu\": false}",
    };
    for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
        struct verdict v = judge_text(*state, runs[i]);
        assert_true(v.advice.count > 0);
        assert_false(list_holds(&v.advice, "under rocmcrash"));
        verdict_release(&v);
    }
    struct verdict v = judge_text(*state, "{\"msg.hip_out_of_memory\": 1}");
    assert_true(list_holds(&v.advice, "under rocmcrash"));
    verdict_release(&v);
}

/* The command processor's fault is not a kernel's of the program. */
static void a_fault_of_the_command_processor_gets_its_own_advice(void **state)
{
    struct verdict v =
        judge_text(*state, "{\"kmsg.first_bad\": \"page-fault\", \"kmsg.page_fault\": "
                           "1, \"kmsg.page_fault_client\": \"CPC\"}");
    assert_string_equal(v.class_name, "page-fault");
    assert_true(list_holds(&v.advice, "command processor"));
    assert_false(list_holds(&v.advice, "AMD_SERIALIZE_KERNEL"));
    assert_non_null(strstr(v.file_at, "drm/amd"));
    verdict_release(&v);
}

static void an_xid_is_named(void **state)
{
    struct verdict v =
        judge_text(*state, "{\"kmsg.first_bad\": \"page-fault\", \"kmsg.first_bad_text\": \"NVRM: "
                           "Xid 31\", \"kmsg.xid\": 31, \"vendor.nvidia\": true}");
    assert_string_equal(v.class_name, "page-fault");
    assert_true(list_holds(&v.why, "Xid 31"));
    assert_false(list_holds(&v.advice, "HSA_"));
    verdict_release(&v);
}

/* GPU_SINGLE_ALLOC_PERCENT caps on any release, and its own advice follows. */
static void a_cap_set_by_the_user_is_found(void **state)
{
    static const char figures[] =
        "{\"env.GPU_SINGLE_ALLOC_PERCENT\": \"%s\", \"software.rocm_version\": \"%s\","
        " \"oom.seen\": true, \"oom.requested_bytes\": \"18 GiB\", \"oom.total_bytes\": \"24 GiB\","
        " \"oom.free_bytes\": \"23.9 GiB\", \"oom.allocated_bytes\": \"0 MiB\","
        " \"oom.reserved_unallocated_bytes\": \"0 MiB\", \"gpu.0.is_apu\": false}";
    static const struct {
        const char *percent, *rocm, *class_name;
    } rows[] = {
        {"70", "7.0", "resource-limit"}, /* 16.8 GiB */
        {"80", "6.2", "unknown"},        /* 19.2 GiB */
        {"100", "6.2", "unknown"},
        {"half", "7.0", "unknown"}, /* not a number: the release's own cap, none */
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char json[600];
        (void)snprintf(json, sizeof(json), figures, rows[i].percent, rows[i].rocm);
        struct verdict v = judge_text(*state, json);
        if (strcmp(v.class_name, rows[i].class_name) != 0)
            fail_msg("%s %s: %s", rows[i].percent, rows[i].rocm, v.class_name);
        if (i == 0)
            assert_true(list_holds(&v.advice, "GPU_SINGLE_ALLOC_PERCENT is set to 70"));
        verdict_release(&v);
    }
}

static void json_has_the_agreed_keys(void **state)
{
    static const char *const keys[] = {"class",  "subclass", "vendor",  "confidence", "sentence",
                                       "also",   "why",      "against", "missing",    "path",
                                       "advice", "verify",   "file_at"};
    cJSON *rows = fixture_json("tests/fixtures/tree/worked.json");
    const cJSON *row = cJSON_GetObjectItemCaseSensitive(rows->child, "facts");
    struct verdict v = judge(*state, row, NULL);
    struct facts *facts = fixture_facts(row, NULL);
    cJSON *json = verdict_to_json(&v, facts);
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        assert_non_null(cJSON_GetObjectItemCaseSensitive(json, keys[i]));
    cJSON_Delete(json);
    cJSON_Delete(rows);
    facts_free(facts);
    verdict_release(&v);
}

static int load(void **state)
{
    *state = fixture_tree();
    return 0;
}

static int unload(void **state)
{
    tree_free(*state);
    return 0;
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
        cmocka_unit_test(ttm_advice_computes_the_value),
        cmocka_unit_test(advice_fits_what_is_known),
        cmocka_unit_test(several_reasons_against_lower_once),
        cmocka_unit_test(no_template_gives_false_advice),
        cmocka_unit_test(advice_never_sets_both_allocator_options),
        cmocka_unit_test(expandable_segments_only_where_it_works),
        cmocka_unit_test(the_verdict_follows_the_counters),
        cmocka_unit_test(no_reason_is_without_a_source),
        cmocka_unit_test(the_gpu_of_an_ordinal_is_found_through_both_lists),
        cmocka_unit_test(siblings_count_where_they_hold_it),
        cmocka_unit_test(the_holder_is_named_when_it_is_on_this_gpu),
        cmocka_unit_test(the_kernel_for_gfx1151_is_told_by_its_package_number),
        cmocka_unit_test(every_answer_has_reasons_in_whole_sentences),
        cmocka_unit_test(nobody_is_told_to_do_what_he_did),
        cmocka_unit_test(a_fault_of_the_command_processor_gets_its_own_advice),
        cmocka_unit_test(an_xid_is_named),
        cmocka_unit_test(a_cap_set_by_the_user_is_found),
        cmocka_unit_test(json_has_the_agreed_keys),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
