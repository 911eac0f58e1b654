/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's GPUs in the sampler, with a library that imitates NVML. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fs.h"
#include "fake_nvml.h"
#include "expect.h"
#include "help.h"
#include "record/shared.h"
#include "telemetry/nvml.h"
#include "telemetry/sampler.h"
#include "telemetry/sampler_internal.h"

#define GIB ((uint64_t)1 << 30)

struct world {
    char root[256];
    struct shared *shared;
    int fd;
    struct sampler *sampler;
    struct fake_answers *answers;
};

static struct fake_answers *map_answers(const char *root)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/answers", root);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(ftruncate(fd, sizeof(struct fake_answers)), 0);
    void *map = mmap(NULL, sizeof(struct fake_answers), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    assert_true(map != MAP_FAILED);
    (void)setenv("FAKE_NVML", path, 1);
    return map;
}

static void install_library(const char *root)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/usr", root);
    (void)mkdir(path, 0700);
    (void)snprintf(path, sizeof path, "%s/usr/lib", root);
    (void)mkdir(path, 0700);
    (void)snprintf(path, sizeof path, "%s/usr/lib/libnvidia-ml.so.1", root);
    assert_int_equal(symlink(TEST_FAKE_NVML, path), 0);
}

static int set_up(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    help_make_dir(w->root, sizeof w->root);
    help_fake_machine(w->root, 1, 1000000);
    help_write(w->root, "/proc/driver/nvidia/gpus/0000:65:00.0/information",
               "Model: NVIDIA H200\n");
    help_write(w->root, "/proc/driver/nvidia/gpus/0000:17:00.0/information",
               "Model: NVIDIA H200\n");
    help_write(w->root, "/proc/driver/nvidia/gpus/0000:99:00.0/information", "Model: NVIDIA A2\n");
    help_write(w->root, "/proc/driver/nvidia/gpus/nonsense", "");
    fs_set_sysroot(w->root);
    w->shared = shared_create(&w->fd, NULL);
    w->sampler = calloc(1, sizeof *w->sampler);
    w->answers = map_answers(w->root);
    w->answers->total[0] = w->answers->total[1] = 140 * GIB;
    w->answers->free_bytes[0] = 100 * GIB;
    w->answers->used[0] = 39 * GIB; /* the driver itself uses 1 GiB */
    w->answers->free_bytes[1] = 140 * GIB;
    w->answers->busy = 77;
    w->answers->celsius = 51;
    w->answers->sm_mhz = 1980;
    w->answers->memory_mhz = 3201;
    *state = w;
    return w->shared == NULL || w->sampler == NULL;
}

static int tear_down(void **state)
{
    struct world *w = *state;
    fs_set_sysroot(NULL);
    help_remove(w->root);
    (void)munmap(w->shared, sizeof *w->shared);
    (void)munmap(w->answers, sizeof *w->answers);
    (void)close(w->fd);
    free(w->sampler);
    free(w);
    return 0;
}

static void begin(struct world *w)
{
    sampler_init(w->sampler, w->shared);
    sampler_begin(w->sampler);
}

static void turn_after(struct world *w, uint64_t ns)
{
    w->sampler->now_ns += ns;
    (void)sampler_turn(w->sampler);
}

static bool event_says(const struct world *w, const char *text)
{
    return memmem(w->shared->event_data, sizeof w->shared->event_data, text, strlen(text)) != NULL;
}

