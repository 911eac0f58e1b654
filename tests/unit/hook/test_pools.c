/* SPDX-License-Identifier: Apache-2.0 */
/* The Python hook's files about JAX, TensorFlow, CuPy and ONNX Runtime, through the collector "hook". */
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
#include "sink.h"

extern const struct collector collector_hook;

static const char *const dir = "run";

static int set_up(void **state)
{
    (void)state;
    temp_remove();
    (void)temp_path("run/hook/x");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    temp_remove();
    return 0;
}

static void put(const char *folder, const char *name, const char *text)
{
    write_text(temp_path("%s/%s", folder, name), text);
}

static char *fixture(const char *name)
{
    char path[512];
    char *text = NULL;
    (void)snprintf(path, sizeof path, "%s/%s", FIXTURES, name);
    assert_true(fs_read_all(path, 1 << 20, &text) > 0);
    return text;
}

static struct collect_out *collect(int32_t failed_pid, enum collect_status want)
{
    struct collect_ctx ctx = {.run_dir = temp_path("%s", dir),
                              .failed_pid = failed_pid,
                              .start_mono_ns = 1000000000,
                              .end_mono_ns = 90000000000,
                              .maps = ""};
    struct collect_out *out = sink_new();
    assert_int_equal(collector_hook.run(&ctx, out), want);
    return out;
}

#define RECORD                                                                                     \
    "{\"format\":1,\"t\":80,\"pid\":7,\"framework\":\"jax\",\"platforms\":\"rocm,cpu\","           \
    "\"devices\":2,\"kind\":\"AMD Instinct MI300X\",\"stats\":{"                                   \
    "\"0\":{\"bytes_in_use\":100,\"peak_bytes_in_use\":150,\"bytes_limit\":1000},"                 \
    "\"1\":{\"bytes_in_use\":700,\"peak_bytes_in_use\":900,\"bytes_limit\":1000,"                  \
    "\"largest_alloc_size\":300,\"num_allocs\":12,\"pool_bytes\":1000,"                            \
    "\"largest_free_block_bytes\":64}},"                                                           \
    "\"stacks\":[{\"thread\":1,\"current\":true,\"frames\":[[\"train.py\",9,\"step\"]]}]}\n"

static void test_record(void **state)
{
    (void)state;
    put(dir, "hook/7.jax.json", RECORD);
    put(dir, "hook/events",
               "{\"t\":1,\"pid\":7,\"what\":\"jax backend\",\"platform\":\"rocm\"}\n"
               "{\"t\":1,\"pid\":7,\"what\":\"jax backend\",\"platform\":\"cpu\"}\n"
               "{\"t\":1,\"pid\":9,\"what\":\"jax backend\",\"platform\":\"tpu\"}\n");
    struct collect_out *out = collect(7, COLLECT_OK);
    assert_int_equal(sink_at(out, "jax.in_use_bytes", FACT_IMPACT), 700);
    assert_int_equal(sink_at(out, "jax.in_use_bytes", FACT_PEAK), 900);
    assert_int_equal(sink_integer(out, "jax.limit_bytes"), 1000);
    assert_int_equal(sink_integer(out, "jax.pool_bytes"), 1000);
    assert_int_equal(sink_integer(out, "jax.largest_allocation_bytes"), 300);
    assert_int_equal(sink_integer(out, "jax.allocations_count"), 12);
    assert_int_equal(sink_integer(out, "jax.largest_free_bytes"), 64);
    assert_int_equal(sink_integer(out, "jax.device"), 1);
    assert_int_equal(sink_integer(out, "jax.devices_count"), 2);
    assert_string_equal(sink_text(out, "jax.device_kind"), "AMD Instinct MI300X");
    assert_string_equal(sink_text(out, "jax.platforms"), "rocm,cpu");
    assert_int_equal(sink_integer(out, "vendor.amd"), 1);
    assert_int_equal(sink_integer(out, "vendor.nvidia"), INT64_MIN);
    assert_non_null(strstr(sink_file(out, "jax-stacks.txt"), "File \"train.py\", line 9, in step"));
    assert_true(strlen(sink_file(out, "jax-exit.json")) > 0);
    sink_free(out);
}

