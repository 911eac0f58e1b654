/* SPDX-License-Identifier: Apache-2.0 */
/* Advice and reasons of the shipped tree are true, allowed, whole sentences, and have their sources. */
#include "tree_fixture.h"

#include "diagnose/fact.h"
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

/* The advice for the TTM limit gives at most 90 % of RAM, exactly, in both units. */
static void ttm_advice_computes_the_value(void **state)
{
    cJSON *rows = fixture_json("tests/fixtures/tree/worked.json");
    struct verdict v = fixture_judge(*state, cJSON_GetObjectItemCaseSensitive(rows->child, "facts"), NULL);
    /* 0.9 * 125.08 GiB = 112.57 */
    assert_true(fixture_list_holds(&v.advice, "amd-ttm --set 112 "));
    assert_true(fixture_list_holds(&v.advice, "ttm.pages_limit=29360128;") ||
                fixture_list_holds(&v.advice, "ttm.pages_limit=29360128 ") ||
                fixture_list_holds(&v.advice, "ttm.pages_limit=29360128;"));
    verdict_release(&v);
    cJSON_Delete(rows);
}

static const cJSON *fixture_of(const cJSON *rows, const char *node)
{
    const cJSON *row = NULL;
    cJSON_ArrayForEach(row, rows)
    {
        if (strcmp(fixture_text(row, "node"), node) == 0)
            return cJSON_GetObjectItemCaseSensitive(row, "facts");
    }
    fail_msg("no fixture of %s", node);
    return NULL;
}

/* A short run has few samples: its leak is known by the blocks that stay, and no growth of 0 is told. */
static void no_growth_is_not_told_as_a_number(void **state)
{
    cJSON *rows = fixture_json("tests/fixtures/tree/nodes.json");
    cJSON *unseen = cJSON_Parse("{\"torch.kept.steady\": true, \"torch.kept.growth_bytes\": \"19 GiB\", \"f.growth.samples\": 8,"
                                " \"f.growth.rising_share_percent\": 0, \"f.growth.total_bytes\": 0}");
    struct verdict v = fixture_judge(*state, fixture_of(rows, "kept-explains-the-rise"), unseen);
    assert_string_equal(v.sentence, "Memory in use grew until nothing was left; 19.00 GiB of it was still in use long after it was allocated.");
    verdict_release(&v);
    cJSON_Delete(unseen);
    cJSON_Delete(rows);
}

/* No advice raises a limit that cannot be raised far enough, or names a process that no line has. */
static void advice_fits_what_is_known(void **state)
{
    cJSON *rows = fixture_json("tests/fixtures/tree/nodes.json");
    cJSON *huge = cJSON_Parse("{\"ledger.refused.size_bytes\": \"90 GiB\","
                              " \"host.mem_available_bytes\": \"95 GiB\"}");
    struct verdict v = fixture_judge(*state, fixture_of(rows, "ttm-limit-by-ledger"), NULL);
    assert_true(fixture_list_holds(&v.advice, "amd-ttm --set 115 ")); /* 0.9 * 128 GiB */
    verdict_release(&v);
    v = fixture_judge(*state, fixture_of(rows, "ttm-limit-by-ledger"), huge);
    assert_string_equal(v.class_name, "gtt-limit");
    assert_true(fixture_list_holds(&v.advice, "No limit is enough"));
    assert_false(fixture_list_holds(&v.advice, "amd-ttm"));
    verdict_release(&v);
    v = fixture_judge(*state, fixture_of(rows, "own-need-too-large-by-ledger"), NULL);
    assert_true(fixture_list_holds(&v.advice, "Make it smaller by "));
    verdict_release(&v);
    v = fixture_judge(*state, fixture_of(rows, "gpu-hang"), NULL);
    assert_string_equal(v.sentence, "The GPU stopped answering.");
    assert_false(fixture_list_holds(&v.advice, "the process that the kernel names"));
    verdict_release(&v);
    cJSON_Delete(huge);
    cJSON_Delete(rows);
}

