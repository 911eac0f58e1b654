/* SPDX-License-Identifier: Apache-2.0 */
/* Series: names, CSV (also read back by Python), sparkline, facts and growth. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "diagnose/fact.h"
#include "help.h"

#define SECOND UINT64_C(1000000000)
#define T0 (UINT64_C(5000) * SECOND)
#define MIB (INT64_C(1) << 20)

static void add(struct series_set *set, uint64_t time_ns, uint16_t flags,
                const struct help_value *values, size_t count)
{
    unsigned char data[4096];
    size_t len = help_record(data, time_ns, flags, values, count);
    assert_int_equal(series_add(set, data, len), 0);
}

#define ADD(set, time_ns, flags, ...)                                                              \
    do {                                                                                           \
        const struct help_value values_[] = {__VA_ARGS__};                                         \
        add(set, time_ns, flags, values_, sizeof values_ / sizeof values_[0]);                     \
    } while (0)

/* The bytes of a name as the sampler packs them. */
static uint64_t pack(const char *text)
{
    uint64_t value = 0;
    memcpy(&value, text, strnlen(text, 8));
    return value;
}

static void fill(struct series_set *set)
{
    memset(set, 0, sizeof *set);
    ADD(set, T0, SAMPLE_FULL | SAMPLE_BASELINE, {METRIC_GPU_VRAM_USED, 0, VALUE_OK, 100},
        {METRIC_GPU_VRAM_TOTAL, 0, VALUE_OK, 1000}, {METRIC_GPU_BUSY, 0, VALUE_ABSENT, 0},
        {METRIC_GPU_OTHERS_KFD_VRAM, 0, VALUE_OK, 60}, {METRIC_PROC_KFD_VRAM, 42, VALUE_OK, 60},
        {METRIC_PROC_OUTSIDE, 42, VALUE_OK, 1}, {METRIC_PROC_COMM_LOW, 42, VALUE_OK, pack("ollama")},
        {METRIC_PROC_COMM_HIGH, 42, VALUE_OK, 0}, {METRIC_HOST_MEM_TOTAL, 0, VALUE_OK, 7},
        {METRIC_CGROUP_MEM_LIMIT, 0, VALUE_ABSENT, 0}, {METRIC_GPU_GTT_USED, 0, VALUE_STALLED, 0});
    ADD(set, T0 + SECOND, 0, {METRIC_GPU_VRAM_USED, 0, VALUE_OK, 900},
        {METRIC_PROC_RSS, 7, VALUE_OK, 5000}, {METRIC_PROC_KFD_VRAM, 7, VALUE_OK, 700});
    ADD(set, T0 + 2 * SECOND, 0, {METRIC_GPU_VRAM_USED, 0, VALUE_OK, 400});
    ADD(set, T0 + 3 * SECOND, SAMPLE_FULL | SAMPLE_IMPACT, {METRIC_GPU_VRAM_USED, 0, VALUE_OK, 800},
        {METRIC_GPU_VRAM_TOTAL, 0, VALUE_OK, 1000}, {METRIC_PROC_RSS, 7, VALUE_OK, 6000},
        {METRIC_PROC_KFD_VRAM, 7, VALUE_OK, 700}, {METRIC_GPU_OTHERS_KFD_VRAM, 0, VALUE_OK, 60},
        {METRIC_PROC_KFD_VRAM, 42, VALUE_OK, 60}, {METRIC_PROC_OUTSIDE, 42, VALUE_OK, 1},
        {METRIC_PROC_COMM_LOW, 42, VALUE_OK, pack("ollama")},
        {METRIC_PROC_COMM_HIGH, 42, VALUE_OK, 0});
    /* A full record no longer names process 7: it has ended. */
    ADD(set, T0 + 5 * SECOND, SAMPLE_FULL | SAMPLE_AFTER,
        {METRIC_GPU_VRAM_USED, 0, VALUE_OK, 2000}, {METRIC_GPU_VRAM_TOTAL, 0, VALUE_OK, 1000});
}

