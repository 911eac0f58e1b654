/* SPDX-License-Identifier: Apache-2.0 */
/* The program's last words, the frames of a crash, the index of files, and the page for a
 * terminal. */
#include "base/buf.h"
#include "diagnose/fact.h"
#include "diagnose/verdict.h"
#include "report/internal.h"
#include "report/report.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void said(const char *output, const char *why, const char *want)
{
    struct facts *facts = facts_new();
    struct verdict v = {.class_name = (char *)(uintptr_t)"capacity"};
    struct buf out = BUF_INIT;
    if (why != NULL)
        v.why.text[v.why.count++] = (char *)(uintptr_t)why;
    struct report_input in = {.facts = facts, .verdict = &v, .output = output};
    report_program_said(&in, &out);
    assert_string_equal(buf_str(&out), want);
    buf_release(&out);
    facts_free(facts);
}

static void a_traceback_is_the_users(void **state)
{
    (void)state;
    said("epoch 1\n"
         "Traceback (most recent call last):\n"
         "  File \"train.py\", line 8, in <module>\n    main()\n    ~~~~^^\n"
         "  File \"/venv/lib/python3.11/site-packages/torch/nn/module.py\", line 1, in f\n    g()\n"
         "  File \"/venv/lib/python3.11/site-packages/torch/nn/conv.py\", line 2, in g\n    h()\n"
         "torch.OutOfMemoryError: HIP out of memory.\n\nbye\n",
         NULL,
         "Traceback (most recent call last):\n"
         "  File \"train.py\", line 8, in <module>\n    main()\n"
         "  [...]\n"
         "  File \"/venv/lib/python3.11/site-packages/torch/nn/conv.py\", line 2, in g\n    h()\n"
         "torch.OutOfMemoryError: HIP out of memory.\n");
    /* The last of two tracebacks ended the program; each line has a rank's prefix. */
    said("Traceback (most recent call last):\n  File \"a.py\", line 1, in a\nKeyError: 1\n"
         "[rank1]: Traceback (most recent call last):\n[rank1]:   File \"b.py\", line 2, in b\n"
         "[rank1]: ValueError: `x`\n",
         NULL,
         "[rank1]: Traceback (most recent call last):\n[rank1]:   File \"b.py\", line 2, in b\n"
         "[rank1]: ValueError: 'x'\n");
}

static void without_one_the_cited_and_the_last_lines(void **state)
{
    (void)state;
    said("start\nallocating 9 GiB failed\na\nb\nc\nd\ne\nf\ng\nh\n\n 10%\r 50%\r100%\n",
         "refused [stderr line 2]",
         "allocating 9 GiB failed\n  [...]\nb\nc\nd\ne\nf\ng\nh\n100%\n");
    said("one\r\ntwo\r\n", NULL, "one \ntwo \n");
    said("x\n", "[stderr line 99999999999999999999] [stderr line 0] [stderr line ", "x\n");
    said("Traceback (most recent call last):\n  File \"a.py\", line 1", NULL,
         "Traceback (most recent call last):\n  File \"a.py\", line 1\n");
    said("", NULL, "");
}

#define STACKS                                                                                     \
    "Process 1 \"x\": SIGSEGV\n\nThread 1 \"x\" (faulting): SIGSEGV at 0x10\n"                     \
    "  #0   0x0000563a5f267145 in inner+0xc (seg, build-id 037c94e8)\n"                            \
    "  #1   0x0000563a5f26716c (libx.so, build-id 1)\n\nThread 2 \"x\":\n  #0   0x1 in other (y)\n"

static void frames_of_a_crash_only(void **state)
{
    struct facts *facts = facts_new();
    struct buf out = BUF_INIT;
    struct report_input in = {.facts = facts, .stacks = STACKS};
    (void)state;
    facts_set_integer(facts, "target.exit_code", FACT_IMPACT, 1, "s");
    report_frames(&in, &out);
    assert_string_equal(buf_str(&out), ""); /* an exit is no crash */
    facts_set_text(facts, "target.failed_signal_name", FACT_IMPACT, "SEGV", "s");
    report_frames(&in, &out);
    assert_string_equal(buf_str(&out), "#0  inner+0xc (seg)\n#1   0x0000563a5f26716c (libx.so)\n");
    buf_release(&out);
    in.stacks = "(faulting)";
    report_frames(&in, &out);
    assert_string_equal(buf_str(&out), "");
    buf_release(&out);
    facts_free(facts);
}

static void files_that_are_there(void **state)
{
    static const char *const files[] = {"SUMMARY.md", "output/stderr.txt", "unheard/of"};
    struct buf out = BUF_INIT;
    struct report_input in = {.files = files, .file_count = 3};
    (void)state;
    report_files(&in, &out);
    assert_non_null(strstr(buf_str(&out), "- `SUMMARY.md`: this text\n- `output/`: "));
    assert_null(strstr(buf_str(&out), "hook/"));
    buf_release(&out);
}

#define PAGE                                                                                       \
    "# Out of memory: 1 GiB &lt;x&gt; (capacity)\n\nA `b|c` \\_d\\_ **e** &#64;f.\n\n## Memory\n\n" \
    "| memory | total | source |\n|---|---|---|\n| GPU 0 `a\\|b` | 1 GiB | /sys/somewhere/far |\n" \
    "\n```text\n  as **it** is\n```\n\n```mermaid\nflowchart TD\n```\n\n"                             \
    "- one two three four five six\n\n## Details\n\n<details><summary>Host</summary>\n\nram\n\n"   \
    "</details>\n"