/* No advice tells the user of a run to run the program under rocmcrash. */
static void a_run_was_a_run(void **state)
{
    cJSON *rows = fixture_json("tests/fixtures/tree/nodes.json");
    cJSON *run = cJSON_Parse("{\"run.program\": \"python3\"}");
    const cJSON *row = NULL;
    cJSON_ArrayForEach(row, rows)
    {
        struct verdict v = fixture_judge(*state, cJSON_GetObjectItemCaseSensitive(row, "facts"), run);
        if (fixture_list_holds(&v.advice, "under rocmcrash"))
            fail_msg("%s", fixture_text(row, "node"));
        verdict_release(&v);
    }
    cJSON_Delete(run);
    cJSON_Delete(rows);
}

/* A program without any GPU is not asked for what the HIP runtime says. */
static void a_program_without_a_gpu_gets_its_own_advice(void **state)
{
    cJSON *facts = cJSON_Parse("{\"run.program\": \"sh\", \"target.exit_code\": 1, \"proc.0.uses_gpu\": false}");
    cJSON *rocm = cJSON_Parse("{\"software.rocm_version\": \"7.0.2\"}");
    struct verdict v = fixture_judge(*state, facts, NULL);
    assert_true(fixture_list_holds(&v.advice, "it used no GPU"));
    assert_false(fixture_list_holds(&v.advice, "AMD_LOG_LEVEL"));
    assert_null(strstr(v.file_at, "ROCm"));
    verdict_release(&v);
    v = fixture_judge(*state, facts, rocm);
    assert_true(fixture_list_holds(&v.advice, "AMD_LOG_LEVEL"));
    verdict_release(&v);
    cJSON_Delete(facts);
    cJSON_Delete(rocm);
}

/* No peak exceeds the total, and with "the fix" every error is gone: such a check tells nothing. */
static void a_check_can_fail(void **state)
{
    static const char *const empty[] = {"is gone with the fix", "stays below the limit", "peak in the next bundle stays below",
                                        "peak in the next report stays below"};
    cJSON *rows = fixture_json("tests/fixtures/tree/nodes.json");
    const cJSON *row = NULL;
    cJSON_ArrayForEach(row, rows)
    {
        struct verdict v = fixture_judge(*state, cJSON_GetObjectItemCaseSensitive(row, "facts"), NULL);
        for (size_t i = 0; v.verify != NULL && i < sizeof empty / sizeof empty[0]; i++) {
            if (strstr(v.verify, empty[i]) != NULL)
                fail_msg("%s: %s", fixture_text(row, "node"), v.verify);
        }
        /* A program that is made smaller by just what is lacking fills the GPU to the last byte: no check may ask for less. */
        bool by_figure = v.advice.count > 0 && (strstr(v.advice.text[0], "Make it smaller by ") != NULL ||
                                                strstr(v.advice.text[0], "Make it smaller, by ") != NULL);
        if (by_figure && strstr(v.verify, "less than 95 %") != NULL)
            fail_msg("%s: %s, but %s", fixture_text(row, "node"), v.advice.text[0], v.verify);
        verdict_release(&v);
    }
    cJSON_Delete(rows);
}

/* Contrary evidence is rarely independent: together it lowers the confidence by one step. */
static void several_reasons_against_lower_once(void **state)
{
    static const char *const more[] = {
        "{}", "{\"kmsg.page_fault_client\": \"CPC\"}",
        "{\"kmsg.page_fault_client\": \"CPC\","
        " \"msg.memory_access_fault_address\": \"(nil)\"}"};
    cJSON *rows = fixture_json("tests/fixtures/tree/nodes.json");
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) {
        cJSON *change = cJSON_Parse(more[i]);
        struct verdict v = fixture_judge(*state, fixture_of(rows, "page-fault"), change);
        assert_string_equal(v.class_name, "page-fault");
        assert_string_equal(v.confidence, i == 0 ? "high" : "medium");
        verdict_release(&v);
        cJSON_Delete(change);
    }
    cJSON_Delete(rows);
}

