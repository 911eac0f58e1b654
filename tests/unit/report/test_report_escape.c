/* SPDX-License-Identifier: Apache-2.0 */
/* Hostile text into Markdown, Mermaid and the terminal. */
#include "base/buf.h"
#include "report/internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

typedef void (*escape)(struct buf *, const char *, size_t);

static void each_text_is_harmless(void **state)
{
    static const struct {
        escape how;
        const char *text;
        size_t max;
        const char *want;
    } rows[] = {
        {escape_markdown, "HSA_XNACK=1", 99, "HSA_XNACK=1"},
        {escape_markdown, "_x_ *b* `c` [l](u)", 99, "`_x_` `*b*` `'c'` `[l](u`)"},
        {escape_markdown, "<img src=x> & (@me) #12,", 99, "`<img` `src=x>` & (`@me`) `#12`,"},
        {escape_markdown, "a < b >= c", 99, "a < b >= c"},
        {escape_markdown, "at @ 0x8 <b <!-- x", 99, "at @ 0x8 `<b` `<!--` x"},
        {escape_markdown, "& amp; a <", 99, "`&` amp; a <"},
        {escape_markdown, "a|b\nc\td | `x|y`", 99, "`a`\\|`b` c d \\| `'x`\\|`y'`"},
        {escape_markdown, "- item", 99, "`-` item"},
        {escape_markdown, "\n- item", 99, "`-` item"},
        {escape_markdown, "\xe2\x80\x8b \r\n1. x", 99, "`1`. x"},
        {escape_markdown, "-5", 99, "-5"},
        {escape_markdown, "1. x", 99, "`1`. x"},
        {escape_markdown, "3 of 4", 99, "3 of 4"},
        {escape_markdown, "> quote", 99, "`>` quote"},
        {escape_markdown, "# head", 99, "`#` head"},
        {escape_markdown, "$x$ ![i](u) ~~s~~", 99, "`$x$` `![i](u`) `~~s~~`"},
        {escape_markdown, "https://e.x/y www.e.x 0000:03:00.0", 99, "`https://e.x/y` `www.e.x` 0000:03:00.0"},
        {escape_markdown, "WWW.e.x MailTo:a@b xmpp:a", 99, "`WWW.e.x` `MailTo:a@b` `xmpp:a`"},
        {escape_markdown, "o/r#9 GH-88 deadbeef1 1234567 facade", 99, "`o/r#9` `GH-88` `deadbeef1` 1234567 facade"},
        {escape_markdown, "./GH-88 gh-88[x] log:deadbeef1 =AB-12,", 99, "`./GH-88` `gh-88[x]` `log:deadbeef1` `=AB-12`,"},
        {escape_markdown, "librocm-6.so x-7/y 0xdeadbeef1 a_GH-88", 99, "librocm-6.so x-7/y 0xdeadbeef1 a_GH-88"},
        {escape_markdown, "exit 1 [wait status]", 99, "exit 1 [wait status]"},
        {escape_markdown, "a [kfd/*: x; y/*]", 99, "a [`kfd/*`: x; `y/*`]"},
        {escape_markdown, "a [kfd/*]: y*](u) z*]: h", 99, "a `[kfd/*]`: `y*](u`) `z*]`: h"},
        {escape_markdown, "[x]: http", 99, "`[x]`: http"},
        {escape_markdown, "[ ] task", 99, "`[` ] task"},
        {escape_markdown, "a[^1] b[c][d] [x](u)", 99, "`a[^1]` `b[c][d]` `[x](u`)"},
        {escape_markdown, "a [b]\xe2\x80\x8b(c)", 99, "a `[b](c`)"},
        {escape_markdown, "abcdefgh", 4, "abcd…"},
        {escape_markdown, "ä\xff\xc3", 99, "ä??"},
        {escape_markdown, "ää", 3, "ä…"},
        {escape_markdown,
         "a\xe2\x80\xae"
         "b",
         99, "ab"},
        {escape_terminal, "\033[31mred\a\r\nx", 99, "[31mred  x"},
        {escape_terminal,
         "\xc2\x9b"
         "31m",
         99, "31m"},
        {escape_code, "``` end", 99, "''' end"},
        {escape_mermaid, "a \"b\" <c> ; {d} end", 99, "a #34;b#34; #60;c#62; #59; #123;d#125; end"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct buf out = BUF_INIT;
        rows[i].how(&out, rows[i].text, rows[i].max);
        if (strcmp(buf_str(&out), rows[i].want) != 0)
            fail_msg("row %zu: '%s', wanted '%s'", i, buf_str(&out), rows[i].want);
        buf_release(&out);
    }
}

static void every_byte_is_survived(void **state)
{
    static const escape all[] = {escape_markdown, escape_mermaid, escape_terminal, escape_code};
    char text[3] = {0};
    (void)state;
    for (int a = 1; a < 256; a++) {
        for (int b = 1; b < 256; b++) {
            text[0] = (char)a;
            text[1] = (char)b;
            for (size_t i = 0; i < 4; i++) {
                struct buf out = BUF_INIT;
                all[i](&out, text, 99);
                for (size_t k = 0; k < out.len; k++)
                    assert_true((unsigned char)out.data[k] >= 0x20 && out.data[k] != 0x7f);
                buf_release(&out);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_text_is_harmless),
        cmocka_unit_test(every_byte_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
