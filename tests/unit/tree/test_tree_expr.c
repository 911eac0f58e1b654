/* SPDX-License-Identifier: Apache-2.0 */
/* The expression language: values, three-valued logic, missing inputs, syntax errors. */
#include "base/err.h"
#include "diagnose/fact.h"
#include "diagnose/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct facts *sample(void)
{
    struct facts *f = facts_new();
    (void)facts_set_integer(f, "oom.total_bytes", FACT_LOG, INT64_C(24) << 30, "stderr line 1");
    (void)facts_set_integer(f, "oom.free_bytes", FACT_LOG, 0, "stderr line 1");
    (void)facts_set_text(f, "software.rocm_version", FACT_STATIC, "6.4.3-128", "maps");
    (void)facts_set_boolean(f, "f.output_read", FACT_IMPACT, true, "test");
    (void)facts_set_missing(f, "f.kernel_log_read", FACT_IMPACT, FACT_ABSENT, "rights", "test");
    (void)facts_set_integer(f, "msg.killed", FACT_LOG, 2, "stderr line 2");
    (void)facts_set_missing(f, "gpu.0.vram.used_bytes", FACT_IMPACT, FACT_BLIND, "APU", "sysfs");
    (void)facts_set_integer(f, "gpu.0.gtt.used_bytes", FACT_BASELINE, 5, "sysfs");
    (void)facts_set_integer(f, "gpu.0.gtt.used_bytes", FACT_PEAK, 9, "sysfs");
    return f;
}

static void answers(void **state)
{
    static const struct {
        const char *text;
        enum answer want;
        size_t missing;
    } rows[] = {
        {"1 + 2 * 3 == 7", ANSWER_YES, 0},
        {"(1 + 2) * 3 == 9 and 10 / 4 == 2.5", ANSWER_YES, 0},
        {"-2 < 1 and 3 - 5 == -2", ANSWER_YES, 0},
        {"oom.total_bytes == 24 GiB", ANSWER_YES, 0},
        {"24 GiB == 24576 MiB and 1 TiB == 1024 GiB and 1 MiB == 1024 KiB", ANSWER_YES, 0},
        {"oom.free_bytes", ANSWER_NO, 0},
        {"not oom.free_bytes", ANSWER_YES, 0},
        {"oom.requested_bytes > 1", ANSWER_UNDECIDED, 1},
        {"not (oom.requested_bytes > 1)", ANSWER_UNDECIDED, 1},
        {"oom.requested_bytes > 1 and false", ANSWER_NO, 0},
        {"oom.requested_bytes > 1 or true", ANSWER_YES, 0},
        {"oom.requested_bytes > 1 and true", ANSWER_UNDECIDED, 1},
        {"oom.requested_bytes > oom.allocated_bytes", ANSWER_UNDECIDED, 2},
        /* Inputs that a decided operand did not need are not listed as missing. */
        {"(oom.requested_bytes > 1 or true) and oom.allocated_bytes > 1", ANSWER_UNDECIDED, 1},
        {"(oom.requested_bytes > 1 and false) or oom.allocated_bytes > 1", ANSWER_UNDECIDED, 1},
        {"first(oom.requested_bytes, 3) == 3 and oom.allocated_bytes > 1", ANSWER_UNDECIDED, 1},
        {"present(oom.requested_bytes)", ANSWER_NO, 0},
        {"present(oom.total_bytes)", ANSWER_YES, 0},
        {"gpu.0.vram.used_bytes > 1", ANSWER_UNDECIDED, 1},
        {"present(gpu.0.vram.used_bytes)", ANSWER_NO, 0},
        {"sure(oom.requested_bytes > 1)", ANSWER_NO, 0},
        {"not sure(oom.requested_bytes > 1)", ANSWER_YES, 0},
        {"sure(not (oom.requested_bytes > 1))", ANSWER_NO, 0},
        {"sure(oom.total_bytes > 1)", ANSWER_YES, 0},
        {"sure(oom.total_bytes < 1)", ANSWER_NO, 0},
        {"sure(oom.requested_bytes > 1) or oom.allocated_bytes > 1", ANSWER_UNDECIDED, 1},
        {"said(msg.killed)", ANSWER_YES, 0},
        {"said(msg.segfault)", ANSWER_NO, 0},
        {"said(kmsg.page_fault)", ANSWER_UNDECIDED, 1},
        {"contains(software.rocm_version, '4.3')", ANSWER_YES, 0},
        {"contains(msg.hsa_status, 'ISA')", ANSWER_NO, 0},
        {"contains(kmsg.ring_timeout, 'sdma')", ANSWER_UNDECIDED, 1},
        {"software.rocm_version == '6.4.3-128'", ANSWER_YES, 0},
        {"software.rocm_version != 'x'", ANSWER_YES, 0},
        {"software.rocm_version > 6", ANSWER_UNDECIDED, 0},
        {"version(software.rocm_version) >= version('6.4')", ANSWER_YES, 0},
        {"version(software.rocm_version) < version('6.4.2')", ANSWER_NO, 0},
        {"version('7.14') > version('7.2.4') and version('10.0') > version('7.14')", ANSWER_YES, 0},
        {"version('2.9.1+rocm6.4') == version('2.9.1')", ANSWER_YES, 0},
        {"near(100, 101) and not near(100, 102)", ANSWER_YES, 0},
        {"min(3, 1, 2) == 1 and max(3, 1, 2) == 3 and abs(-4) == 4", ANSWER_YES, 0},
        {"floor(2.7) == 2 and ceil(2.1) == 3 and round(2.5) == 3", ANSWER_YES, 0},
        {"percent(1, 4) == 25", ANSWER_YES, 0},
        {"percent(1, 0) == 25", ANSWER_UNDECIDED, 0},
        {"percent(oom.requested_bytes, 4) == 25", ANSWER_UNDECIDED, 1},
        {"power_of_two(5) == 8 and power_of_two(8) == 8", ANSWER_YES, 0},
        {"power_of_two(0) == 0", ANSWER_UNDECIDED, 0},
        {"if(1 < 2, 'a', 'b') == 'a' and if(1 > 2, 'a', 'b') == 'b'", ANSWER_YES, 0},
        {"if(oom.requested_bytes > 1, 1, 2) == 1", ANSWER_UNDECIDED, 1},
        {"number('85') == 85", ANSWER_YES, 0},
        {"number('85 %') == 85", ANSWER_UNDECIDED, 0},
        {"size_in('RX 7900 XTX 24 GB') == 24 GiB", ANSWER_YES, 0},
        {"size_in('APU 32 GB, 6 GB carve-out') == 32 GiB", ANSWER_YES, 0},
        {"size_in('RX 7900 XTX') == 24 GiB", ANSWER_UNDECIDED, 0},
        {"max(1, oom.requested_bytes) > 0", ANSWER_UNDECIDED, 1},
        {"first(oom.requested_bytes, oom.total_bytes) == 24 GiB", ANSWER_YES, 0},
        {"first(oom.requested_bytes, oom.allocated_bytes) > 0", ANSWER_UNDECIDED, 2},
        {"baseline(gpu.0.gtt.used_bytes) == 5 and peak(gpu.0.gtt.used_bytes) == 9", ANSWER_YES, 0},
        {"after(gpu.0.gtt.used_bytes) > 0", ANSWER_UNDECIDED, 1},
        {"1 / 0 > 1", ANSWER_UNDECIDED, 0},
        {"true and not false", ANSWER_YES, 0},
    };
    struct facts *facts = sample();
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rc_err err = {""};
        struct expr *e = expr_parse(rows[i].text, NULL, &err);
        if (e == NULL)
            fail_msg("%s: %s", rows[i].text, err.msg);
        struct eval ev = {.facts = facts};
        enum answer got = eval_answer(&ev, e);
        if (got != rows[i].want || ev.missing_count != rows[i].missing)
            fail_msg("%s: answer %d, %zu missing", rows[i].text, (int)got, ev.missing_count);
        expr_free(e);
    }
    facts_free(facts);
}

