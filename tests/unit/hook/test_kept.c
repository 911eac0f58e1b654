/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that a program keeps permanently, by the blocks that were in use at earlier moments. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
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

/* ns, device, handed out, in use, kept at all later looks, in use now, in use two marks later, not below */
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

static void what_passes_through_more_and_more_is_not_kept(void **state)
{
    (void)state;
    struct torch_kept k;
    /* in use was never below 60, 65, 80: 20 of that, half of the growth, was in other blocks each time */
    assert_true(read_rows("[1,0,200,40,20,20,20,20],[2,0,400,60,30,40,40,60],[3,0,600,70,50,60,-1,65],"
                          "[4,0,800,85,60,60,-1,80]",
                          &k));
    assert_int_equal(k.retaken_percent, 50);
    assert_false(k.steady);
    /* as much passes through from the start: requests beside a leak */
    assert_true(read_rows("[1,0,200,40,20,20,20,36],[2,0,400,60,30,40,40,47],[3,0,600,70,50,60,-1,64],"
                          "[4,0,800,85,60,60,-1,77]",
                          &k));
    assert_int_equal(k.retaken_percent, 2);
    assert_true(k.steady);
    /* memory in use was as low as the kept memory: the rest belongs to steps */
    assert_true(read_rows("[1,0,200,40,20,20,20,20],[2,0,400,60,30,40,40,31],[3,0,600,70,50,60,-1,50],"
                          "[4,0,800,85,60,60,-1,60]",
                          &k));
    assert_int_equal(k.retaken_percent, 0);
    assert_true(k.steady);
    /* one such mark alone was in the middle of a step */
    assert_true(read_rows("[1,0,200,40,20,20,20,20],[2,0,400,60,30,40,40,60],[3,0,600,70,50,50,-1,50],"
                          "[4,0,800,85,60,60,-1,60]",
                          &k));
    assert_int_equal(k.retaken_percent, 0);
    assert_true(k.steady);
    /* hooks that do not record the lowest value, and marks for which that is not known */
    static const char *const unknown[] = {
        "[1,0,200,40,20,20,20],[2,0,400,60,30,40,40],[3,0,600,70,50,60,-1],[4,0,800,85,60,60,-1]",
        "[1,0,200,40,20,20,20,0],[2,0,400,60,30,40,40,0],[3,0,600,70,50,60,-1,0],[4,0,800,85,60,60,-1,80]"};
    for (size_t i = 0; i < 2; i++) {
        assert_true(read_rows(unknown[i], &k));
        assert_int_equal(k.retaken_percent, 0);
        assert_true(k.steady);
    }
}

