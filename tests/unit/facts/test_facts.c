/* SPDX-License-Identifier: Apache-2.0 */
/* The fact store, its JSON, and the scanning helpers over text. */
#include <errno.h>
#include <math.h>
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
#include "diagnose/fact.h"
#include "diagnose/text.h"

static int64_t get(const struct facts *f, const char *name)
{
    int64_t value = -424242;
    (void)facts_get_integer(f, name, &value);
    return value;
}

static void test_first_source_wins(void **state)
{
    (void)state;
    struct facts *f = facts_new();
    assert_int_equal(0, facts_set_missing(f, "a", FACT_IMPACT, FACT_UNREADABLE, "EIO", "sysfs"));
    assert_int_equal(0, facts_set_missing(f, "a", FACT_IMPACT, FACT_ABSENT, "later", "other"));
    assert_string_equal("EIO", facts_find(f, "a", FACT_IMPACT)->reason);
    assert_int_equal(0, facts_set_integer(f, "a", FACT_IMPACT, 5, "fdinfo"));
    assert_int_equal(0, facts_set_integer(f, "a", FACT_IMPACT, 6, "guess"));
    const struct fact *a = facts_find(f, "a", FACT_IMPACT);
    assert_int_equal(FACT_PRESENT, a->status);
    assert_int_equal(5, a->integer);
    assert_string_equal("fdinfo", a->source);
    assert_null(a->reason);
    assert_int_equal(0, facts_set_missing(f, "a", FACT_IMPACT, FACT_ABSENT, "no", "x"));
    assert_int_equal(5, get(f, "a"));
    assert_int_equal(1, facts_count(f));
    assert_null(facts_find(f, "a", FACT_LOG));
    assert_null(facts_at(f, 1));
    assert_string_equal("a", facts_at(f, 0)->name);
    facts_free(f);
    facts_free(NULL);
}

static void test_best_prefers_impact_and_present(void **state)
{
    (void)state;
    struct facts *f = facts_new();
    facts_set_integer(f, "b", FACT_BASELINE, 1, NULL);
    assert_int_equal(1, get(f, "b"));
    facts_set_integer(f, "b", FACT_AFTER, 2, NULL);
    assert_int_equal(2, get(f, "b"));
    facts_set_integer(f, "b", FACT_PEAK, 3, NULL);
    assert_int_equal(3, get(f, "b"));
    facts_set_integer(f, "b", FACT_STATIC, 4, NULL);
    assert_int_equal(4, get(f, "b"));
    facts_set_missing(f, "b", FACT_IMPACT, FACT_BLIND, "not counted here", NULL);
    assert_int_equal(4, get(f, "b"));
    facts_set_integer(f, "b", FACT_LOG, 5, NULL);
    assert_int_equal(5, get(f, "b"));
    facts_set_integer(f, "b", FACT_IMPACT, 6, NULL);
    assert_int_equal(6, get(f, "b"));
    facts_set_missing(f, "c", FACT_LOG, FACT_ABSENT, NULL, NULL);
    assert_int_equal(FACT_ABSENT, facts_best(f, "c")->status);
    assert_non_null(facts_best(f, "c")->reason);
    assert_null(facts_best(f, "d"));
    facts_free(f);
}

static void test_types(void **state)
{
    (void)state;
    struct facts *f = facts_new();
    int64_t n;
    const char *s;
    facts_set_real(f, "r", FACT_LOG, 2.5, NULL);
    facts_set_real(f, "i", FACT_LOG, 3.0, NULL);
    facts_set_real(f, "huge", FACT_LOG, 0x1p63, NULL);
    facts_set_real(f, "nan", FACT_LOG, NAN, NULL);
    facts_set_boolean(f, "t", FACT_LOG, true, NULL);
    facts_set_text(f, "s", FACT_LOG, "x", NULL);
    assert_false(facts_get_integer(f, "r", &n));
    assert_true(facts_get_integer(f, "i", &n));
    assert_int_equal(3, n);
    assert_false(facts_get_integer(f, "huge", &n));
    assert_false(facts_get_integer(f, "nan", &n));
    assert_int_equal(FACT_UNREADABLE, facts_find(f, "nan", FACT_LOG)->status);
    assert_true(facts_get_integer(f, "t", &n));
    assert_int_equal(1, n);
    assert_false(facts_get_integer(f, "s", &n));
    assert_false(facts_get_integer(f, "none", &n));
    assert_true(facts_get_text(f, "s", &s));
    assert_string_equal("x", s);
    assert_false(facts_get_text(f, "t", &s));
    assert_false(facts_get_text(f, "nan", &s));
    facts_free(f);
}

