/* SPDX-License-Identifier: Apache-2.0 */
/* The collector "hook" and the readers of what the Python hook writes; against recordings of real
 * PyTorch where they are at hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/fs.h"
#include "collect/collector.h"
#include "collectors/hook.h"
#include "collectors/lib/torch_snapshot.h"
#include "help.h"
#include "sink.h"

extern const struct collector collector_hook;

#define MIB ((int64_t)1 << 20)

/* --- snapshots --- */

static const char *const two_pools =
    "{\"format\":1,\"segments_omitted\":0,\"segments\":["
    "{\"device\":0,\"address\":1,\"total_size\":20971520,\"stream\":0,\"segment_type\":\"large\","
    "\"segment_pool_id\":[0,0],\"is_expandable\":false,\"blocks\":["
    "{\"size\":8388608,\"state\":\"active_allocated\",\"at\":[\"a.py:1 f\",\"b.py:2 g\"]},"
    "{\"size\":2097152,\"state\":\"inactive\"},"
    "{\"size\":4194304,\"state\":\"active_pending_free\",\"at\":[\"c.py:1 f\"]},"
    "{\"size\":6291456,\"state\":\"inactive\"}]},"
    "{\"device\":0,\"address\":2,\"total_size\":2097152,\"stream\":7,\"segment_type\":\"small\","
    "\"segment_pool_id\":[0,0],\"is_expandable\":false,\"blocks\":["
    "{\"size\":2097152,\"state\":\"inactive\"}]},"
    "{\"device\":0,\"address\":3,\"total_size\":41943040,\"stream\":0,\"segment_type\":\"large\","
    "\"segment_pool_id\":[0,1],\"is_expandable\":true,\"blocks\":["
    "{\"size\":41943040,\"state\":\"inactive\"}]},"
    "{\"device\":1,\"address\":4,\"total_size\":1048576,\"stream\":0,\"segment_type\":\"large\","
    "\"blocks_omitted\":9000,\"inactive_size\":524288,\"largest_inactive\":4096}]}";

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

/* What torch counted itself at that moment (oom.json of the recording). */
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

static void put_row(struct buf *b, int64_t t_ns, int device, int64_t allocated)
{
    buf_printf(b, "%lld,%d,%lld,%lld,1,2,3,4,5,600,300,7,,0,0,%d,%lld,%lld\n", (long long)t_ns,
               device, (long long)allocated, (long long)(allocated + 5), 40 + device,
               (long long)(allocated / 8), (long long)(allocated / MIB));
}

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
    assert_int_equal(series.points[1].small_pool, -1); /* not counted is not 0 */
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

/* A step needs 2 GiB and gives them back; 1 MiB stays each time. */
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

/* Seen on an H200: kernels are loaded for seconds, then each step keeps its graph until all is
 * full. */
static void test_growth_behind_a_flat_start(void **state)
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
    assert_int_equal(g.freed * 4 / 3, g.allocated); /* in that time, not of the whole run */
    assert_in_range(g.duration_ms, 6000, 7000);
}

/* Steps without growth, then something large: few windows rise, and nothing is cut off for them. */
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

/* A leak that begins late, behind steps whose lows are not quite the same. */
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

/* `shape` gives MiB by sample; is a line through it worth something? */
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

/* --- who grew --- */

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
    assert_true(torch_live_of_marks(marks, strlen(marks), 0, 1, &live)); /* none so early */
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

/* A site that is not among the hundred of a mark may have been there before. */
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

/* --- the collector --- */

