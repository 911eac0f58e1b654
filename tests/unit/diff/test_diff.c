/* SPDX-License-Identifier: Apache-2.0 */
/* Comparing two lists of facts with templates/diff.json, and the features of a curve. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/fs.h"
#include "diagnose/diff.h"
#include "diagnose/fact.h"

static struct diff_rules *rules;

static int read_file(void **state)
{
    struct rc_err err = {""};
    RC_AUTO_FREE char *text = NULL;
    (void)state;
    ssize_t len = fs_read_all(TEST_SOURCE_DIR "/templates/diff.json", 1u << 20, &text);
    rules = len > 0 ? diff_rules_parse(text, (size_t)len, "diff.json", &err) : NULL;
    if (rules == NULL)
        (void)fprintf(stderr, "%s\n", err.msg);
    return rules != NULL ? 0 : -1;
}

static int free_file(void **state)
{
    (void)state;
    diff_rules_free(rules);
    return 0;
}

/* ' stands for ". */
static struct facts *facts_of(const char *quoted)
{
    char text[2048];
    struct rc_err err = {""};
    (void)snprintf(text, sizeof text, "{%s}", quoted);
    for (char *c = text; *c != '\0'; c++)
        *c = *c == '\'' ? '"' : *c;
    cJSON *json = cJSON_Parse(text);
    struct facts *f = facts_new();
    if (json == NULL)
        fail_msg("not JSON: %s", text);
    assert_int_equal(0, facts_from_json(f, json, &err));
    cJSON_Delete(json);
    return f;
}

static struct diff_result compare(const char *a, const char *a_class, const char *b,
                                  const char *b_class)
{
    struct diff_side sides[2] = {{facts_of(a), a_class}, {facts_of(b), b_class}};
    struct diff_result result;
    struct rc_err err = {""};
    assert_int_equal(0, diff_compare(&sides[0], &sides[1], rules, &result, &err));
    facts_free((struct facts *)(uintptr_t)sides[0].facts);
    facts_free((struct facts *)(uintptr_t)sides[1].facts);
    return result;
}

