/* SPDX-License-Identifier: Apache-2.0 */
/* The language of conditions, and the moment when one is crossed; samples as the sampler writes them. */
#include "telemetry/condition.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/err.h"
#include "record/shared.h"

#define GIB (UINT64_C(1) << 30)
#define SECOND_NS UINT64_C(1000000000)

static struct shared *shared;
static uint64_t now_ns;
static uint64_t silent_ms = CONDITION_TIME_UNKNOWN;
static uint64_t step_ms = CONDITION_TIME_UNKNOWN;

static int set_up(void **state)
{
    (void)state;
    struct rc_err err = {""};
    int fd = -1;
    shared = shared_create(&fd, &err);
    now_ns = SECOND_NS;
    return shared != NULL && close(fd) == 0 ? 0 : -1;
}

static void say(uint16_t flags, enum metric metric, uint32_t instance, enum value_status status,
                uint64_t value)
{
    struct {
        struct sample_header header;
        struct sample_entry entry;
    } record = {
        .header = {.magic = SAMPLE_MAGIC, .flags = flags, .entries = 1, .time_ns = now_ns},
        .entry = {.metric = (uint16_t)metric, .status = status, .instance = instance, .value = value},
    };
    ring_write(&shared->samples, &record, sizeof record);
}

static struct condition_watches begin(const char *text)
{
    struct condition_list list;
    struct condition_watches watches;
    struct rc_err err = {""};
    assert_int_equal(conditions_parse(text, &list, &err), 0);
    assert_true(conditions_watch(&watches, &list));
    return watches;
}

static bool turn(struct condition_watches *watches, uint64_t idle_ms)
{
    now_ns += SECOND_NS;
    const struct condition_times times = {.idle_ms = idle_ms, .silent_ms = silent_ms, .step_ms = step_ms};
    return conditions_turn(watches, shared, &times, now_ns) != NULL;
}

static void test_texts(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool good;
    } rows[] = {
        {"vram>90%", true},          {"vram>10GiB", true},       {"gtt_growth>1GiB/min", true},
        {"silent>10m", true},        {"silent>9%", false},       {"silent_growth>1s/min", false},
        {"rss_growth>10MB/s", true}, {"idle>120s", true},        {"idle>10m", true},
        {"temperature>95C", true},   {"power<20W", true},        {"fds>1000", true},
        {"fds>90%", true},           {"memory>95%", true},       {"busy<5%", true},
        {"vram>100%", true},         {"vram>101%", false},       {"busy>200%", false},        {"vram<200%", false},
        {"vram>90%,idle>1h", true},  {"", false},                {"vram", false},
        {">90%", false},             {"vram>", false},           {"vram>90", false},
        {"vram>>90%", false},        {"vram=90%", false},        {"vram>-1%", false},
        {"vram>nan%", false},        {"vram>0x10%", false},      {"vram > 90%", false},
        {"vram>90%%", false},        {"VRAM>90%", false},        {"vramx>90%", false},
        {"rss>9%", false},           {"idle>9%", false},         {"busy>1GiB", false},
        {"vram_growth>1GiB", false}, {"vram_growth>1%/min", false}, {"busy_growth>1%/min", false},
        {"idle_growth>1s/min", false}, {"vram>90%,", false},     {",", false},
        {"vram>90%,x>1", false},
        {"vram>1%,vram>2%,vram>3%,vram>4%,vram>5%", false},
        {"vram>1000000000000000000000000000000000000000000000000000000%", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct condition_list list;
        struct rc_err err = {""};
        int r = conditions_parse(rows[i].text, &list, &err);
        if ((r == 0) != rows[i].good)
            fail_msg("'%s': %d %s", rows[i].text, r, err.msg);
        assert_true(rows[i].good || err.msg[0] != '\0');
    }
}

static void test_once_a_crossing(void **state)
{
    (void)state;
    struct condition_watches w = begin("vram>90%");
    assert_false(turn(&w, 0)); /* no value is known yet, and that is not 0 */
    assert_false(w.list[0].ever_known);
    say(0, METRIC_GPU_VRAM_USED, 1, VALUE_OK, 19 * GIB);
    assert_false(turn(&w, 0)); /* of what total? */
    say(0, METRIC_GPU_VRAM_TOTAL, 1, VALUE_OK, 20 * GIB);
    assert_true(turn(&w, 0));
    assert_false(turn(&w, 0)); /* it still holds */
    say(0, METRIC_GPU_VRAM_USED, 1, VALUE_OK, 18 * GIB - 1);
    assert_false(turn(&w, 0)); /* not clearly back */
    say(0, METRIC_GPU_VRAM_USED, 1, VALUE_OK, 19 * GIB);
    assert_false(turn(&w, 0));
    say(0, METRIC_GPU_VRAM_USED, 1, VALUE_OK, 17 * GIB);
    assert_false(turn(&w, 0)); /* 85 % is below 90 % less a twentieth */
    say(0, METRIC_GPU_VRAM_USED, 1, VALUE_OK, 19 * GIB);
    assert_true(turn(&w, 0));
}

static void test_a_value_that_is_not_there_is_not_zero(void **state)
{
    (void)state;
    struct condition_watches w = begin("memory<1GiB,busy<5%");
    say(0, METRIC_GPU_BUSY, 0, VALUE_UNREADABLE, 0);
    say(0, METRIC_HOST_MEM_TOTAL, 0, VALUE_OK, 20 * GIB);
    assert_false(turn(&w, 0));
    say(0, METRIC_HOST_MEM_AVAILABLE, 0, VALUE_OK, 20 * GIB); /* 0 bytes are used */
    assert_true(turn(&w, 0));
    say(0, METRIC_GPU_BUSY, 0, VALUE_OK, 0);
    assert_true(turn(&w, 0));
}