static const char record_format[] =
    "{\"format\":1,\"t\":%s,\"pid\":%d,\"thread\":7,\"count\":%d,\"device\":1,\"requested\":"
    "6442450944,"
    "\"total\":17179869184,\"free\":4471128064,\"device_total\":%s,\"device_name\":\"NVIDIA H200\","
    "\"device_arch\":\"\",\"stats\":{\"1\":{\"num_alloc_retries\":2,\"num_ooms\":3,"
    "\"allocation\":{\"all\":{\"current\":3,\"peak\":5,\"allocated\":12,\"freed\":9}},"
    "\"allocated_bytes\":{\"all\":{\"current\":100,\"peak\":120,\"allocated\":1000,\"freed\":900}},"
    "\"reserved_bytes\":{\"all\":{\"current\":150,\"peak\":160,\"allocated\":160,\"freed\":10}}}},"
    "\"stacks\":[{\"thread\":7,\"current\":true,\"frames\":"
    "[[\"a.py\",3,\"step\"],[\"a.py\",30,\"<module>\"]]},"
    "{\"thread\":8,\"current\":false,\"frames\":[[\"b.py\",9,\"loa\\nder\"]]}]}\n";

static struct collect_ctx context_of(int64_t failed_pid, uint64_t end_ns)
{
    static const char *const nothing[] = {NULL};
    return (struct collect_ctx){.run_dir = temp_path("run"),
                                .failed_pid = failed_pid,
                                .argv = nothing,
                                .cwd = "/",
                                .maps = "",
                                .fds = "",
                                .environ_at_impact = nothing,
                                .start_mono_ns = 1000,
                                .end_mono_ns = end_ns};
}

static void write_record(int pid, const char *what, const char *time_ns, int count,
                         const char *device_total)
{
    char text[2048];
    (void)snprintf(text, sizeof text, record_format, time_ns, pid, count, device_total);
    write_text(temp_path("run/hook/%d.%s.json", pid, what), text);
}

static struct collect_out *collected(int64_t failed_pid, uint64_t end_ns, enum collect_status want)
{
    struct collect_out *out = sink_new();
    struct collect_ctx ctx = context_of(failed_pid, end_ns);
    assert_int_equal(collector_hook.run(&ctx, out), want);
    return out;
}

static int fresh(void **state)
{
    (void)state;
    temp_remove();
    (void)temp_path("run/hook/x");
    return 0;
}

static void test_nothing_written(void **state)
{
    (void)state;
    temp_remove();
    struct collect_out *out = collected(5, 0, COLLECT_SKIPPED);
    assert_non_null(strstr(out->reason, "no Python with the hook"));
    sink_free(out);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    write_record(40, "oom.first", "5000", 1, "17179869184");
    write_text(temp_path("run/hook/40.snapshot.first.json"), two_pools);
    write_text(temp_path("run/hook/40.torch.csv"), "2000,1,50,60,,,,,,700,600,1,,0,0,33,,\n");
    struct collect_out *out = collected(40, 6000, COLLECT_OK);
    assert_int_equal(sink_integer(out, "oom.requested_bytes"), 6442450944);
    assert_int_equal(sink_integer(out, "oom.total_bytes"), 17179869184);
    assert_int_equal(sink_integer(out, "oom.device"), 1);
    assert_int_equal(sink_integer(out, "oom.reserved_unallocated_bytes"), 50);
    assert_int_equal(sink_integer(out, "torch.allocated_bytes"), 100);
    assert_int_equal(sink_integer(out, "torch.freed_total_bytes"), 900);
    assert_int_equal(sink_integer(out, "torch.allocations_count"), 12);
    assert_int_equal(sink_integer(out, "torch.frees_count"), 9);
    assert_string_equal(sink_text(out, "torch.oom_functions"), "step < <module>");
    assert_int_equal(sink_integer(out, "torch.retries_count"), 2);
    assert_int_equal(sink_integer(out, "torch.inactive_bytes"), 524288);
    assert_int_equal(sink_integer(out, "vendor.nvidia"), 1);
    assert_int_equal(sink_integer(out, "oom.allowed_bytes"), INT64_MIN);
    assert_non_null(strstr(sink_file(out, "stacks.txt"), "File \"b.py\", line 9, in loa?der"));
    assert_non_null(strstr(sink_file(out, "torch-stats.csv"), "\n0.000001,1,50,60,"));
    sink_free(out);
}

