/* SPDX-License-Identifier: Apache-2.0 */
/* The sampler's values of real processes: the tree of the target, KFD's figures, clients of DRM. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "expect.h"
#include "help.h"
#include "record/shared.h"
#include "sampler_world.h"
#include "telemetry/sampler_internal.h"

static unsigned count_fds(pid_t pid)
{
    char path[64];
    unsigned count = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR *dir = opendir(path);
    for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;)
        count += e->d_name[0] != '.';
    (void)closedir(dir);
    return count;
}

static void test_tree_is_followed(void **state)
{
    struct world *w = *state;
    pid_t deepest = 0;
    pid_t top = start_sleeper(2, &deepest);
    long fds_limit = sysconf(_SC_OPEN_MAX); /* before the sampler raises its own */
    w->shared->target_pid = top;
    world_begin(w);
    world_turn_after(w, SECOND);
    struct series_set set;
    help_ring_to_series(w->shared, &set);
    assert_non_null(series_find(&set, METRIC_PROC_RSS, (uint32_t)top));
    const struct series_point *rss =
        series_at(series_find(&set, METRIC_PROC_RSS, (uint32_t)deepest), UINT64_MAX);
    assert_non_null(rss);
    assert_true(rss->status == VALUE_OK && rss->value > 10000);
    const struct series_point *fds =
        series_at(series_find(&set, METRIC_PROC_FDS, (uint32_t)deepest), UINT64_MAX);
    assert_true(fds->status == VALUE_OK);
    assert_int_equal(fds->value, count_fds(deepest));
    const struct series_point *limit =
        series_at(series_find(&set, METRIC_PROC_FDS_LIMIT, (uint32_t)deepest), UINT64_MAX);
    assert_true(limit->status == VALUE_OK);
    assert_int_equal(limit->value, fds_limit);
    const struct series_point *maps =
        series_at(series_find(&set, METRIC_PROC_MAPS, (uint32_t)top), UINT64_MAX);
    assert_true(maps->status == VALUE_OK && maps->value > 10);
    assert_null(series_find(&set, METRIC_PROC_RSS, (uint32_t)getpid()));
    series_release(&set);
    /* The process is gone: its values end instead of keeping their last value. */
    end_sleeper(top);
    world_turn_after(w, 2 * SECOND);
    expect_metric(w->shared, METRIC_PROC_RSS, (uint32_t)top, VALUE_ABSENT, 0);
    expect_metric(w->shared, METRIC_PROC_FDS, (uint32_t)top, VALUE_ABSENT, 0);
}

/* A child of the supervisor is an orphan of the target, unless the supervisor says that it is its own. */
static void test_our_children_are_not_of_the_tree(void **state)
{
    struct world *w = *state;
    pid_t deepest = 0;
    pid_t top = start_sleeper(0, &deepest);
    pid_t orphan = start_sleeper(0, &deepest);
    pid_t finisher = start_sleeper(0, &deepest);
    w->shared->target_pid = top;
    w->shared->run.supervisor_pid = getpid();
    shared_note_own_child(w->shared, finisher);
    world_begin(w);
    world_turn_after(w, SECOND);
    struct series_set set;
    help_ring_to_series(w->shared, &set);
    assert_non_null(series_find(&set, METRIC_PROC_RSS, (uint32_t)top));
    assert_non_null(series_find(&set, METRIC_PROC_RSS, (uint32_t)orphan));
    assert_null(series_find(&set, METRIC_PROC_RSS, (uint32_t)finisher));
    series_release(&set);
    end_sleeper(top);
    end_sleeper(orphan);
    end_sleeper(finisher);
}