/* Runs a test in its own process: the library stays loaded and keeps its state. */
static void in_child(void (*test)(struct world *), struct world *w)
{
    pid_t pid = fork();
    if (pid == 0) {
        test(w);
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void gpus_come_after_amds(void **state)
{
    (void)state;
    static struct machine m;
    machine_scan(&m);
    assert_int_equal(m.count, 4);
    assert_false(nvml_is(&m.gpus[0]));
    static const char *const order[] = {"0000:17:00.0", "0000:65:00.0", "0000:99:00.0"};
    for (int i = 0; i < 3; i++) {
        assert_true(nvml_is(&m.gpus[i + 1]));
        assert_string_equal(m.gpus[i + 1].pci, order[i]);
        assert_false(m.gpus[i + 1].is_apu);
    }
}

static void check_values(struct world *w)
{
    install_library(w->root);
    begin(w);
    turn_after(w, 2 * SECOND);
    expect_metric(w->shared, METRIC_GPU_VRAM_USED, 0, VALUE_OK, 1000000); /* amdgpu's values are unchanged */
    expect_metric(w->shared, METRIC_GPU_VRAM_TOTAL, 1, VALUE_OK, 140 * GIB);
    expect_metric(w->shared, METRIC_GPU_VRAM_USED, 1, VALUE_OK, 40 * GIB);
    expect_metric(w->shared, METRIC_GPU_VRAM_USED, 2, VALUE_OK, 0);
    expect_metric(w->shared, METRIC_GPU_VRAM_USED, 3, VALUE_ABSENT, 0);
    expect_metric(w->shared, METRIC_GPU_VIS_TOTAL, 1, VALUE_OK, GIB);
    expect_metric(w->shared, METRIC_GPU_BUSY, 1, VALUE_OK, 77);
    expect_metric(w->shared, METRIC_GPU_TEMP_EDGE, 1, VALUE_OK, 51000);
    expect_metric(w->shared, METRIC_GPU_POWER, 1, VALUE_ABSENT, 0);
    expect_metric(w->shared, METRIC_GPU_SCLK, 1, VALUE_OK, 1980000000);
    expect_metric(w->shared, METRIC_GPU_MCLK, 1, VALUE_OK, 3201000000);
    assert_int_equal(w->answers->inits, 1);
    struct series_set set;
    help_ring_to_series(w->shared, &set);
    const struct series *used = series_find(&set, METRIC_GPU_VRAM_USED, 1);
    assert_int_equal(used->points[0].status, VALUE_OK); /* not "absent" in the baseline record */
    series_release(&set);
    w->answers->free_bytes[0] = 90 * GIB;
    w->answers->throttle = 0x8 | 0x1;
    w->answers->ecc = 4;
    turn_after(w, 2 * SECOND);
    expect_metric(w->shared, METRIC_GPU_VRAM_USED, 1, VALUE_OK, 50 * GIB);
    assert_true(event_says(w, "GPU 1: clocks are throttled, reasons 0x8"));
    assert_true(event_says(w, "GPU 1: 4 uncorrected ECC errors"));
    w->answers->memory_result = 15; /* the GPU is lost */
    turn_after(w, 2 * SECOND);
    expect_metric(w->shared, METRIC_GPU_VRAM_USED, 1, VALUE_UNREADABLE, 0);
}

/* The sampler does not count its own process, which is this one in the test. */
static pid_t start_target(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            (void)pause();
    }
    return pid;
}

static void check_processes(struct world *w)
{
    install_library(w->root);
    pid_t target = start_target();
    w->shared->target_pid = target;
    w->answers->process_count[0] = 3;
    w->answers->processes[0][0].pid = (unsigned)target;
    w->answers->processes[0][0].bytes = 3 * GIB;
    w->answers->processes[0][1].pid = 1;
    w->answers->processes[0][1].bytes = 30 * GIB;
    w->answers->processes[0][2].pid = 2;
    w->answers->processes[0][2].bytes = UINT64_MAX; /* not available */
    w->answers->process_count[1] = 1;
    w->answers->processes[1][0].pid = 1;
    w->answers->processes[1][0].bytes = 5 * GIB;
    begin(w);
    turn_after(w, 2 * SECOND);
    expect_metric(w->shared, METRIC_GPU_OTHERS_KFD_VRAM, 1, VALUE_OK, 30 * GIB);
    expect_metric(w->shared, METRIC_GPU_OTHERS_KFD_VRAM, 2, VALUE_OK, 5 * GIB);
    expect_metric(w->shared, METRIC_GPU_OTHERS_KFD_VRAM, 3, VALUE_UNREADABLE, 0);
    expect_metric(w->shared, METRIC_PROC_KFD_VRAM, 1, VALUE_OK, 35 * GIB);
    expect_metric(w->shared, METRIC_PROC_KFD_VRAM, (uint32_t)target, VALUE_OK, 3 * GIB);
    w->answers->processes[0][0].bytes = 4 * GIB;
    w->shared->impact_pid = target;
    w->shared->impact_request++;
    sampler_impact(w->sampler);
    expect_metric(w->shared, METRIC_PROC_KFD_VRAM, (uint32_t)target, VALUE_OK, 4 * GIB);
    w->answers->process_count[0] = 1;
    w->answers->process_count[1] = 0;
    turn_after(w, 9 * SECOND); /* the impact record has moved the clock */
    expect_metric(w->shared, METRIC_GPU_OTHERS_KFD_VRAM, 1, VALUE_OK, 0);
    w->answers->process_result = 4; /* no permission */
    turn_after(w, 2 * SECOND);
    expect_metric(w->shared, METRIC_GPU_OTHERS_KFD_VRAM, 1, VALUE_UNREADABLE, 0);
    (void)kill(target, SIGKILL);
    (void)waitpid(target, NULL, 0);
}

static void check_failing_start(struct world *w)
{
    install_library(w->root);
    w->answers->init_result = 9; /* driver not loaded */
    begin(w);
    turn_after(w, 2 * SECOND);
    expect_metric(w->shared, METRIC_GPU_VRAM_USED, 0, VALUE_OK, 1000000);
    expect_metric(w->shared, METRIC_GPU_VRAM_USED, 1, VALUE_ABSENT, 0);
    assert_true(event_says(w, "NVML: error 9"));
}

static void check_no_library(struct world *w)
{
    begin(w);
    turn_after(w, 2 * SECOND);
    expect_metric(w->shared, METRIC_GPU_VRAM_USED, 1, VALUE_ABSENT, 0);
    assert_true(event_says(w, "libnvidia-ml.so.1 is not there"));
}

/* The sampler before us hung in the library and was killed: we do not load the library. */
static void check_given_up(struct world *w)
{
    install_library(w->root);
    uint32_t file = FILE_HOST(15);
    atomic_fetch_or(&w->shared->sampler_bad_files[file / 64], UINT64_C(1) << (file % 64));
    begin(w);
    turn_after(w, 2 * SECOND);
    expect_metric(w->shared, METRIC_GPU_VRAM_USED, 0, VALUE_OK, 1000000);
    expect_metric(w->shared, METRIC_GPU_VRAM_USED, 1, VALUE_STALLED, 0);
    assert_int_equal(w->answers->inits, 0);
}

static void check_amd_only(struct world *w)
{
    char path[512];
    install_library(w->root);
    (void)snprintf(path, sizeof path, "%s/proc/driver/nvidia", w->root);
    help_remove(path);
    begin(w);
    turn_after(w, 2 * SECOND);
    assert_int_equal(w->sampler->machine.count, 1);
    assert_int_equal(w->answers->inits, 0);
    assert_false(event_says(w, "NVML"));
}

#define IN_CHILD(name)                                                                             \
    static void test_##name(void **state)                                                          \
    {                                                                                              \
        in_child(check_##name, *state);                                                            \
    }
IN_CHILD(values)
IN_CHILD(processes)
IN_CHILD(failing_start)
IN_CHILD(no_library)
IN_CHILD(given_up)
IN_CHILD(amd_only)

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(gpus_come_after_amds), TEST(test_values),     TEST(test_processes),
        TEST(test_failing_start),    TEST(test_no_library), TEST(test_given_up),
        TEST(test_amd_only),
    };
    return cmocka_run_group_tests_name("nvml", tests, NULL, NULL);
}
