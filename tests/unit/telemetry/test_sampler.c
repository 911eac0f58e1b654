/* SPDX-License-Identifier: Apache-2.0 */
/* The sampler on a made-up machine with every counter: its values, and the process that it is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "expect.h"
#include "help.h"
#include "record/shared.h"
#include "sampler_world.h"
#include "telemetry/sampler.h"
#include "telemetry/sampler_internal.h"

/* --- values --- */

static void test_baseline_holds_everything(void **state)
{
    struct world *w = *state;
    world_begin(w);
    world_turn_after(w, 2 * SECOND);
    struct series_set set;
    help_ring_to_series(w->shared, &set);
    assert_true(series_time_of(&set, SAMPLE_BASELINE) != 0);
    unsigned values = 0;
    for (uint32_t g = 0; g < 8; g++)
        for (int m = METRIC_GPU_VRAM_TOTAL; m <= METRIC_GPU_PREEMPT_USED; m++) {
            const struct series_point *p =
                series_at(series_find(&set, (enum metric)m, g), UINT64_MAX);
            assert_non_null(p);
            values += p->status == VALUE_OK;
        }
    assert_int_equal(values, 8 * 14);
    series_release(&set);
    expect_metric(w->shared, METRIC_GPU_VRAM_USED, 5, VALUE_OK, 1000005);
    expect_metric(w->shared, METRIC_GPU_POWER, 7, VALUE_OK, 93000000);
    expect_metric(w->shared, METRIC_HOST_MEM_AVAILABLE, 0, VALUE_OK, UINT64_C(40000000) * 1024);
    expect_metric(w->shared, METRIC_HOST_PSI_MEM_FULL, 0, VALUE_OK, 567);
    expect_metric(w->shared, METRIC_HOST_TTM_PAGES_LIMIT, 0, VALUE_OK, 16430000);
    expect_metric(w->shared, METRIC_CGROUP_MEM_LIMIT, 0, VALUE_ABSENT, 0);
    expect_metric(w->shared, METRIC_GPU_OTHERS_KFD_VRAM, 0, VALUE_ABSENT, 0); /* no kfd/proc in this tree */
}

static void test_only_changes_are_written(void **state)
{
    struct world *w = *state;
    world_begin(w);
    world_turn_after(w, SECOND);
    world_turn_after(w, SECOND);
    uint64_t head = w->shared->samples.head;
    for (int i = 0; i < 5; i++)
        world_turn_after(w, SECOND);
    assert_true(w->shared->samples.head == head);
    help_write_u64(w->root, "/sys/class/drm/card3/device/mem_info_vram_used", 4242);
    world_turn_after(w, 2 * SECOND);
    assert_int_equal(w->shared->samples.head - head, 32); /* one header, one value */
    expect_metric(w->shared, METRIC_GPU_VRAM_USED, 3, VALUE_OK, 4242);
    world_turn_after(w, 60 * SECOND);
    assert_true(w->shared->samples.head - head > 8 * 14 * 16); /* once a minute all values */
}

static void test_failing_reads_have_a_status(void **state)
{
    struct world *w = *state;
    help_write(w->root, "/sys/class/drm/card1/device/mem_info_gtt_used", "");
    help_write(w->root, "/sys/class/drm/card2/device/mem_info_gtt_used", "12x4\n");
    char path[512];
    (void)snprintf(path, sizeof path, "%s/sys/class/drm/card4/device/mem_info_gtt_used", w->root);
    (void)unlink(path);
    help_write(w->root, "/sys/class/drm/card5/device/power/runtime_status", "suspended\n");
    help_write(w->root, "/sys/class/drm/card6/device/power/runtime_status", "unsupported\n");
    world_begin(w);
    world_turn_after(w, 2 * SECOND);
    expect_metric(w->shared, METRIC_GPU_GTT_USED, 0, VALUE_OK, 14680064);
    expect_metric(w->shared, METRIC_GPU_GTT_USED, 1, VALUE_UNREADABLE, 0);
    expect_metric(w->shared, METRIC_GPU_GTT_USED, 2, VALUE_UNREADABLE, 0);
    expect_metric(w->shared, METRIC_GPU_GTT_USED, 4, VALUE_ABSENT, 0);
    /* A suspended GPU: memory is known, files that would wake it were not read. */
    expect_metric(w->shared, METRIC_GPU_VRAM_USED, 5, VALUE_OK, 1000005);
    expect_metric(w->shared, METRIC_GPU_TEMP_EDGE, 5, VALUE_UNREADABLE, 0);
    expect_metric(w->shared, METRIC_GPU_BUSY, 5, VALUE_UNREADABLE, 0);
    expect_metric(w->shared, METRIC_GPU_TEMP_EDGE, 6, VALUE_OK, 41000);
}