static void test_refuses_what_is_no_fact(void **state)
{
    (void)state;
    struct facts *f = facts_new();
    char longer[400];
    memset(longer, 'n', sizeof longer);
    longer[399] = '\0';
    assert_int_equal(-EINVAL, facts_set_integer(f, "", FACT_LOG, 1, NULL));
    assert_int_equal(-EINVAL, facts_set_integer(f, NULL, FACT_LOG, 1, NULL));
    assert_int_equal(-EINVAL, facts_set_integer(f, "a b", FACT_LOG, 1, NULL));
    assert_int_equal(-EINVAL, facts_set_integer(f, "a\"", FACT_LOG, 1, NULL));
    assert_int_equal(-EINVAL, facts_set_integer(f, "a\\", FACT_LOG, 1, NULL));
    assert_int_equal(-EINVAL, facts_set_integer(f, "a\x7f", FACT_LOG, 1, NULL));
    assert_int_equal(-EINVAL, facts_set_integer(f, longer, FACT_LOG, 1, NULL));
    assert_int_equal(-EINVAL, facts_set_integer(f, "a", (enum fact_when)9, 1, NULL));
    assert_int_equal(-EINVAL, facts_set_text(f, "a", FACT_LOG, NULL, NULL));
    assert_int_equal(-EINVAL, facts_set_missing(f, "a", FACT_LOG, FACT_PRESENT, "r", NULL));
    assert_int_equal(-EINVAL, facts_set_missing(f, "a", FACT_LOG, (enum fact_status)7, "r", NULL));
    assert_int_equal(0, facts_count(f));
    facts_free(f);
}

static void test_text_is_made_safe(void **state)
{
    (void)state;
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"plain", "plain"},
        {"a\tb\nc", "a\tb\nc"},
        {"\x1b[31mred", "?[31mred"},
        {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
        {"\xc0\xaf", "??"},           /* overlong */
        {"\xe0\x80\x80", "???"},      /* overlong */
        {"\xed\xa0\x80", "???"},      /* surrogate */
        {"\xf0\x80\x80\x80", "????"}, /* overlong */
        {"\xf4\x90\x80\x80", "????"}, /* beyond U+10FFFF */
        {"\xff\xfe", "??"},
        {"x\xe2\x82", "x??"}, /* cut */
        {"\x7f", "?"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct facts *f = facts_new();
        facts_set_text(f, "t", FACT_LOG, cases[i].in, NULL);
        assert_string_equal(cases[i].out, facts_find(f, "t", FACT_LOG)->text);
        facts_free(f);
    }
    char *big = malloc(10001);
    memset(big, 'x', 10000);
    big[10000] = '\0';
    struct facts *f = facts_new();
    facts_set_text(f, "t", FACT_LOG, big, NULL);
    assert_int_equal(4096, strlen(facts_find(f, "t", FACT_LOG)->text));
    facts_free(f);
    free(big);
}

static void test_many_facts_and_the_bound(void **state)
{
    (void)state;
    struct facts *f = facts_new();
    char name[32];
    for (int i = 0; i < 65536; i++) {
        (void)snprintf(name, sizeof name, "gpu.%d.x", i);
        assert_int_equal(0, facts_set_integer(f, name, FACT_PEAK, i, "test"));
    }
    assert_int_equal(-E2BIG, facts_set_integer(f, "one.more", FACT_PEAK, 1, "test"));
    assert_int_equal(0, facts_set_integer(f, "gpu.7.x", FACT_PEAK, 1, "test"));
    assert_int_equal(65536, facts_count(f));
    assert_int_equal(7, get(f, "gpu.7.x"));
    assert_int_equal(65535, get(f, "gpu.65535.x"));
    facts_free(f);
}