static const struct row {
    const char *a, *b;
    const char *first; /* "group name A|B", or "" = nothing differs */
} rows[] = {
    {"", "", ""},
    {"'gpu.0.gfx': 'gfx1100'", "'gpu.0.gfx': 'gfx1030'", "gpu gpu.0.gfx gfx1100|gfx1030"},
    {"'env.HSA_XNACK': '1'", "", "runtime-options env.HSA_XNACK 1|(not set)"},
    {"", "'env.PYTORCH_HIP_ALLOC_CONF': 'x'", "allocator env.PYTORCH_HIP_ALLOC_CONF (not set)|x"},
    {"'software.torch_version': '2.9'", "", ""}, /* not known is no difference */
    {"'software.torch_version': '2.9'", "'software.torch_version': null",
     "versions software.torch_version 2.9|(none)"},
    {"'software.torch_version': '2.9'",
     "'software.torch_version': {'status': 'unreadable', 'reason': 'x'}", ""},
    /* a limit that is not set, and one that is known only at another moment */
    {"'proc.0.memlock_limit_bytes': 65536",
     "'proc.0.memlock_limit_bytes': {'status': 'absent', 'reason': 'unlimited'}",
     "process-limits proc.0.memlock_limit_bytes 64.0 KiB|unlimited"},
    {"'host.cgroup_limit_bytes': 65536",
     "'host.cgroup_limit_bytes': {'status': 'absent', 'reason': 'x'},"
     "'host.cgroup_limit_bytes@baseline': 65536", ""},
    /* noise */
    {"'target.failed_pid': 1, 'run.duration_ms': 5, 'gpu.0.kfd_gpu_id': 7, 'proc.0.rss_bytes': 9",
     "'target.failed_pid': 2, 'run.duration_ms': 6, 'gpu.0.kfd_gpu_id': 8, 'proc.0.rss_bytes': 1",
     ""},
    {"'msg.memory_access_fault': 1", "'msg.memory_access_fault': 3", ""},
    {"'msg.memory_access_fault': 1", "'msg.memory_access_fault': 0",
     "log msg.memory_access_fault 1|0"},
    {"'msg.hsa_status': 'x 0x1008 at 7f3a'", "'msg.hsa_status': 'x 0x2f at 9f3a'", ""},
    {"'msg.hsa_status': 'OUT_OF_RESOURCES 0x1008'", "'msg.hsa_status': 'INVALID_ISA 0x100f'",
     "log msg.hsa_status OUT_OF_RESOURCES 0x1008|INVALID_ISA 0x100f"},
    {"'kmsg.page_fault': 4", "", ""}, /* the other log was not read */
    {"'kmsg.page_fault': 4", "'kmsg.readable': true, 'f.kernel_log_read': true",
     "log kmsg.page_fault 4|(not said)"},
    {"'msg.gpu_lost': 1", "'f.output_read': true", "log msg.gpu_lost 1|(not said)"},
    {"'msg.gpu_lost': 1", "'f.kernel_log_read': true", ""},
    {"'kmsg.page_fault_address': '0x1'", "'kmsg.page_fault_address': '0x2'", ""},
    /* both sides of a tolerance */
    {"'host.mem_total_bytes': 1000000", "'host.mem_total_bytes': 990001", ""},
    {"'host.mem_total_bytes': 1000000", "'host.mem_total_bytes': 989999",
     "memory-limits host.mem_total_bytes 976.6 KiB|966.8 KiB"},
    {"'gpu.0.vram.used_bytes': {'value': 1073741824, 'when': 'baseline'}",
     "'gpu.0.vram.used_bytes': {'value': 1342177280, 'when': 'baseline'}", ""},
    {"'gpu.0.vram.used_bytes': {'value': 1073741824, 'when': 'baseline'}",
     "'gpu.0.vram.used_bytes': {'value': 1342177281, 'when': 'baseline'}",
     "held gpu.0.vram.used_bytes 1.00 GiB|1.25 GiB"},
    /* the moment decides */
    {"'gpu.0.vram.used_bytes': {'value': 1, 'when': 'impact'}",
     "'gpu.0.vram.used_bytes': {'value': 9999999999, 'when': 'impact'}", ""},
    /* names of files, wherever they lie */
    {"'run.argument.0': '/a/train.py'", "'run.argument.0': '/b/c/train.py'", ""},
    {"'run.argument.0': '/a/train.py'", "'run.argument.0': '/a/tune.py'",
     "command run.argument.0 /a/train.py|/a/tune.py"},
    {"'run.argument.--batch': '8'", "'run.argument.--batch': '16'",
     "command run.argument.--batch 8|16"},
    /* pseudonyms are numbered anew in each bundle */
    {"'env.LD_LIBRARY_PATH': '<home1>/lib:/x'", "'env.LD_LIBRARY_PATH': '<home22>/lib:/x'", ""},
    {"'env.LD_LIBRARY_PATH': '<home1>/lib'", "'env.LD_LIBRARY_PATH': '<user1>/lib'",
     "runtime-options env.LD_LIBRARY_PATH <home1>/lib|<user1>/lib"},
    {"'env.HSA_XNACK': '<home1'", "'env.HSA_XNACK': '<home2'",
     "runtime-options env.HSA_XNACK <home1|<home2"},
    {"'env.HSA_XNACK': '<a1>'", "'env.HSA_XNACK': '<a2>x'",
     "runtime-options env.HSA_XNACK <a1>|<a2>x"},
    /* the figures of the messages: another GPU, or another demand on the same one */
    {"'oom.total_bytes': 25748328940, 'oom.free_bytes': 987758592", "'oom.total_bytes': 17158000000, 'oom.free_bytes': 12582912",
     "gpu oom.total_bytes 23.98 GiB|15.98 GiB"},
    {"'oom.free_bytes': 987758592", "'oom.free_bytes': 12582912", "figures oom.free_bytes 942.0 MiB|12.0 MiB"},
    {"'oom.reserved_unallocated_bytes': 432013312", "'oom.reserved_unallocated_bytes': 440401920", ""},
    {"'oom.allocated_bytes': 22870700851", "'oom.allocated_bytes': 13207000000", "figures oom.allocated_bytes 21.30 GiB|12.30 GiB"},
    /* the cause comes before what follows from it */
    {"'curve.gpu.0.vram.used.peak_bytes': 9000000000, 'msg.python_traceback': 1, "
     "'oom.requested_bytes': 5000000, 'proc.0.fds_limit': 1024",
     "'curve.gpu.0.vram.used.peak_bytes': 1000000000, 'oom.requested_bytes': 9000000, "
     "'proc.0.fds_limit': 65536, 'msg.python_traceback': 0",
     "process-limits proc.0.fds_limit 1024|65536"},
    {"'f.vendor': 'amd', 'gpu.0.driver': 'amdgpu', 'gpu.0.gfx': 'gfx942'",
     "'f.vendor': 'nvidia', 'gpu.0.driver': 'nvidia', 'gpu.0.name': 'H100'",
     "vendor f.vendor amd|nvidia"},
};

