/* SPDX-License-Identifier: Apache-2.0 */
/* The doctor's rule files and reports: refused files, named GPUs, omitted rules. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "base/err.h"
#include "diagnose/doctor.h"
#include "diagnose/fact.h"
#include "shipped_computed.h"

#define REST "'say': 'x', 'mend': 'y', 'verify': 'z', 'source': 'w'"
#define FILE_OF(rules) "{'format': 1, 'rules': [" rules "]}"

static struct doctor_rules *parse(const char *quoted, struct rc_err *err)
{
    char text[4096];
    (void)snprintf(text, sizeof text, "%s", quoted);
    for (char *c = text; *c != '\0'; c++)
        *c = *c == '\'' ? '"' : *c == '`' ? '\'' : *c;
    return doctor_rules_parse(text, strlen(text), "own.json", err);
}

static void test_wrong_files(void **state)
{
    static const struct {
        const char *text, *complaint;
    } cases[] = {
        {"", "not valid JSON"},
        {"[]", "JSON object"},
        {"{'format': 2, 'rules': []}", "'format' must be 1"},
        {"{'format': 1}", "'rules' must be a list"},
        {"{'format': 1, 'rules': [], 'x': 1}", "'x' is not a key"},
        {FILE_OF("1"), "list of at most"},
        {FILE_OF("{}"), "'id' is missing"},
        {FILE_OF("{'id': 'a', 'severity': 'bad', 'if': 'true', " REST "}"), "note, warn or fail"},
        {FILE_OF("{'id': 'a', 'severity': 'warn', " REST "}"), "'if' is missing"},
        {FILE_OF("{'id': 'a', 'severity': 'warn', 'if': 'host.x >', " REST "}"), "too early"},
        {FILE_OF("{'id': 'a', 'severity': 'warn', 'if': 'colour.x', " REST "}"), "not a fact"},
        {FILE_OF("{'id': 'a', 'severity': 'warn', 'if': 'true', 'each': 'cpu', " REST "}"),
         "must be \"gpu\""},
        {FILE_OF("{'id': 'a', 'severity': 'warn', 'if': 'true', 'unless': 'b', " REST "}"),
         "stand before"},
        {FILE_OF("{'id': 'a', 'severity': 'warn', 'if': 'true', 'say': '{colour.x}'}"),
         "no such placeholder"},
        {FILE_OF("{'id': 'a', 'severity': 'warn', 'if': 'true', 'say': 'x', 'mend': []}"),
         "'mend' must be"},
        {FILE_OF("{'id': 'a', 'severity': 'warn', 'if': 'true', " REST
                 "}, {'id': 'a', 'severity': 'warn', 'if': 'true', " REST "}"),
         "there once"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rc_err err = {""};
        struct doctor_rules *rules = parse(cases[i].text, &err);
        if (rules != NULL || strstr(err.msg, cases[i].complaint) == NULL ||
            strncmp(err.msg, "own.json:", 9) != 0)
            fail_msg("case %zu: %s", i, err.msg);
        doctor_rules_free(rules);
    }
}

static struct facts *gpus(int count)
{
    struct facts *f = facts_new();
    (void)facts_set_integer(f, "gpu.count", FACT_STATIC, count, "test");
    for (int i = 0; i < count; i++) {
        char name[48];
        (void)snprintf(name, sizeof name, "gpu.%d.vram.total_bytes", i);
        (void)facts_set_integer(f, name, FACT_STATIC, i == 3 ? 1 : 100, "sysfs");
    }
    return f;
}

static void test_gpus_are_named(void **state)
{
    (void)state;
    struct rc_err err = {""};
    struct doctor_rules *rules =
        parse(FILE_OF("{'id': 'large', 'severity': 'warn', 'each': 'gpu', 'if': "
                      "'gpu.N.vram.total_bytes > 10', 'say': 'GPU N has {gpu.N.vram.total_bytes}', "
                      "'mend': [{'if': 'gpu.N.vram.total_bytes > 1000', 'say': 'no'}, {'say': "
                      "'mend GPU N'}], 'verify': 'see GPU N', 'source': 'w'}"),
              &err);
    assert_non_null(rules);
    struct doctor_report report;
    struct facts *f = gpus(6);
    assert_int_equal(0, doctor_examine(f, computed, rules, &report, &err));
    assert_int_equal(1, report.finding_count);
    assert_string_equal("0-2, 4, 5", report.findings[0].gpus);
    assert_string_equal("GPU 0 has 100 bytes [sysfs]", report.findings[0].say);
    assert_string_equal("mend GPU 0", report.findings[0].mend);
    assert_string_equal("see GPU 0", report.findings[0].verify);
    doctor_report_release(&report);
    facts_free(f);
    doctor_rules_free(rules);
}

/* If the GPUs could not be counted, rules about each GPU are undecided, not passed. */
static void test_unknown_gpus_are_undecided(void **state)
{
    (void)state;
    struct rc_err err = {""};
    struct doctor_rules *rules =
        parse(FILE_OF("{'id': 'large', 'severity': 'warn', 'each': 'gpu', 'if': "
                      "'gpu.N.vram.total_bytes > 10', 'say': 'x', 'mend': [{'say': 'y'}], "
                      "'verify': 'z', 'source': 'w'}"),
              &err);
    struct facts *f = facts_new();
    struct doctor_report report;
    assert_int_equal(0, doctor_examine(f, computed, rules, &report, &err));
    assert_int_equal(0, report.finding_count);
    assert_int_equal(1, report.undecided_count);
    assert_non_null(strstr(report.undecided[0].missing, "gpu.0.vram.total_bytes"));
    doctor_report_release(&report);
    facts_free(f);
    f = facts_new();
    facts_set_integer(f, "gpu.count", FACT_STATIC, 0, "s");
    assert_int_equal(0, doctor_examine(f, computed, rules, &report, &err));
    assert_int_equal(1, report.undecided_count); /* without a GPU it was not asked, which is no good answer */
    assert_string_equal(report.undecided[0].missing, "no GPU was found");
    doctor_report_release(&report);
    facts_free(f);
    doctor_rules_free(rules);
}