/* A fraction of the device was allowed: the observer is told that, the message says both. */
static void test_fraction(void **state)
{
    (void)state;
    write_record(40, "oom.first", "5000", 1, "34359738368");
    struct collect_out *out = collected(40, 6000, COLLECT_OK);
    assert_int_equal(sink_integer(out, "oom.total_bytes"), 34359738368);
    assert_int_equal(sink_integer(out, "oom.allowed_bytes"), 17179869184);
    sink_free(out);
}

/* The thread that asked is autograd's own, and has no frames of Python: it is not among them. */
static void test_asked_by_a_thread_of_autograd(void **state)
{
    (void)state;
    char text[2048];
    (void)snprintf(text, sizeof text, record_format, "5000", 40, 1, "17179869184");
    char *current = strstr(text, "\"current\":true");
    assert_non_null(current);
    (void)memcpy(current, "\"current\":null", sizeof "\"current\":null" - 1);
    write_text(temp_path("run/hook/40.oom.first.json"), text);
    struct collect_out *out = collected(40, 6000, COLLECT_OK);
    assert_string_equal(sink_text(out, "torch.oom_functions"), "step < <module>");
    sink_free(out);
}

static void test_handled_long_ago(void **state)
{
    (void)state;
    write_record(40, "oom.first", "5000", 1, "17179869184");
    struct collect_out *out = collected(40, 5000 + UINT64_C(31000000000), COLLECT_OK);
    assert_int_equal(sink_integer(out, "oom.seen"), INT64_MIN);
    assert_int_equal(sink_integer(out, "torch.ooms_count"), 1);
    sink_free(out);
}

static void test_exception_decides(void **state)
{
    (void)state;
    static const struct {
        const char *type, *message;
        bool cause;
    } cases[] = {{"torch.OutOfMemoryError", "x", true},
                 {"RuntimeError", "HIP error: out of memory", true},
                 {"AssertionError", "shape", false}};
    for (size_t i = 0; i < 3; i++) {
        char text[512];
        (void)snprintf(text, sizeof text,
                       "{\"t\":5500,\"pid\":40,\"what\":\"exception\",\"chain\":[{\"type\":\"%s\","
                       "\"message\":\"%s\",\"frames\":[[\"t.py\",4,\"f\"]]}]}\n{\"t\":5600,\"pi",
                       cases[i].type, cases[i].message);
        write_text(temp_path("run/hook/events"), text);
        write_record(40, "oom.first", "5000", 1, "17179869184");
        struct collect_out *out = collected(40, 6000, COLLECT_OK);
        assert_int_equal(sink_integer(out, "oom.seen"), cases[i].cause ? 1 : INT64_MIN);
        assert_string_equal(sink_text(out, "hook.exception_type"), cases[i].type);
        assert_non_null(strstr(sink_file(out, "exception.txt"), "File \"t.py\", line 4, in f"));
        sink_free(out);
    }
}

/* The main thread went on and left by os._exit(): the thread's exception tells. */
static void test_exception_of_a_thread(void **state)
{
    (void)state;
    write_text(
        temp_path("run/hook/events"),
        "{\"t\":5500,\"pid\":40,\"what\":\"thread exception\",\"thread\":\"loader\","
        "\"chain\":[{\"type\":\"torch.OutOfMemoryError\",\"message\":\"x\",\"frames\":[]}]}\n");
    write_record(40, "oom.first", "5000", 1, "17179869184");
    struct collect_out *out = collected(40, 5000 + UINT64_C(90000000000), COLLECT_OK);
    assert_int_equal(sink_integer(out, "oom.seen"), 1);
    assert_string_equal(sink_text(out, "hook.exception_thread"), "loader");
    sink_free(out);
}

