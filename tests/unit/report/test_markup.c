/* SPDX-License-Identifier: Apache-2.0 */
/* A summary that a stranger wrote: markup that ours never holds. */
#include "report/markup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void ours_is_no_foreign_markup(void **state)
{
    static const char *const rows[] = {
        "",
        "GPU out of memory: **20.00 GiB** wanted (`@me`, `#12`)\n\n## What to try\n\n- a < b, AVX-512 & more; 5 $ @ 3\n",
        "| what | bytes |\n|---|--:|\n| `a\\|b` | 3 \\| 4 |\n",
        "```text\n@me #12 <b> ![x](y) `\n```\n\nx\n",
        "1. `x`, `y`\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_false(markup_is_foreign(rows[i]));
}

static void foreign_markup_is_seen(void **state)
{
    static const char *const rows[] = {
        "thanks @me\n",
        "see #12\n",
        "o/r#12\n",
        "gh-88 is it\n",
        "![x](y)\n",
        "[x](y)\n",
        "[x][y]\n",
        "[x]: //e.example\n",
        "[^1]\n",
        "see https://e.example\n",
        "see WWW.e.example\n",
        "a@e.example\n",
        "<img src=x>\n",
        "</details>\n",
        "<!-- x\n",
        "&#64;me\n",
        "$x$\n",
        "\\`@me `\n",            /* no code span */
        "`x\n@me` y\n",          /* a code span of two lines */
        "``@me `` `` x\n",       /* another length of quotes */
        "| `x | @me` |\n",       /* a cell ends the code span */
        "```text\nx\n````\n@me", /* a longer fence ends the block */
        "   ```\n@me\n",
        "~~~\n@me\n",
        "```text\nx\n", /* it never ends */
        "```js\nx\n```\n",
        "a ` b\n",
        "x `\r\r@me `\n", /* two paragraphs */
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (!markup_is_foreign(rows[i]))
            fail_msg("not seen: %s", rows[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ours_is_no_foreign_markup),
        cmocka_unit_test(foreign_markup_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
