/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the lines of one rank in a log that several ranks write. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../tree/tree_fixture.h"
#include "diagnose/fact.h"
#include "diagnose/rank_lines.h"
#include "diagnose/verdict.h"

#define NONE (-1)

static struct facts *rank(int64_t number, int64_t local, int64_t world)
{
    struct facts *facts = facts_new();
    assert_non_null(facts);
    if (number != NONE)
        (void)facts_set_integer(facts, "job.rank", FACT_STATIC, number, "a test");
    if (local != NONE)
        (void)facts_set_integer(facts, "job.local_rank", FACT_STATIC, local, "a test");
    if (world != NONE)
        (void)facts_set_integer(facts, "job.world_size", FACT_STATIC, world, "a test");
    return facts;
}

static void test_lines(void **state)
{
    static const struct {
        int64_t rank, local, world;
        const char *text, *own; /* NULL = all of it */
        bool shared;            /* ranks write to one file */
    } rows[] = {
        {9, 1, 16, "a\n[rank8]: b\n[rank9]: c\nd", "a\n\n[rank9]: c\nd", false},
        {9, 1, 16, "[rank10]: b", "", false},
        {9, 1, 16, "[rank9]:[E1 ProcessGroupNCCL.cpp:1] x\n", NULL, false},
        {9, 1, 16, "[default0]:a\n[default1]:b\n", "\nb\n", false},
        {9, 1, 16, "[default1]:[rank8]: b\n[default1]:[rank9]: c\n", "\n[rank9]: c\n", false},
        /* as Open MPI 5.0.7 printed them: --tag-output, --output tag-detailed, --output tag-fullname */
        {1, 1, 3, "[1,0]<stderr>: HSA error 0\n[1,1]<stderr>: HSA error 1\n[1,2]<stdout>: out\n", "\nHSA error 1\n\n", false},
        {1, 1, 3, "[1,0][vm:16]<stderr>: a\n[1,1][vm:17]<stderr>: b\n", "\nb\n", false},
        {1, 1, 3, "[prterun-vm-18@1,0]<stderr>: a\n[prterun-vm-18@1,1]<stderr>: b\n", "\nb\n", false},
        {3, 3, 4, "[1,3]<stderr>:a\n[1,13]<stderr>:b\n", "a\n\n", false}, /* Open MPI 4 has no blank */
        {1, 1, 3, "[1,x]<stderr>: a\n[1,0] b\n[1,0<stderr>: c\n[1,0]<stdlog>: d\n", NULL, false},
        /* srun -l labels every line, with the width of its largest rank */
        {9, 1, 16, " 8: a\n 9: b\n10: c\nsrun: error: n1: task 8: Exited with exit code 1\n 9: \n 9:\n",
         "\nb\n\nsrun: error: n1: task 8: Exited with exit code 1\n\n\n", true},
        {9, 1, 16, "8: a\nno label\n9: b\n10: c\n", NULL, true},
        /* a program that numbers its lines */
        {9, 1, 16, " 8: a\n 9: b\n10: c\n", NULL, false},
        {9, 1, 16, " 8: a\n10: c\n", NULL, true},
        {9, 1, 16, " 9: a\n 9: b\n", NULL, true},
        {NONE, 1, 16, "[rank8]: b\n", NULL, false},
        {9, NONE, 16, "[default0]:a\n", "a\n", false},
        {9, 1, 1, "[rank8]: b\n", NULL, false},
        {9, 1, NONE, "[rank8]: b\n", NULL, false},
        {9, 1, 16, "rocmcrash: why: out of memory\nx\n", "\nx\n", false},
        {9, 1, 16, "[rank8 b\n[rank]: c\n[rank8x]: d\n x [rank8]: e\n[rank", NULL, false},
        {9, 1, 16, "[rank12345678901234567890]: b\n", NULL, false},
        {9, 1, 16, "", NULL, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct facts *facts = rank(rows[i].rank, rows[i].local, rows[i].world);
        size_t len = 0;
        if (rows[i].shared)
            (void)facts_set_boolean(facts, "run.output_is_file", FACT_STATIC, true, "a test");
        char *own = rank_lines_own(facts, rows[i].text, strlen(rows[i].text), &len);
        if (rows[i].own == NULL) {
            assert_null(own);
        } else {
            assert_non_null(own);
            assert_string_equal(own, rows[i].own);
            assert_int_equal(len, strlen(own));
        }
        free(own);
        facts_free(facts);
    }
}

/* A message of another rank about its memory is no fact of this rank. Lines keep their numbers. */
static void test_facts(void **state)
{
    static const char text[] = "[rank3]: torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB.\n"
                               "[rank1]: RuntimeError: [pair.cc:534] Connection closed by peer [10.0.0.7]:3977\n";
    (void)state;
    for (int64_t own = 1; own <= 3; own += 2) {
        struct facts *facts = rank(own, own, 4);
        output_to_facts(facts, text, strlen(text), "stderr");
        assert_int_equal(facts_is_present(facts, "oom.requested_bytes"), own == 3);
        assert_int_equal(facts_is_present(facts, "msg.remote_process_exited"), own == 1);
        const struct fact *lost = facts_best(facts, "msg.remote_process_exited");
        assert_true(own == 3 || strcmp(lost->source, "stderr line 2") == 0);
        facts_free(facts);
    }
}

#define HELD "ValueError: Free memory on device cuda:0 (3.10/31.98 GiB) on startup is less than desired GPU memory utilization (0.9, 28.78 GiB).\n"
#define CLOSED "RuntimeError: [pair.cc:534] Connection closed by peer [10.0.0.7]:3977\n"

/* The place of a message decides whether rank 1 of four may have printed it. */
static void test_confidence(void **state)
{
    static const struct {
        const char *text, *flags[3]; /* facts that hold */
        int64_t local_world;
        const char *class_name, *confidence;
    } rows[] = {
        {HELD, {NULL}, NONE, "held-by-other", "high"},                                 /* a pipe of its own */
        {HELD, {"run.output_is_file", NULL}, NONE, "held-by-other", "low"},            /* who wrote these lines? */
        {HELD CLOSED, {"run.output_is_file", NULL}, 4, "held-by-other", "low"},
        {"[rank1]: " HELD, {"run.output_is_file", NULL}, 4, "held-by-other", "high"},  /* its own message */
        {"[1,1]<stderr>: " HELD, {"run.output_is_file", NULL}, 4, "held-by-other", "high"},
        {"[1,3]<stderr>: " HELD "[1,1]<stderr>: " CLOSED, {"run.output_is_file", NULL}, 4, "collective", "high"},
        {"3: " HELD, {NULL}, NONE, "held-by-other", "high"},                           /* the program's own number */
        {"3: " HELD "1: " CLOSED, {"run.output_is_file", NULL}, 4, "collective", "high"},
        {"[default3]:" HELD "[default1]:" CLOSED, {"run.output_is_file", NULL}, 4, "collective", "high"},
        {"[rank3]: " HELD "[rank1]: " CLOSED, {"run.output_is_file", NULL}, 4, "collective", "high"},
        {HELD, {"run.output_is_file", NULL}, 1, "held-by-other", "high"},              /* alone on its machine */
        {HELD, {"worker.1.rank", NULL}, 4, "held-by-other", "medium"},                 /* two failed ranks, one launcher
        */
        {"[rank1]: " HELD, {"worker.1.rank", NULL}, 4, "held-by-other", "high"},
        {HELD, {"worker.0.rank", NULL}, 4, "held-by-other", "high"},
    };
    struct tree *tree = fixture_tree();
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct facts *facts = rank(1, 1, 4);
        struct verdict verdict;
        if (rows[i].local_world != NONE)
            (void)facts_set_integer(facts, "job.local_world_size", FACT_STATIC, rows[i].local_world, "a test");
        for (size_t k = 0; rows[i].flags[k] != NULL; k++)
            (void)facts_set_boolean(facts, rows[i].flags[k], FACT_STATIC, true, "a test");
        (void)facts_set_boolean(facts, "log.output_read", FACT_STATIC, true, "text");
        output_to_facts(facts, rows[i].text, strlen(rows[i].text), "stderr");
        assert_int_equal(diagnose(facts, tree, &verdict, NULL), 0);
        if (strcmp(verdict.class_name, rows[i].class_name) != 0 || strcmp(verdict.confidence, rows[i].confidence) != 0)
            fail_msg("row %zu: %s, %s", i, verdict.class_name, verdict.confidence);
        bool doubted = verdict.against.count > 0 &&
                       strstr(verdict.against.text[verdict.against.count - 1], "the lines") != NULL;
        assert_int_equal(doubted, strcmp(rows[i].confidence, "high") != 0);
        verdict_release(&verdict);
        facts_free(facts);
    }
    tree_free(tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lines), cmocka_unit_test(test_facts),
                                       cmocka_unit_test(test_confidence)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
