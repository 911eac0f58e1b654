/* SPDX-License-Identifier: Apache-2.0 */
/* The automaton that is made at run time against a search that compares each word at each place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>

#include "base/memory.h"
#include "base/words.h"
#include "base/words_tables.h"

#define TEXT_BYTES 20000
#define LENGTH_MAX 16 /* of a word */
#define WORDS_MAX 64

static unsigned below(unsigned limit)
{
    static uint32_t seed = 7;
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 16) % limit;
}

/* Beginnings of words, whole words, and letters between them. */
static void random_text(char *text)
{
    static const char letters[] = "abcd ABCD\xe9\xc9-"; /* and its NUL */
    unsigned words = 0;
    while (words_texts[words] != NULL)
        words++;
    for (size_t at = 0; at < TEXT_BYTES;) {
        const char *word = words_texts[below(words)];
        for (size_t left = below((unsigned)strlen(word) + 1); left > 0 && at < TEXT_BYTES; left--)
            text[at++] = *word++;
        if (below(3) == 0 && at < TEXT_BYTES)
            text[at++] = letters[below(sizeof letters)];
    }
}

static bool same(const char *a, const char *b, size_t len, bool any_case)
{
    return any_case ? strncasecmp(a, b, len) == 0 : memcmp(a, b, len) == 0;
}

/* The ids of the words that end before text[end], the longest first. */
static size_t naive(const char *text, size_t end, bool any_case, uint16_t *ret)
{
    size_t count = 0;
    for (size_t len = end < LENGTH_MAX ? end : LENGTH_MAX; len > 0; len--)
        for (uint16_t id = 0; words_texts[id] != NULL; id++)
            if (strlen(words_texts[id]) == len && same(text + end - len, words_texts[id], len, any_case))
                ret[count++] = id;
    return count;
}

static void finds_what_a_naive_search_finds(struct words *words, bool any_case)
{
    char text[TEXT_BYTES];
    const uint16_t *table = words_table(words);
    bool found[WORDS_MAX] = {false};
    size_t state = 0;
    random_text(text);
    struct words_search search = words_search_of(words, text, TEXT_BYTES);
    for (size_t i = 0; i < TEXT_BYTES; i++) {
        uint16_t wanted[WORDS_MAX];
        size_t count = naive(text, i + 1, any_case, wanted);
        state = words_step(words, table, state, (unsigned char)text[i]);
        const uint16_t *ids = words->lists + words_end(table, state);
        for (size_t k = 0; k < count; k++) {
            assert_int_equal(ids[k], wanted[k]);
            found[ids[k]] = true;
        }
        assert_int_equal(ids[count], WORDS_END);
        assert_int_equal(words_end(table, state) != 0, count > 0);
        if (count > 0) {
            assert_ptr_equal(words_next(&search), ids);
            assert_ptr_equal(search.at, text + i + 1);
        }
    }
    assert_null(words_next(&search));
    for (size_t id = 0; words_texts[id] != NULL; id++)
        assert_true(found[id]);
}

static void test_random_text(void **state)
{
    (void)state;
    finds_what_a_naive_search_finds(&words_as_written, false);
    finds_what_a_naive_search_finds(&words_in_any_case, true);
}

static void test_bytes_that_begin_a_word(void **state)
{
    (void)state;
    for (unsigned byte = 0; byte < 256; byte++)
        assert_int_equal(words_as_written.starts[byte], byte == 0xe9 || (byte != 0 && strchr("abcd", (int)byte) != NULL));
}

/* The table is made once. */
static void test_made_once(void **state)
{
    (void)state;
    assert_ptr_equal(words_table(&words_as_written), words_table(&words_as_written));
}

/* A relay that takes the place of another one makes it where that one did. */
static void test_made_again_in_used_memory(void **state)
{
    struct words words = words_as_written;
    size_t bytes = words_table_bytes(&words);
    (void)state;
    words.table = NULL;
    words.room = malloc(bytes);
    assert_non_null(words.room);
    memset(words.room, 0xff, bytes);
    assert_ptr_equal(words_table(&words), words.room);
    assert_memory_equal(words.room, words_table(&words_as_written), bytes);
    free(words.room);
}

static void test_without_memory(void **state)
{
    struct words words = words_as_written;
    struct rlimit before, none;
    (void)state;
    words.table = NULL;
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
    const uint16_t *table = words_table(&words);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_int_equal(memory_refusals(), 1);
    for (unsigned byte = 0; byte < 256; byte++)
        assert_int_equal(words_step(&words, table, 0, (unsigned char)byte), 0);
    assert_int_equal(words_end(table, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_text),
        cmocka_unit_test(test_bytes_that_begin_a_word),
        cmocka_unit_test(test_made_once),
        cmocka_unit_test(test_made_again_in_used_memory),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