/* Readings that no clock stands beside may be those of ever larger work. */
static void growth_without_a_clock_is_doubted(void **state)
{
    cJSON *rows = fixture_json("tests/fixtures/tree/nodes.json");
    cJSON *clock = cJSON_Parse("{\"series.clock\": \"epoch\"}");
    struct verdict v = fixture_judge(*state, fixture_of(rows, "grows-in-its-output"), NULL);
    assert_string_equal(v.confidence, "low");
    verdict_release(&v);
    v = fixture_judge(*state, fixture_of(rows, "grows-in-its-output"), clock);
    assert_string_equal(v.confidence, "medium");
    assert_true(fixture_list_holds(&v.why, "they go with epoch"));
    verdict_release(&v);
    cJSON_Delete(clock);
    cJSON_Delete(rows);
}

/* The doubt that several nodes share stands in the head of the tree. */
static void a_mistake_of_the_program_is_a_doubt(void **state)
{
    static const char *const nodes[] = {"page-fault", "no-device", "library-missing", "no-code-for-gpu"};
    cJSON *rows = fixture_json("tests/fixtures/tree/nodes.json");
    cJSON *mistake = cJSON_Parse("{\"msg.python_exception\": \"KeyError\", \"msg.python_message\": \"'size'\"}");
    for (size_t i = 0; i < sizeof nodes / sizeof nodes[0]; i++) {
        struct verdict v = fixture_judge(*state, fixture_of(rows, nodes[i]), mistake);
        assert_string_equal(fixture_last_node(&v), nodes[i]);
        assert_true(fixture_list_holds(&v.against, "KeyError ('size'), which names no GPU"));
        verdict_release(&v);
    }
    cJSON_Delete(mistake);
    cJSON_Delete(rows);
}

/* No template may have advice that is known to be false or dangerous. */
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

/* expandable_segments only if this PyTorch reads it */
static void expandable_segments_only_where_it_works(void **state)
{
    cJSON *rows = fixture_json("tests/fixtures/tree/worked.json");
    const cJSON *facts = cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(rows, 2), "facts");
    cJSON *newer = cJSON_Parse("{\"software.torch_version\": \"2.12.0+rocm7.2\"}");
    struct verdict v = fixture_judge(*state, facts, NULL);
    assert_false(fixture_list_holds(&v.advice, "expandable_segments:True"));
    verdict_release(&v);
    v = fixture_judge(*state, facts, newer);
    assert_true(fixture_list_holds(&v.advice, "expandable_segments:True alone"));
    verdict_release(&v);
    cJSON_Delete(newer);
    cJSON_Delete(rows);
}

/* Each reason cites its source, so that a reader can check it. */
static void no_reason_is_without_a_source(void **state)
{
    cJSON *rows = fixture_json("tests/fixtures/tree/nodes.json");
    const cJSON *row = NULL;
    size_t failures = 0;
    cJSON_ArrayForEach(row, rows)
    {
        struct verdict v = fixture_judge(*state, cJSON_GetObjectItemCaseSensitive(row, "facts"), NULL);
        for (size_t i = 0; i < v.why.count; i++) {
            const char *why = v.why.text[i];
            bool cited = why[strlen(why) - 1] == ']' && strstr(why, "computed from f.") == NULL;
            if (!cited)
                print_error("%s: %s\n", fixture_last_node(&v), why);
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
    struct verdict v = fixture_judge(tree, facts, change);
    size_t faults = 0;
    if (v.why.count == 0 && strcmp(v.class_name, "unknown") != 0) {
        print_error("%s -> %s: no reason is given\n", what, fixture_last_node(&v));
        faults++;
    }
    const struct verdict_list *lists[] = {&v.why, &v.against, &v.advice};
    for (size_t l = 0; l < 3; l++)
        for (size_t i = 0; i < lists[l]->count; i++)
            faults += names_the_unknown(lists[l]->text[i], what, fixture_last_node(&v));
    faults += names_the_unknown(v.sentence, what, fixture_last_node(&v));
    verdict_release(&v);
    return faults;
}

/* Each answer has a reason, and no sentence has an unfilled placeholder. */
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
            const char *what = fixture_text(row, f == 0 ? "node" : "source");
            faults += wording_faults(*state, facts, NULL, what);
            if (change != NULL)
                faults += wording_faults(*state, facts, change, what);
        }
        cJSON_Delete(rows);
    }
    assert_int_equal(faults, 0);
}