static void test_processes_add_up(void **state)
{
    (void)state;
    struct condition_watches w = begin("rss>3GiB");
    say(0, METRIC_PROC_RSS, 7, VALUE_OK, 2 * GIB);
    say(0, METRIC_PROC_OUTSIDE, 9, VALUE_OK, 1); /* not a process of the program */
    say(0, METRIC_PROC_RSS, 9, VALUE_OK, 9 * GIB);
    assert_false(turn(&w, 0));
    say(0, METRIC_PROC_RSS, 8, VALUE_OK, 2 * GIB);
    assert_true(turn(&w, 0));
    say(0, METRIC_PROC_RSS, 8, VALUE_ABSENT, 0);
    assert_false(turn(&w, 0));
    say(SAMPLE_FULL, METRIC_PROC_RSS, 10, VALUE_OK, 2 * GIB); /* 7 is not named: it has ended */
    assert_false(turn(&w, 0));
    say(0, METRIC_PROC_RSS, 11, VALUE_OK, 2 * GIB);
    assert_true(turn(&w, 0));
}

static void test_growth(void **state)
{
    (void)state;
    struct condition_watches w = begin("vram_growth>1GiB/min");
    say(0, METRIC_GPU_VRAM_USED, 0, VALUE_OK, 10 * GIB);
    for (int s = 0; s < 70; s++) { /* steady */
        assert_false(turn(&w, 0));
        say(0, METRIC_GPU_VRAM_USED, 0, VALUE_OK, 10 * GIB);
    }
    int crossings = 0;
    for (uint64_t s = 0; s < 130; s++) { /* 2 GiB a minute */
        say(0, METRIC_GPU_VRAM_USED, 0, VALUE_OK, 10 * GIB + s * (2 * GIB / 60));
        crossings += turn(&w, 0);
    }
    assert_int_equal(crossings, 1);
    struct condition_watches soon = begin("vram_growth>1MiB/s");
    say(0, METRIC_GPU_VRAM_USED, 0, VALUE_OK, 100 * GIB);
    assert_false(turn(&soon, 0)); /* a first value is no growth */
}

static void test_idle(void **state)
{
    (void)state;
    struct condition_watches w = begin("idle>120s");
    assert_int_equal(conditions_idle_ms(&(struct condition_list){1, {w.list[0].condition}}), 120000);
    assert_false(conditions_need_output(&(struct condition_list){1, {w.list[0].condition}}));
    assert_false(turn(&w, 119000));
    assert_true(turn(&w, 121000));
    assert_false(turn(&w, 122000));
    assert_false(turn(&w, 0));
    assert_true(turn(&w, 121000));
}

static void test_silent(void **state)
{
    (void)state;
    struct condition_watches w = begin("silent>10m");
    struct condition_list list = {1, {w.list[0].condition}};
    assert_true(conditions_need_output(&list));
    assert_false(conditions_need_steps(&list));
    assert_int_equal(conditions_idle_ms(&list), 0); /* CPU use does not matter here */
    assert_false(turn(&w, 700000)); /* its output is not seen */
    assert_false(w.list[0].ever_known);
    silent_ms = 599000;
    assert_false(turn(&w, 700000));
    silent_ms = 601000;
    assert_true(turn(&w, 0));
    assert_false(turn(&w, 0));
    silent_ms = 0;
    assert_false(turn(&w, 0));
    silent_ms = 601000;
    assert_true(turn(&w, 0));
    silent_ms = CONDITION_TIME_UNKNOWN;
}

static void test_step(void **state)
{
    (void)state;
    struct condition_watches w = begin("step>5m");
    struct condition_list list = {1, {w.list[0].condition}};
    assert_true(conditions_need_steps(&list));
    assert_false(conditions_need_output(&list));
    assert_int_equal(conditions_idle_ms(&list), 0);
    assert_false(turn(&w, 700000)); /* the first step may take long: it is compiled */
    step_ms = 299000;
    assert_false(turn(&w, 700000));
    step_ms = 301000;
    assert_true(turn(&w, 0));
    step_ms = 1000;
    assert_false(turn(&w, 0));
    step_ms = CONDITION_TIME_UNKNOWN;
}

static void test_torn_samples(void **state)
{
    (void)state;
    struct condition_watches w = begin("vram>1GiB");
    unsigned char noise[4096];
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (unsigned char)(i * 37 ^ i >> 3);
    ring_write(&shared->samples, noise, sizeof noise);
    say(0, METRIC_GPU_VRAM_USED, UINT32_MAX, VALUE_OK, 9 * GIB); /* no such GPU */
    assert_false(turn(&w, 0));
    for (int i = 0; i < 40000; i++) /* the ring has been overwritten */
        say(0, METRIC_GPU_VRAM_USED, 0, VALUE_OK, 2 * GIB);
    assert_true(turn(&w, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),
        cmocka_unit_test_setup(test_once_a_crossing, set_up),
        cmocka_unit_test_setup(test_a_value_that_is_not_there_is_not_zero, set_up),
        cmocka_unit_test_setup(test_processes_add_up, set_up),
        cmocka_unit_test_setup(test_growth, set_up),
        cmocka_unit_test_setup(test_idle, set_up),
        cmocka_unit_test_setup(test_silent, set_up),
        cmocka_unit_test_setup(test_step, set_up),
        cmocka_unit_test_setup(test_torn_samples, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