static void test_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char got[400] = "";
        struct diff_result result = compare(rows[i].a, "capacity", rows[i].b, "capacity");
        const struct diff_item *first = result.different > 0 ? &result.items[0] : NULL;
        if (first != NULL)
            (void)snprintf(got, sizeof got, "%s %s %s|%s", first->group, first->name, first->a,
                           first->b);
        if (strcmp(got, rows[i].first) != 0)
            fail_msg("row %zu: '%s', not '%s'", i, got, rows[i].first);
        assert_false(result.outcome_differs);
        diff_release(&result);
        /* the other way round */
        result = compare(rows[i].b, "capacity", rows[i].a, "capacity");
        assert_int_equal(rows[i].first[0] != '\0', result.different > 0);
        diff_release(&result);
    }
}

/* The same pseudonym in two bundles may stand for two names: that they are the same is not said. */
static void test_pseudonyms_are_not_compared(void **state)
{
    (void)state;
    struct diff_result result = compare("'run.program': '<project1>.py', 'env.HSA_XNACK': '<x', 'host.kernel': '6.1'", "capacity",
                                        "'run.program': '<project1>.py', 'env.HSA_XNACK': '<x', 'host.kernel': '6.1'", "capacity");
    assert_int_equal(result.different, 0);
    assert_int_equal(result.renamed, 1);
    assert_string_equal(buf_str(&result.renamed_names), "run.program");
    diff_release(&result);
    result = compare("'run.program': '<project1>.py'", "capacity", "'run.program': 'train.py'", "capacity");
    assert_int_equal(result.different, 1);
    assert_int_equal(result.renamed, 0);
    diff_release(&result);
}

/* If the outcomes differ, the group that can explain that comes first, wherever it is in the
 * file. */