/* ..., outlived at all looks, percent of the releases that were seen */
static void what_was_watched_is_known(void **state)
{
    (void)state;
    struct torch_kept k;
    char rows[512];
    /* as much passes through as is kept, in blocks of one size: only who saw the releases knows what is kept */
    static const char leak[] = "[1,0,200,40,20,20,20,20,%d,%d],[2,0,400,60,40,60,60,60,%d,%d],[3,0,600,90,60,90,-1,90,-1,%d],"
                               "[4,0,800,120,80,120,-1,120,-1,%d]";
    static const struct {
        int watched, went_later;
        bool steady;
    } cases[] = {{100, 0, true}, {40, 0, true}, {39, 0, false}, {100, 5, true}, {100, 6, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int w = cases[i].watched;
        int later = cases[i].went_later; /* 5.4 are 9 % of the growth */
        (void)snprintf(rows, sizeof rows, leak, 20 + later, w, 40 + later, w, w, w);
        assert_true(read_rows(rows, &k));
        assert_int_equal(k.watched_percent, w);
        assert_int_equal(k.retaken_percent, 50);
        assert_int_equal(k.steady, cases[i].steady);
    }
    /* the mark after 0.45 of the run has seen too little of the end */
    assert_true(read_rows("[1,0,200,40,20,20,20,20,20,100],[2,0,450,60,40,60,60,60,60,100],[3,0,600,90,60,90,-1,90,-1,100]", &k));
    assert_true(k.steady);
}

/* ..., in use until the next look */
static void what_outlasts_some_steps(void **state)
{
    (void)state;
    struct torch_kept k;
    char rows[512];
    static const char marks[] = "[1,0,200,40,20,20,20,20,20,100,%d],[2,0,400,60,20,20,20,20,20,100,%d],[3,0,600,90,20,90,-1,90,-1,100,%d],"
                                "[4,0,800,120,20,120,-1,120,-1,100,%d]";
    static const struct {
        int at[4], differs;
    } cases[] = {
        {{20, 20, 20, 20}, 0},   /* all that is made in a step goes in the next one */
        {{20, 40, 60, 80}, 60},  /* a queue, longer lives */
        {{60, 22, 20, 21}, 40},  /* the looks were closer than a step at first */
        {{20, 20, 20, -1}, -1}}; /* too few marks with such a look */
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int *at = cases[i].at;
        (void)snprintf(rows, sizeof rows, marks, at[0], at[1], at[2], at[3]);
        assert_true(read_rows(rows, &k));
        assert_int_equal(k.outlasting, cases[i].differs);
    }
    /* older hooks */
    assert_true(read_rows("[1,0,200,40,20,25,20],[2,0,400,60,40,40,41],[3,0,600,70,60,60,-1],[4,0,800,85,80,80,-1]", &k));
    assert_int_equal(k.outlasting, -1);
}

static void the_last_blocks_have_had_no_time_to_go(void **state)
{
    (void)state;
    struct torch_kept k;
    static const char rows[] = "[1,0,200,40,20,20,20,20,20,%d],[2,0,500,60,23,40,40,40,23,%d],[3,0,800,90,60,60,-1,60,-1,%d]";
    char text[256];
    (void)snprintf(text, sizeof text, rows, 0, 0, 0);
    assert_true(read_rows(text, &k));
    assert_int_equal(k.growth, 53); /* 40 in 600 of the bytes, drawn out to 800 */
    (void)snprintf(text, sizeof text, rows, 100, 100, 100);
    assert_true(read_rows(text, &k));
    assert_int_equal(k.growth, 8); /* 3 in the first half of that */
    assert_false(k.steady);
}

/* `kept`, `rest` of what is in use, and what outlived some steps and went, at 0.2, 0.3, ... 0.8 of the run: by all looks,
 * or by the marks alone */
static bool read_lives(const int kept[static 7], const int rest[static 7], int went, int by_marks, int watched,
                       struct torch_kept *ret)
{
    char rows[1024] = "";
    for (int i = 0; i < 7; i++) {
        size_t len = strlen(rows);
        (void)snprintf(rows + len, sizeof rows - len, "%s[%d,0,%d,%d,%d,%d,%d,0,%d,%d]", i == 0 ? "" : ",", i + 1,
                       200 + i * 100, kept[i] + rest[i], kept[i], kept[i], i < 3 ? kept[i] + by_marks : -1,
                       i < 3 ? kept[i] + went : -1, watched);
    }
    return read_rows(rows, ret);
}

static bool read_watched(const int kept[static 7], const int rest[static 7], int went, int watched, struct torch_kept *ret)
{
    return read_lives(kept, rest, went, went, watched, ret);
}

