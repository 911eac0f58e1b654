/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run's own output gets the same readers as a pasted text. A fact from joined lines is marked, also
 * through a computed fact, and costs a step of confidence.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "../tree/tree_fixture.h"
#include "diagnose/fact.h"
#include "diagnose/features_internal.h"
#include "diagnose/verdict.h"

static const char whole[] = "ValueError: Free memory on device cuda:0 (3.10/31.98 GiB) on startup is less than "
                            "desired GPU memory utilization (0.9, 28.78 GiB).\nnext\n";
static const char wrapped[] = "ValueError: Free memory on device cuda:0 (3.10/31.98 GiB) on startup is\n"
                              "less than desired GPU memory utilization (0.9, 28.78 GiB).\nnext\n";

static struct facts *read(const char *text)
{
    struct facts *facts = facts_new();
    assert_non_null(facts);
    output_to_facts(facts, text, strlen(text), "stderr");
    return facts;
}

static void test_output_is_read_as_a_paste_is(void **state)
{
    static const char *const texts[] = {
        "fatal: could not allocate 3.0 GiB on device 0 (free 1.0 GiB, total 16.0 GiB)\n",
        "mem used 1.0 GB\nmem used 1.2 GB\nmem used 1.4 GB\nmem used 1.6 GB\n",
        whole,
        wrapped,
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct facts *run = read(texts[i]), *pasted = facts_new();
        any_text_to_facts(pasted, texts[i], strlen(texts[i]), "stderr");
        assert_true(facts_count(run) > 0);
        for (size_t k = 0; k < facts_count(run); k++) {
            const struct fact *f = facts_at(run, k), *other = facts_find(pasted, f->name, f->when);
            if (other == NULL || !fact_says_same(f, other))
                fail_msg("%s differs", f->name);
        }
        facts_free(run);
        facts_free(pasted);
    }
}

/* The same facts as in English, marked; ordinary words of the language give none. */
static void test_a_message_in_another_language_is_read(void **state)
{
    static const char german[] = "mmap: Nicht genügend Hauptspeicher verfügbar\nSpeicherzugriffsfehler (Speicherabzug "
                                 "geschrieben)\nError while something else happened\n";
    static const char english[] = "mmap: Cannot allocate memory\nSegmentation fault (core dumped)\n"
                                  "Error while something else happened\n";
    struct facts *other = read(german), *own = read(english), *none = read("Getötet wurde niemand\n");
    (void)state;
    assert_non_null(facts_best(other, "log.translated"));
    assert_null(facts_best(own, "log.translated"));
    assert_null(facts_best(none, "log.translated"));
    size_t marked = 0;
    for (size_t i = 0; i < facts_count(own); i++) {
        const struct fact *f = facts_at(own, i), *same = facts_find(other, f->name, f->when);
        if (same == NULL || !fact_says_same(f, same))
            fail_msg("%s differs", f->name);
        marked += fact_has_mark(same, FACT_MARK_TRANSLATED);
    }
    assert_true(marked > 0);
    facts_free(other);
    facts_free(own);
    facts_free(none);
}

static void test_a_warning_is_no_refusal(void **state)
{
    struct facts *facts = read("warning: could not allocate 3.0 GiB on device 0 (free 1.0 GiB), trying less\n");
    (void)state;
    assert_null(facts_best(facts, "oom.requested_bytes"));
    facts_free(facts);
}

static bool any_joined(const struct facts *facts)
{
    for (size_t i = 0; i < facts_count(facts); i++)
        if (fact_is_repaired(facts_at(facts, i)))
            return true;
    return false;
}

static void test_joined_lines_are_named(void **state)
{
    /* the longest line is joined with the next one; both still give all their facts */
    static const char apart[] = "fatal: could not allocate 3.0 GiB on device 0 (free 1.0 GiB, total 16.0 GiB)\nKeyError: x\n";
    struct facts *facts = read(wrapped);
    (void)state;
    const struct fact *wanted = facts_best(facts, "oom.free_bytes");
    assert_non_null(wanted);
    assert_string_equal(wanted->source, "stderr line 1, joined");
    assert_non_null(facts_best(facts, "log.joined"));
    facts_free(facts);
    static const char *const others[] = {whole, apart};
    for (size_t i = 0; i < 2; i++) {
        facts = read(others[i]);
        assert_false(any_joined(facts));
        assert_null(facts_best(facts, "log.joined"));
        facts_free(facts);
    }
}