static void test_json_round_trip(void **state)
{
    (void)state;
    struct facts *f = facts_new(), *g = facts_new();
    facts_set_integer(f, "i", FACT_IMPACT, -7, "src");
    facts_set_integer(f, "big", FACT_PEAK, INT64_MAX - 1, NULL);
    facts_set_integer(f, "low", FACT_PEAK, INT64_MIN, NULL);
    facts_set_integer(f, "edge", FACT_PEAK, INT64_C(1) << 53, NULL);
    facts_set_real(f, "r", FACT_BASELINE, 2.25, NULL);
    facts_set_real(f, "whole", FACT_BASELINE, 4.0, NULL);
    facts_set_text(f, "n_bytes", FACT_LOG, "8 GiB of \"x\"", "s");
    facts_set_boolean(f, "b", FACT_STATIC, false, NULL);
    facts_set_missing(f, "m", FACT_AFTER, FACT_BLIND, "kernel 6.1", "sysfs");
    facts_set_missing(f, "i", FACT_AFTER, FACT_UNREADABLE, "EIO", NULL);
    cJSON *json = facts_to_json(f);
    char *text = cJSON_PrintUnformatted(json);
    cJSON *back = cJSON_Parse(text);
    assert_int_equal(0, facts_from_json(g, back, NULL));
    assert_int_equal(facts_count(f), facts_count(g));
    for (size_t i = 0; i < facts_count(f); i++) {
        const struct fact *a = facts_at(f, i), *b = facts_at(g, i);
        assert_string_equal(a->name, b->name);
        assert_int_equal(a->status, b->status);
        assert_int_equal(a->when, b->when);
        assert_int_equal(a->integer, b->integer);
        assert_true(a->real == b->real);
        if (a->status == FACT_PRESENT)
            assert_int_equal(a->type, b->type);
        if (a->text != NULL)
            assert_string_equal(a->text, b->text);
        if (a->reason != NULL)
            assert_string_equal(a->reason, b->reason);
        assert_int_equal(a->source == NULL, b->source == NULL);
    }
    cJSON_Delete(json);
    cJSON_Delete(back);
    free(text);
    facts_free(f);
    facts_free(g);
}

static int load(struct facts *f, const char *text, struct rc_err *err)
{
    cJSON *json = cJSON_Parse(text);
    assert_non_null(json);
    int r = facts_from_json(f, json, err);
    cJSON_Delete(json);
    return r;
}

static void test_json_short_form(void **state)
{
    (void)state;
    struct facts *f = facts_new();
    struct rc_err err;
    assert_int_equal(
        0, load(f,
                "{\"format\":1,\"oom.requested_bytes\":\"2.5 GiB\",\"gpu.0.gfx\":\"gfx1100\","
                "\"gpu.0.vram.used_bytes\":100,\"gpu.0.vram.used_bytes@baseline\":7,"
                "\"host.swap\":null,\"load\":0.5,\"run.traced\":true,\"proc.0.fds_count\":12,"
                "\"kmsg.first_bad\":\"sdma\",\"others.vram_bytes\":1,"
                "\"x\":{\"value\":3,\"when\":\"AFTER\",\"source\":\"me\"},"
                "\"y\":{\"status\":\"unreadable\",\"reason\":\"no rights\"},"
                "\"z_bytes\":\"many\"}",
                &err));
    assert_int_equal(INT64_C(2684354560), facts_find(f, "oom.requested_bytes", FACT_LOG)->integer);
    assert_int_equal(100, facts_find(f, "gpu.0.vram.used_bytes", FACT_IMPACT)->integer);
    assert_int_equal(7, facts_find(f, "gpu.0.vram.used_bytes", FACT_BASELINE)->integer);
    assert_int_equal(FACT_ABSENT, facts_find(f, "host.swap", FACT_STATIC)->status);
    assert_int_equal(FACT_REAL, facts_find(f, "load", FACT_STATIC)->type);
    assert_int_equal(1, get(f, "run.traced"));
    assert_non_null(facts_find(f, "proc.0.fds_count", FACT_IMPACT));
    assert_non_null(facts_find(f, "others.vram_bytes", FACT_IMPACT));
    assert_non_null(facts_find(f, "kmsg.first_bad", FACT_LOG));
    assert_int_equal(3, facts_find(f, "x", FACT_AFTER)->integer);
    assert_string_equal("me", facts_find(f, "x", FACT_AFTER)->source);
    assert_string_equal("no rights", facts_best(f, "y")->reason);
    assert_int_equal(FACT_TEXT, facts_best(f, "z_bytes")->type);
    facts_free(f);
}