static void expect_fact(const struct facts *facts, const char *name, enum fact_when when,
                        int64_t value)
{
    const struct fact *f = facts_find(facts, name, when);
    if (f == NULL)
        fail_msg("no fact %s", name);
    assert_int_equal(f->status, FACT_PRESENT);
    assert_int_equal(f->integer, value);
    assert_true(f->source != NULL && f->source[0] != '\0');
}

static void expect_missing(const struct facts *facts, const char *name, enum fact_when when,
                           enum fact_status status, const char *reason)
{
    const struct fact *f = facts_find(facts, name, when);
    if (f == NULL)
        fail_msg("%s is not even known to be absent", name);
    assert_int_equal(f->status, status);
    assert_non_null(strstr(f->reason, reason));
}

static void test_facts(void **state)
{
    (void)state;
    struct series_set set;
    fill(&set);
    struct facts *facts = facts_new();
    struct series_facts_options options = {.failed_pid = 7, .end_ns = T0 + 3 * SECOND + 5};
    assert_int_equal(series_to_facts(facts, &set, &options), 0);
    expect_fact(facts, "gpu.0.vram.used_bytes", FACT_BASELINE, 100);
    expect_fact(facts, "gpu.0.vram.used_bytes", FACT_PEAK, 900);
    expect_fact(facts, "gpu.0.vram.used_bytes", FACT_IMPACT, 800);
    expect_fact(facts, "gpu.0.vram.used_bytes", FACT_AFTER, 2000); /* after the end: no peak */
    expect_fact(facts, "host.mem_total_bytes", FACT_BASELINE, 7);
    expect_fact(facts, "proc.0.rss_bytes", FACT_IMPACT, 6000);
    expect_fact(facts, "proc.0.kfd_vram_bytes", FACT_PEAK, 700);
    expect_fact(facts, "others.vram_bytes", FACT_BASELINE, 60);
    expect_fact(facts, "others.vram_bytes", FACT_IMPACT, 60);
    expect_fact(facts, "others.largest_pid", FACT_IMPACT, 42);
    expect_fact(facts, "others.largest_bytes", FACT_BASELINE, 60);
    const char *comm = NULL;
    assert_true(facts_get_text(facts, "others.largest_comm", &comm));
    assert_string_equal(comm, "ollama");
    expect_missing(facts, "gpu.0.busy_percent", FACT_IMPACT, FACT_ABSENT, "no such file");
    expect_missing(facts, "gpu.0.gtt.used_bytes", FACT_IMPACT, FACT_UNREADABLE, "did not return");
    expect_missing(facts, "host.cgroup_limit_bytes", FACT_IMPACT, FACT_ABSENT, "no memory limit");
    expect_missing(facts, "proc.0.fds_count", FACT_IMPACT, FACT_ABSENT, "not sampled");
    expect_fact(facts, "f.growth.samples", FACT_IMPACT, 5);
    expect_fact(facts, "f.growth.gpu", FACT_IMPACT, 0);
    assert_null(facts_find(facts, "gpu.0.busy_percent", FACT_PEAK));
    facts_free(facts);
    series_release(&set);
}

/* The low point of free memory is kept, and nothing that came after the end. */
static void test_what_is_left_has_a_low_point(void **state)
{
    (void)state;
    struct series_set set = {0};
    ADD(&set, T0, SAMPLE_FULL | SAMPLE_BASELINE, {METRIC_HOST_MEM_AVAILABLE, 0, VALUE_OK, 900},
        {METRIC_HOST_SWAP_FREE, 0, VALUE_OK, 50}, {METRIC_CGROUP_MEM_USED, 0, VALUE_OK, 10});
    ADD(&set, T0 + SECOND, 0, {METRIC_HOST_MEM_AVAILABLE, 0, VALUE_OK, 200}, {METRIC_CGROUP_MEM_USED, 0, VALUE_OK, 70});
    ADD(&set, T0 + 2 * SECOND, 0, {METRIC_HOST_MEM_AVAILABLE, 0, VALUE_OK, 800});
    ADD(&set, T0 + 4 * SECOND, SAMPLE_AFTER, {METRIC_HOST_MEM_AVAILABLE, 0, VALUE_OK, 100});
    struct facts *facts = facts_new();
    struct series_facts_options options = {.end_ns = T0 + 3 * SECOND};
    assert_int_equal(series_to_facts(facts, &set, &options), 0);
    expect_fact(facts, "host.mem_available_lowest_bytes", FACT_PEAK, 200);
    expect_fact(facts, "host.swap_free_lowest_bytes", FACT_PEAK, 50);
    expect_fact(facts, "host.mem_available_bytes", FACT_IMPACT, 800);
    expect_fact(facts, "host.cgroup_used_bytes", FACT_PEAK, 70); /* memory in use has a peak */
    assert_null(facts_find(facts, "host.mem_available_bytes", FACT_PEAK));
    facts_free(facts);
    series_release(&set);
}

