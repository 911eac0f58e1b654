/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers, sizes and ends of text as people and programs write them. */
#include "diagnose/text.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct text of(const char *s)
{
    return (struct text){s, strlen(s)};
}

static void reals(void **state)
{
    static const struct {
        const char *text;
        double value;
        const char *rest;
    } rows[] = {
        {"1.5x", 1.5, "x"},
        {"1,50", 1.5, ""},
        {"-0.3", -0.3, ""},
        {"16,384", 16384, ""},
        {"1,048,576", 1048576, ""},
        {"1234,567", 1234.567, ""}, /* four digits in front: no groups */
        {"0,125", 0.125, ""},       /* only a fraction begins with 0 */
        {"1,2345", 1.2345, ""},     /* a group has three digits */
        {"1,23", 1.23, ""},
        {"1,234", 1234, ""},
        {"1,111,222,333,444,555,666,777", 1111222333444555666.0, ""}, /* six groups */
        {"1,234,56", 1.234, ",56"},
        {"1,", 1, ","},
        {"1.", 1, "."},
        {"7", 7, ""},
        {"1.1234567890123456789", 1.123456789012345, ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct text t = of(rows[i].text);
        double value = 0;
        assert_true(text_take_real(&t, &value));
        if (fabs(value - rows[i].value) > 1e-9 * fabs(rows[i].value))
            fail_msg("%s: %.17g", rows[i].text, value);
        assert_int_equal(t.len, strlen(rows[i].rest));
    }
    double ignored;
    struct text none = of("-"), comma = of(",5");
    assert_false(text_take_real(&none, &ignored));
    assert_false(text_take_real(&comma, &ignored));
}

static void hexadecimals(void **state)
{
    static const struct {
        const char *text;
        uint64_t value;
    } rows[] = {
        {"0xff", 255}, {"0XFF", 255}, {"ff", 255}, {"0x", 0}, {"0xffffffffffffffffff", UINT64_MAX}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct text t = of(rows[i].text);
        uint64_t value = 7;
        bool taken = text_take_hex(&t, &value);
        assert_int_equal(taken, strcmp(rows[i].text, "0x") != 0);
        assert_true(!taken || value == rows[i].value);
    }
    struct text none = of("xyz");
    uint64_t ignored;
    assert_false(text_take_hex(&none, &ignored));
}

static void sizes(void **state)
{
    int64_t value = 0;
    struct text t = of("\t 1.50 GiB of");
    (void)state;
    assert_true(text_take_size(&t, TEXT_SIZE_NEEDS_UNIT, &value));
    assert_int_equal(value, 1610612736);
    t = of("   ");
    assert_false(text_take_size(&t, 0, &value));
    t = of("5_GiB");
    assert_true(text_take_size(&t, TEXT_SIZE_NEEDS_UNIT, &value));
    t = of("5 ");
    assert_false(text_take_size(&t, TEXT_SIZE_NEEDS_UNIT, &value));
    t = of("5 gigabytesandmore");
    assert_false(text_take_size(&t, TEXT_SIZE_NEEDS_UNIT, &value));
    t = of("20261129T101929Z");
    assert_false(text_take_size(&t, TEXT_SIZE_NEEDS_UNIT, &value));
    assert_true(text_size_before(of("of 15.98 GiB"), &value));
    assert_int_equal(value, 17158394348);
    assert_true(text_size_before(of("512MB"), &value));
    assert_int_equal(value, 536870912);
    assert_true(text_size_before(of("it has  -0,5   GiB"), &value));
    assert_int_equal(value, -536870912);
    assert_false(text_size_before(of("words only"), &value));
    assert_false(text_size_before(of(""), &value));
    assert_false(text_size_before(of("GiB"), &value));
    assert_false(text_size_before(of("5"), &value));
    assert_true(text_parse_size("2 GB", 4, &value));
    assert_int_equal(value, 2000000000);
    assert_false(text_parse_size("2 GB of", 7, &value));
}

static void units(void **state)
{
    static const struct {
        const char *text;
        unsigned rule;
        double bytes;
        size_t rest;
    } rows[] = {
        {"GiB of", TEXT_SIZE_BINARY, 0x1p30, 3}, {"GB", TEXT_SIZE_BINARY, 0x1p30, 0}, {"GB", TEXT_SIZE_SI, 1e9, 0},
        {"mbytes", TEXT_SIZE_SI, 0x1p20, 0},     {"bytes", TEXT_SIZE_SI, 1, 0},       {"b", TEXT_SIZE_SI, 1, 0},
        {"byt", TEXT_SIZE_SI, 0, 3},             {"bytess", TEXT_SIZE_SI, 0, 6},      {"Mbytess", TEXT_SIZE_SI, 0, 7},
        {"GiB2", TEXT_SIZE_SI, 0, 4},            {"", TEXT_SIZE_SI, 0, 0},            {"xiB", TEXT_SIZE_SI, 0, 3},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct text t = of(rows[i].text);
        assert_true(text_take_unit(&t, rows[i].rule) == rows[i].bytes);
        assert_int_equal(t.len, rows[i].rest);
    }
}

static void digits(void **state)
{
    (void)state;
    assert_true(text_equals(text_from_digit(of("ab 12 c3")), "12 c3"));
    assert_true(text_equals(text_from_digit(of("0")), "0"));
    assert_int_equal(text_from_digit(of("none")).len, 0);
    assert_int_equal(text_from_digit(of("")).len, 0);
}

static void tails(void **state)
{
    unsigned lines = 9;
    (void)state;
    assert_int_equal(text_tail(NULL, 5, &lines).len, 0);
    assert_int_equal(lines, 0);
    assert_int_equal(text_tail(NULL, 5, NULL).len, 0);
    assert_int_equal(text_tail("a\nb", 3, NULL).len, 3);
    size_t size = TEXT_INPUT_MAX + 10;
    char *big = malloc(size);
    assert_non_null(big);
    memset(big, '\n', size);
    struct text t = text_tail(big, size, &lines);
    assert_int_equal(t.len, TEXT_INPUT_MAX);
    assert_int_equal(lines, 10);
    assert_int_equal(text_tail(big, size, NULL).len, TEXT_INPUT_MAX);
    free(big);
}

/* Short and long texts are searched in different ways. */
static void searches(void **state)
{
    static const char *const words[] = {"end", "e", "xend", "xxe", "endx", ""};
    char text[2000];
    (void)state;
    memset(text, 'x', sizeof text);
    for (size_t len = 3; len <= sizeof text; len += 331) {
        memcpy(text + len - 3, "end", 3);
        for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
            assert_ptr_equal(text_search((struct text){text, len}, words[i], strlen(words[i])),
                             memmem(text, len, words[i], strlen(words[i])));
        assert_ptr_equal(text_search_rare((struct text){text, len}, "xend", 4), len > 3 ? text + len - 4 : NULL);
        assert_null(text_search_rare((struct text){text, len}, "endx", 4));
        memset(text + len - 3, 'x', 3);
    }
    assert_null(text_search((struct text){"", 0}, "a", 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reals),
        cmocka_unit_test(hexadecimals),
        cmocka_unit_test(sizes),
        cmocka_unit_test(units),
        cmocka_unit_test(digits),
        cmocka_unit_test(tails),
        cmocka_unit_test(searches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