static void test_json_refuses_wrong_files(void **state)
{
    (void)state;
    static const struct {
        const char *json, *word;
    } cases[] = {
        {"[]", "not a JSON object"},
        {"{\"format\":2,\"facts\":[]}", "format"},
        {"{\"format\":\"1\"}", "format"},
        {"{\"facts\":{}}", "not an array"},
        {"{\"facts\":[{\"value\":1}]}", "entry 0"},
        {"{\"facts\":[{\"name\":\"a\",\"value\":1},7]}", "entry 1"},
        {"{\"facts\":[{\"name\":\"a\"}]}", "neither"},
        {"{\"facts\":[{\"name\":\"a\",\"value\":[]}]}", "cannot be used"},
        {"{\"facts\":[{\"name\":\"a b\",\"value\":1}]}", "cannot be used"},
        {"{\"facts\":[{\"name\":\"a\",\"value\":1,\"when\":\"soon\"}]}", "when"},
        {"{\"facts\":[{\"name\":\"a\",\"status\":\"lost\"}]}", "status"},
        {"{\"facts\":[{\"name\":\"a\",\"value\":\"9x\",\"type\":\"integer\"}]}", "cannot be used"},
        {"{\"facts\":[{\"name\":\"a\",\"value\":\"99999999999999999999\",\"type\":\"integer\"}]}",
         "cannot be used"},
        {"{\"a@never\":1}", "moment"},
        {"{\"a\":[1]}", "cannot be used"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct facts *f = facts_new();
        struct rc_err err = {""};
        assert_true(load(f, cases[i].json, &err) < 0);
        if (strstr(err.msg, cases[i].word) == NULL)
            fail_msg("case %zu: '%s' does not say '%s'", i, err.msg, cases[i].word);
        facts_free(f);
    }
    char json[400];
    (void)snprintf(json, sizeof json, "{\"%0300d\":1}", 0);
    struct facts *f = facts_new();
    assert_true(load(f, json, NULL) < 0);
    facts_free(f);
}

static void test_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *in;
        unsigned rule;
        int64_t value; /* -1 = no size */
        size_t left;
    } cases[] = {
        {"2.00 GiB", 0, INT64_C(2) << 30, 0},
        {"1,50 GiB.", 0, 1610612736, 1},
        {"20971520 bytes", 0, 20971520, 0},
        {"512MB", TEXT_SIZE_BINARY, 512 << 20, 0},
        {"512MB", 0, 512000000, 0},
        {"7,4Gi x", 0, 7945689498, 2},
        {"1234", 0, 1234, 0},
        {"1234", TEXT_SIZE_NEEDS_UNIT, -1, 4},
        {"16,384 MiB", 0, INT64_C(16) << 30, 0},
        {"1,048,576 B", 0, 1048576, 0},
        {"0,125 GiB", 0, 134217728, 0},
        {"1234,567 KiB", 0, 1264197, 0},
        {"12 apples", 0, 12, 7},
        {"-1.50 GiB", 0, -1610612736, 0},
        {"  3\n KiB", 0, 3072, 0},
        {"x", 0, -1, 1},
        {"", 0, -1, 0},
        {"-", 0, -1, 1},
        {".5 GiB", 0, -1, 6},
        {"99999999999999999999 TiB", 0, INT64_MAX, 0},
        {"-99999999999999999999 TiB", 0, INT64_MIN, 0},
        {"1.123456789012345678901234567890 KiB", 0, 1150, 0},
        {"3.14 GB)", TEXT_SIZE_BINARY, 3371549327, 1},
        {"2 TB", 0, INT64_C(2000000000000), 0},
        {"131072kB", TEXT_SIZE_BINARY, 134217728, 0},
        {"4 K", 0, 4096, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct text t = {cases[i].in, strlen(cases[i].in)};
        int64_t value = -1;
        bool ok = text_take_size(&t, cases[i].rule, &value);
        if (value != cases[i].value || t.len != cases[i].left || (!ok && value != -1))
            fail_msg("'%s': %lld, %zu left", cases[i].in, (long long)value, t.len);
    }
    int64_t v;
    assert_true(text_parse_size(" 8 GiB ", 7, &v));
    assert_false(text_parse_size("8", 1, &v));
    assert_false(text_parse_size("8 GiB free", 10, &v));
}