static void a_leak_that_begins_late_is_one(void **state)
{
    (void)state;
    struct torch_kept k;
    static const int flat[7] = {30, 30, 30, 30, 30, 30, 30};
    static const int late[7] = {100, 108, 110, 118, 158, 208, 260}; /* 18 of 160 in the middle: 0.22 of a line */
    static const int leak[7] = {100, 100, 104, 124, 164, 210, 260}; /* 24: 0.3 */
    static const int more[7] = {30, 30, 30, 30, 62, 62, 62};        /* a fifth of the growth, and no less */
    static const int hardly[7] = {30, 30, 30, 30, 61, 61, 61};
    assert_true(read_watched(leak, flat, 0, 100, &k));
    assert_true(k.steady);
    assert_int_equal(k.growth, 213); /* 160 in 600 of the bytes, drawn out to 800 */
    assert_true(read_watched(late, flat, 0, 100, &k));
    assert_false(k.steady);
    /* the rest grows: longer lives look like this */
    assert_true(read_watched(leak, more, 0, 100, &k));
    assert_false(k.steady);
    assert_int_equal(k.growth, 64); /* 24 in the first half of that */
    assert_true(read_watched(leak, hardly, 0, 100, &k));
    assert_true(k.steady);
    /* some of what had outlived steps went */
    assert_true(read_watched(leak, flat, 2, 100, &k));
    assert_false(k.steady);
    assert_true(read_watched(leak, flat, 1, 100, &k));
    assert_true(k.steady);
    /* who did not see the releases does not know */
    assert_true(read_watched(leak, flat, 0, 39, &k));
    assert_false(k.steady);
}

/* Nothing is kept at first, and then memory is kept on a line. `in_use` at the end is 90 of 1000, so all that was
 * handed out since is freed again. */
static void a_leak_that_begins_after_half_of_the_run_is_one(void **state)
{
    (void)state;
    struct torch_kept k;
    static const int flat[7] = {30, 30, 30, 30, 30, 30, 30};
    static const int late[7] = {100, 100, 100, 100, 120, 160, 200}; /* from 0.55 on, 40 in a tenth of the run */
    static const int jump[7] = {100, 100, 100, 100, 180, 190, 200}; /* one large thing: the line begins long before */
    static const int bent[7] = {100, 100, 100, 100, 105, 110, 200}; /* and lies not between the marks */
    static const int once[7] = {100, 100, 100, 100, 100, 100, 200}; /* one mark is no line */
    static const int slow[7] = {100, 100, 101, 102, 120, 160, 200}; /* 2 of 100 is a level, 3 is not */
    static const int slope[7] = {100, 100, 101, 103, 120, 160, 200};
    static const int more[7] = {30, 30, 30, 30, 33, 33, 33};        /* 2 % of the growth is 2 */
    static const int hardly[7] = {30, 30, 30, 30, 31, 31, 31};
    assert_true(read_watched(late, flat, 0, 100, &k));
    assert_true(k.steady);
    assert_int_equal(k.growth, 180); /* 100 in 250 of the bytes, drawn out to 450 */
    assert_true(read_watched(jump, flat, 0, 100, &k));
    assert_false(k.steady);
    assert_true(read_watched(bent, flat, 0, 100, &k));
    assert_false(k.steady);
    assert_true(read_watched(once, flat, 0, 100, &k));
    assert_false(k.steady);
    assert_true(read_watched(slow, flat, 0, 100, &k));
    assert_true(k.steady);
    assert_true(read_watched(slope, flat, 0, 100, &k)); /* and no line from there on: 15.4 beside it */
    assert_false(k.steady);
    /* a step has the addresses of the step before: that is no memory that outlived steps */
    assert_true(read_lives(late, flat, 0, 60, 100, &k));
    assert_true(k.steady);
    /* memory that lives for some steps is in use at the end, too */
    assert_true(read_lives(late, flat, 2, 2, 100, &k));
    assert_false(k.steady);
    /* the work grows, too */
    assert_true(read_watched(late, hardly, 0, 100, &k));
    assert_true(k.steady);
    assert_true(read_watched(late, more, 0, 100, &k));
    assert_false(k.steady);
    /* who did not see the releases does not know */
    assert_true(read_watched(late, flat, 0, 39, &k));
    assert_false(k.steady);
}