static void wrong_texts_name_the_column(void **state)
{
    static const struct {
        const char *text;
        const char *message;
    } rows[] = {
        {"", "column 1: the expression ends too early"},
        {"1 +", "column 4: the expression ends too early"},
        {"(1", "column 3: ')' expected"},
        {"1 2", "column 3: unexpected '2'"},
        {"oom.total_bytes >", "the expression ends too early"},
        {"speed > 1", "column 1: not a fact, feature, term or function: 'speed'"},
        {"t.none", "no such term"},
        {"half(1)", "unknown function 'half'"},
        {"present(1)", "needs the name of a fact"},
        {"present(oom.a, oom.b)", "too many arguments"},
        {"min(1,2,3,4,5,6,7,8,9)", "too many arguments"},
        {"'abc", "text without closing quote"},
        {"oom.total_bytes = 1", "unexpected '= 1'"},
        {"1 ? 2", "unexpected '? 2'"},
        {"not", "the expression ends too early"},
        {"contains('a')", "too few arguments"},
        {"oom. > 1", "not a fact"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rc_err err = {""};
        struct expr *e = expr_parse(rows[i].text, NULL, &err);
        if (e != NULL || strstr(err.msg, rows[i].message) == NULL)
            fail_msg("'%s': '%s'", rows[i].text, err.msg);
    }
}

static void depth_is_limited(void **state)
{
    char text[2048];
    struct rc_err err = {""};
    (void)state;
    memset(text, '(', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    assert_null(expr_parse(text, NULL, &err));
    assert_non_null(strstr(err.msg, "nested too deeply"));
}

/* A long chain of operators nests as deeply as it is long, without parentheses. */
static void length_is_limited(void **state)
{
    static char text[200001];
    static const char *const chains[] = {"1+", "true and ", "true or "};
    (void)state;
    for (size_t i = 0; i < sizeof(chains) / sizeof(chains[0]); i++) {
        struct rc_err err = {""};
        size_t n = strlen(chains[i]);
        for (size_t at = 0; at + n < sizeof(text); at += n)
            memcpy(text + at, chains[i], n + 1);
        assert_null(expr_parse(text, NULL, &err));
        assert_non_null(strstr(err.msg, "too long"));
    }
}

static void templates_fill_and_cite(void **state)
{
    char bad[80];
    struct facts *facts = sample();
    (void)state;
    char *text = template_fill("total {oom.total_bytes}, asked {oom.requested_bytes}", facts, true);
    assert_string_equal(text, "total 24.00 GiB, asked (unknown) [stderr line 1]");
    free(text);
    text = template_fill("a[[, {oom.total_bytes}]][[, {oom.requested_bytes}]].", facts, false);
    assert_string_equal(text, "a, 24.00 GiB.");
    free(text);
    assert_null(template_check("a {oom.total_bytes} b", bad, sizeof(bad)));
    assert_non_null(template_check("a {speed} b", bad, sizeof(bad)));
    assert_non_null(template_check("a {oom.total", bad, sizeof(bad)));
    facts_free(facts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers),
        cmocka_unit_test(wrong_texts_name_the_column),
        cmocka_unit_test(depth_is_limited),
        cmocka_unit_test(length_is_limited),
        cmocka_unit_test(templates_fill_and_cite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