/* Rank 41 ran out first; rank 42, told of it by a collective, later. Nobody knows who failed. */
static void test_first_of_several(void **state)
{
    (void)state;
    write_record(42, "oom.first", "7000", 1, "17179869184");
    write_record(41, "oom.first", "6000", 1, "17179869184");
    write_text(temp_path("run/hook/39.torch.csv"), "2000,1,50,60,,,,,,700,600,1,,0,0,33,,\n");
    struct collect_out *out = collected(0, 0, COLLECT_OK);
    assert_int_equal(sink_integer(out, "hook.torch_pid"), 41);
    assert_true(strlen(sink_file(out, "torch-stats.39.csv")) > 0);
    sink_free(out);
    out = collected(42, 0, COLLECT_OK);
    assert_int_equal(sink_integer(out, "hook.torch_pid"), 42);
    sink_free(out);
    out = collected(39, 0, COLLECT_OK); /* the launcher */
    assert_int_equal(sink_integer(out, "hook.torch_pid"), 41);
    sink_free(out);
}

static void test_last_record_counts(void **state)
{
    (void)state;
    write_record(40, "oom.first", "5000", 1, "17179869184");
    write_record(40, "oom.last", "5900", 9, "17179869184");
    struct collect_out *out = collected(40, 6000, COLLECT_OK);
    assert_int_equal(sink_integer(out, "torch.ooms_count"), 9);
    sink_free(out);
}

/* What is taken beside PyTorch grows by 8 MiB a second, below PyTorch's own steps. */
static void test_gap_to_the_driver(void **state)
{
    (void)state;
    static unsigned char records[64 * 1024];
    size_t len = 0;
    struct buf csv = BUF_INIT;
    for (uint64_t i = 0; i < 100; i++) {
        uint64_t time_ns = 2000 + i * 1000000000;
        int64_t reserved = (i % 2 == 0 ? 100 : 900) * MIB;
        struct help_value value = {METRIC_PROC_KFD_VRAM, 40, VALUE_OK,
                                   (uint64_t)(reserved + 500 * MIB + (int64_t)i * 8 * MIB)};
        len += help_record(records + len, time_ns, 0, &value, 1);
        put_row(&csv, (int64_t)time_ns + 5, 0, reserved - 5);
    }
    write_bytes(temp_path("run/samples.0000"), records, len);
    write_text(temp_path("run/hook/40.torch.csv"), csv.data);
    buf_release(&csv);
    struct collect_out *out = collected(40, 0, COLLECT_OK);
    assert_int_equal(sink_integer(out, "torch.gap_bytes"), (500 + 99 * 8) * MIB);
    assert_in_range(sink_integer(out, "torch.gap_slope_bytes_per_s") / 1000, 8300, 8500);
    assert_in_range(sink_integer(out, "torch.gap_growth_bytes") / MIB, 650, 720);
    assert_int_equal(sink_integer(out, "torch.gap_steady"), 1);
    assert_in_range(sink_integer(out, "torch.gap_watched_ms"), 88000, 90000);
    sink_free(out);
    write_bytes(temp_path("run/samples.0000"), "", 0);
    out = collected(40, 0, COLLECT_OK);
    assert_non_null(sink_missing(out, "torch.gap_bytes"));
    sink_free(out);
}

/* A driver that counts less than PyTorch has reserved counts something else: there is no gap. */
static void test_gap_below_zero(void **state)
{
    (void)state;
    static unsigned char records[8 * 1024];
    size_t len = 0;
    struct buf csv = BUF_INIT;
    for (uint64_t i = 0; i < 20; i++) {
        uint64_t time_ns = 2000 + i * 1000000000;
        struct help_value value = {METRIC_PROC_KFD_VRAM, 40, VALUE_OK, (uint64_t)(450 * MIB)};
        len += help_record(records + len, time_ns, 0, &value, 1);
        put_row(&csv, (int64_t)time_ns + 5, 0, 500 * MIB);
    }
    write_bytes(temp_path("run/samples.0000"), records, len);
    write_text(temp_path("run/hook/40.torch.csv"), csv.data);
    buf_release(&csv);
    struct collect_out *out = collected(40, 0, COLLECT_OK);
    assert_non_null(sink_missing(out, "torch.gap_bytes"));
    sink_free(out);
}