/* "Run it under rocmcrash" is only for reports that were made without it. */
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
        struct verdict v = fixture_judge_text(*state, runs[i]);
        assert_true(v.advice.count > 0);
        assert_false(fixture_list_holds(&v.advice, "under rocmcrash"));
        verdict_release(&v);
    }
    struct verdict v = fixture_judge_text(*state, "{\"msg.hip_out_of_memory\": 1}");
    assert_true(fixture_list_holds(&v.advice, "under rocmcrash"));
    verdict_release(&v);
}

/* A fault of the command processor is not blamed on the program's kernels. */
static void a_fault_of_the_command_processor_gets_its_own_advice(void **state)
{
    struct verdict v =
        fixture_judge_text(*state, "{\"kmsg.first_bad\": \"page-fault\", \"kmsg.page_fault\": "
                           "1, \"kmsg.page_fault_client\": \"CPC\"}");
    assert_string_equal(v.class_name, "page-fault");
    assert_true(fixture_list_holds(&v.advice, "command processor"));
    assert_false(fixture_list_holds(&v.advice, "AMD_SERIALIZE_KERNEL"));
    assert_non_null(strstr(v.file_at, "drm/amd"));
    verdict_release(&v);
}

/* The tracker is that of the driver which is loaded; where that is not known both, and how to tell. */
static void the_tracker_is_that_of_the_driver(void **state)
{
    static const char *const rows[][2] = {
        {"{\"kmsg.first_bad\": \"gpu-hang\", \"host.amdgpu_is_dkms\": true}", "ROCm/amdgpu"},
        {"{\"kmsg.first_bad\": \"gpu-hang\", \"host.amdgpu_is_dkms\": false}", "gitlab.freedesktop.org/drm/amd"},
        {"{\"kmsg.first_bad\": \"gpu-hang\"}",
         "gitlab.freedesktop.org/drm/amd; ROCm/amdgpu where 'modinfo -n amdgpu' prints a path with dkms"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct verdict v = fixture_judge_text(*state, rows[i][0]);
        size_t n = strlen(rows[i][1]);
        if (strncmp(v.file_at, rows[i][1], n) != 0 || strncmp(v.file_at + n, "; attach", 8) != 0)
            fail_msg("%s: %s", rows[i][0], v.file_at);
        verdict_release(&v);
    }
}

/* A program that has no GPU cannot have run out of its memory. */
/* A run has left a bundle, which is attached whole; a text that was pasted has none. */
static void the_bundle_is_attached(void **state)
{
    static const char *const rows[][2] = {
        {"{\"target.signal\": 11}", "; attach: the backtrace"},
        {"{\"target.signal\": 11, \"run.program\": \"a\"}", "; attach: the bundle, and if it lacks this: the backtrace"},
        {"{\"run.program\": \"a\"}", "; attach: the bundle, and the whole error text"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct verdict v = fixture_judge_text(*state, rows[i][0]);
        if (strstr(v.file_at, rows[i][1]) == NULL)
            fail_msg("%s: %s", rows[i][0], v.file_at);
        verdict_release(&v);
    }
}

/* Brackets behind an advice say what they are. */
static void an_advice_names_its_source(void **state)
{
    struct verdict v = fixture_judge_text(*state, "{\"target.signal\": 11}");
    assert_true(fixture_list_holds(&v.advice, "[source: the backtrace]"));
    verdict_release(&v);
}

static void a_crash_without_a_gpu_hides_no_vram(void **state)
{
    static const char *const rows[][2] = {
        {"{\"msg.segfault\": 1, \"target.signal\": 11, \"run.program\": \"make\", \"gpu.present\": true}", "low"},
        {"{\"msg.segfault\": 1, \"target.signal\": 11, \"run.program\": \"make\", \"gpu.present\": true, \"proc.0.uses_gpu\": true}", "low"},
        {"{\"msg.segfault\": 1, \"target.signal\": 11, \"run.program\": \"make\", \"gpu.present\": true, \"proc.0.uses_gpu\": false}", "medium"},
        {"{\"msg.segfault\": 1, \"target.signal\": 11, \"run.program\": \"make\", \"gpu.present\": false, \"proc.0.uses_gpu\": false}", "medium"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct verdict v = fixture_judge_text(*state, rows[i][0]);
        assert_string_equal(v.class_name, "app-bug");
        if (strcmp(v.confidence, rows[i][1]) != 0 || fixture_list_holds(&v.against, "exhausted VRAM") != (strcmp(rows[i][1], "low") == 0))
            fail_msg("%s: %s", rows[i][0], v.confidence);
        verdict_release(&v);
    }
}

static void an_xid_is_named(void **state)
{
    struct verdict v =
        fixture_judge_text(*state, "{\"kmsg.first_bad\": \"page-fault\", \"kmsg.first_bad_text\": \"NVRM: "
                           "Xid 31\", \"kmsg.xid\": 31, \"vendor.nvidia\": true}");
    assert_string_equal(v.class_name, "page-fault");
    assert_true(fixture_list_holds(&v.why, "Xid 31"));
    assert_false(fixture_list_holds(&v.advice, "HSA_"));
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
        struct verdict v = fixture_judge_text(*state, json);
        if (strcmp(v.class_name, rows[i].class_name) != 0)
            fail_msg("%s %s: %s", rows[i].percent, rows[i].rocm, v.class_name);
        if (i == 0)
            assert_true(fixture_list_holds(&v.advice, "GPU_SINGLE_ALLOC_PERCENT is set to 70"));
        verdict_release(&v);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ttm_advice_computes_the_value),
        cmocka_unit_test(advice_fits_what_is_known),
        cmocka_unit_test(a_program_without_a_gpu_gets_its_own_advice),
        cmocka_unit_test(a_check_can_fail),
        cmocka_unit_test(a_run_was_a_run),
        cmocka_unit_test(several_reasons_against_lower_once),
        cmocka_unit_test(growth_without_a_clock_is_doubted),
        cmocka_unit_test(a_mistake_of_the_program_is_a_doubt),
        cmocka_unit_test(no_template_gives_false_advice),
        cmocka_unit_test(advice_never_sets_both_allocator_options),
        cmocka_unit_test(expandable_segments_only_where_it_works),
        cmocka_unit_test(no_reason_is_without_a_source),
        cmocka_unit_test(no_growth_is_not_told_as_a_number),
        cmocka_unit_test(every_answer_has_reasons_in_whole_sentences),
        cmocka_unit_test(nobody_is_told_to_do_what_he_did),
        cmocka_unit_test(a_fault_of_the_command_processor_gets_its_own_advice),
        cmocka_unit_test(an_xid_is_named),
        cmocka_unit_test(the_tracker_is_that_of_the_driver), cmocka_unit_test(a_crash_without_a_gpu_hides_no_vram),
        cmocka_unit_test(the_bundle_is_attached), cmocka_unit_test(an_advice_names_its_source),
        cmocka_unit_test(a_cap_set_by_the_user_is_found),
    };
    return cmocka_run_group_tests(tests, fixture_load_tree, fixture_free_tree);
}