static void test_a_computed_fact_of_joined_lines(void **state)
{
    static const char *const inputs[] = {"oom.free_bytes"}, *const again[] = {"f.first"};
    struct facts *facts = facts_new();
    (void)state;
    (void)facts_set_integer(facts, "oom.free_bytes", FACT_LOG, 7, "stderr line 4");
    feature_set(facts, "f.before", 7, inputs, 1);
    facts_mark(facts, 0, FACT_MARK_JOINED);
    feature_set(facts, "f.first", 7, inputs, 1);
    feature_set(facts, "f.second", 7, again, 1);
    assert_false(fact_is_repaired(facts_best(facts, "f.before")));
    assert_true(fact_is_repaired(facts_best(facts, "f.first")));
    assert_true(fact_is_repaired(facts_best(facts, "f.second")));
    facts_free(facts);
}

static void test_a_computed_fact_keeps_each_mark(void **state)
{
    static const char *const marks[] = {FACT_MARK_WENT_ON, FACT_MARK_ENDED_WELL, FACT_MARK_LONG_BEFORE, FACT_MARK_QUOTED};
    static const char *const inputs[] = {"oom.free_bytes"}, *const again[] = {"f.first"};
    (void)state;
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        struct facts *facts = facts_new();
        (void)facts_set_integer(facts, "oom.free_bytes", FACT_LOG, 7, "stderr line 4");
        facts_mark(facts, 0, marks[i]);
        feature_set(facts, "f.first", 7, inputs, 1);
        feature_set(facts, "f.second", 7, again, 1);
        assert_true(fact_has_mark(facts_best(facts, "f.second"), marks[i]));
        facts_free(facts);
    }
}

static void judge(const char *text, const struct tree *tree, struct verdict *ret)
{
    struct facts *facts = read(text);
    (void)facts_set_boolean(facts, "log.output_read", FACT_STATIC, true, "text");
    assert_int_equal(diagnose(facts, tree, ret, NULL), 0);
    facts_free(facts);
}

static void test_confidence(void **state)
{
    struct tree *tree = fixture_tree();
    struct verdict sure, less;
    (void)state;
    judge(whole, tree, &sure);
    judge(wrapped, tree, &less);
    assert_string_equal(sure.class_name, "held-by-other");
    assert_string_equal(less.class_name, "held-by-other");
    assert_string_equal(sure.confidence, "high");
    assert_string_equal(less.confidence, "medium");
    assert_int_equal(less.against.count, sure.against.count + 1);
    assert_non_null(strstr(less.against.text[less.against.count - 1], "joined"));
    verdict_release(&sure);
    verdict_release(&less);
    tree_free(tree);
}

static void test_a_healthy_text_tells_of_no_failure(void **state)
{
    static const char well[] = "INFO: \"POST /v1/chat/completions HTTP/1.1\" 200 OK\nGPU 0 176.9 GB 191.7 GB\n";
    static const char ill[] = "INFO: 200 OK\nRuntimeError: x\n";
    struct facts *a = facts_new(), *b = facts_new();
    (void)state;
    any_text_to_facts(a, well, strlen(well), "text");
    any_text_to_facts(b, ill, strlen(ill), "text");
    assert_null(facts_best(a, "log.failure_lines"));
    assert_int_equal(facts_best(b, "log.failure_lines")->integer, 1);
    facts_free(a);
    facts_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_output_is_read_as_a_paste_is),
        cmocka_unit_test(test_a_message_in_another_language_is_read),
        cmocka_unit_test(test_a_warning_is_no_refusal),
        cmocka_unit_test(test_joined_lines_are_named),
        cmocka_unit_test(test_a_computed_fact_of_joined_lines),
        cmocka_unit_test(test_a_computed_fact_keeps_each_mark),
        cmocka_unit_test(test_confidence),
        cmocka_unit_test(test_a_healthy_text_tells_of_no_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