/* The driver counts both devices, so PyTorch's are summed up: nothing grows beside it. */
static void test_gap_of_two_devices(void **state)
{
    (void)state;
    static unsigned char records[64 * 1024];
    size_t len = 0;
    struct buf csv = BUF_INIT;
    for (uint64_t i = 0; i < 100; i++) {
        uint64_t time_ns = 2000 + i * 1000000000;
        struct help_value value = {METRIC_PROC_KFD_VRAM, 40, VALUE_OK,
                                   (uint64_t)(700 * MIB + (int64_t)i * 8 * MIB)};
        len += help_record(records + len, time_ns, 0, &value, 1);
        put_row(&csv, (int64_t)time_ns + 5, 0, 100 * MIB);
        put_row(&csv, (int64_t)time_ns + 5, 1, (100 + (int64_t)i * 8) * MIB);
    }
    write_bytes(temp_path("run/samples.0000"), records, len);
    write_text(temp_path("run/hook/40.torch.csv"), csv.data);
    buf_release(&csv);
    struct collect_out *out = collected(40, 0, COLLECT_OK);
    assert_int_equal(sink_integer(out, "torch.gap_bytes"), 500 * MIB - 10);
    assert_int_equal(sink_integer(out, "torch.gap_steady"), 0);
    sink_free(out);
}

/* The driver is read once a second and PyTorch takes 9 GiB in that time: nothing can be said. */
static void test_gap_of_old_readings(void **state)
{
    (void)state;
    static unsigned char records[64 * 1024];
    size_t len = 0;
    struct buf csv = BUF_INIT;
    for (uint64_t i = 0; i < 200; i++) {
        uint64_t time_ns = 2000 + i * 100000000;
        int64_t reserved = (int64_t)(100 + i * 900) * MIB;
        struct help_value value = {METRIC_PROC_KFD_VRAM, 40, VALUE_OK,
                                   (uint64_t)(reserved + 5000 * MIB)};
        if (i % 10 == 5)
            len += help_record(records + len, time_ns + 40000000, 0, &value, 1);
        put_row(&csv, (int64_t)time_ns, 0, reserved - 5);
    }
    write_bytes(temp_path("run/samples.0000"), records, len);
    write_text(temp_path("run/hook/40.torch.csv"), csv.data);
    buf_release(&csv);
    struct collect_out *out = collected(40, 0, COLLECT_OK);
    assert_non_null(strstr(sink_missing(out, "torch.gap_bytes"), "too seldom"));
    sink_free(out);
}

static void put_sample(struct buf *csv, uint64_t second, int64_t reserved, int took_us)
{
    buf_printf(csv, "%llu,0,1,%lld,1,2,3,4,5,600,300,7,,0,0,%d,,\n",
               (unsigned long long)(second * 1000000000), (long long)reserved, took_us);
}

/*
 * Seen on an H200: PyTorch gave its cache back and took it again in a second, a sample waited for
 * that second, and the driver's figure, which then stayed the same, was of before it.
 */
static void test_gap_behind_a_retry(void **state)
{
    (void)state;
    static unsigned char records[4 * 1024];
    static const struct {
        uint64_t time_ms, mib;
    } readings[] = {{0, 1300}, {9990, 1310}, {12000, 1200}};
    size_t len = 0;
    struct buf csv = BUF_INIT;
    for (size_t i = 0; i < sizeof readings / sizeof readings[0]; i++) {
        struct help_value value = {METRIC_PROC_KFD_VRAM, 40, VALUE_OK, readings[i].mib << 20};
        len += help_record(records + len, 1 + readings[i].time_ms * 1000000, 0, &value, 1);
    }
    for (uint64_t second = 1; second <= 60; second++) {
        if (second == 10)
            put_sample(&csv, second, 300 * MIB, 872150);
        else if (second < 10 || second > 20)
            put_sample(&csv, second, (second < 10 ? 1000 : 900) * MIB, 50);
    }
    write_bytes(temp_path("run/samples.0000"), records, len);
    write_text(temp_path("run/hook/40.torch.csv"), csv.data);
    struct collect_out *out = collected(40, 0, COLLECT_OK);
    assert_int_equal(sink_integer(out, "torch.gap_bytes"), 300 * MIB);
    assert_in_range(sink_integer(out, "torch.gap_growth_bytes") + MIB, 0, 2 * MIB);
    sink_free(out);

    for (uint64_t second = 61; second < 80; second++) /* and now nothing is known of it any more */
        put_sample(&csv, second, (900 - 10 * ((int64_t)second - 60)) * MIB, 50);
    write_text(temp_path("run/hook/40.torch.csv"), csv.data);
    buf_release(&csv);
    out = collected(40, 0, COLLECT_OK);
    assert_non_null(strstr(sink_missing(out, "torch.gap_bytes"), "too seldom"));
    sink_free(out);
}

