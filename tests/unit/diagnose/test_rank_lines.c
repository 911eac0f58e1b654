/* SPDX-License-Identifier: Apache-2.0 */
/* Which lines of a log that several ranks write are those of one of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

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
    } rows[] = {
        {9, 1, 16, "a\n[rank8]: b\n[rank9]: c\nd", "a\n\n[rank9]: c\nd"},
        {9, 1, 16, "[rank10]: b", ""},
        {9, 1, 16, "[rank9]:[E1 ProcessGroupNCCL.cpp:1] x\n", NULL},
        {9, 1, 16, "[default0]:a\n[default1]:b\n", "\n[default1]:b\n"},
        {NONE, 1, 16, "[rank8]: b\n", NULL},
        {9, NONE, 16, "[default0]:a\n", NULL},
        {9, 1, 1, "[rank8]: b\n", NULL},
        {9, 1, NONE, "[rank8]: b\n", NULL},
        {9, 1, 16, "rocmcrash: why: out of memory\nx\n", "\nx\n"},
        {9, 1, 16, "[rank8 b\n[rank]: c\n[rank8x]: d\n x [rank8]: e\n[rank", NULL},
        {9, 1, 16, "[rank12345678901234567890]: b\n", NULL},
        {9, 1, 16, "", NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct facts *facts = rank(rows[i].rank, rows[i].local, rows[i].world);
        size_t len = 0;
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lines), cmocka_unit_test(test_facts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
