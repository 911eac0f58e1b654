/* SPDX-License-Identifier: Apache-2.0 */
/* What the Python hook wrote of JAX and TensorFlow, through the collector "hook". */
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

/* What this build does not count is not there: absent is no 0. */
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

/* Step by step up, on device 1; device 0 stays. */
static char *growing(int rows, int64_t step)
{
    struct buf csv = BUF_INIT;
    for (int i = 0; i < rows; i++) {
        long long t = 2000000000LL + i * 100000000LL;
        buf_printf(&csv, "%lld,0,50,60,1000,,,,,3\n", t);
        buf_printf(&csv, "%lld,1,%lld,,1000000,10,5,1000000,,3\n", t, 100 + (long long)(i * step));
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

/* What stays as it is grows nowhere. */
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

/* The record's device is the one that the series is read of. */
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
        TEST(test_record),            TEST(test_absent), TEST(test_series),  TEST(test_steady),
        TEST(test_record_and_series), TEST(test_choice), TEST(test_garbage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