static void test_growers_of_a_run(void **state)
{
    (void)state;
    write_text(temp_path("run/hook/40.live.csv"), "2000,1,2,104857600,10,\n"
                                                  "2000,1,,104857600,10,a.py:1 f\n"
                                                  "4000,1,2,209715200,20,\n"
                                                  "4000,1,,209715200,20,a.py:1 f\n");
    write_text(temp_path("run/hook/40.torch.csv"), "2000,1,50,60,,,,70,80,700,600,1,,0,0,33,,\n");
    write_text(temp_path("run/hook/events"),
               "{\"t\":1500,\"pid\":40,\"what\":\"device\",\"steps\":[],"
               "\"allocated_bytes\":[\"\",0],\"reserved_bytes\":[5,6]}\n");
    struct collect_out *out = collected(40, 0, COLLECT_OK); /* killed: two marks of device 1 */
    assert_int_equal(sink_integer(out, "torch.grown_bytes"), 100 * MIB);
    assert_int_equal(sink_integer(out, "torch.grown_site_blocks_count"), 10);
    assert_int_equal(sink_at(out, "torch.allocated_bytes", FACT_PEAK), 70);
    sink_free(out);
    write_record(40, "oom.first", "10000", 1, "17179869184");
    write_text(temp_path("run/hook/40.snapshot.first.json"),
               "{\"segments\":[{\"device\":1,\"total_size\":419430400,\"blocks\":["
               "{\"size\":314572800,\"state\":\"active_allocated\",\"at\":[\"a.py:1 f\"]}]}]}");
    out = collected(40, 0, COLLECT_OK);
    assert_int_equal(sink_integer(out, "torch.grown_bytes"), 100 * MIB);
    assert_string_equal(sink_text(out, "torch.grown_by_size"), "300 MiB in 1 blocks up to 1 GiB");
    assert_string_equal(sink_text(out, "torch.grown_site"), "a.py:1 f");
    assert_int_equal(sink_integer(out, "torch.grown_ms"), 0); /* 6 us */
    assert_non_null(strstr(sink_file(out, "live.csv"), "\n0.000001,1,2,104857600,10,\n"));
    assert_int_equal(sink_at(out, "torch.allocated_bytes", FACT_PEAK), 120); /* the record's */
    assert_int_equal(sink_at(out, "torch.reserved_bytes", FACT_PEAK), 160);
    assert_int_equal(sink_at(out, "torch.allocated_bytes", FACT_BASELINE), 0);
    assert_int_equal(sink_at(out, "torch.reserved_bytes", FACT_BASELINE), 6);
    sink_free(out);
}

static void test_trouble_and_garbage(void **state)
{
    (void)state;
    write_text(temp_path("run/hook/events"), "{}\n[]\n5\nnot json\n"
                                             "{\"t\":1,\"pid\":40,\"what\":\"trouble\",\"where\":"
                                             "\"observe\",\"error\":\"AttributeError\"}\n");
    write_text(temp_path("run/hook/40.oom.first.json"), "{\"device\":");
    write_text(temp_path("run/hook/40.snapshot.first.json"), "[[[[");
    write_text(temp_path("run/hook/40.torch.csv"), "\n\n,,,\n");
    write_text(temp_path("run/hook/-3.torch.csv"), "x");
    write_text(temp_path("run/hook/99999999999999999999.oom.first.json"), "{}");
    struct collect_out *out = collected(40, 6000, COLLECT_PARTIAL);
    assert_string_equal(out->reason, "observe: AttributeError");
    assert_int_equal(sink_integer(out, "torch.allocated_bytes"), INT64_MIN);
    sink_free(out);
}