static void test_where_it_was_read(void **state)
{
    (void)state;
    struct rc_err err = {""};
    struct doctor_rules *rules =
        parse(FILE_OF("{'id': 'a', 'severity': 'warn', 'if': 'f.ttm_ram_percent > 1', 'say': "
                      "'{f.ttm_limit_bytes} of {f.ram_bytes}, {f.ttm_ram_percent}, {gpu.count}', "
                      "'mend': 'y', 'verify': 'z', 'source': 'w'}"),
              &err);
    assert_non_null(rules);
    struct doctor_report report;
    struct facts *f = gpus(1);
    (void)facts_set_integer(f, "host.mem_total_bytes", FACT_STATIC, 4096, "/proc/meminfo");
    (void)facts_set_integer(f, "host.ttm_limit_bytes", FACT_STATIC, 2048, "/sys/pages_limit");
    assert_int_equal(0, doctor_examine(f, computed, rules, &report, &err));
    assert_int_equal(1, report.finding_count);
    assert_string_equal("2.0 KiB of 4.0 KiB, 50.0 %, 1 [/sys/pages_limit; /proc/meminfo; test]",
                        report.findings[0].say);
    doctor_report_release(&report);
    facts_free(f);
    doctor_rules_free(rules);
}

static void test_order_and_unless(void **state)
{
    (void)state;
    struct rc_err err = {""};
    struct doctor_rules *rules = parse(
        FILE_OF("{'id': 'n', 'severity': 'note', 'if': 'true', " REST "}, "
                "{'id': 'f', 'severity': 'fail', 'if': 'present(gpu.count)', " REST "}, "
                "{'id': 'u', 'severity': 'fail', 'if': 'true', 'unless': 'x f', " REST "}, "
                "{'id': 'w', 'severity': 'warn', 'if': 'true', " REST "}, "
                "{'id': 'o', 'severity': 'fail', 'if': 'host.mem_total_bytes > 1', " REST "}"),
        &err);
    assert_null(rules); /* there is no rule x */
    rules = parse(
        FILE_OF("{'id': 'n', 'severity': 'note', 'if': 'true', " REST "}, "
                "{'id': 'f', 'severity': 'fail', 'if': 'present(gpu.count)', " REST "}, "
                "{'id': 'u', 'severity': 'fail', 'if': 'true', 'unless': 'n f', " REST "}, "
                "{'id': 'w', 'severity': 'warn', 'if': 'true', " REST "}, "
                "{'id': 'o', 'severity': 'fail', 'if': 'host.mem_total_bytes > 1', " REST "}"),
        &err);
    assert_non_null(rules);
    struct doctor_report report;
    struct facts *f = gpus(1);
    (void)facts_set_missing(f, "host.mem_total_bytes", FACT_STATIC, FACT_UNREADABLE, "EIO", "x");
    assert_int_equal(0, doctor_examine(f, computed, rules, &report, &err));
    assert_int_equal(3, report.finding_count);
    assert_string_equal("f", report.findings[0].id);
    assert_string_equal("w", report.findings[1].id);
    assert_string_equal("n", report.findings[2].id);
    assert_int_equal(DOCTOR_FAIL, doctor_worst(&report));
    assert_int_equal(1, report.undecided_count);
    assert_string_equal("host.mem_total_bytes: EIO", report.undecided[0].missing);
    cJSON *json = doctor_report_to_json(&report);
    assert_non_null(json);
    assert_string_equal("fail",
                        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "status")));
    assert_int_equal(3, cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(json, "findings")));
    assert_int_equal(1, cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(json, "not_asked")));
    cJSON_Delete(json);
    doctor_report_release(&report);
    facts_free(f);
    doctor_rules_free(rules);
    doctor_rules_free(NULL);
}

