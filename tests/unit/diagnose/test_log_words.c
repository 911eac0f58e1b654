/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of words on a line: whatever the case, and whole words where the rule says so. */
#include "diagnose/rules.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void lists(void **state)
{
    static const struct {
        const char *text;
        uint64_t list;
        bool holds;
    } rows[] = {
        {"CUDA OUT OF MEMORY", LOG_WORDS_SHORTAGE, true},
        {"out of time", LOG_WORDS_SHORTAGE, false},
        {"page0", LOG_WORDS_KERNEL_COPIES, true},
        {"ring page0.1 timeout", LOG_WORDS_KERNEL_COPIES, true},
        {"homepage0 timeout", LOG_WORDS_KERNEL_COPIES, false},
        {"4page0 timeout", LOG_WORDS_KERNEL_COPIES, false},
        {"_page0_ timeout", LOG_WORDS_KERNEL_COPIES, true},
        {"page0x timeout", LOG_WORDS_KERNEL_COPIES, false},
        {"GPU reset begin", LOG_WORDS_KERNEL_RESET, true},
        {"presets, resets", LOG_WORDS_KERNEL_RESET, false},
        {"resets, then a reset", LOG_WORDS_KERNEL_RESET, true},
        {"out of memory", LOG_WORDS_COMMAND_FAILED, true}, /* one word of two lists */
        {"out of memory", LOG_WORDS_SHORTAGE, true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t found = log_words_in(rows[i].text, strlen(rows[i].text), 0);
        if (((found & rows[i].list) != 0) != rows[i].holds)
            fail_msg("'%s' of list %#llx", rows[i].text, (unsigned long long)rows[i].list);
    }
}

static void enough_ends_the_search(void **state)
{
    static const char text[] = "vram, then a ring of sdma";
    uint64_t all = log_words_in(text, strlen(text), 0);
    (void)state;
    assert_true((all & LOG_WORDS_KERNEL_COPIES) != 0);
    assert_true((log_words_in(text, strlen(text), LOG_WORDS_OF_GPU) & LOG_WORDS_KERNEL_COPIES) == 0);
    assert_true(log_words_in("", 0, 0) == 0);
}

/* The words of a line select all rules of scope "asked" that it has the wording of; the wording itself decides. */
static void rules_that_are_asked(void **state)
{
    static const struct {
        const char *text;
        unsigned rule;
        bool is_on;
    } rows[] = {
        {"ValueError: x", RULE_NAMES_EXCEPTION, true},
        {"VALUEERROR: x", RULE_NAMES_EXCEPTION, false}, /* the search is of any case, a wording is not */
        {"Traceback (most recent call last):", RULE_TRACEBACK_BEGINS, true},
        {"Traceback (most recent call first):", RULE_TRACEBACK_BEGINS, false},
        {"the worker died", RULE_TELLS_OF_ANOTHER, true},
        {"the wor ker studied", RULE_TELLS_OF_ANOTHER, false}, /* a word must begin there */
        {"done", RULE_SUCCEEDED, true},
        {"done so far", RULE_SUCCEEDED, false}, /* the line must end there */
        {"", RULE_WARNING, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct text line = {rows[i].text, strlen(rows[i].text)};
        const struct line_words words = line_words_of(line);
        if (line_is(&words, rows[i].rule) != rows[i].is_on || rule_is_on(rows[i].rule, line) != rows[i].is_on)
            fail_msg("'%s' and rule %s", rows[i].text, rules[rows[i].rule].name);
        assert_true(words.lists == log_words_in(line.at, line.len, 0));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists),
        cmocka_unit_test(enough_ends_the_search),
        cmocka_unit_test(rules_that_are_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
