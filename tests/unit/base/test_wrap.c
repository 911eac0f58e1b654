/* SPDX-License-Identifier: Apache-2.0 */
/* Lines that are broken at a terminal's width. */
#include "base/wrap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/buf.h"

static void test_lines(void **state)
{
    static const struct {
        unsigned columns;
        const char *in, *want;
    } rows[] = {
        {0, "one two three four five six\n", "one two three four five six\n"},
        {20, "one two three four f\n", "one two three four f\n"},
        {20, "one two three four five six\n\nx", "one two three four\n  five six\n\nx"},
        {24, "rocmcrash: why: nobody knows it\n", "rocmcrash: why: nobody\n           knows it\n"},
        {24, "     mend: take another card, and look\n", "     mend: take another\n       card, and look\n"},
        {24, "fault   quick  the names of a fault\n", "fault   quick  the names\n        of a fault\n"}, /* below a column */
        {20, "cannot open 'my folder/a.tar.gz': no\n", "cannot open\n  'my folder/a.tar.gz':\n  no\n"},
        {20, "it's a word that isn't one\n", "it's a word that\n  isn't one\n"},
        {24, "rocmcrash: x /a/long/path\n", "rocmcrash: x\n           /a/long/path\n"},
        {20, "a table  of  columns /a/long/path/x\n", "a table  of  columns\n    /a/long/path/x\n"},
        {20, "   gr\xc3\xbc\xc3\x9f gr\xc3\xbc\xc3\x9f gr\xc3\xbc\xc3\x9f x", "   gr\xc3\xbc\xc3\x9f gr\xc3\xbc\xc3\x9f gr\xc3\xbc\xc3\x9f x"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct buf out = BUF_INIT;
        wrap_lines(&out, rows[i].in, rows[i].columns);
        assert_string_equal(buf_str(&out), rows[i].want);
        buf_release(&out);
    }
}

/* Four columns for each byte that is escaped. */
static void test_width(void **state)
{
    (void)state;
    assert_int_equal(wrap_width("gr\xc3\xbc\xc3\x9f", 6), 4);
    assert_int_equal(wrap_width("a\x1b\xff", 3), 9);
    assert_int_equal(wrap_width("\xc2\x9b", 2), 8);
}

static void test_no_terminal(void **state)
{
    (void)state;
    assert_int_equal(wrap_columns(-1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_width),
        cmocka_unit_test(test_no_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