/* KFD's files: of the tree, and of another process that holds VRAM. */
static void test_kfd_ours_and_others(void **state)
{
    struct world *w = *state;
    pid_t deepest = 0;
    pid_t top = start_sleeper(1, &deepest);
    char path[256];
    (void)snprintf(path, sizeof path, "/sys/class/kfd/kfd/proc/%d/vram_20000", deepest);
    help_write_u64(w->root, path, 5000);
    (void)snprintf(path, sizeof path, "/sys/class/kfd/kfd/proc/%d/vram_20003", deepest);
    help_write_u64(w->root, path, 70);
    int32_t other = getpid(); /* not of the tree */
    (void)snprintf(path, sizeof path, "/sys/class/kfd/kfd/proc/%d/vram_20003", other);
    help_write_u64(w->root, path, 123456);
    help_write_u64(w->root, "/sys/class/kfd/kfd/proc/99999998/vram_20003", 44);
    w->shared->target_pid = top;
    world_begin(w);
    world_turn_after(w, SECOND);
    expect_metric(w->shared, METRIC_PROC_KFD_VRAM, (uint32_t)deepest, VALUE_OK, 5070);
    expect_metric(w->shared, METRIC_PROC_KFD_VRAM, (uint32_t)top, VALUE_ABSENT, 0);
    expect_metric(w->shared, METRIC_GPU_OTHERS_KFD_VRAM, 0, VALUE_OK, 0);
    expect_metric(w->shared, METRIC_GPU_OTHERS_KFD_VRAM, 3, VALUE_OK, 123500);
    expect_metric(w->shared, METRIC_PROC_KFD_VRAM, (uint32_t)other, VALUE_OK, 123456);
    expect_metric(w->shared, METRIC_PROC_OUTSIDE, (uint32_t)other, VALUE_OK, 1);
    end_sleeper(top);
    (void)snprintf(path, sizeof path, "%.200s/sys/class/kfd/kfd/proc", w->root);
    (void)fs_remove_tree(AT_FDCWD, path);
    (void)fs_mkdir_p(path);
    world_turn_after(w, 2 * SECOND);
    expect_metric(w->shared, METRIC_GPU_OTHERS_KFD_VRAM, 3, VALUE_OK, 0);
    expect_metric(w->shared, METRIC_PROC_KFD_VRAM, (uint32_t)other, VALUE_ABSENT, 0);
}

static void write_vram(const struct world *w, pid_t pid, unsigned gpu, uint64_t bytes)
{
    char path[256];
    (void)snprintf(path, sizeof path, "/sys/class/kfd/kfd/proc/%d/vram_2000%u", pid, gpu);
    help_write_u64(w->root, path, bytes);
}

static void write_used(const struct world *w, unsigned gpu, uint64_t bytes)
{
    char path[256];
    (void)snprintf(path, sizeof path, "/sys/class/drm/card%u/device/mem_info_vram_used", gpu);
    help_write_u64(w->root, path, bytes);
}

/* When the counter of a GPU changes, the process is read with it. All else waits for the second. */
static void test_kfd_follows_the_counter(void **state)
{
    struct world *w = *state;
    pid_t deepest = 0;
    pid_t target = start_sleeper(0, &deepest);
    write_vram(w, target, 0, 5000);
    write_vram(w, target, 3, 70);
    write_vram(w, target, 4, 0);
    w->shared->target_pid = target;
    world_begin(w);
    world_turn_after(w, SECOND);
    expect_metric(w->shared, METRIC_PROC_KFD_VRAM, (uint32_t)target, VALUE_OK, 5070);
    write_vram(w, target, 0, 9000);
    world_turn_after(w, SECOND / 5);
    expect_metric(w->shared, METRIC_PROC_KFD_VRAM, (uint32_t)target, VALUE_OK, 5070); /* no counter has changed */
    write_used(w, 1, 2000000);
    write_used(w, 4, 2000000);
    write_vram(w, target, 4, 1);
    world_turn_after(w, SECOND / 5);
    expect_metric(w->shared, METRIC_PROC_KFD_VRAM, (uint32_t)target, VALUE_OK, 5070); /* those where it held none have */
    write_used(w, 0, 2000000);
    world_turn_after(w, SECOND / 5);
    expect_metric(w->shared, METRIC_PROC_KFD_VRAM, (uint32_t)target, VALUE_OK, 9070);
    write_vram(w, target, 0, 4000);
    write_used(w, 0, 2000001);
    world_turn_after(w, SECOND / 5);
    expect_metric(w->shared, METRIC_PROC_KFD_VRAM, (uint32_t)target, VALUE_OK, 4070);
    world_turn_after(w, SECOND);
    expect_metric(w->shared, METRIC_PROC_KFD_VRAM, (uint32_t)target, VALUE_OK, 4071);
    end_sleeper(target);
}

static const char fdinfo_shape[] = "pos:\t0\ndrm-driver:\tamdgpu\ndrm-client-id:\t%u\n"
                                   "drm-pdev:\t0000:%02x:00.0\ndrm-memory-vram:\t%u KiB\n"
                                   "drm-memory-gtt: \t7 KiB\namd-evicted-vram:\t0 KiB\n";

static void fake_fd(struct world *w, int pid, int fd, const char *target, unsigned client,
                    unsigned bus, unsigned kib)
{
    char path[512];
    char text[512];
    (void)snprintf(path, sizeof path, "/fakeproc/%d/fdinfo/%d", pid, fd);
    (void)snprintf(text, sizeof text, fdinfo_shape, client, bus, kib);
    help_write(w->root, path, text);
    (void)snprintf(path, sizeof path, "%s/fakeproc/%d/fd", w->root, pid);
    (void)fs_mkdir_p(path);
    (void)snprintf(path, sizeof path, "%s/fakeproc/%d/fd/%d", w->root, pid, fd);
    assert_int_equal(symlink(target, path), 0);
}

