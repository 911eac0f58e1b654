/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of words on a line: whatever the case, and whole words where the rule says so. */
#include "diagnose/log_words.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists),
        cmocka_unit_test(enough_ends_the_search),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
