/* SPDX-License-Identifier: Apache-2.0 */
/* Series whose lines follow a size, a clock or nothing: by words, by form and by steps; and within one line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "diagnose/axis.h"

struct found {
    enum axis_kind kind;
    struct text name;
};

/* The first line may be the header of a table. */
static struct found follow(const char *text)
{
    struct text rest = {text, strlen(text)}, line;
    struct axis axis = {.tracks = 0};
    struct axis_header header = {.cells = 0};
    struct found f = {.kind = AXIS_UNKNOWN};
    while (text_next_line(&rest, &line)) {
        struct quantity q[QUANTITIES_MAX];
        struct mark marks[MARKS_MAX];
        if (text_has_digit(line))
            axis_add(&axis, marks, axis_marks(line, q, quantity_line(line, q), &header, marks));
        else
            (void)axis_read_header(line, &header);
    }
    f.kind = axis_kind(&axis, &f.name);
    return f;
}

static void expect(const char *text, struct found f, enum axis_kind kind, const char *name)
{
    if (f.kind != kind || !text_equals(f.name, name))
        fail_msg("'%s': kind %d, '%.*s'; wanted %d, '%s'", text, f.kind, (int)f.name.len, f.name.at, kind, name);
}

static void test_lines(void **state)
{
    static const struct {
        const char *text;
        enum axis_kind kind;
        const char *name;
    } rows[] = {
        /* words before, behind and above the number */
        {"ctx=4096: 9 GiB\nctx=8192: 10 GiB\nctx=12288: 11 GiB\n", AXIS_SIZE, "ctx"},
        {"{\"batch_size\": 4, \"gb\": 8}\n{\"batch_size\": 6, \"gb\": 9}\n{\"batch_size\": 9, \"gb\": 12}\n", AXIS_SIZE, "batch_size"},
        {"8 hidden layers: 4 GB\n10 hidden layers: 5 GB\n12 hidden layers: 6 GB\n", AXIS_SIZE, "hidden"},
        {"10 images per batch 3 GB\n30 images per batch 5 GB\n40 images per batch 6 GB\n", AXIS_SIZE, "batch"},
        {"10 images: 3 GB\n30 images: 5 GB\n40 images: 6 GB\n", AXIS_CLOCK, "images"},
        {"tp=8 concurrency=5 9 GB\ntp=8 concurrency=6 10 GB\ntp=8 concurrency=9 12 GB\n", AXIS_SIZE, "concurrency"},
        {"10/40 layers 1 GB\n20/40 layers 2 GB\n30/40 layers 3 GB\n", AXIS_SIZE, "layers"},
        {"étape 10 : 4,0 Gio\nétape 20 : 5,9 Gio\nétape 30 : 7,8 Gio\n", AXIS_CLOCK, "étape"},
        {"n=500 1 GB\nn=700 2 GB\nn=1000 3 GB\n", AXIS_SIZE, "n"},
        {"| layers | VRAM |\n| 10 | 4 GB |\n| 20 | 6 GB |\n| 30 | 8 GB |\n", AXIS_SIZE, "layers"},
        {"epoch,loss,gpu\n1,0.5,4 GB\n2,0.4,5 GB\n3,0.6,6 GB\n", AXIS_CLOCK, "epoch"},
        {"VRAM  ranks\n1 GB  3\n2 GB  4\n3 GB  6\n", AXIS_SIZE, "ranks"},
        {"step 10 (bs 16) 3 GB\nstep 20 (bs 16) 4 GB\nstep 30 (bs 16) 5 GB\n", AXIS_CLOCK, "step"},
        {"1h 3 GB\n2h 4 GB\n3h 5 GB\n", AXIS_CLOCK, "time"},
        /* form */
        {"512x512 3 GB\n640x640 4 GB\n768x768 6 GB\n", AXIS_SIZE, "the dimensions"},
        {"grid 64x64x64 3 GB\ngrid 80x80x80 4 GB\ngrid 96x96x96 6 GB\n", AXIS_SIZE, "grid"},
        {"frame 3, 640x480, 1 GB\nframe 4, 640x480, 2 GB\nframe 5, 640x480, 3 GB\n", AXIS_CLOCK, "frame"},
        {"10:00:01 3 GB\n10:10:01 4 GB\n10:25:01 5 GB\n", AXIS_CLOCK, "the time"},
        {"2026-03-30 3 GB\n2026-03-31 4 GB\n2026-04-01 5 GB\n", AXIS_CLOCK, "the time"},
        {"ctx 16k: 3 GB\nctx 24k: 4 GB\nctx 40k: 5 GB\n", AXIS_SIZE, "ctx"},
        {"cells 1e6: 3 GB\ncells 3e6: 4 GB\ncells 2e7: 5 GB\n", AXIS_SIZE, "cells"},
        {"cells 900k: 3 GB\ncells 1.2M: 4 GB\ncells 2M: 5 GB\n", AXIS_SIZE, "cells"},
        /* steps */
        {"256 1 GB\n512 2 GB\n2048 4 GB\n", AXIS_SIZE, "a number"},
        {"100 1 GB\n150 2 GB\n225 4 GB\n", AXIS_SIZE, "a number"},
        {"50 1 GB\n100 2 GB\n150 4 GB\n", AXIS_UNKNOWN, ""},
        {"512 1 GB\n256 2 GB\n1024 4 GB\n", AXIS_UNKNOWN, ""},
        {"iter 1 1 GB\niter 10 2 GB\niter 100 4 GB\n", AXIS_CLOCK, "iter"},
        /* a size that falls while memory grows is not followed; a trial may be repeated */
        {"seq 512 step 1 3 GB\nseq 256 step 2 4 GB\nseq 1024 step 3 5 GB\n", AXIS_CLOCK, "step"},
        {"batch 8 3 GB\nbatch 8 3 GB\nbatch 16 5 GB\n", AXIS_SIZE, "batch"},
        {"trial 1 batch 8 3 GB\ntrial 2 batch 12 4 GB\ntrial 3 batch 20 5 GB\n", AXIS_SIZE, "batch"},
        {"step 5 3 GB\nstep 5 4 GB\nstep 5 5 GB\n", AXIS_UNKNOWN, ""},
        /* an amount of work is a size unless a counter goes with it */
        {"1000 tokens 3 GB\n3000 tokens 4 GB\n4000 tokens 5 GB\n", AXIS_SIZE, "tokens"},
        {"step 1 tokens 1000 3 GB\nstep 2 tokens 3000 4 GB\nstep 3 tokens 4000 5 GB\n", AXIS_CLOCK, "step"},
        /* what is measured stands behind what is chosen */
        {"256 2 GB 10 sec\n512 4 GB 20 sec\n1024 8 GB 45 sec\n", AXIS_SIZE, "a number"},
        /* no marks */
        {"used 3 GB\nused 4 GB\nused 5 GB\n", AXIS_UNKNOWN, ""},
        {"gfx1100 0x7f00 3 GB\ngfx1100 0x7f80 4 GB\ngfx1100 0x8f00 5 GB\n", AXIS_UNKNOWN, ""},
        {"batch 8 3 %\nused 4 %\nused 5 %\n", AXIS_UNKNOWN, ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        expect(rows[i].text, follow(rows[i].text), rows[i].kind, rows[i].name);
}

static void test_one_line(void **state)
{
    static const struct {
        const char *text;
        enum axis_kind kind;
        const char *name;
    } rows[] = {
        {"batch 8 -> 12 GB, batch 16 -> 23 GB, batch 24 -> 34 GB", AXIS_SIZE, "batch"},
        {"after 1 hour 4 GB, after 2 hours 7 GB, after 3 hours 10 GB", AXIS_CLOCK, "hours"},
        {"4 ranks: 8 GB, 8 ranks: 15 GB, 16 ranks: 29 GB", AXIS_SIZE, "ranks"},
        {"3.1G 3.9G 4.7G 5.5G, same size", AXIS_UNKNOWN, ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct quantity q[QUANTITIES_MAX];
        struct mark marks[MARKS_MAX];
        struct axis_header none = {.cells = 0};
        struct text line = {rows[i].text, strlen(rows[i].text)};
        struct found f = {.kind = AXIS_UNKNOWN};
        size_t n = axis_marks(line, q, quantity_line(line, q), &none, marks);
        f.kind = axis_of_line(marks, n, &f.name);
        expect(rows[i].text, f, rows[i].kind, rows[i].name);
    }
}

/* Bytes behind the text belong to none of its numbers. */
static void test_end_of_the_text(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
        double value;
    } rows[] = {{"at 10:205", 8, 37200}, {"at 10:20:057", 11, 37205}, {"at 10:20:05.57", 13, 37205.5}, {"at 1e65", 6, 1e6}};
    static const struct axis_header none = {.cells = 0};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct mark marks[MARKS_MAX];
        assert_int_equal(axis_marks((struct text){rows[i].bytes, rows[i].len}, NULL, 0, &none, marks), 1);
        assert_true(marks[0].value > rows[i].value - 1e-6 && marks[0].value < rows[i].value + 1e-6);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lines), cmocka_unit_test(test_one_line),
                                       cmocka_unit_test(test_end_of_the_text)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