/* A figure that this build does not count is absent, not 0. */
static void test_absent(void **state)
{
    (void)state;
    put(dir, "hook/7.jax.json",
               "{\"stats\":{\"0\":{\"bytes_in_use\":100,\"bytes_limit\":null,\"num_allocs\":\"many\","
               "\"largest_free_block_bytes\":0}}}");
    struct collect_out *out = collect(7, COLLECT_OK);
    assert_int_equal(sink_integer(out, "jax.in_use_bytes"), 100);
    assert_int_equal(sink_at(out, "jax.in_use_bytes", FACT_PEAK), INT64_MIN);
    assert_int_equal(sink_integer(out, "jax.limit_bytes"), INT64_MIN);
    assert_int_equal(sink_integer(out, "jax.allocations_count"), INT64_MIN);
    assert_int_equal(sink_integer(out, "jax.largest_free_bytes"), INT64_MIN); /* 0: not kept */
    assert_null(sink_text(out, "jax.platforms"));
    sink_free(out);
}

/* Device 1 grows step by step; device 0 does not. */
static char *growing(int rows, int64_t step)
{
    struct buf csv = BUF_INIT;
    for (int i = 0; i < rows; i++) {
        long long t = 2000000000LL + i * 100000000LL;
        buf_printf(&csv, "%lld,0,50,60,1000,,,,,3\n", t);
        buf_printf(&csv, "%lld,1,%lld,,1000000,10,%d,1000000,,3\n", t, 100 + (long long)(i * step),
                   5 + i);
    }
    buf_puts(&csv, "9000000000000,1,12"); /* torn */
    return csv.data;
}

static void test_series(void **state)
{
    (void)state;
    char *csv = growing(100, 10);
    put(dir, "hook/7.jax.csv", csv);
    struct collect_out *out = collect(0, COLLECT_OK);
    assert_int_equal(sink_integer(out, "jax.in_use_bytes"), 1090);
    assert_int_equal(sink_integer(out, "jax.limit_bytes"), 1000000);
    assert_int_equal(sink_integer(out, "jax.device"), 1);
    assert_int_equal(sink_at(out, "jax.in_use_bytes", FACT_PEAK), INT64_MIN);
    assert_int_equal(sink_integer(out, "jax.growth.rising_share_percent"), 100);
    assert_true(sink_integer(out, "f.growth.total_bytes") > 500);
    const char *text = sink_file(out, "jax-stats.csv");
    assert_memory_equal(text, "time_s,device,in_use_bytes,", 27);
    assert_non_null(strstr(text, "\n1.000000,1,100,,1000000,10,5,1000000,,3\n"));
    assert_null(strstr(text, ",1,12\n"));
    sink_free(out);
    free(csv);
}

/* Recorded on an H200 (JAX 0.11.2, XLA_PYTHON_CLIENT_PREALLOCATE=false): each step of 0.05 s keeps
 * 0.35 GiB of 2.45, then XLA waits for 10 s, in which nothing grows. */
static void test_recorded_leak(void **state)
{
    (void)state;
    char *csv = fixture("jax_leak.csv");
    put(dir, "hook/7.jax.csv", csv);
    struct collect_out *out = collect(7, COLLECT_OK);
    assert_true(sink_integer(out, "jax.growth.samples") >= 20);
    assert_true(sink_integer(out, "jax.growth.rising_share_percent") >= 90);
    assert_true(sink_integer(out, "jax.growth.duration_ms") < 24000);
    assert_true(sink_integer(out, "jax.growth.total_bytes") > 90LL << 30);
    int64_t allocated = sink_integer(out, "jax.allocated_seen_bytes");
    int64_t freed = sink_integer(out, "jax.freed_seen_bytes");
    /* 256 bytes went after the last allocation */
    assert_int_equal(allocated - freed, sink_at(out, "jax.in_use_bytes", FACT_IMPACT) + 256);
    assert_true(freed >= allocated / 2);
    assert_true(allocated < 2493LL << 30); /* num_allocs, none larger than 2.1 GiB */
    assert_int_equal(sink_at(out, "jax.pool_bytes", FACT_BASELINE), 2097152);
    assert_int_equal(sink_at(out, "jax.pool_bytes", FACT_IMPACT), 112583507968);
    sink_free(out);
    free(csv);
}

/* The same card: layers are loaded until the pool is full, and nothing is freed. */
static void test_recorded_load(void **state)
{
    (void)state;
    char *csv = fixture("jax_load.csv");
    put(dir, "hook/7.jax.csv", csv);
    struct collect_out *out = collect(7, COLLECT_OK);
    int64_t allocated = sink_integer(out, "jax.allocated_seen_bytes");
    assert_true(allocated >= 108830724864);
    assert_true(sink_integer(out, "jax.freed_seen_bytes") < allocated / 20);
    sink_free(out);
    free(csv);
}