/* One long step, or a load: what is handed out stays. */
static void a_long_last_step_is_no_leak(void **state)
{
    (void)state;
    struct torch_kept k;
    static const char rows[] = "{\"kept\":[[1,0,200,130,100,100,100,0,100,100],[2,0,300,130,100,100,100,0,100,100],"
                               "[3,0,400,130,100,100,100,0,100,100],[4,0,500,130,100,100,-1,0,-1,100],"
                               "[5,0,600,140,120,120,-1,0,-1,100],[6,0,700,180,160,160,-1,0,-1,100],"
                               "[7,0,800,220,200,200,-1,0,-1,100]]}";
    assert_true(torch_kept_read(rows, strlen(rows), 0, HANDED_OUT, 229, &k)); /* 99 of 500 stay */
    assert_true(k.steady);
    assert_true(torch_kept_read(rows, strlen(rows), 0, HANDED_OUT, 231, &k));
    assert_false(k.steady);
}

/* At the last level mark 5 of 100 may have been in use at all looks of some steps, and be gone now. */
static void memory_that_lives_long_is_no_late_leak(void **state)
{
    (void)state;
    struct torch_kept k;
    char rows[512];
    static const char late[] = "{\"kept\":[[1,0,200,130,100,100,100,0,100,100],[2,0,300,130,100,100,100,0,100,100],"
                               "[3,0,400,130,100,100,100,0,100,100],[4,0,500,130,100,100,%d,0,%d,100],"
                               "[5,0,600,150,120,120,-1,0,-1,100],[6,0,700,190,160,160,-1,0,-1,100],"
                               "[7,0,800,230,200,200,-1,0,-1,100]]}";
    (void)snprintf(rows, sizeof rows, late, 130, 105);
    assert_true(torch_kept_read(rows, strlen(rows), 0, HANDED_OUT, 150, &k));
    assert_true(k.steady);
    (void)snprintf(rows, sizeof rows, late, 130, 106);
    assert_true(torch_kept_read(rows, strlen(rows), 0, HANDED_OUT, 150, &k));
    assert_false(k.steady);
}

/* In a run of many steps the marks shortly before the end count as well. */
static void a_leak_may_begin_in_the_last_third(void **state)
{
    (void)state;
    struct torch_kept k;
    char rows[512];
    static const char late[] = "{\"kept\":[[1,0,200,130,100,100,100,0,100,100],[2,0,400,130,100,100,100,0,100,100],"
                               "[3,0,600,130,100,100,-1,0,-1,100],[4,0,700,130,100,100,-1,0,-1,100],"
                               "[5,0,800,150,120,120,-1,0,-1,100],[6,0,%d,190,160,160,-1,0,-1,100]]}";
    (void)snprintf(rows, sizeof rows, late, 900);
    assert_true(torch_kept_read(rows, strlen(rows), 0, HANDED_OUT, 150, &k));
    assert_true(k.steady);
    assert_int_equal(k.growth, 100); /* 60 in 150 of the bytes, drawn out to 250 */
    (void)snprintf(rows, sizeof rows, late, 960);
    assert_true(torch_kept_read(rows, strlen(rows), 0, HANDED_OUT, 150, &k));
    assert_false(k.steady);
}

static void a_cache_that_fills_is_no_leak(void **state)
{
    (void)state;
    struct torch_kept k;
    static const int rest[7] = {30, 30, 30, 30, 30, 30, 30};
    static const int full[7] = {100, 160, 220, 237, 250, 255, 260}; /* 137 of 160 in the middle */
    static const int fills[7] = {100, 160, 220, 235, 250, 255, 260};
    assert_true(read_watched(full, rest, 0, 100, &k));
    assert_false(k.steady);
    assert_int_equal(k.growth, 61); /* twice the 23 of its second half, in 600 of the bytes, drawn out to 800 */
    assert_true(read_watched(fills, rest, 0, 100, &k));
    assert_true(k.steady);
}