/* Garbage in the environment, in names of GPUs and in lists: no finding, and no crash. */
static void test_garbage_in_facts(void **state)
{
    static const char *const values[] = {"",
                                         ":",
                                         ",",
                                         ",,,:::",
                                         "max_split_size_mb",
                                         "max_split_size_mb:",
                                         "[[[[",
                                         "]]]],a:[",
                                         "11..0",
                                         "99999999999999999999.1.1",
                                         "gfx",
                                         "gfxzzzz",
                                         "\xff\xfe"};
    static const char *const names[] = {"env.PYTORCH_ALLOC_CONF",
                                        "env.PYTORCH_HIP_ALLOC_CONF",
                                        "env.HSA_OVERRIDE_GFX_VERSION",
                                        "env.HIP_VISIBLE_DEVICES",
                                        "gpu.0.gfx",
                                        "software.torch_targets",
                                        "host.kernel",
                                        "software.torch_version"};
    struct rc_err err = {""};
    (void)state;
    struct doctor_rules *rules = parse(
        FILE_OF("{'id': 'a', 'severity': 'warn', 'if': 'f.alloc.max_split_mb > 0', " REST "}"),
        &err);
    for (size_t v = 0; v < sizeof values / sizeof values[0]; v++) {
        struct facts *f = gpus(1);
        struct doctor_report report;
        for (size_t n = 0; n < sizeof names / sizeof names[0]; n++)
            (void)facts_set_text(f, names[n], FACT_STATIC, values[v], "test");
        assert_int_equal(0, doctor_examine(f, computed, rules, &report, &err));
        assert_int_equal(0, report.finding_count);
        doctor_report_release(&report);
        facts_free(f);
    }
    doctor_rules_free(rules);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_files),       cmocka_unit_test(test_gpus_are_named),
        cmocka_unit_test(test_where_it_was_read), cmocka_unit_test(test_order_and_unless),
        cmocka_unit_test(test_garbage_in_facts),  cmocka_unit_test(test_unknown_gpus_are_undecided),
    };
    return cmocka_run_group_tests(tests, read_computed, free_computed);
}