/* A process that grew after its last sample: the peak is never below what was read of it when it was held. */
static void test_peak_has_what_was_read_at_the_failure(void **state)
{
    static const struct {
        int64_t high_water, fds, rss_peak, fds_peak;
    } rows[] = {{9000, 12, 9000, 12}, {4000, 3, 5000, 8}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct series_set set = {0};
        struct facts *facts = facts_new();
        struct series_facts_options options = {.failed_pid = 7, .end_ns = T0 + 2 * SECOND};
        ADD(&set, T0, SAMPLE_FULL, {METRIC_PROC_RSS, 7, VALUE_OK, 5000}, {METRIC_PROC_FDS, 7, VALUE_OK, 8});
        (void)facts_set_integer(facts, "proc.0.rss_peak_bytes", FACT_IMPACT, rows[i].high_water, "status");
        (void)facts_set_integer(facts, "proc.0.fds_count", FACT_IMPACT, rows[i].fds, "fd");
        (void)facts_set_integer(facts, "proc.0.maps_count", FACT_IMPACT, 3, "maps"); /* never sampled */
        assert_int_equal(series_to_facts(facts, &set, &options), 0);
        expect_fact(facts, "proc.0.rss_bytes", FACT_PEAK, rows[i].rss_peak);
        expect_fact(facts, "proc.0.fds_count", FACT_PEAK, rows[i].fds_peak);
        expect_fact(facts, "proc.0.maps_count", FACT_PEAK, 3);
        facts_free(facts);
        series_release(&set);
    }
}

static void expect_source(const struct facts *facts, const char *name, const char *source)
{
    const struct fact *f = facts_find(facts, name, FACT_IMPACT);
    if (f == NULL)
        fail_msg("no fact %s", name);
    assert_string_equal(f->source, source);
}

/* The fact's source is the one that was read, not the list of possible ones. */
static void test_sources(void **state)
{
    (void)state;
    struct series_set set;
    struct facts *facts = facts_new();
    struct series_facts_options options = {.failed_pid = 7};
    fill(&set);
    assert_int_equal(series_to_facts(facts, &set, &options), 0);
    expect_source(facts, "gpu.0.vram.used_bytes", "device/mem_info_vram_used");
    expect_source(facts, "proc.0.kfd_vram_bytes", "kfd/proc/PID/vram_*: all GPUs");
    expect_source(facts, "others.largest_pid", "kfd/proc/PID/vram_*");
    facts_free(facts);
    series_release(&set);

    set = (struct series_set){.count = 0};
    facts = facts_new();
    ADD(&set, T0, SAMPLE_FULL | SAMPLE_BASELINE, {METRIC_GPU_VRAM_USED, 0, VALUE_OK, 100},
        {METRIC_GPU_TEMP_EDGE, 0, VALUE_OK, 40000}, {METRIC_PROC_KFD_VRAM, 7, VALUE_OK, 60},
        {METRIC_PROC_RSS, 7, VALUE_OK, 6000});
    assert_int_equal(series_to_facts(facts, &set, &options), 0);
    expect_source(facts, "gpu.0.vram.used_bytes", "NVML");
    expect_source(facts, "gpu.0.temperature.edge_mC", "NVML");
    expect_source(facts, "proc.0.kfd_vram_bytes", "NVML: all GPUs");
    expect_source(facts, "proc.0.rss_bytes", "/proc/PID/status VmRSS");
    expect_missing(facts, "others.largest_bytes", FACT_IMPACT, FACT_ABSENT, "NVML lists no other");
    facts_free(facts);
    series_release(&set);
}

