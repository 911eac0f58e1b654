/* SPDX-License-Identifier: Apache-2.0 */
/* A long log keeps its failures, its two ends and its line numbers; also the detection of
 * encodings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/encoding.h"
#include "diagnose/condense.h"

static unsigned line_of(const char *text, const char *what)
{
    const char *at = strstr(text, what);
    unsigned line = 1;
    assert_non_null(at);
    for (const char *p = text; p < at; p++)
        line += *p == '\n';
    return line;
}

static void ordinary(struct buf *b, unsigned lines)
{
    for (unsigned i = 0; i < lines; i++)
        buf_printf(b, "step %u ran well and took its time, as the ones before it did\n", i);
}

static void test_a_failure_in_the_middle(void **state)
{
    (void)state;
    struct buf b = BUF_INIT;
    struct condensed c;
    ordinary(&b, 100000);
    buf_puts(&b, "the line before\nX: HIP OUT OF memory here\nthe line behind\n");
    ordinary(&b, 100000);
    buf_puts(&b, "the last line");
    assert_true(b.len > CONDENSE_ABOVE_BYTES);
    assert_int_equal(condense(b.data, b.len, &c), 0);
    assert_true(c.len < CONDENSE_ABOVE_BYTES / 2);
    assert_int_equal(strlen(c.text), c.len);
    assert_int_equal(c.lines_found, 1);
    assert_int_equal(c.lines_left, 0);
    static const char *const kept[] = {"the line before", "X: HIP OUT", "the line behind", "the last line",
                                       "step 0 ran"};
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
        assert_int_equal(line_of(c.text, kept[i]), line_of(b.data, kept[i]));
    free(c.text);
    buf_release(&b);
}

/* If there are too many lines, the first and the last are kept and the others are counted. */
static void test_too_many(void **state)
{
    (void)state;
    struct buf b = BUF_INIT;
    struct condensed c;
    ordinary(&b, 20000);
    for (unsigned i = 0; i < 200000; i++)
        buf_printf(&b, "Traceback number %u of very many that this program prints\n", i);
    ordinary(&b, 100000);
    assert_int_equal(condense(b.data, b.len, &c), 0);
    assert_int_equal(c.lines_found, 200000);
    assert_in_range(c.lines_left, 100000, 199999);
    assert_non_null(strstr(c.text, "number 0 of"));
    assert_non_null(strstr(c.text, "number 199999 of"));
    assert_null(strstr(c.text, "number 100000 of"));
    free(c.text);
    buf_release(&b);
}

/* Lines without end, and bytes of any kind. */
static void test_garbage(void **state)
{
    (void)state;
    size_t len = CONDENSE_ABOVE_BYTES + 12345;
    char *data = malloc(len);
    struct condensed c;
    assert_non_null(data);
    for (unsigned seed = 0; seed < 4; seed++) {
        uint32_t random = seed + 1;
        for (size_t i = 0; i < len; i++) {
            random = random * 1664525u + 1013904223u;
            data[i] = seed == 0 ? 'x' : seed == 1 ? '\n' : (char)(random >> 24);
        }
        assert_int_equal(condense(data, len, &c), 0);
        assert_true(c.len <= len);
        free(c.text);
    }
    free(data);
}

static void test_what_bytes_are(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
        enum encoding wanted;
    } rows[] = {
        {"", 0, ENCODING_EMPTY},
        {" \n\t\r\n", 5, ENCODING_EMPTY},
        {"word", 4, ENCODING_TEXT},
        {"\xc3\xa4 \x1b[31mred\x1b[0m", 14, ENCODING_TEXT},
        {"\xff\xfe" "A\0", 4, ENCODING_UTF16LE},
        {"\xfe\xff" "\0A", 4, ENCODING_UTF16BE},
        {"o\0u\0t\0 \0o\0f\0", 12, ENCODING_UTF16LE},
        {"\0o\0u\0t\0 \0o\0f", 12, ENCODING_UTF16BE},
        {"\x7f" "ELF\2\1\1\0\0\0\0\0\0\0\0\0", 16, ENCODING_BINARY},
        {"\0\0\0\0\0\0\0\0\0\0", 10, ENCODING_BINARY},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(encoding_guess(rows[i].bytes, rows[i].len), rows[i].wanted);
}

static void test_from_utf16(void **state)
{
    size_t len;
    (void)state;
    char *text = encoding_from_utf16("\xff\xfe" "A\0\xe4\0\xac\x20\x3d\xd8\x00\xde\x00\xdc" "Z", 15,
                                     ENCODING_UTF16LE, &len);
    assert_string_equal(text, "A\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\xef\xbf\xbd");
    assert_int_equal(len, strlen(text));
    free(text);
    text = encoding_from_utf16("\0A\0B", 4, ENCODING_UTF16BE, &len);
    assert_string_equal(text, "AB");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_failure_in_the_middle), cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_garbage),                 cmocka_unit_test(test_what_bytes_are),
        cmocka_unit_test(test_from_utf16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
