/* SPDX-License-Identifier: Apache-2.0 */
/* The readers of PyTorch's snapshots, series and marks; against recordings of real PyTorch, if they are there. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/fs.h"
#include "collectors/lib/torch_snapshot.h"
#include "torch_input.h"

/* --- snapshots --- */

static void test_snapshot_of_pools_and_streams(void **state)
{
    (void)state;
    struct torch_snapshot s;
    assert_int_equal(torch_snapshot_read(two_pools, strlen(two_pools), 0, &s), 0);
    assert_int_equal(s.segments, 3);
    assert_int_equal(s.blocks, 6);
    assert_int_equal(s.reserved_bytes, 62 * MIB);
    assert_int_equal(s.used_bytes, 12 * MIB);
    assert_int_equal(s.idle_bytes, 10 * MIB); /* not the 40 MiB of the private pool */
    assert_int_equal(s.largest_idle_bytes, 6 * MIB);
    assert_int_equal(s.largest_idle_large_bytes, 6 * MIB);
    assert_int_equal(s.split_bytes, 8 * MIB);
    assert_int_equal(s.free_segment_bytes, 2 * MIB);
    assert_int_equal(s.private_bytes, 40 * MIB);
    assert_int_equal(s.private_idle_bytes, 40 * MIB);
    assert_int_equal(s.expandable_bytes, 40 * MIB);
    assert_int_equal(s.streams, 2);
    assert_int_equal(s.largest_stream_idle_bytes, 8 * MIB);
    assert_true(fabs(s.fragmentation_percent - 40.0) < 1e-9);
    assert_int_equal(s.classes[1].bytes, 12 * MIB);
    assert_int_equal(s.classes[1].blocks, 2);
    assert_string_equal(s.largest_site, "a.py:1 f < b.py:2 g");
    assert_int_equal(s.largest_site_bytes, 8 * MIB);
    assert_false(s.cut);
}

static void test_snapshot_of_another_device(void **state)
{
    (void)state;
    struct torch_snapshot s;
    assert_int_equal(torch_snapshot_read(two_pools, strlen(two_pools), 1, &s), 0);
    assert_int_equal(s.blocks, 9000);
    assert_int_equal(s.idle_bytes, 524288);
    assert_int_equal(s.largest_idle_bytes, 4096);
    assert_true(s.cut);
    assert_int_equal(torch_snapshot_read(two_pools, strlen(two_pools), -1, &s), 0);
    assert_int_equal(s.segments, 4);
}

static void test_snapshot_garbage(void **state)
{
    (void)state;
    struct torch_snapshot s;
    static const char *const bad[] = {"", "{", "5", "\"x\"", "{\"segments\":4}", "null"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(torch_snapshot_read(bad[i], strlen(bad[i]), 0, &s), -22);
    for (size_t cut = 0; cut < strlen(two_pools); cut++)
        assert_int_equal(torch_snapshot_read(two_pools, cut, 0, &s), -22);
    static const char odd[] =
        "[1,null,{\"blocks\":3},{\"total_size\":-4,\"blocks\":[{\"size\":1e300}]},"
        "{\"total_size\":\"x\",\"stream\":[],\"blocks\":[{\"state\":4}]}]";
    assert_int_equal(torch_snapshot_read(odd, strlen(odd), -1, &s), 0);
    assert_int_equal(s.reserved_bytes, 0);
    assert_int_equal(s.idle_bytes, 0);
}

static char *read_snapshot(const char *name, size_t *ret_len)
{
    char path[512];
    char *text = NULL;
    (void)snprintf(path, sizeof path, "%s/recordings/%s/snapshot.json", TEST_RECORDED_DIR, name);
    ssize_t n = fs_read_all(path, 16u << 20, &text);
    assert_true(n > 0);
    *ret_len = (size_t)n;
    return text;
}

/* Torch's own counters at that moment (oom.json of the recording). */
static void test_recorded_snapshots(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t allocated, reserved, largest_below;
    } recordings[] = {
        {"fragmentation", 84338016256, 145806589952, 20971521},
        {"leak", 149411594240, 149411594240, 1},
    };
    for (size_t i = 0; i < 2; i++) {
        size_t len = 0;
        struct torch_snapshot s;
        char *text = read_snapshot(recordings[i].name, &len);
        assert_int_equal(torch_snapshot_read(text, len, -1, &s), 0);
        free(text);
        assert_int_equal(s.used_bytes, recordings[i].allocated);
        assert_int_equal(s.reserved_bytes, recordings[i].reserved);
        assert_int_equal(s.idle_bytes, recordings[i].reserved - recordings[i].allocated);
        assert_true(s.largest_idle_bytes < recordings[i].largest_below);
    }
}