/* If a count was too large for the tracer, the count of a second earlier does not replace it. */
static void test_older_than_a_look_that_failed(void **state)
{
    (void)state;
    struct series_set set;
    fill(&set);
    struct facts *facts = facts_new();
    struct series_facts_options options = {.failed_pid = 7, .end_ns = T0 + 3 * SECOND + 5};
    assert_int_equal(facts_set_missing(facts, "proc.0.rss_bytes", FACT_IMPACT, FACT_UNREADABLE,
                                       "too many", "the tracer"),
                     0);
    assert_int_equal(series_to_facts(facts, &set, &options), 0);
    expect_missing(facts, "proc.0.rss_bytes", FACT_IMPACT, FACT_UNREADABLE, "too many");
    facts_free(facts);
    series_release(&set);
}

/* Real figures: numba on an NVIDIA GPU, which was empty again 81 ms after the refusal. An APU's GTT is as a card's VRAM. */
static void test_memory_that_was_given_back_before_the_message(void **state)
{
    static const struct {
        uint64_t before_ms;
        bool by_exit;
        uint64_t used_then, used_at_impact, expected;
    } cases[] = {
        {81, true, 116272267264, 1197342720, 116272267264},
        {81, false, 116272267264, 1197342720, 1197342720},  /* a signal: the process was held */
        {700, true, 116272267264, 1197342720, 1197342720},  /* too long ago */
        {81, true, 116272267264, 100272267264, 100272267264}, /* the memory of the step itself */
    };
    (void)state;
    for (size_t i = 0; i < 2 * sizeof cases / sizeof cases[0]; i++) {
        struct series_set set = {0};
        uint64_t impact_ns = T0 + 2 * SECOND;
        uint32_t metric = i % 2 == 0 ? METRIC_GPU_VRAM_USED : METRIC_GPU_GTT_USED;
        ADD(&set, T0, SAMPLE_FULL | SAMPLE_BASELINE, {metric, 0, VALUE_OK, 100});
        ADD(&set, impact_ns - cases[i / 2].before_ms * 1000000, 0, {metric, 0, VALUE_OK, cases[i / 2].used_then});
        ADD(&set, impact_ns, SAMPLE_IMPACT, {metric, 0, VALUE_OK, cases[i / 2].used_at_impact});
        struct series_facts_options options = {
            .end_ns = impact_ns + 5, .ended_by_exit = cases[i / 2].by_exit};
        struct facts *facts = facts_new();
        assert_int_equal(series_to_facts(facts, &set, &options), 0);
        expect_fact(facts, i % 2 == 0 ? "gpu.0.vram.used_bytes" : "gpu.0.gtt.used_bytes", FACT_IMPACT, (int64_t)cases[i / 2].expected);
        facts_free(facts);
        series_release(&set);
    }
}