#define RAS "/sys/class/drm/card%d/device/ras/%s"

static void write_errors(const struct world *w, int card, const char *file, const char *text)
{
    char path[128];
    (void)snprintf(path, sizeof path, RAS, card, file);
    help_write(w->root, path, text);
}

/* They are read before and after a run and never in between; a suspended card is not read. */
static void test_errors_of_the_hardware(void **state)
{
    struct world *w = *state;
    for (int card = 1; card < 6; card++) {
        write_errors(w, card, "umc_err_count", "ue: 1\nce: 40\nde: 7\n");
        write_errors(w, card, "gfx_err_count", "ue: 0\nce: 2\n");
        write_errors(w, card, "features", "feature mask: 0x1\n");
    }
    write_errors(w, 2, "sdma_err_count", "Query currently inaccessible\n");
    help_write(w->root, "/sys/class/drm/card3/device/power/runtime_status", "suspended\n");
    world_begin(w);
    write_errors(w, 1, "umc_err_count", "ue: 3\nce: 40\nde: 7\n");
    world_turn_after(w, 2 * SECOND);
    world_turn_after(w, 60 * SECOND);
    expect_metric(w->shared, METRIC_GPU_UNCORRECTED, 0, VALUE_ABSENT, 0);
    expect_metric(w->shared, METRIC_GPU_UNCORRECTED, 1, VALUE_OK, 1);
    expect_metric(w->shared, METRIC_GPU_CORRECTED, 1, VALUE_OK, 42);
    expect_metric(w->shared, METRIC_GPU_UNCORRECTED, 2, VALUE_UNREADABLE, 0);
    expect_metric(w->shared, METRIC_GPU_CORRECTED, 3, VALUE_UNREADABLE, 0);
    sampler_after(w->sampler);
    expect_metric(w->shared, METRIC_GPU_UNCORRECTED, 1, VALUE_OK, 3);
    expect_metric(w->shared, METRIC_GPU_CORRECTED, 1, VALUE_OK, 42);
    /* If the read of one counter hangs, the other values are kept, and the count from before the run does
     * not stand for it. */
    struct series_set set;
    help_ring_to_series(w->shared, &set);
    size_t first = 0;
    while (first < set.record_count && (set.records[first].flags & SAMPLE_AFTER) == 0)
        first++;
    assert_int_equal(first + 2, set.record_count);
    assert_true((set.records[first + 1].flags & SAMPLE_AFTER) != 0);
    const struct series_point *p =
        series_at(series_find(&set, METRIC_GPU_UNCORRECTED, 1), set.records[first].time_ns);
    assert_true(p != NULL && p->status == VALUE_UNREADABLE);
    series_release(&set);
}

/* --- as a process --- */

static pid_t start_sampler(struct world *w)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        sampler_run(w->shared);
    }
    return pid;
}

static void wait_word(_Atomic uint32_t *word, uint32_t old)
{
    uint64_t give_up = clock_mono_ns() + 10 * SECOND;
    while (*word == old && clock_mono_ns() < give_up) {
        struct timespec ts = {0, 1000000};
        (void)syscall(SYS_futex, word, FUTEX_WAIT, old, &ts, NULL, 0);
    }
    assert_int_not_equal(*word, old);
}

static uint64_t ask_for_impact(struct world *w, uint32_t number, int32_t pid)
{
    uint64_t start = clock_mono_ns();
    w->shared->impact_pid = pid;
    w->shared->impact_request = number;
    (void)syscall(SYS_futex, &w->shared->impact_request, FUTEX_WAKE, 1, NULL, NULL, 0);
    while (w->shared->impact_answer != number && clock_mono_ns() - start < 10 * SECOND) {
        struct timespec ts = {0, 50000000};
        (void)syscall(SYS_futex, &w->shared->impact_answer, FUTEX_WAIT, number - 1, &ts, NULL, 0);
    }
    return clock_mono_ns() - start;
}