/* --- series --- */

static struct torch_growth growth_of(struct buf *b, int device)
{
    struct torch_series series;
    assert_int_equal(torch_series_read(b->data, b->len, device, &series), 0);
    struct torch_growth g = torch_series_growth(&series);
    torch_series_release(&series);
    buf_release(b);
    return g;
}

static void test_series(void **state)
{
    (void)state;
    struct torch_series series;
    static const char rows[] = "1000,0,50,60,,,,,,700,600,1,,0,0,33,,4\n"
                               "garbage\n1,2\n-5,0,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1\n"
                               "2000,1,9,9,9,9,9,9,9,9,9,9,9,9,9,450,9,9\n"
                               "500,0,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1\n"
                               "3000,,,,1,1,1,1,1,1,1,1,1,1,1,1,1,1\n"
                               "3000,0,51,61,,,,,,701,601,1,,0,0,34,,5\n"
                               "3000,1,9,8,9,9,9,9,9,9,,9,9,9,9,9,9,9\n"
                               "4000,0,52,62,,,,,,70";
    assert_int_equal(torch_series_read(rows, strlen(rows), 0, &series), 0);
    assert_int_equal(series.count, 2);
    assert_int_equal(series.points[1].time_ns, 3000);
    assert_int_equal(series.points[1].allocated, 51);
    assert_int_equal(series.points[1].freed_total, 601);
    assert_int_equal(series.points[1].small_pool, -1); /* not counted: that is not 0 */
    assert_int_equal(series.points[1].blocks, 5);
    assert_int_equal(series.slowest_us, 450);
    assert_false(torch_series_growth(&series).valid);
    torch_series_release(&series);
    assert_int_equal(torch_series_read(rows, strlen(rows), -1, &series), 0);
    assert_int_equal(series.count, 3);
    assert_int_equal(series.points[2].reserved, 69); /* both devices */
    assert_int_equal(series.points[2].freed_total, -1);
    assert_int_equal(series.points[2].blocks, 14);
    torch_series_release(&series);
}

static void test_what_most_samples_had(void **state)
{
    (void)state;
    struct torch_point points[30];
    for (size_t i = 0; i < 30; i++)
        points[i] = (struct torch_point){.time_ns = i, .allocated = (int64_t)((i * 7) % 30) * MIB};
    struct torch_series series = {.points = points, .count = 30};
    assert_int_equal(torch_series_demand(&series).usual, 27 * MIB);
    series.count = 19;
    assert_int_equal(torch_series_demand(&series).usual, -1);
}

/* Points of steps that take `low` to `low + 4 * more` MiB, in turn; `rise` MiB more at the end than at the start. */
static int64_t usual_rise(size_t count, int64_t low, int64_t more, int64_t rise, int64_t total)
{
    struct torch_point points[200];
    for (size_t i = 0; i < count; i++)
        points[i] = (struct torch_point){.time_ns = i * i, /* steps that take longer and longer */
                                         .allocated = (low + (int64_t)(i % 5) * more) * MIB + (int64_t)i * rise * MIB / (int64_t)count,
                                         .allocated_total = total < 0 ? -1 : (int64_t)i * total};
    struct torch_series series = {.points = points, .count = count};
    return torch_series_demand(&series).usual_rise;
}