/* Process 7 failed. Processes 8 and 10 belong to the command, too; 9 holds nothing; 42 belongs to another command. */
static void test_siblings(void **state)
{
    (void)state;
    struct series_set set = {0};
    ADD(&set, T0, SAMPLE_FULL | SAMPLE_BASELINE, {METRIC_GPU_VRAM_USED, 0, VALUE_OK, 100});
    ADD(&set, T0 + SECOND, SAMPLE_IMPACT, {METRIC_PROC_KFD_VRAM, 7, VALUE_OK, 700},
        {METRIC_PROC_OUTSIDE, 7, VALUE_OK, 0}, {METRIC_PROC_KFD_VRAM, 42, VALUE_OK, 60},
        {METRIC_PROC_OUTSIDE, 42, VALUE_OK, 1}, {METRIC_PROC_KFD_VRAM, 9, VALUE_OK, 0},
        {METRIC_PROC_OUTSIDE, 9, VALUE_OK, 0});
    struct series_facts_options options = {.failed_pid = 7, .end_ns = T0 + SECOND + 5};
    struct facts *facts = facts_new();
    assert_int_equal(series_to_facts(facts, &set, &options), 0);
    expect_missing(facts, "siblings.vram_bytes", FACT_IMPACT, FACT_ABSENT, "no other process");
    facts_free(facts);
    ADD(&set, T0 + 2 * SECOND, SAMPLE_IMPACT, {METRIC_PROC_KFD_VRAM, 8, VALUE_OK, 150},
        {METRIC_PROC_OUTSIDE, 8, VALUE_OK, 0}, {METRIC_PROC_KFD_VRAM, 10, VALUE_OK, 250},
        {METRIC_PROC_OUTSIDE, 10, VALUE_OK, 0});
    facts = facts_new();
    options.end_ns = T0 + 2 * SECOND + 5;
    assert_int_equal(series_to_facts(facts, &set, &options), 0);
    expect_fact(facts, "siblings.vram_bytes", FACT_IMPACT, 400);
    expect_fact(facts, "siblings.count", FACT_IMPACT, 2);
    expect_fact(facts, "siblings.largest_pid", FACT_IMPACT, 10);
    expect_fact(facts, "others.largest_bytes", FACT_IMPACT, 60);
    facts_free(facts);
    series_release(&set);
}

static void test_process_that_ended_is_absent(void **state)
{
    (void)state;
    struct series_set set;
    fill(&set);
    const struct series *s = series_find(&set, METRIC_PROC_RSS, 7);
    assert_int_equal(series_at(s, T0 + 4 * SECOND)->value, 6000);
    assert_int_equal(series_at(s, T0 + 5 * SECOND)->status, VALUE_ABSENT);
    assert_null(series_at(s, T0));
    series_release(&set);
}

static void test_empty(void **state)
{
    (void)state;
    struct series_set set = {0};
    struct facts *facts = facts_new();
    struct series_facts_options options = {0};
    assert_int_equal(series_to_facts(facts, &set, &options), 0);
    expect_missing(facts, "f.growth.samples", FACT_IMPACT, FACT_ABSENT, "no sample");
    struct buf out = BUF_INIT;
    assert_int_equal(series_to_csv(&set, 0, 10, 0, &out), 0);
    assert_string_equal(buf_str(&out), "time_s,flags\n");
    buf_release(&out);
    facts_free(facts);
}

static void test_csv(void **state)
{
    (void)state;
    struct series_set set;
    fill(&set);
    struct buf out = BUF_INIT;
    ADD(&set, T0 + 5 * SECOND + 1, SAMPLE_FULL | SAMPLE_AFTER, {METRIC_GPU_VRAM_USED, 0, VALUE_OK, 2000},
        {METRIC_GPU_VRAM_TOTAL, 0, VALUE_OK, 1000}); /* written again: one row */
    assert_int_equal(series_to_csv(&set, T0, 0, 0, &out), 0);
    assert_string_equal(
        buf_str(&out),
        "time_s,flags,gpu.0.vram.total_bytes,gpu.0.vram.used_bytes,gpu.0.others_kfd_vram_bytes,"
        "host.mem_total_bytes,proc.7.rss_bytes,proc.7.kfd_vram_bytes,proc.42.kfd_vram_bytes,"
        "proc.42.outside\n"
        "0.000,baseline,1000,100,60,7,,,60,1\n"
        "1.000,,1000,900,60,7,5000,700,60,1\n"
        "2.000,,1000,400,60,7,5000,700,60,1\n"
        "3.000,impact,1000,800,60,7,6000,700,60,1\n"
        "5.000,after,1000,2000,60,7,,,,\n");
    buf_release(&out);
    /* Fewer rows: marked rows stay. */
    assert_int_equal(series_to_csv(&set, T0, 1, 0, &out), 0);
    assert_non_null(strstr(buf_str(&out), "\n3.000,impact"));
    assert_null(strstr(buf_str(&out), "\n2.000"));
    buf_release(&out);
    series_release(&set);
}