/* Each (device, client) is counted once, also with dup'ed descriptors and in a child that inherited them. */
static void test_drm_clients_counted_once(void **state)
{
    struct world *w = *state;
    char proc[512];
    (void)snprintf(proc, sizeof proc, "%s/fakeproc", w->root);
    help_write(w->root, "/fakeproc/500/status", "Name:\tpython3\nPPid:\t1\nVmRSS:\t100 kB\n");
    help_write(w->root, "/fakeproc/500/task/500/children", "501 ");
    help_write(w->root, "/fakeproc/501/status", "Name:\tworker\nPPid:\t500\nVmRSS:\t50 kB\n");
    help_write(w->root, "/fakeproc/501/task/501/children", "");
    fake_fd(w, 500, 3, "/dev/dri/renderD128", 10, 0x10, 1000);
    fake_fd(w, 500, 4, "/dev/dri/renderD128", 10, 0x10, 1000); /* dup */
    fake_fd(w, 500, 2, "/dev/dri/renderD130", 10, 0x12, 1); /* made first, so it is last on tmpfs */
    for (int fd = 20; fd < 60; fd++) /* more than are followed: they must not crowd out others */
        fake_fd(w, 500, fd, "/dev/dri/renderD128", 10, 0x10, 1000);
    fake_fd(w, 500, 5, "/dev/dri/renderD129", 10, 0x11, 200);  /* same id, other device */
    fake_fd(w, 500, 6, "/dev/null", 77, 0x10, 999999);
    fake_fd(w, 501, 3, "/dev/dri/renderD128", 10, 0x10, 1000); /* inherited */
    fake_fd(w, 501, 9, "/dev/dri/renderD128", 11, 0x10, 30);
    w->shared->target_pid = 500;
    world_begin(w);
    w->sampler->proc_root = proc;
    world_turn_after(w, SECOND);
    expect_metric(w->shared, METRIC_PROC_DRM_VRAM, 500, VALUE_OK, 1201 * 1024);
    expect_metric(w->shared, METRIC_PROC_DRM_GTT, 500, VALUE_OK, 21 * 1024);
    expect_metric(w->shared, METRIC_PROC_DRM_EVICTED, 500, VALUE_OK, 0);
    expect_metric(w->shared, METRIC_PROC_DRM_REQUESTED, 500, VALUE_ABSENT, 0); /* this kernel does not report it */
    expect_metric(w->shared, METRIC_PROC_DRM_VRAM, 501, VALUE_OK, 30 * 1024);
    /* At impact a process is read alone, so clients that it inherited count for it. */
    w->shared->impact_pid = 501;
    w->shared->impact_request = 1;
    sampler_impact(w->sampler);
    expect_metric(w->shared, METRIC_PROC_DRM_VRAM, 501, VALUE_OK, 1030 * 1024);
}

static void test_at_most_64_processes_gpu_users_first(void **state)
{
    struct world *w = *state;
    char path[512];
    char children[4096] = "";
    for (int pid = 1001; pid <= 1100; pid++) {
        char number[16];
        (void)snprintf(number, sizeof number, "%d ", pid);
        strcat(children, number);
        (void)snprintf(path, sizeof path, "/fakeproc/%d/status", pid);
        help_write(w->root, path, "Name:\tw\nPPid:\t1000\nVmRSS:\t50 kB\n");
    }
    help_write(w->root, "/fakeproc/1000/status", "Name:\ttop\nPPid:\t1\nVmRSS:\t100 kB\n");
    help_write(w->root, "/fakeproc/1000/task/1000/children", children);
    w->shared->target_pid = 1000;
    world_begin(w);
    char proc[512];
    (void)snprintf(proc, sizeof proc, "%s/fakeproc", w->root);
    w->sampler->proc_root = proc;
    world_turn_after(w, SECOND);
    help_write_u64(w->root, "/sys/class/kfd/kfd/proc/1099/vram_20000", 777); /* the 100th */
    world_turn_after(w, 2 * SECOND);
    world_turn_after(w, 2 * SECOND);
    unsigned slots = 0;
    for (int i = 0; i < SAMPLER_PROCS_MAX; i++)
        slots += w->sampler->procs[i].pid != 0;
    assert_int_equal(slots, SAMPLER_PROCS_MAX);
    expect_metric(w->shared, METRIC_PROC_KFD_VRAM, 1099, VALUE_OK, 777);
    expect_metric(w->shared, METRIC_PROC_RSS, 1000, VALUE_OK, 100 * 1024);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, world_set_up, world_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_tree_is_followed),
        TEST(test_kfd_ours_and_others),
        TEST(test_kfd_follows_the_counter),
        TEST(test_drm_clients_counted_once),
        TEST(test_our_children_are_not_of_the_tree),
        TEST(test_at_most_64_processes_gpu_users_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