/* The peak shows what happened between two rows. */
static void test_turnover(void **state)
{
    static const char *const rows = "2000000000,0,100,100,1000,,1,,,3\n"
                                    "2100000000,0,140,160,1000,,4,,,3\n"  /* +60 -20 */
                                    "2200000000,0,130,160,1000,,6,,,3\n"  /* -10 */
                                    "2300000000,0,130,250,1000,,8,,,3\n"; /* +120 -120 */
    (void)state;
    put(dir, "hook/7.jax.csv", rows);
    struct collect_out *out = collect(7, COLLECT_OK);
    assert_int_equal(sink_integer(out, "jax.allocated_seen_bytes"), 100 + 60 + 120);
    assert_int_equal(sink_integer(out, "jax.freed_seen_bytes"), 20 + 10 + 120);
    assert_int_equal(sink_at(out, "jax.pool_bytes", FACT_BASELINE), INT64_MIN);
    sink_free(out);
}

/* Arrays that go after a refusal, because the exception lets go of them, are nothing that the program gave back. */
static void test_what_goes_at_the_end(void **state)
{
    static const char *const rows = "2000000000,0,100,100,1000,,1,,,3\n"
                                    "2100000000,0,80,120,1000,,2,,,3\n" /* +20 -40 */
                                    "2200000000,0,900,900,1000,,9,,,3\n"
                                    "2300000000,0,900,900,1000,,9,,,3\n"
                                    "2400000000,0,0,900,1000,,9,,,3\n";
    (void)state;
    put(dir, "hook/7.jax.csv", rows);
    struct collect_out *out = collect(7, COLLECT_OK);
    assert_int_equal(sink_integer(out, "jax.allocated_seen_bytes"), 100 + 20 + 820);
    assert_int_equal(sink_integer(out, "jax.freed_seen_bytes"), 40);
    sink_free(out);
}

/* A program that goes on for long without allocating has not been waiting for memory. */
static void test_wait(void **state)
{
    (void)state;
    for (int quiet_rows = 100; quiet_rows <= 140; quiet_rows += 40) {
        struct buf csv = BUF_INIT;
        for (int i = 0; i < 100 + quiet_rows; i++)
            buf_printf(&csv, "%lld,0,%d,,1000000,10,%d,1000000,,3\n",
                       2000000000LL + i * 100000000LL, 100 + (i < 100 ? i : 99), i < 100 ? i : 99);
        put(dir, "hook/7.jax.csv", csv.data);
        struct collect_out *out = collect(7, COLLECT_OK);
        int64_t rising = sink_integer(out, "jax.growth.rising_share_percent");
        assert_true(quiet_rows == 100 ? rising == 100 : rising < 60);
        sink_free(out);
        buf_release(&csv);
    }
}

/* Constant memory has no growth. */
static void test_steady(void **state)
{
    (void)state;
    char *csv = growing(100, 0);
    put(dir, "hook/7.jax.csv", csv);
    struct collect_out *out = collect(7, COLLECT_OK);
    assert_int_equal(sink_integer(out, "jax.growth.total_bytes"), 0);
    assert_int_equal(sink_integer(out, "f.growth.total_bytes"), INT64_MIN);
    sink_free(out);
    free(csv);
}

/* The series is read for the record's device. */
static void test_record_and_series(void **state)
{
    (void)state;
    char *csv = growing(100, 10);
    put(dir, "hook/7.jax.csv", csv);
    put(dir, "hook/7.jax.json",
               "{\"stats\":{\"0\":{\"bytes_in_use\":7777},\"1\":{\"bytes_in_use\":5}}}");
    struct collect_out *out = collect(7, COLLECT_OK);
    assert_int_equal(sink_integer(out, "jax.in_use_bytes"), 7777);
    assert_int_equal(sink_integer(out, "jax.device"), 0);
    assert_int_equal(sink_integer(out, "jax.growth.total_bytes"), 0);
    sink_free(out);
    free(csv);
}

#define REFUSED                                                                                    \
    "{\"format\":1,\"pid\":7,\"framework\":\"cupy\",\"devices\":2,\"allocator\":\"MemoryPool\","     \
    "\"stats\":{\"0\":{\"bytes_in_use\":900,\"pool_bytes\":950},"                                  \
    "\"1\":{\"bytes_in_use\":400,\"pool_bytes\":800,\"bytes_limit\":1000}},"                         \
    "\"refused\":{\"t\":60000000000,\"requested\":300,\"pool_bytes\":800,\"limit\":1000,"            \
    "\"device\":1,\"count\":3},\"stacks\":[]}\n"

static const char out_of_memory[] =
    "{\"t\":61,\"pid\":7,\"what\":\"exception\",\"chain\":[{\"type\":"
    "\"cupy.cuda.memory.OutOfMemoryError\",\"message\":\"Out of memory\",\"frames\":[]}]}\n";