static void test_spans(void **state)
{
    (void)state;
    struct text rest = {"one\r\n\ntwo", 9}, line;
    assert_true(text_next_line(&rest, &line));
    assert_true(text_equals(line, "one"));
    assert_true(text_next_line(&rest, &line));
    assert_int_equal(0, line.len);
    assert_true(text_next_line(&rest, &line));
    assert_true(text_equals(line, "two"));
    assert_false(text_next_line(&rest, &line));

    struct text t = {"  HIP error: Out", 16}, w;
    assert_int_equal(6, text_find(t, "error"));
    assert_int_equal(-1, text_find(t, "ERROR"));
    assert_int_equal(6, text_ifind(t, "ERROR"));
    assert_int_equal(-1, text_ifind(t, "outer"));
    assert_true(text_next_word(&t, &w));
    assert_true(text_equals(w, "HIP"));
    assert_true(text_after(t, "error: ", &w));
    assert_true(text_equals(w, "Out"));
    assert_false(text_after(t, "nothing", &w));
    assert_true(text_before(t, ":", &w));
    assert_true(text_equals(text_trim(w), "error"));
    assert_false(text_before(t, ";", &w));
    assert_true(text_equals(text_until((struct text){"a,b;c", 5}, ";,"), "a"));
    assert_int_equal(3, text_until((struct text){"a\0b", 3}, ";").len);
    char out[4];
    assert_string_equal("a?b", text_copy((struct text){"a\0bcd", 5}, out, sizeof out));
    struct text blank = {" \t ", 3};
    assert_false(text_next_word(&blank, &w));
    assert_int_equal(0, text_trim(blank).len);

    uint64_t u;
    struct text n = {"18446744073709551616x", 21};
    assert_true(text_take_u64(&n, &u));
    assert_true(u == UINT64_MAX);
    assert_false(text_take_u64(&n, &u));
    struct text h = {"0xfFg", 5};
    assert_true(text_take_hex(&h, &u));
    assert_int_equal(255, u);
    assert_false(text_take_hex(&h, &u));
    struct text hh = {"10000000000000000", 17};
    assert_true(text_take_hex(&hh, &u));
    assert_true(u == UINT64_MAX);

    char *big = calloc(1, TEXT_INPUT_MAX + 3);
    big[TEXT_INPUT_MAX + 2] = 'z';
    big[0] = big[1] = big[5] = '\n';
    unsigned lines;
    struct text tail = text_tail(big, TEXT_INPUT_MAX + 3, &lines);
    assert_int_equal(2, lines);
    assert_int_equal(TEXT_INPUT_MAX, tail.len);
    assert_int_equal('z', tail.at[tail.len - 1]);
    assert_int_equal(0, text_tail(NULL, 5, NULL).len);
    free(big);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_source_wins),
        cmocka_unit_test(test_best_prefers_impact_and_present),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_refuses_what_is_no_fact),
        cmocka_unit_test(test_text_is_made_safe),
        cmocka_unit_test(test_many_facts_and_the_bound),
        cmocka_unit_test(test_json_round_trip),
        cmocka_unit_test(test_json_short_form),
        cmocka_unit_test(test_json_refuses_wrong_files),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_spans),
    };
    return cmocka_run_group_tests_name("facts", tests, NULL, NULL);
}