/* Of what could not be written: in the run's memory, or as a file's name. Each once. */
static void test_troubles_without_a_disk(void **state)
{
    (void)state;
    write_text(temp_path("run/hook/events"),
               "{\"what\":\"trouble\",\"where\":\"samples end\",\"error\":\"OSError: x\"}\n"
               "{\"what\":\"trouble\",\"where\":\"samples end\",\"error\":\"OSError: x\"}\n");
    write_text(temp_path("run/hook/40.trouble.snapshot: OSError: Too many open files"), "");
    write_text(temp_path("run/hook/x.trouble.y"), "");
    struct collect_out *out = sink_new();
    struct collect_ctx ctx = context_of(40, 6000);
    ctx.hook_trouble = "41 exception: OSError: full";
    assert_int_equal(collector_hook.run(&ctx, out), COLLECT_PARTIAL);
    assert_string_equal(out->reason, "samples end: OSError: x; snapshot: OSError: Too many open files; "
                                     "41 exception: OSError: full");
    sink_free(out);
    temp_remove();
    out = sink_new();
    assert_int_equal(collector_hook.run(&ctx, out), COLLECT_FAILED);
    assert_string_equal(out->reason, ctx.hook_trouble);
    sink_free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_snapshot_of_pools_and_streams),
        cmocka_unit_test(test_snapshot_of_another_device),
        cmocka_unit_test(test_snapshot_garbage),
        cmocka_unit_test(test_recorded_snapshots),
        cmocka_unit_test(test_series),
        cmocka_unit_test(test_growth_of_a_leak_below_steps),
        cmocka_unit_test(test_growth_of_steps_alone),
        cmocka_unit_test(test_growth_behind_a_flat_start),
        cmocka_unit_test(test_flat_until_the_end),
        cmocka_unit_test(test_growth_that_begins_late),
        cmocka_unit_test(test_what_is_steady),
        cmocka_unit_test(test_what_stayed),
        cmocka_unit_test(test_marks),
        cmocka_unit_test(test_who_grew),
        cmocka_unit_test(test_a_site_below_the_list),
        cmocka_unit_test(test_nothing_written),
        cmocka_unit_test_setup(test_out_of_memory, fresh),
        cmocka_unit_test_setup(test_fraction, fresh),
        cmocka_unit_test_setup(test_asked_by_a_thread_of_autograd, fresh),
        cmocka_unit_test_setup(test_handled_long_ago, fresh),
        cmocka_unit_test_setup(test_exception_decides, fresh),
        cmocka_unit_test_setup(test_exception_of_a_thread, fresh),
        cmocka_unit_test_setup(test_first_of_several, fresh),
        cmocka_unit_test_setup(test_last_record_counts, fresh),
        cmocka_unit_test_setup(test_gap_to_the_driver, fresh),
        cmocka_unit_test_setup(test_gap_below_zero, fresh),
        cmocka_unit_test_setup(test_gap_of_two_devices, fresh),
        cmocka_unit_test_setup(test_gap_of_old_readings, fresh),
        cmocka_unit_test_setup(test_gap_behind_a_retry, fresh),
        cmocka_unit_test_setup(test_growers_of_a_run, fresh),
        cmocka_unit_test_setup(test_trouble_and_garbage, fresh),
        cmocka_unit_test_setup(test_troubles_without_a_disk, fresh),
    };
    int failed = cmocka_run_group_tests_name("hook", tests, NULL, NULL);
    temp_remove();
    return failed;
}
