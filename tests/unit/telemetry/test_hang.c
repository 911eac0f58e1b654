/* SPDX-License-Identifier: Apache-2.0 */
/* A counter file whose read never returns: only that file is lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "fuse_file.h"
#include "expect.h"
#include "help.h"
#include "record/shared.h"
#include "telemetry/sampler.h"
#include "telemetry/sampler_internal.h"

static pid_t start_sampler(struct shared *shared)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        sampler_run(shared);
    }
    return pid;
}

static bool nothing_pending_for(const struct shared *shared, uint64_t ns)
{
    uint64_t since = shared->helpers[HELPER_SAMPLER].work_pending_ns;
    return since == 0 || clock_mono_ns() - since < ns;
}

/* As the supervisor does: waits until a read has been pending for too long. */
static bool wait_for_hang(const struct shared *shared)
{
    uint64_t give_up = clock_mono_ns() + 10 * SECOND;
    while (nothing_pending_for(shared, (SAMPLER_HUNG_MS + 50) * NS_PER_MS)) {
        if (clock_mono_ns() > give_up)
            return false;
        struct timespec ts = {0, 5000000};
        (void)nanosleep(&ts, NULL);
    }
    return true;
}

static void ask_for_impact(struct shared *shared, uint32_t number)
{
    uint64_t start = clock_mono_ns();
    shared->impact_request = number;
    (void)syscall(SYS_futex, &shared->impact_request, FUTEX_WAKE, 1, NULL, NULL, 0);
    while (shared->impact_answer != number && clock_mono_ns() - start < 5 * SECOND) {
        struct timespec ts = {0, 50000000};
        (void)syscall(SYS_futex, &shared->impact_answer, FUTEX_WAIT, number - 1, &ts, NULL, 0);
    }
    assert_int_equal(shared->impact_answer, number);
}

static void test_hung_file_is_given_up(void **state)
{
    (void)state;
    char root[256];
    char path[512];
    help_make_dir(root, sizeof root);
    help_fake_machine(root, 8, 1000000);
    fs_set_sysroot(root);
    (void)snprintf(path, sizeof path, "%s/sys/class/drm/card3/device/mem_info_gtt_used", root);
    struct fuse_file file;
    int r = fuse_file_mount(&file, path, "777\n");
    if (r < 0) {
        (void)printf("skipped: cannot mount FUSE: %s\n", strerror(-r));
        help_remove(root);
        skip();
    }
    int fd = -1;
    struct shared *shared = shared_create(&fd, NULL);
    shared->target_state = TARGET_RUNNING;
    pid_t first = start_sampler(shared);
    ask_for_impact(shared, 1);
    expect_metric(shared, METRIC_GPU_GTT_USED, 3, VALUE_OK, 777);
    /* The GPU goes into a reset that never ends. */
    file.control->hang = 1;
    shared->impact_request = 2;
    (void)syscall(SYS_futex, &shared->impact_request, FUTEX_WAKE, 1, NULL, NULL, 0);
    assert_true(wait_for_hang(shared));
    assert_int_equal(shared->sampler_current_file, FILE_GPU(3, METRIC_GPU_GTT_USED));
    /* A hanging process does not die: the supervisor does not wait for it. */
    (void)kill(first, SIGKILL);
    assert_int_equal(waitpid(first, NULL, WNOHANG), 0);
    unsigned reads = file.control->reads;
    uint64_t start = clock_mono_ns();
    pid_t second = start_sampler(shared);
    ask_for_impact(shared, 3);
    (void)printf("  replaced and answered in %.1f ms\n", (double)(clock_mono_ns() - start) / 1e6);
    assert_int_equal(file.control->reads, reads); /* it was not touched again */
    expect_metric(shared, METRIC_GPU_GTT_USED, 3, VALUE_STALLED, 0);
    expect_metric(shared, METRIC_GPU_VRAM_USED, 3, VALUE_OK, 1000003);
    expect_metric(shared, METRIC_GPU_GTT_USED, 4, VALUE_OK, 14680064);
    (void)kill(second, SIGKILL);
    (void)waitpid(second, NULL, 0);
    fuse_file_unmount(&file);
    (void)waitpid(first, NULL, 0); /* the abort lets it go */
    fs_set_sysroot(NULL);
    help_remove(root);
    (void)munmap(shared, sizeof *shared);
    (void)close(fd);
}

/* The files are slow but answer, like an SMU under load: no file is given up, and an impact record does not wait for
 * all of them. */
static void test_slow_file_is_kept(void **state)
{
    (void)state;
    char root[256];
    char path[512];
    help_make_dir(root, sizeof root);
    help_fake_machine(root, 2, 1000000);
    fs_set_sysroot(root);
    (void)snprintf(path, sizeof path, "%s/sys/class/drm/card1/device/gpu_busy_percent", root);
    struct fuse_file file;
    int r = fuse_file_mount(&file, path, "55\n");
    if (r < 0) {
        (void)printf("skipped: cannot mount FUSE: %s\n", strerror(-r));
        help_remove(root);
        skip();
    }
    file.control->delay_us = 20000;
    int fd = -1;
    struct shared *shared = shared_create(&fd, NULL);
    shared->target_state = TARGET_RUNNING;
    pid_t sampler = start_sampler(shared);
    uint64_t give_up = clock_mono_ns() + 10 * SECOND;
    while (file.control->reads < 2 && clock_mono_ns() < give_up) {
        struct timespec ts = {0, 5000000};
        (void)nanosleep(&ts, NULL);
    }
    ask_for_impact(shared, 1);
    expect_metric(shared, METRIC_GPU_BUSY, 1, VALUE_OK, 55);
    for (int i = 0; i < 64; i++)
        assert_true(shared->sampler_bad_files[i] == 0);
    (void)kill(sampler, SIGKILL);
    (void)waitpid(sampler, NULL, 0);
    fuse_file_unmount(&file);
    fs_set_sysroot(NULL);
    help_remove(root);
    (void)munmap(shared, sizeof *shared);
    (void)close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hung_file_is_given_up),
        cmocka_unit_test(test_slow_file_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