/* The figures of the device that refused, before anything was freed. */
static void test_refusal(void **state)
{
    (void)state;
    put(dir, "hook/7.cupy.json", REFUSED);
    put(dir, "hook/events", out_of_memory);
    struct collect_out *out = collect(7, COLLECT_OK);
    assert_int_equal(sink_integer(out, "cupy.in_use_bytes"), 400);
    assert_int_equal(sink_integer(out, "cupy.refusals_count"), 3);
    assert_int_equal(sink_integer(out, "oom.requested_bytes"), 300);
    assert_int_equal(sink_integer(out, "oom.reserved_bytes"), 800);
    assert_int_equal(sink_integer(out, "oom.allocated_bytes"), 400);
    assert_int_equal(sink_integer(out, "oom.allowed_bytes"), 1000);
    assert_int_equal(sink_integer(out, "oom.device"), 1);
    assert_string_equal(sink_text(out, "oom.framework"), "cupy");
    assert_string_equal(sink_text(out, "cupy.allocator"), "MemoryPool");
    sink_free(out);
}

/* Another pool, which is not watched, refused; or the program failed for another reason. */
static void test_refusal_of_another(void **state)
{
    (void)state;
    put(dir, "hook/7.cupy.json",
        "{\"stats\":{\"0\":{\"bytes_in_use\":900,\"pool_bytes\":950}},\"refused\":{\"t\":60000000000,"
        "\"requested\":300,\"pool_bytes\":800,\"limit\":0,\"device\":null,\"count\":1}}");
    put(dir, "hook/events", out_of_memory);
    struct collect_out *out = collect(7, COLLECT_OK);
    assert_int_equal(sink_integer(out, "oom.reserved_bytes"), 800);
    assert_int_equal(sink_integer(out, "oom.allocated_bytes"), INT64_MIN);
    assert_int_equal(sink_integer(out, "oom.allowed_bytes"), INT64_MIN);
    sink_free(out);
    put(dir, "hook/7.cupy.json", REFUSED);
    put(dir, "hook/events",
        "{\"t\":61,\"pid\":7,\"what\":\"exception\",\"chain\":[{\"type\":\"KeyError\",\"message\":\"x\"}]}\n");
    out = collect(7, COLLECT_OK);
    assert_int_equal(sink_integer(out, "cupy.in_use_bytes"), 400);
    assert_int_equal(sink_integer(out, "oom.requested_bytes"), INT64_MIN);
    sink_free(out);
}

/* Memory freed after the refusal (at 60 s) does not make a low of a step. */
static void test_after_the_refusal(void **state)
{
    (void)state;
    struct buf csv = BUF_INIT;
    for (int i = 0; i < 50; i++)
        buf_printf(&csv, "%d000000000,1,%d,,,,,%d,,3\n", 10 + i, 1000 * (i + 1), 60000);
    for (int i = 0; i < 20; i++)
        buf_printf(&csv, "%d000000000,1,5,,,,,60000,,3\n", 61 + i);
    buf_putc(&csv, '\0');
    put(dir, "hook/7.cupy.json", REFUSED);
    put(dir, "hook/7.cupy.csv", csv.data);
    put(dir, "hook/events", out_of_memory);
    struct collect_out *out = collect(7, COLLECT_OK);
    assert_int_equal(sink_integer(out, "cupy.growth.rising_share_percent"), 100);
    assert_int_equal(sink_integer(out, "cupy.growth.steady"), 1);
    assert_true(sink_integer(out, "cupy.growth.total_bytes") > 30000);
    assert_int_equal(sink_at(out, "cupy.pool_bytes", FACT_BASELINE), INT64_MIN);
    sink_free(out);
    buf_release(&csv);
}

