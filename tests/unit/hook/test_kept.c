/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that a program keeps permanently, by the blocks that were in use at earlier moments. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "collectors/lib/torch_kept.h"

#define HANDED_OUT 1000
#define IN_USE 90

static bool read_rows(const char *rows, struct torch_kept *ret)
{
    char text[1024] = "{\"format\":1,\"kept\":[";
    strncat(text, rows, sizeof text - strlen(text) - 1);
    strncat(text, "],\"segments\":[]}", sizeof text - strlen(text) - 1);
    return torch_kept_read(text, strlen(text), 0, HANDED_OUT, IN_USE, ret);
}

/* ns, device, handed out, in use, kept at all later marks, in use now, in use two marks later, not below */
static void what_is_piled_up_grows_on_a_line(void **state)
{
    (void)state;
    struct torch_kept k;
    assert_true(read_rows("[1,0,200,40,20,25,20],[2,0,400,60,40,40,41],[3,0,600,70,60,60,-1],"
                          "[4,0,800,85,80,80,-1]",
                          &k));
    assert_int_equal(k.marks, 4);
    assert_int_equal(k.before, 20);
    assert_int_equal(k.growth, 80); /* 60 in 600 of the bytes, drawn out to 800 */
    assert_int_equal(k.freed_percent, 93);
    assert_true(k.steady);
}

static void what_is_replaced_is_not_kept(void **state)
{
    (void)state;
    struct torch_kept k;
    /* of the bytes that two later marks still had, a quarter or more is freed */
    assert_true(read_rows("[1,0,200,40,20,20,27],[2,0,400,60,40,40,60],[3,0,600,70,60,60,-1],"
                          "[4,0,800,85,80,80,-1]",
                          &k));
    assert_int_equal(k.replaced_percent, 25);
    assert_false(k.steady);
    /* one such mark alone was in the middle of a step */
    assert_true(read_rows("[1,0,200,40,20,20,20],[2,0,400,60,40,40,60],[3,0,600,70,60,60,-1],"
                          "[4,0,800,85,80,80,-1]",
                          &k));
    assert_true(k.steady);
}

static void what_lives_long_is_not_kept(void **state)
{
    (void)state;
    struct torch_kept k;
    assert_true(read_rows("[1,0,200,40,20,20,20],[2,0,400,60,22,22,22],[3,0,600,70,27,27,-1],"
                          "[4,0,800,85,60,60,-1]",
                          &k));
    assert_false(k.steady);
    assert_true(read_rows("[1,0,200,40,20,20,20],[2,0,400,60,20,20,20],[3,0,600,70,20,20,-1]", &k));
    assert_int_equal(k.growth, 0);
    assert_false(k.steady);
}

static void what_lies_at_a_place_that_was_free_is_not_kept(void **state)
{
    (void)state;
    struct torch_kept k;
    /* 10 of the 40 that grew are there again, and in use was never below */
    static const char again[] = "[1,0,200,40,20,20,20,20],[2,0,400,60,30,40,40,60],[3,0,600,70,50,60,-1,65],"
                                "[4,0,800,85,60,60,-1,80]";
    assert_true(read_rows(again, &k));
    assert_int_equal(k.retaken_percent, 25);
    assert_false(k.steady);
    /* memory in use was as low as the kept memory: the rest belongs to steps */
    assert_true(read_rows("[1,0,200,40,20,20,20,20],[2,0,400,60,30,40,40,31],[3,0,600,70,50,60,-1,50],"
                          "[4,0,800,85,60,60,-1,60]",
                          &k));
    assert_int_equal(k.retaken_percent, 0);
    assert_true(k.steady);
    /* one such mark alone was in the middle of a step */
    assert_true(read_rows("[1,0,200,40,20,20,20,20],[2,0,400,60,30,40,40,60],[3,0,600,70,50,50,-1,65],"
                          "[4,0,800,85,60,60,-1,80]",
                          &k));
    assert_int_equal(k.retaken_percent, 0);
    assert_true(k.steady);
    /* hooks that do not record the lowest value */
    assert_true(read_rows("[1,0,200,40,20,20,20],[2,0,400,60,30,40,40],[3,0,600,70,50,60,-1],"
                          "[4,0,800,85,60,60,-1]",
                          &k));
    assert_int_equal(k.retaken_percent, 0);
    assert_true(k.steady);
}

static void where_more_comes_nothing_need_be_kept(void **state)
{
    (void)state;
    struct torch_kept k;
    /* as many bytes in 800, then 700 and 600 */
    assert_true(read_rows("[100,0,200,40,20,20,20],[900,0,400,60,40,40,40],[1600,0,600,70,60,60,-1],"
                          "[2200,0,800,85,80,80,-1]",
                          &k));
    assert_int_equal(k.faster_percent, 33);
    assert_false(k.steady);
    /* the last interval was as long as the one before */
    assert_true(read_rows("[100,0,200,40,20,20,20],[900,0,400,60,40,40,40],[1500,0,600,70,60,60,-1],"
                          "[2100,0,800,85,80,80,-1]",
                          &k));
    assert_int_equal(k.faster_percent, 0);
    assert_true(k.steady);
    /* a little faster */
    assert_true(read_rows("[100,0,200,40,20,20,20],[900,0,400,60,40,40,40],[1660,0,600,70,60,60,-1],"
                          "[2390,0,800,85,80,80,-1]",
                          &k));
    assert_in_range(k.faster_percent, 5, 15);
    assert_true(k.steady);
    /* clocks that stand still */
    assert_true(read_rows("[5,0,200,40,20,20,20],[5,0,400,60,40,40,40],[5,0,600,70,60,60,-1]", &k));
    assert_int_equal(k.faster_percent, 0);
}

static void marks_that_say_nothing(void **state)
{
    (void)state;
    struct torch_kept k;
    static const char *const rows[] = {
        "",
        "[1,0,200,40,20,20,20],[2,0,600,60,40,40,41]",                        /* two */
        "[1,0,100,40,20,20,20],[2,0,200,60,40,40,41],[3,0,300,70,60,60,-1]",  /* of the start */
        "[1,1,200,40,20,20,20],[2,1,400,60,40,40,41],[3,1,600,70,60,60,-1]",  /* another device */
        "[1,0,200,40,50,20,20],[2,0,400,60,70,40,41],[3,0,600,70,80,60,-1]",  /* more than was in use */
        "[1,0,600,40,20,20,20],[2,0,400,60,40,40,41],[3,0,200,70,60,60,-1]",  /* times that go back */
        "[1,0,\"x\"],[],[2],{},[3,0,-1,-1,-1,-1,-1],[4,0,900,90,90,90,90],7", /* nonsense */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_false(read_rows(rows[i], &k));
    assert_false(torch_kept_read("{", 1, 0, HANDED_OUT, IN_USE, &k));
    assert_false(torch_kept_read("{}", 2, 0, 0, IN_USE, &k));
    assert_false(torch_kept_read("{}", 2, 0, HANDED_OUT, -1, &k));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_piled_up_grows_on_a_line),
        cmocka_unit_test(what_is_replaced_is_not_kept),
        cmocka_unit_test(what_lives_long_is_not_kept),
        cmocka_unit_test(what_lies_at_a_place_that_was_free_is_not_kept),
        cmocka_unit_test(where_more_comes_nothing_need_be_kept),
        cmocka_unit_test(marks_that_say_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