static int compare_times(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void test_impact_and_after(void **state)
{
    struct world *w = *state;
    pid_t deepest = 0;
    pid_t target = start_sleeper(0, &deepest);
    w->shared->target_pid = target;
    w->shared->target_state = TARGET_RUNNING;
    pid_t sampler = start_sampler(w);
    wait_word(&w->shared->sampler_baseline_done, 0);
    uint64_t times[50];
    for (uint32_t i = 0; i < 50; i++) {
        help_write_u64(w->root, "/sys/class/drm/card7/device/mem_info_vram_used", 5000 + i);
        times[i] = ask_for_impact(w, i + 1, target);
        if (times[i] > 4 * NS_PER_MS)
            (void)printf("  impact %u took %.2f ms\n", i, (double)times[i] / 1e6);
        assert_int_equal(w->shared->impact_answer, i + 1);
        expect_metric(w->shared, METRIC_GPU_VRAM_USED, 7, VALUE_OK, 5000 + i);
    }
    qsort(times, 50, sizeof times[0], compare_times);
    (void)printf("  impact answered in %.2f ms (median), %.2f ms (slowest of 50)\n",
                 (double)times[25] / 1e6, (double)times[49] / 1e6);
    /* It is answered at once, not at the next turn 100 ms later; on a busy machine the fastest tenth counts. */
    assert_true(times[5] < 5 * NS_PER_MS);
    struct series_set set;
    help_ring_to_series(w->shared, &set);
    uint64_t impact = series_time_of(&set, SAMPLE_IMPACT);
    const struct series_point *rss =
        series_at(series_find(&set, METRIC_PROC_RSS, (uint32_t)target), impact);
    assert_true(rss != NULL && rss->status == VALUE_OK && rss->value > 0);
    const struct series_point *maps =
        series_at(series_find(&set, METRIC_PROC_MAPS, (uint32_t)target), impact);
    assert_true(maps != NULL && maps->status == VALUE_OK);
    series_release(&set);
    end_sleeper(target);
    w->shared->target_end_ns = clock_mono_ns();
    w->shared->target_state = TARGET_ENDED;
    int status = 0;
    assert_int_equal(waitpid(sampler, &status, 0), sampler);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    help_ring_to_series(w->shared, &set);
    uint64_t after = series_time_of(&set, SAMPLE_AFTER);
    assert_true(after >= w->shared->target_end_ns + SECOND);
    assert_true(after < w->shared->target_end_ns + 2 * SECOND);
    series_release(&set);
}

/* Killed between reads: the next sampler continues without a second baseline and gives up no
 * file. */
static void test_replacement_goes_on(void **state)
{
    struct world *w = *state;
    w->shared->target_state = TARGET_RUNNING;
    pid_t first = start_sampler(w);
    wait_word(&w->shared->sampler_baseline_done, 0);
    (void)kill(first, SIGKILL);
    (void)waitpid(first, NULL, 0);
    pid_t second = start_sampler(w);
    (void)ask_for_impact(w, 1, 0);
    (void)kill(second, SIGKILL);
    (void)waitpid(second, NULL, 0);
    struct series_set set;
    help_ring_to_series(w->shared, &set);
    unsigned baselines = 0;
    for (size_t i = 0; i < set.record_count; i++)
        baselines += (set.records[i].flags & SAMPLE_BASELINE) != 0;
    assert_int_equal(baselines, 1);
    assert_int_equal(set.skipped_bytes, 0);
    series_release(&set);
    for (int i = 0; i < 64; i++)
        assert_true(w->shared->sampler_bad_files[i] == 0);
    expect_metric(w->shared, METRIC_GPU_VRAM_USED, 0, VALUE_OK, 1000000);
}

/* Sixteen ranks for each CPU: all their samplers together may take what one may take of each CPU. */
static void test_ranks_that_share_cpus(void **state)
{
    struct world *w = *state;
    char ranks[32];
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    (void)setenv("LOCAL_WORLD_SIZE", "1", 1);
    sampler_init(w->sampler, w->shared);
    uint32_t alone = w->sampler->pace_fast.share_ppm;
    (void)snprintf(ranks, sizeof ranks, "%ld", cpus);
    (void)setenv("LOCAL_WORLD_SIZE", ranks, 1);
    sampler_init(w->sampler, w->shared);
    assert_int_equal(w->sampler->pace_fast.share_ppm, alone);
    (void)snprintf(ranks, sizeof ranks, "%ld", 16 * cpus);
    (void)setenv("LOCAL_WORLD_SIZE", ranks, 1);
    sampler_init(w->sampler, w->shared);
    assert_int_equal(w->sampler->pace_fast.share_ppm, alone / 16);
    (void)unsetenv("LOCAL_WORLD_SIZE");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, world_set_up, world_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_baseline_holds_everything),
        TEST(test_only_changes_are_written),
        TEST(test_failing_reads_have_a_status),
        TEST(test_errors_of_the_hardware),
        TEST(test_impact_and_after),
        TEST(test_replacement_goes_on),
        TEST(test_ranks_that_share_cpus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
