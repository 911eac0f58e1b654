/* SPDX-License-Identifier: Apache-2.0 */
/* Foreign texts as a terminal gets them. */
#include "base/say.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"

static void test_clean(void **state)
{
    (void)state;
    static const struct {
        const char *in, *want;
    } rows[] = {
        {"plain\ttext\n", "plain\ttext\n"},
        {"\x1b[2J\x1b]0;evil\x07", "\\x1b[2J\\x1b]0;evil\\x07"},
        {"gr\xc3\xbc\xc3\x9f \xe2\x96\x88 \xf0\x9f\x98\x80",
         "gr\xc3\xbc\xc3\x9f \xe2\x96\x88 \xf0\x9f\x98\x80"},
        {"a\rb\x7f", "a\\x0db\\x7f"},
        {"\xc2\x9b"
         "31m",
         "\\xc2\\x9b31m"}, /* C1 CSI */
        {"\x9b"
         "31m",
         "\\x9b31m"},
        {"\xe2\x80\xae"
         "cod",
         "\\xe2\\x80\\xae"
         "cod"}, /* right-to-left override */
        {"\xc0\xaf\xed\xa0\x80\xf5", "\\xc0\\xaf\\xed\\xa0\\x80\\xf5"},
        {"\xe2\x82", "\\xe2\\x82"},
        {"a\xe2\x80\x8b"
         "b\xc2\xad\xf3\xa0\x81\x81",
         "a\\xe2\\x80\\x8b"
         "b\\xc2\\xad\\xf3\\xa0\\x81\\x81"}, /* zero width space, soft hyphen, tag */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct buf out = BUF_INIT;
        say_clean(&out, rows[i].in, strlen(rows[i].in));
        assert_string_equal(buf_str(&out), rows[i].want);
        buf_release(&out);
    }
}

/* The output of a printer on a stream, in static memory. */
static FILE *stream;
static char *printed;
static size_t printed_len;

static void begin(void)
{
    free(printed);
    printed = NULL;
    stream = open_memstream(&printed, &printed_len);
    assert_non_null(stream);
}

static const char *said(void)
{
    assert_int_equal(fclose(stream), 0);
    return printed;
}

static void test_one_line(void **state)
{
    (void)state;
    begin();
    assert_int_equal(say_line(stream, "cannot read '%s': %d", "a\nrocmcrash: good\x1b[2J\xc2\x9b", 7), 0);
    assert_string_equal(said(), "cannot read 'a\\x0arocmcrash: good\\x1b[2J\\xc2\\x9b': 7\n");
}

/* A long text with many escapes is written in pieces: no character is lost between them. */
static void test_long_line(void **state)
{
    (void)state;
    char text[4 * SAY_LINE_BYTES];
    struct buf want = BUF_INIT;
    for (size_t i = 0; i < 3000; i++) {
        text[i] = i % 3 == 0 ? '\x1b' : 'x';
        buf_puts(&want, i % 3 == 0 ? "\\x1b" : "x");
    }
    text[3000] = '\0';
    begin();
    assert_int_equal(say_line(stream, "%s", text), 0);
    buf_putc(&want, '\n');
    assert_string_equal(said(), buf_str(&want));
    buf_release(&want);
    memset(text, 'y', sizeof text);
    text[sizeof text - 1] = '\0';
    begin();
    assert_int_equal(say_line(stream, "%s", text), 0);
    assert_int_equal(strlen(said()), SAY_LINE_BYTES);
    assert_string_equal(printed + SAY_LINE_BYTES - 5, "y...\n");
}

static void test_json(void **state)
{
    (void)state;
    begin();
    assert_int_equal(say_json(stream, "{\n\t\"a\": \"gr\xc3\xbc\xc2\x9b\xe2\x80\xae\x7f\xf3\xa0\x81\x81\xff\"\n}"), 0);
    assert_string_equal(said(), "{\n\t\"a\": \"gr\xc3\xbc\\u009b\\u202e\\u007f\\udb40\\udc41\\ufffd\"\n}\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clean),
        cmocka_unit_test(test_one_line),
        cmocka_unit_test(test_long_line),
        cmocka_unit_test(test_json),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(printed);
    return failed;
}
