/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of the C library and the shell in other languages, and the same words where they are no message. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>
#include <string.h>

#include "base/translated.h"

/* english == NULL: the text has no message. */
static const struct {
    const char *text, *english;
} rows[] = {
    {"Speicherzugriffsfehler (Speicherabzug geschrieben)", "Segmentation fault"},
    {"./run.sh: Zeile 3: 4711 Getötet                python3 train.py", "Killed"},
    {"./run.sh: line 3: 4711 Убито                   python3 train.py", "Killed"},
    {"x: 段错误 (核心已转储)", "Segmentation fault"},
    {"エラー:デバイスに空き領域がありません", "No space left on device"},
    {"cp: /x: Zu viele offene Dateien", "Too many open files"},
    {"python: Zu viele offene Dateien im System", "Too many open files in system"}, /* the longer one */
    {"Abandon\n", "Aborted"},
    {"Abandon (core dumped)", "Aborted"},
    {"we had to Abandon ship", NULL},
    {"Terminado el paso 3", NULL},
    {"Mortorum", NULL},
    {"Falscher Unspeicherzugriffsfehler", NULL},
    {"Speicherzugriffsfehlerx", NULL},
    {"Segmentation fault", NULL}, /* English needs no translation */
    {"", NULL},
};

static void test_a_message_is_found_where_it_stands(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *text = rows[i].text;
        size_t len = strlen(text), at = 0;
        struct translated found = {0};
        while (at < len && !translated_at(text, len, at, &found))
            at++;
        if ((at < len) != (rows[i].english != NULL))
            fail_msg("%s: %s", text, at < len ? "found" : "not found");
        if (at == len)
            continue;
        assert_int_equal(found.english_len, strlen(rows[i].english));
        assert_memory_equal(found.english, rows[i].english, found.english_len);
        assert_true(translated_covers(text, len, at, at + found.len));
        assert_true(translated_covers(text, len, at + found.len / 2, at + found.len));
        assert_false(at + found.len < len && translated_covers(text, len, at, at + found.len + 1));
    }
}

/* Bytes that are no text, and a message that the end of the text cuts. */
static void test_nothing_is_read_beyond_the_end(void **state)
{
    static const char message[] = "Speicherzugriffsfehler";
    char copy[sizeof message];
    struct translated found;
    (void)state;
    for (size_t len = 0; len < strlen(message); len++) {
        memcpy(copy, message, len);
        for (size_t at = 0; at < len; at++)
            assert_false(translated_at(copy, len, at, &found));
    }
    for (int c = 0; c < 256; c++) {
        copy[0] = (char)c;
        assert_false(translated_at(copy, 1, 0, &found));
        assert_false(translated_covers(copy, 1, 0, 1));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_message_is_found_where_it_stands),
        cmocka_unit_test(test_nothing_is_read_beyond_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
