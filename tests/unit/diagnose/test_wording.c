/* SPDX-License-Identifier: Apache-2.0 */
/* The words of a report: which are known, what they say together, and when they say nothing. */
#include "diagnose/fact.h"
#include "diagnose/wording.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char grows[] =
    "The memory of my server grows with every request and never comes back, whatever the batch size is.\n"
    "After two hours rocm-smi shows 9 GB in use, after four hours 14 GB, after six hours 19 GB; then it is killed.\n"
    "A restart helps for a while. Nothing seems to be freed between requests, and each night it climbs steadily again.\n";

static const char hangs[] = "amdgpu: ring gfx timeout, signaled seq, emitted seq; GPU reset begin, failed to suspend "
                            "display, process blender pid, the screen froze and the driver never recovers from the hang";
static const char hangs_again[] =
    "AMDGPU: ring gfx timeout, signaled seq, emitted seq; GPU Reset Begin, failed to suspend display, process blender pid, "
    "the screen froze and the driver never recovers from the hang -- GPU reset begin, the screen froze";

static void read_text(struct facts *facts, const char *text, size_t len, const char *source)
{
    wording_to_facts(facts, (struct text){text, len}, (struct text){text, len}, source);
}

static struct facts *read_texts(const char *first, const char *second)
{
    struct facts *facts = facts_new();
    read_text(facts, first, strlen(first), "stderr");
    if (second != NULL)
        read_text(facts, second, strlen(second), "further text");
    wording_derive(facts);
    return facts;
}

static const char *class_of(const struct facts *facts)
{
    const char *name = "";
    return facts_get_text(facts, "wording.class", &name) ? name : "";
}

static double percent_of(const struct facts *facts)
{
    double percent = 0;
    (void)facts_get_number(facts, "wording.percent", &percent);
    return percent;
}

static void names_the_class_and_its_words(void **state)
{
    const char *says = NULL;
    (void)state;
    struct facts *facts = read_texts(grows, NULL);
    assert_string_equal(class_of(facts), "leak");
    assert_true(percent_of(facts) > 30 && percent_of(facts) <= 100);
    assert_true(facts_get_text(facts, "wording.says", &says));
    assert_non_null(strstr(says, "\"restart\""));
    assert_null(strstr(says, "\"timeout\"")); /* not in the text */
    facts_free(facts);
}

/* The best class is always one of them; a text with the words of two classes leaves both open. */
static void the_classes_that_words_leave_open(void **state)
{
    const char *likely = NULL;
    (void)state;
    struct facts *facts = read_texts(hangs, NULL);
    assert_true(facts_get_text(facts, "wording.likely", &likely));
    assert_non_null(strstr(likely, "gpu-hang"));
    assert_null(strstr(likely, "leak"));
    facts_free(facts);
    facts = read_texts("amdgpu: ring gfx timeout, signaled seq, emitted seq; GPU reset begin, failed to suspend display, process blender pid, the screen froze", grows);
    assert_true(facts_get_text(facts, "wording.likely", &likely));
    assert_non_null(strstr(likely, "gpu-hang"));
    assert_non_null(strstr(likely, "leak"));
    facts_free(facts);
}

static void case_and_repetition_do_not_count(void **state)
{
    (void)state;
    struct facts *once = read_texts(hangs, NULL);
    struct facts *again = read_texts(hangs_again, NULL);
    assert_string_equal(class_of(once), class_of(again));
    assert_true(percent_of(once) > 0 && percent_of(once) == percent_of(again));
    facts_free(once);
    facts_free(again);
}

static void texts_count_together(void **state)
{
    (void)state;
    struct facts *whole = read_texts(hangs, NULL);
    struct facts *parts = read_texts(hangs, hangs_again);
    assert_true(percent_of(whole) == percent_of(parts));
    facts_free(whole);
    facts_free(parts);
}

static double known_percent_of(const char *first, const char *second)
{
    double percent = -1;
    struct facts *facts = read_texts(first, second);
    assert_true(facts_get_number(facts, "wording.known_percent", &percent));
    facts_free(facts);
    return percent;
}

/* A word counts once in a text, whatever its case. */
static void unknown_words_are_counted(void **state)
{
    (void)state;
    double bare = known_percent_of(hangs, NULL);
    assert_true(bare > 90 && bare <= 100);
    assert_true(known_percent_of(hangs, "gpu qwyx vrzt") < bare);
    assert_true(known_percent_of(hangs, "gpu qwyx Qwyx QWYX vrzt") == known_percent_of(hangs, "gpu qwyx vrzt"));
}

/* Redaction must not change what the words say. */
static void pseudonyms_are_no_words(void **state)
{
    (void)state;
    struct facts *bare = read_texts(hangs, NULL);
    struct facts *redacted = read_texts(hangs, "<leak1> <growth12>");
    struct facts *words = read_texts(hangs, "<leak> growth12>");
    assert_true(percent_of(bare) == percent_of(redacted));
    assert_true(percent_of(bare) != percent_of(words));
    facts_free(bare);
    facts_free(redacted);
    facts_free(words);
}

static void few_words_say_nothing(void **state)
{
    (void)state;
    struct facts *facts = read_texts("leak leak leak", NULL);
    assert_string_equal(class_of(facts), "");
    facts_free(facts);
}

static void a_long_log_is_no_report(void **state)
{
    (void)state;
    size_t len = 70000;
    char *log = malloc(len + 1);
    assert_non_null(log);
    for (size_t i = 0; i < len; i++)
        log[i] = grows[i % (sizeof grows - 1)];
    log[len] = '\0';
    struct facts *facts = read_texts(log, NULL);
    assert_string_equal(class_of(facts), "");
    facts_free(facts);
    free(log);
}

static void bytes_that_are_no_words(void **state)
{
    char bytes[256];
    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)i;
    struct facts *facts = facts_new();
    read_text(facts, bytes, sizeof bytes, NULL);
    read_text(facts, "", 0, NULL);
    wording_derive(facts);
    assert_string_equal(class_of(facts), "");
    facts_free(facts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_the_class_and_its_words), cmocka_unit_test(the_classes_that_words_leave_open), cmocka_unit_test(case_and_repetition_do_not_count),
        cmocka_unit_test(texts_count_together),          cmocka_unit_test(unknown_words_are_counted),     cmocka_unit_test(pseudonyms_are_no_words), cmocka_unit_test(few_words_say_nothing),
        cmocka_unit_test(a_long_log_is_no_report),       cmocka_unit_test(bytes_that_are_no_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