/* Processes with every counter, that begin all at once, or one after the other. */
static void fill_with_processes(struct series_set *set, uint32_t processes, bool at_once,
                                size_t records)
{
    static unsigned char data[65536];
    static struct help_value values[2000];
    uint32_t begun = 0;
    *set = (struct series_set){0};
    for (size_t i = 0; i < records; i++) {
        size_t count = 0;
        values[count++] = (struct help_value){METRIC_GPU_VRAM_USED, 0, VALUE_OK, i};
        uint32_t now = at_once ? processes : (uint32_t)(i * processes / records) + 1;
        for (; begun < now; begun++)
            for (unsigned m = METRIC_PROC_RSS; m <= METRIC_PROC_DRM_REQUESTED; m++)
                values[count++] = (struct help_value){(enum metric)m, 1000 + begun, VALUE_OK,
                                                      (uint64_t)(begun + 1) << 30};
        size_t len = help_record(data, T0 + i * SECOND / 10, 0, values, count);
        assert_int_equal(series_add(set, data, len), 0);
    }
}

static size_t count_lines(const char *text)
{
    size_t lines = 0;
    for (; (text = strchr(text, '\n')) != NULL; text++)
        lines++;
    return lines;
}

/* Eight ranks with eight loaders each, for half an hour. */
static void test_csv_of_many_processes_at_once(void **state)
{
    (void)state;
    struct series_set set;
    struct buf out = BUF_INIT;
    fill_with_processes(&set, 72, true, 20000);
    assert_int_equal(series_to_csv(&set, T0, 20000, 0, &out), 0);
    assert_true(count_lines(buf_str(&out)) > 1000);
    assert_non_null(strstr(buf_str(&out), ",proc.1071.drm_requested_vram_bytes\n"));
    buf_release(&out);
    series_release(&set);
}

/* Loaders that are started again with each epoch. */
static void test_csv_of_many_processes_in_turn(void **state)
{
    (void)state;
    struct series_set set;
    struct buf out = BUF_INIT;
    fill_with_processes(&set, 400, false, 20000);
    assert_int_equal(series_to_csv(&set, T0, 20000, 1005, &out), 400 - SERIES_CSV_PROCESSES_MAX);
    assert_true(count_lines(buf_str(&out)) > 1000);
    assert_non_null(strstr(buf_str(&out), ",proc.1005.rss_bytes,")); /* that process is requested */
    assert_null(strstr(buf_str(&out), ",proc.1006.rss_bytes,"));
    assert_non_null(strstr(buf_str(&out), ",proc.1399.rss_bytes,"));
    buf_release(&out);
    series_release(&set);
}

static void test_downsample(void **state)
{
    (void)state;
    struct series_set set;
    fill(&set);
    double out[5];
    assert_int_equal(series_downsample(&set, METRIC_GPU_VRAM_USED, 0, T0, T0 + 5 * SECOND, out, 5),
                     5);
    assert_true(out[0] == 900 && out[1] == 900 && out[2] == 800 && out[4] == 2000);
    assert_int_equal(series_downsample(&set, METRIC_GPU_BUSY, 0, T0, T0 + SECOND, out, 5), 0);
    assert_true(isnan(out[0]));
    assert_int_equal(series_downsample(&set, METRIC_GPU_SCLK, 9, T0, T0, out, 5), 0);
    series_release(&set);
}

/* The sawtooth of a training: up and down every half second, plus the leak. */
static void sawtooth(struct series_set *set, uint32_t gpu, int64_t stays_per_s, int seconds)
{
    for (int i = 0; i < seconds * 10; i++) {
        int64_t used = 1000 * MIB + (i % 5) * 300 * MIB + stays_per_s * i / 10;
        ADD(set, T0 + (uint64_t)i * SECOND / 10 + gpu, 0,
            {METRIC_GPU_VRAM_USED, gpu, VALUE_OK, (uint64_t)used});
    }
}