static void test_onnxruntime(void **state)
{
    (void)state;
    put(dir, "hook/7.onnxruntime.json",
        "{\"sessions\":11,\"models\":1,\"running\":false,\"options\":{\"CPUExecutionProvider\":{},"
        "\"ROCMExecutionProvider\":{\"gpu_mem_limit\":\"419430400\",\"arena_extend_strategy\":"
        "\"kSameAsRequested\"}}}");
    struct collect_out *out = collect(7, COLLECT_OK);
    assert_int_equal(sink_integer(out, "onnxruntime.sessions_count"), 11);
    assert_int_equal(sink_integer(out, "onnxruntime.models_count"), 1);
    assert_int_equal(sink_integer(out, "onnxruntime.running"), 0);
    assert_int_equal(sink_integer(out, "onnxruntime.limit_bytes"), 419430400);
    assert_string_equal(sink_text(out, "onnxruntime.provider"), "ROCMExecutionProvider");
    assert_string_equal(sink_text(out, "onnxruntime.arena_strategy"), "kSameAsRequested");
    sink_free(out);
    out = collect(8, COLLECT_OK); /* of another process */
    assert_int_equal(sink_integer(out, "onnxruntime.sessions_count"), INT64_MIN);
    sink_free(out);
    put(dir, "hook/7.onnxruntime.json",
        "{\"sessions\":-1,\"running\":1,\"options\":{\"ROCMExecutionProvider\":{\"gpu_mem_limit\":"
        "\"18446744073709551615\"},\"x\":3}}");
    out = collect(7, COLLECT_OK);
    assert_int_equal(sink_integer(out, "onnxruntime.sessions_count"), INT64_MIN);
    assert_int_equal(sink_integer(out, "onnxruntime.running"), INT64_MIN);
    assert_int_equal(sink_integer(out, "onnxruntime.limit_bytes"), INT64_MIN); /* there is no such device */
    sink_free(out);
}

static void test_choice(void **state)
{
    (void)state;
    put(dir, "hook/5.jax.csv", "2000000000,0,500,,,,,,,3\n");
    put(dir, "hook/7.jax.json", "{\"stats\":{\"0\":{\"bytes_in_use\":700}}}");
    put(dir, "hook/6.jax.csv", "2000000000,0,600,,,,,,,3\n");
    put(dir, "hook/6.tensorflow.csv", "2000000000,0,60,70,,,,,,3\n");
    struct collect_out *out = collect(99, COLLECT_OK);
    assert_int_equal(sink_integer(out, "jax.in_use_bytes"), 700); /* it ended by an exception */
    assert_int_equal(sink_integer(out, "tensorflow.in_use_bytes"), 60);
    assert_int_equal(sink_at(out, "tensorflow.in_use_bytes", FACT_PEAK), 70);
    sink_free(out);
    out = collect(6, COLLECT_OK);
    assert_int_equal(sink_integer(out, "jax.in_use_bytes"), 600);
    sink_free(out);
}

static void test_garbage(void **state)
{
    static const char *const records[] = {
        "", "[]", "{\"stats\":[1,2]}", "{\"stats\":{\"0\":7}}", "{\"stats\":{\"0\":{\"bytes_in_use\":-1}}}",
        "{\"stats\":{\"0\":{\"bytes_in_use\":1e300}}}", "{\"stats\":{\"0\":{", "{\"stats\":{\"\":{}}}"};
    static const char *const series[] = {
        "", "\n\n\n", "a,b,c\n", "1,2\n", "-5,0,1,,,,,,,3\n", "5,0,,,,,,,,3\n", "5,0,1,,,,,,,3,4\n",
        "5,0,99999999999999999999999,,,,,,,3\n", "5,0,1,,,,,,,3", ",,,,,,,,,\n"};
    (void)state;
    for (size_t i = 0; i < sizeof records / sizeof records[0]; i++) {
        put(dir, "hook/7.jax.json", records[i]);
        struct collect_out *out = collect(7, COLLECT_OK);
        assert_int_equal(sink_integer(out, "jax.in_use_bytes"), INT64_MIN);
        sink_free(out);
    }
    for (size_t i = 0; i < sizeof series / sizeof series[0]; i++) {
        put(dir, "hook/7.jax.csv", series[i]);
        struct collect_out *out = collect(7, COLLECT_OK);
        assert_int_equal(sink_integer(out, "jax.in_use_bytes"), INT64_MIN);
        assert_string_equal(sink_file(out, "jax-stats.csv"), "");
        sink_free(out);
    }
    put(dir, "hook/x.jax.json", RECORD);
    put(dir, "hook/8.jaxx.json", RECORD);
    struct collect_out *out = collect(8, COLLECT_OK);
    assert_int_equal(sink_integer(out, "jax.in_use_bytes"), INT64_MIN);
    sink_free(out);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_record),        TEST(test_absent),        TEST(test_series),
        TEST(test_recorded_leak), TEST(test_recorded_load), TEST(test_turnover),
        TEST(test_what_goes_at_the_end),          TEST(test_steady),        TEST(test_record_and_series),
        TEST(test_wait),          TEST(test_steady),        TEST(test_record_and_series),
        TEST(test_choice),        TEST(test_garbage),       TEST(test_refusal),
        TEST(test_refusal_of_another), TEST(test_after_the_refusal), TEST(test_onnxruntime),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