static void test_rise_of_what_is_usual(void **state)
{
    (void)state;
    assert_int_equal(usual_rise(200, 1000, 100, 0, MIB), 0);
    /* 400 MiB over the run: nine tenths of that after the load */
    assert_in_range(usual_rise(200, 1000, 100, 400, MIB), 340 * MIB, 380 * MIB);
    assert_int_equal(usual_rise(200, 1000, 100, -400, MIB), 0);
    /* by the time, if PyTorch does not say what was handed out: the last points are further apart */
    assert_in_range(usual_rise(200, 1000, 100, 400, -1), 200 * MIB, 320 * MIB);
    /* two points in each part */
    assert_int_equal(usual_rise(9, 1000, 0, 90, MIB), 80 * MIB);
    assert_int_equal(usual_rise(8, 1000, 0, 90, MIB), -1);
    assert_int_equal(usual_rise(5, 1000, 0, 90, MIB), -1);
}

/* Points of steps whose spread is `early` MiB at the start and `late` at the end; the lows rise by `rise`. */
static int64_t spread_rise(size_t count, int64_t early, int64_t late, int64_t rise)
{
    struct torch_point points[400];
    for (size_t i = 0; i < count; i++) {
        int64_t share = (int64_t)((i * 7) % 10);
        int64_t spread = early + (late - early) * (int64_t)i / (int64_t)count;
        points[i] = (struct torch_point){.time_ns = i * 50000000,
                                         .allocated = (1000 + share * spread / 8 + rise * (int64_t)i / (int64_t)count) * MIB,
                                         .allocated_total = (int64_t)i * MIB};
    }
    struct torch_series series = {.points = points, .count = count};
    return torch_series_demand(&series).spread_rise;
}

static void test_rise_of_what_steps_need(void **state)
{
    (void)state;
    assert_int_equal(spread_rise(400, 800, 800, 0), 0);
    assert_in_range(spread_rise(400, 800, 800, 4000), 0, 40 * MIB); /* the same steps, lifted */
    assert_in_range(spread_rise(400, 400, 1400, 1000), 500 * MIB, 800 * MIB);
    assert_int_equal(spread_rise(400, 1400, 400, 1000), 0);
    assert_int_equal(spread_rise(26, 400, 1400, 0), -1); /* 23 after the load */
}

/* A step takes 2 GiB and frees them, except for 1 MiB. */
static void test_growth_of_a_leak_below_steps(void **state)
{
    (void)state;
    struct buf b = BUF_INIT;
    for (int i = 0; i < 400; i++)
        put_row(&b, (int64_t)i * 100000000, 0, (i % 3 == 0 ? 10 : 2000) * MIB + i * MIB);
    struct torch_growth g = growth_of(&b, 0);
    assert_true(g.valid);
    assert_int_equal(g.windows, 64);
    assert_true(g.rising_share > 0.95);
    assert_in_range(g.total / MIB, 330, 360);
    assert_true(fabs(g.slope_per_s / (double)MIB - 10) < 0.5);
}

static void test_growth_of_steps_alone(void **state)
{
    (void)state;
    struct buf b = BUF_INIT;
    for (int i = 0; i < 400; i++)
        put_row(&b, (int64_t)i * 100000000, 0, (i % 3 == 0 ? 10 : 2000) * MIB);
    struct torch_growth g = growth_of(&b, 0);
    assert_true(g.valid);
    assert_int_equal(g.total, 0);
    assert_true(g.rising_share < 0.1);
    struct buf other = BUF_INIT;
    put_row(&other, 5, 1, MIB);
    assert_false(growth_of(&other, 0).valid);
}

/* Seen on an H200: kernels are loaded for seconds, then each step keeps its graph until memory is full. */
static void test_growth_after_a_flat_start(void **state)
{
    (void)state;
    struct buf b = BUF_INIT;
    for (int i = 0; i < 98; i++) {
        long long total = 800 + (i < 32 ? 0 : (i - 32) * 4000);
        buf_printf(&b, "%lld,0,%lld,0,1,2,3,4,5,%lld,%lld,7,,0,0,40,,\n",
                   (long long)i * 100000000LL,
                   (long long)((i < 32 ? 800 : 800 + (i - 32) * 1000 + i % 3 * 300) * MIB),
                   total * MIB, (total - 800) * 3 / 4 * MIB);
    }
    struct torch_growth g = growth_of(&b, 0);
    assert_true(g.valid && g.steady);
    assert_in_range(g.windows, 16, 18);
    assert_true(g.rising_share > 0.99);
    assert_in_range(g.total / MIB, 60000, 66000);
    assert_int_equal(g.freed * 4 / 3, g.allocated); /* in that time, not in the whole run */
    assert_in_range(g.duration_ms, 6000, 7000);
}