static void test_growth(void **state)
{
    (void)state;
    struct series_set leak = {0};
    sawtooth(&leak, 0, 40 * MIB, 60);
    struct growth g = series_growth(&leak, leak.first_ns, leak.last_ns);
    assert_true(g.valid && g.windows >= 20);
    assert_true(fabs(g.slope_per_s - 40.0 * (double)MIB) < 2.0 * (double)MIB);
    assert_true(g.rising_share > 0.95);
    assert_true(g.total > 1900 * MIB && g.total < 2400 * MIB);
    series_release(&leak);
    /* The same noise without a leak, and one step up in the middle: not growth. */
    struct series_set steady = {0};
    sawtooth(&steady, 0, 0, 60);
    g = series_growth(&steady, steady.first_ns, steady.last_ns);
    assert_true(g.valid && g.total == 0 && g.rising_share == 0 && g.slope_per_s == 0);
    series_release(&steady);
    struct series_set step = {0};
    for (int i = 0; i < 600; i++)
        ADD(&step, T0 + (uint64_t)i * SECOND / 10, 0,
            {METRIC_GPU_VRAM_USED, 2, VALUE_OK, (uint64_t)(i < 300 ? 1 : 4) * 1000000000u});
    g = series_growth(&step, step.first_ns, step.last_ns);
    assert_true(g.valid && g.gpu == 2 && g.rising_share < 0.1);
    series_release(&step);
    /* Too few samples for a verdict. */
    struct series_set brief = {0};
    sawtooth(&brief, 0, 40 * MIB, 1);
    assert_false(series_growth(&brief, brief.first_ns, brief.last_ns).valid);
    series_release(&brief);
}

static void test_names(void **state)
{
    (void)state;
    static const struct {
        enum metric metric;
        uint32_t instance;
        const char *proc;
        const char *name;
    } names[] = {
        {METRIC_GPU_VIS_USED, 3, NULL, "gpu.3.vram_visible.used_bytes"},
        {METRIC_GPU_BUSY, 0, NULL, "gpu.0.busy_percent"},
        {METRIC_PROC_FDS, 9, "0", "proc.0.fds_count"},
        {METRIC_PROC_FDS_LIMIT, 9, "0", "proc.0.fds_limit"},
        {METRIC_PROC_THREADS, 9, NULL, "proc.9.threads"},
        {METRIC_PROC_MAPS, 9, "0", "proc.0.maps_count"},
        {METRIC_PROC_PINNED, 9, "0", "proc.0.pinned_bytes"},
        {METRIC_PROC_RSS_PEAK, 9, "0", "proc.0.rss_peak_bytes"},
        {METRIC_CGROUP_OOM_KILLS, 0, NULL, "host.cgroup_oom_kills"},
        {METRIC_HOST_SWAP_FREE, 0, NULL, "host.swap_free_bytes"},
        {METRIC_HOST_TTM_PAGES_LIMIT, 0, NULL, "host.ttm_pages_limit"},
    };
    char name[128];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_true(series_name(name, sizeof name, names[i].metric, names[i].instance,
                                names[i].proc));
        assert_string_equal(name, names[i].name);
    }
    assert_false(series_name(name, sizeof name, (enum metric)19, 0, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_facts),
        cmocka_unit_test(test_what_is_left_has_a_low_point),
        cmocka_unit_test(test_peak_has_what_was_read_at_the_failure),
        cmocka_unit_test(test_sources),
        cmocka_unit_test(test_older_than_a_look_that_failed),
        cmocka_unit_test(test_memory_that_was_given_back_before_the_message),
        cmocka_unit_test(test_siblings),
        cmocka_unit_test(test_process_that_ended_is_absent),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_csv),
        cmocka_unit_test(test_csv_of_many_processes_at_once),
        cmocka_unit_test(test_csv_of_many_processes_in_turn),
        cmocka_unit_test(test_downsample),
        cmocka_unit_test(test_growth),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