static void what_is_loaded_is_no_growth(void **state)
{
    (void)state;
    struct torch_kept k;
    /* nothing was freed until the second mark, and hardly anything was kept since */
    static const char loads[] = "[1,0,150,150,30,30,30],[2,0,200,200,58,58,58],";
    static const char after[] = "[3,0,400,80,58,58,58],[4,0,500,80,58,58,58],[5,0,600,80,58,58,-1]";
    char rows[512];
    (void)snprintf(rows, sizeof rows, "%s%s", loads, after);
    assert_true(read_rows(rows, &k));
    assert_int_equal(k.marks, 3);
    assert_int_equal(k.before, 58);
    assert_int_equal(k.growth, 0);
    /* nothing had been freed until the first mark; what was freed of it later was no load */
    assert_true(read_rows("[1,0,150,150,30,30,30,0,30,100],[2,0,200,80,30,30,30,0,30,100],[3,0,400,80,30,30,30,0,30,100],"
                          "[4,0,600,80,30,30,-1,0,-1,100]",
                          &k));
    assert_int_equal(k.marks, 4);
    /* three marks are needed: the load is not dropped then */
    assert_true(read_rows("[1,0,150,150,30,30,30],[2,0,400,80,58,58,58],[3,0,600,80,58,58,-1]", &k));
    assert_int_equal(k.marks, 3);
    assert_int_equal(k.before, 30);
}

/* five marks, the same bytes between them, at `times` */
static bool read_times(const char *times[static 5], struct torch_kept *ret)
{
    char rows[512];
    (void)snprintf(rows, sizeof rows,
                   "[%s,0,200,40,20,20,20],[%s,0,350,45,35,35,35],[%s,0,500,60,50,50,-1],[%s,0,650,70,65,65,-1],"
                   "[%s,0,800,85,80,80,-1]",
                   times[0], times[1], times[2], times[3], times[4]);
    return read_rows(rows, ret);
}

static void where_more_comes_nothing_need_be_kept(void **state)
{
    (void)state;
    struct torch_kept k;
    /* as many bytes in 800, then 700, 600 and 500 */
    assert_true(read_times((const char *[]){"100", "900", "1600", "2200", "2700"}, &k));
    assert_int_equal(k.faster_percent, 60);
    assert_false(k.steady);
    /* the last interval was as long as the one before */
    assert_true(read_times((const char *[]){"100", "900", "1600", "2200", "2800"}, &k));
    assert_int_equal(k.faster_percent, 0);
    assert_true(k.steady);
    /* a little faster */
    assert_true(read_times((const char *[]){"100", "900", "1680", "2440", "3180"}, &k));
    assert_int_equal(k.faster_percent, 8);
    assert_true(k.steady);
    /* clocks that stand still */
    assert_true(read_times((const char *[]){"5", "5", "5", "5", "5"}, &k));
    assert_int_equal(k.faster_percent, 0);
    /* four marks are too few for four quarters */
    assert_true(read_rows("[100,0,200,40,20,20,20],[900,0,400,60,40,40,40],[1600,0,600,70,60,60,-1],"
                          "[2200,0,800,85,80,80,-1]",
                          &k));
    assert_int_equal(k.faster_percent, 0);
    assert_true(k.steady);
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
        cmocka_unit_test(what_passes_through_more_and_more_is_not_kept),
        cmocka_unit_test(what_was_watched_is_known),
        cmocka_unit_test(what_outlasts_some_steps),
        cmocka_unit_test(the_last_blocks_have_had_no_time_to_go),
        cmocka_unit_test(a_leak_that_begins_late_is_one),
        cmocka_unit_test(a_leak_that_begins_after_half_of_the_run_is_one),
        cmocka_unit_test(a_long_last_step_is_no_leak),
        cmocka_unit_test(memory_that_lives_long_is_no_late_leak),
        cmocka_unit_test(a_leak_may_begin_in_the_last_third),
        cmocka_unit_test(a_cache_that_fills_is_no_leak),
        cmocka_unit_test(what_is_loaded_is_no_growth),
        cmocka_unit_test(where_more_comes_nothing_need_be_kept),
        cmocka_unit_test(marks_that_say_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
