/* SPDX-License-Identifier: Apache-2.0 */
/* The collector "hook": the files of the Python hook become facts. */
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
#include "torch_input.h"

extern const struct collector collector_hook;

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

/* The process may use only a fraction of the device: the observer gets the fraction, the message has both figures. */
static void test_fraction(void **state)
{
    (void)state;
    write_record(40, "oom.first", "5000", 1, "34359738368");
    struct collect_out *out = collected(40, 6000, COLLECT_OK);
    assert_int_equal(sink_integer(out, "oom.total_bytes"), 34359738368);
    assert_int_equal(sink_integer(out, "oom.allowed_bytes"), 17179869184);
    sink_free(out);
}

/* The thread that made the request is one of autograd's. It has no Python frames, so it is not in the list. */
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

/* The main thread continued and ended by os._exit(): the thread's exception is the cause. */
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

/* Rank 41 ran out first; rank 42 later, because of a collective. It is not known which process
 * failed. */
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

/* Memory outside of PyTorch grows by 8 MiB a second, less than PyTorch's own steps. */
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
    assert_int_equal(sink_integer(out, "torch.gap_risen_bytes"), 99 * 8 * MIB);
    assert_int_equal(sink_integer(out, "torch.gap_rises_count"), 19); /* 32 MiB are no rise: five readings of 8 are one */
    assert_int_equal(sink_integer(out, "torch.gap_largest_rise_bytes"), 40 * MIB);
    assert_in_range(sink_integer(out, "torch.gap_watched_ms"), 88000, 90000);
    sink_free(out);
    write_bytes(temp_path("run/samples.0000"), "", 0);
    out = collected(40, 0, COLLECT_OK);
    assert_non_null(sink_missing(out, "torch.gap_bytes"));
    sink_free(out);
}

/* If the driver's figure is less than PyTorch has reserved, it is a figure of something else: there is no gap. */
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

/* The driver counts both devices, so PyTorch's figures are summed: no memory grows outside of it. */
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

/* The driver is read once a second and PyTorch takes 9 GiB in that time: the gap is not known. */
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
 * Seen on an H200: within a second PyTorch freed its cache and took it again. A sample waited for
 * that second. The driver's figure was from before it, and stayed the same afterwards.
 */
static void test_gap_after_a_retry(void **state)
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

    for (uint64_t second = 61; second < 80; second++) /* from now on its memory is unknown */
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
    assert_string_equal(sink_text(out, "torch.grown_by_size"), "300.0 MiB in 1 block up to 1 GiB");
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

/* Errors that could not be written to a file are in the run's memory, or are the name of a file. Each is reported once.
 * */
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
        cmocka_unit_test_setup(test_gap_after_a_retry, fresh),
        cmocka_unit_test_setup(test_growers_of_a_run, fresh),
        cmocka_unit_test_setup(test_trouble_and_garbage, fresh),
        cmocka_unit_test_setup(test_troubles_without_a_disk, fresh),
    };
    int failed = cmocka_run_group_tests_name("hook", tests, NULL, NULL);
    temp_remove();
    return failed;
}