static void page_of(bool all, const char *section, unsigned columns, const char *want)
{
    const struct report_style style = {.columns = columns, .line_end = "\n"};
    struct buf out = BUF_INIT;
    report_page(PAGE, all, section, &style, &out);
    assert_string_equal(buf_str(&out), want);
    buf_release(&out);
}

static void a_page_has_no_markup(void **state)
{
    (void)state;
    page_of(false, NULL, 0,
            "Out of memory: 1 GiB <x> (capacity)\n===================================\n\n"
            "A b|c _d_ e @f.\n\nMemory\n------\n\n"
            "memory     total  source\nGPU 0 a|b  1 GiB  /sys/somewhere/far\n\n    as **it** is\n\n"
            "- one two three four five six\n\n");
    page_of(false, "memory", 20, /* the source column is dropped, the rest is wrapped */
            "Memory\n------\n\nmemory     total\nGPU 0 a|b  1 GiB\n\n    as **it** is\n\n"
            "- one two three four\n  five six\n\nSource of each\nfigure: 'rocmcrash\nshow --raw'\n");
    page_of(false, "memory", 12, /* no word is broken: each row is a record */
            "Memory\n------\n\nGPU 0 a|b\n    total: 1\n    GiB\n\n    as\n      **it** is\n\n"
            "- one two\n  three four\n  five six\n\nSource of\neach figure:\n'rocmcrash\nshow --raw'\n");
    const struct report_style keeps = {.columns = 30, .line_end = "\n", .keeps_sources = true};
    struct buf out = BUF_INIT;
    report_page(PAGE, false, "memory", &keeps, &out); /* report.html has room for them */
    assert_non_null(strstr(buf_str(&out), "/sys/some"));
    assert_null(strstr(buf_str(&out), "Source of each"));
    buf_release(&out);
    page_of(true, "host", 80, "Host\n----\n\nram\n\n");
}

static void charts_of(const char *markdown, const char *want)
{
    struct buf out = BUF_INIT;
    report_with_charts(markdown, "chart\n", &out);
    assert_string_equal(buf_str(&out), want);
    buf_release(&out);
}

static void charts_stand_where_sparklines_stood(void **state)
{
    (void)state;
    charts_of("# a\n```text\n▁ a bar of the program\n```\n\n## Memory\n\n```text\n▁▂ peak\n```\n\nx\n",
              "# a\n```text\n▁ a bar of the program\n```\n\n## Memory\n\n```text\nchart\n```\n\nx\n");
    charts_of("# a\n\n## Memory\n\n\n## What to try\n", "# a\n\n## Memory\n\n\n```text\nchart\n```\n\n## What to try\n");
    charts_of("no summary of ours", "no summary of ours");
    charts_of("## Memory\n```text\n▁", "## Memory\n```text\n▁");
}

static void a_long_line_of_a_block_goes_on_below(void **state)
{
    const struct report_style style = {.columns = 30, .line_end = "\n"};
    struct buf out = BUF_INIT;
    (void)state;
    report_page("```text\n  File \"a.py\", line 3, in some_function\nshort\n"
                "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n```\n", false, NULL, &style, &out);
    assert_string_equal(buf_str(&out), "    File \"a.py\", line 3, in\n      some_function\n  short\n"
                                       "  aaaaaaaaaaaaaaaaaaaaaaaaaaaa\n    aaaaaaaaaaaaaa\n");
    buf_release(&out);
}

static void a_bar_fits(void **state)
{
    static const struct {
        unsigned columns;
        const char *line, *want;
    } rows[] = {
        {10, "`[UUUUUUUU--------]`", "[UUUU----]\n"},
        {18, "`[UUUUUUUU--------]`", "[UUUUUUUU--------]\n"},
        {0, "`[UUUUUUUU--------]`", "[UUUUUUUU--------]\n"},
        {10, "`[no bar, a sentence]`", "[no bar, a\nsentence]\n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct report_style style = {.columns = rows[i].columns, .line_end = "\n"};
        struct buf out = BUF_INIT;
        report_page(rows[i].line, false, NULL, &style, &out);
        assert_string_equal(buf_str(&out), rows[i].want);
        buf_release(&out);
    }
}

static void any_text_is_a_page(void **state)
{
    static const char *const texts[] = {
        "|", "||", "|a\\", "# ", "## ", "```", "```mermaid", "- ", "&#", "&#999999;", "&#27;[2J",
        "<details><summary></summary>", "**", "`", "|a|b|c|d|e|f|g|h|i|j|\n|", "\\", "| \xff |",
    };
    const struct report_style style = {.columns = 40, .colour = true, .line_end = "\r\n"};
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct buf out = BUF_INIT;
        report_page(texts[i], true, NULL, &style, &out);
        assert_null(strstr(buf_str(&out), "\x1b[2J"));
        buf_release(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_traceback_is_the_users),
        cmocka_unit_test(without_one_the_cited_and_the_last_lines),
        cmocka_unit_test(frames_of_a_crash_only),
        cmocka_unit_test(files_that_are_there),
        cmocka_unit_test(a_page_has_no_markup),
        cmocka_unit_test(charts_stand_where_sparklines_stood),
        cmocka_unit_test(a_long_line_of_a_block_goes_on_below),
        cmocka_unit_test(a_bar_fits),
        cmocka_unit_test(any_text_is_a_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