/* Steps without growth, then a large allocation: only few windows rise, and no flat start is cut
 * off. */
static void test_flat_until_the_end(void **state)
{
    (void)state;
    struct buf b = BUF_INIT;
    for (int i = 0; i < 200; i++)
        put_row(&b, (int64_t)i * 100000000, 0, (i < 180 ? 800 : 800 + (i - 180) * 100) * MIB);
    struct torch_growth g = growth_of(&b, 0);
    assert_int_equal(g.windows, 45);
    assert_true(g.rising_share < 0.2);
}

/* A leak that begins late, after steps whose lows differ a little. */
static void test_growth_that_begins_late(void **state)
{
    (void)state;
    struct buf b = BUF_INIT;
    for (int i = 0; i < 200; i++)
        put_row(&b, (int64_t)i * 100000000, 0,
                (i < 160 ? 800 + i % 7 * 20 : 800 + (i - 160) * 100) * MIB);
    struct torch_growth g = growth_of(&b, 0);
    assert_in_range(g.windows, 8, 12);
    assert_true(g.rising_share > 0.9);
    assert_in_range(g.plateau, 800 * MIB, 940 * MIB);
}

/* `shape` gives MiB by sample; is it a steady trend? */
static bool steady_of(int (*shape)(int), int samples)
{
    struct buf b = BUF_INIT;
    for (int i = 0; i < samples; i++)
        put_row(&b, (int64_t)i * 100000000, 0, shape(i) * MIB);
    return growth_of(&b, 0).steady;
}

static int line(int i)
{
    return 100 + i / 4 + (i * 7919) % 5; /* with some noise */
}

static int step(int i)
{
    return i < 150 ? 100 : 700; /* a library is loaded */
}

static int saturating(int i)
{
    return i < 200 ? 100 + 3 * i : 700; /* a model is loaded, then it runs */
}

static int noise(int i)
{
    return 500 + (i * 7919) % 97;
}

static int wild(int i)
{
    static const int by_chance[] = {3, 90, 40, 7, 66, 12, 99, 31, 5, 78, 22, 51};
    return 500 + by_chance[(i / 6) * 5 % 12] * ((i / 6) % 3 + 1) + i / 40;
}

static int falling(int i)
{
    return 4000 - i;
}

static void test_what_is_steady(void **state)
{
    (void)state;
    assert_true(steady_of(line, 400));
    assert_true(steady_of(line, 60));
    assert_false(steady_of(line, 24)); /* too few windows */
    assert_false(steady_of(step, 400));
    assert_false(steady_of(saturating, 400));
    assert_false(steady_of(noise, 400));
    assert_false(steady_of(wild, 400));
    assert_false(steady_of(falling, 400));
}

static void test_what_stayed(void **state)
{
    (void)state;
    struct buf b = BUF_INIT;
    for (int i = 0; i < 200; i++)
        put_row(&b, (int64_t)i * 100000000, 0, (100 + 8 * i) * MIB);
    struct torch_growth g = growth_of(&b, 0);
    assert_int_equal(g.blocks, g.total / MIB); /* as many as MiB: put_row() */
    assert_int_equal(g.small_pool, g.total / 8);
}

/* --- what grew --- */

static const char marks[] = "1000,0,2,104857600,10,\n"
                            "1000,0,,62914560,6,a.py:1 f\n"
                            "1000,0,,41943040,4,b,.py:2 g\n"
                            "1000,1,4,5,1,\n"
                            "5000,0,1,2097152,1,\n"
                            "5000,0,2,209715200,20,\n"
                            "5000,0,,157286400,15,b,.py:2 g\n"
                            "5000,0,,54525952,6,a.py:1 f\n"
                            "x,0,1,1,1,\n5000,0,7,1,1,\n5000,0,,1,1,\n5000,0,1,1,1,site\n,,,,,\n"
                            "9000,0,2,524288000,50,\n9000,0,,524";