static void test_the_outcome_moves_its_causes(void **state)
{
    static const char a[] = "'gpu.0.vbios': 'x1', 'host.max_map_count': 65530, "
                            "'software.torch_version': '2.8', 'env.HSA_XNACK': '1'";
    static const char b[] = "'gpu.0.vbios': 'x2', 'host.max_map_count': 1048576, "
                            "'software.torch_version': '2.9', 'env.HSA_XNACK': '0'";
    static const struct {
        const char *class_name, *group;
    } cases[] = {{"capacity", "runtime-options"},
                 {"resource-limit", "process-limits"},
                 {"version-mismatch", "versions"},
                 {"sdma", "runtime-options"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct diff_result result = compare(a, "capacity", b, cases[i].class_name);
        assert_int_equal(4, result.different);
        assert_string_equal(cases[i].group, result.items[0].group);
        diff_release(&result);
    }
}

static void test_known_to_one_only(void **state)
{
    (void)state;
    struct diff_result result = compare("'software.torch_version': '2.9', 'env.HSA_XNACK': '1'",
                                        "x", "'host.kernel': '6.12'", "x");
    assert_int_equal(1, result.different);
    assert_int_equal(3, result.count);
    assert_string_equal("env.HSA_XNACK", result.items[0].name);
    assert_string_equal("(not known)",
                        result.items[1].a[0] == '(' ? result.items[1].a : result.items[1].b);
    cJSON *json = diff_to_json(&result, 0, result.different);
    assert_int_equal(1, cJSON_GetArraySize(json));
    cJSON_Delete(json);
    diff_release(&result);
}

static void test_one_moment_of_each(void **state)
{
    (void)state;
    struct diff_result result = compare("'proc.0.fds_limit': {'value': 1, 'when': 'impact'}", "x",
                                        "'proc.0.fds_limit': {'value': 2, 'when': 'impact'}", "x");
    assert_int_equal(1, result.different);
    diff_release(&result);
}

static int64_t curve(const char *csv, const char *what)
{
    char name[100];
    int64_t value = -1;
    struct facts *f = facts_new();
    assert_int_equal(0, diff_curve_facts(f, csv, strlen(csv)));
    (void)snprintf(name, sizeof name, "curve.gpu.0.vram.used.%s", what);
    (void)facts_get_integer(f, name, &value);
    facts_free(f);
    return value;
}

static void test_curves(void **state)
{
    static const char steep[] = "time_s,flags,host.x,gpu.0.vram.used_bytes,gpu.0.busy_percent\n"
                                "0.5,baseline,7,100,3\n1.5,,7,600,3\n2.5,,,1090,3\n3.5,,7,1100,3\n"
                                "4.0,impact,7,50,3\n5.0,after,7,99999,3\n";
    static const char empty_cells[] = "time_s,flags,gpu.0.vram.used_bytes\n0,,\n1,,\n2,,40\n";
    (void)state;
    assert_int_equal(1100, curve(steep, "peak_bytes"));
    assert_int_equal(2000, curve(steep, "time_to_peak_ms")); /* 98 % of it at 2.5 s */
    assert_int_equal(500, curve(steep, "growth_bytes_per_s"));
    assert_int_equal(40, curve(empty_cells, "peak_bytes"));
    assert_int_equal(0, curve(empty_cells, "time_to_peak_ms"));
    assert_int_equal(-1, curve(empty_cells, "growth_bytes_per_s"));
    assert_int_equal(-1, curve("", "peak_bytes"));
    assert_int_equal(-1, curve("time_s,flags,gpu.0.vram.used_bytes", "peak_bytes"));
    assert_int_equal(
        -1, curve("time_s,flags,gpu.0.vram.used_bytes\n1,,99999999999999999999\n", "peak_bytes"));
}

static void test_wrong_files(void **state)
{
    static const struct {
        const char *text, *complaint;
    } cases[] = {
        {"{", "not valid JSON"},
        {"{\"format\": 1}", "'ignore' must be"},
        {"{\"format\": 1, \"ignore\": [\"a\"], \"groups\": {}, \"tolerance\": []}",
         "'groups' must"},
        {"{\"format\": 1, \"ignore\": [\"a\"], \"groups\": [1], \"tolerance\": []}",
         "hold objects"},
        {"{\"format\": 1, \"ignore\": [\"a\"], \"groups\": [{\"id\": \"g\", \"title\": \"t\"}], "
         "\"tolerance\": []}",
         "'why' is missing"},
        {"{\"format\": 1, \"ignore\": [\"a\"], \"groups\": [{\"id\": \"g\", \"title\": \"t\", "
         "\"why\": "
         "\"w\", \"facts\": [3]}], \"tolerance\": []}",
         "'facts' must be"},
        {"{\"format\": 1, \"ignore\": [\"a\"], \"groups\": [{\"id\": \"g\", \"title\": \"t\", "
         "\"why\": "
         "\"w\", \"facts\": [\"x\"], \"compare\": \"no\"}], \"tolerance\": []}",
         "value, said or names"},
        {"{\"format\": 1, \"ignore\": [\"a\"], \"groups\": [], \"tolerance\": [{\"facts\": "
         "[\"x\"], "
         "\"percent\": -1}]}",
         "0 or more"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rc_err err = {""};
        struct diff_rules *wrong =
            diff_rules_parse(cases[i].text, strlen(cases[i].text), "own.json", &err);
        if (wrong != NULL || strstr(err.msg, cases[i].complaint) == NULL ||
            strncmp(err.msg, "own.json:", 9) != 0)
            fail_msg("case %zu: %s", i, err.msg);
    }
    diff_rules_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_pseudonyms_are_not_compared),
        cmocka_unit_test(test_the_outcome_moves_its_causes),
        cmocka_unit_test(test_known_to_one_only),
        cmocka_unit_test(test_one_moment_of_each),
        cmocka_unit_test(test_curves),
        cmocka_unit_test(test_wrong_files),
    };
    return cmocka_run_group_tests(tests, read_file, free_file);
}