static void test_marks(void **state)
{
    (void)state;
    struct torch_live live;
    uint64_t first = 0;
    uint64_t last = 0;
    assert_true(torch_live_times(marks, strlen(marks), 0, &first, &last));
    assert_int_equal(first, 1000);
    assert_int_equal(last, 9000);
    assert_false(torch_live_times(marks, strlen(marks), 7, &first, &last));
    assert_true(torch_live_of_marks(marks, strlen(marks), 0, 8999, &live));
    assert_int_equal(live.time_ns, 5000);
    assert_int_equal(live.site_count, 2);
    assert_string_equal(live.sites[0].where, "b,.py:2 g");
    assert_int_equal(live.classes[2].blocks, 20);
    assert_int_equal(live.unlisted_bytes, 0);
    torch_live_release(&live);
    assert_true(torch_live_of_marks(marks, strlen(marks), 0, 1, &live)); /* none at that time */
    assert_int_equal(live.time_ns, 1000);
    torch_live_release(&live);
    assert_false(torch_live_of_marks(marks, strlen(marks), 7, 5000, &live));
    for (size_t cut = 0; cut < strlen(marks); cut++)
        if (torch_live_of_marks(marks, cut, 0, 5000, &live))
            torch_live_release(&live);
}

static void test_who_grew(void **state)
{
    (void)state;
    struct torch_live before;
    struct torch_live after;
    assert_true(torch_live_of_marks(marks, strlen(marks), 0, 1000, &before));
    assert_true(torch_live_of_marks(marks, strlen(marks), 0, 5000, &after));
    struct torch_grown g = torch_live_growth(&before, &after);
    assert_int_equal(g.bytes, 102 * MIB);
    assert_int_equal(g.classes[1].blocks, 1);
    assert_int_equal(g.classes[2].bytes, 100 * MIB);
    assert_string_equal(g.site, "b,.py:2 g"); /* not a.py, which shrank */
    assert_int_equal(g.site_bytes, 110 * MIB);
    assert_int_equal(g.site_blocks, 11);
    torch_live_release(&before);
    torch_live_release(&after);
}

/* A site that is not among the hundred of a mark may have existed before. */
static void test_a_site_below_the_list(void **state)
{
    (void)state;
    struct torch_live before;
    struct torch_live after;
    struct buf b = BUF_INIT;
    for (int i = 0; i < TORCH_MARK_SITES; i++)
        buf_printf(&b, "1000,0,,%d,1,t.py:%d f\n", 1000 - i, i);
    buf_puts(&b, "2000,0,,1500,1,new.py:1 f\n");
    assert_true(torch_live_of_marks(b.data, b.len, 0, 1000, &before));
    assert_true(torch_live_of_marks(b.data, b.len, 0, 2000, &after));
    assert_int_equal(torch_live_growth(&before, &after).site_bytes, 1500 - 901);
    torch_live_release(&before);
    torch_live_release(&after);
    buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_snapshot_of_pools_and_streams),
        cmocka_unit_test(test_snapshot_of_another_device),
        cmocka_unit_test(test_snapshot_garbage),
        cmocka_unit_test(test_recorded_snapshots),
        cmocka_unit_test(test_series),
        cmocka_unit_test(test_what_most_samples_had),
        cmocka_unit_test(test_rise_of_what_steps_need),
        cmocka_unit_test(test_rise_of_what_is_usual),
        cmocka_unit_test(test_growth_of_a_leak_below_steps),
        cmocka_unit_test(test_growth_of_steps_alone),
        cmocka_unit_test(test_growth_after_a_flat_start),
        cmocka_unit_test(test_flat_until_the_end),
        cmocka_unit_test(test_growth_that_begins_late),
        cmocka_unit_test(test_what_is_steady),
        cmocka_unit_test(test_what_stayed),
        cmocka_unit_test(test_marks),
        cmocka_unit_test(test_who_grew),
        cmocka_unit_test(test_a_site_below_the_list),
    };
    return cmocka_run_group_tests_name("torch", tests, NULL, NULL);
}
