/* SPDX-License-Identifier: Apache-2.0 */
/* Host collectors on what a run left: limits, the cgroup, the container, the kernel log, a device core dump. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/fs.h"
#include "harness.h"
#include "record/shared.h"

extern const struct collector collector_cgroup, collector_devcoredump, collector_kernel_log, collector_limits;

static void test_limits_at_impact(void **state)
{
    struct harness *h = *state;
    static const char text[] =
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max open files            1024                 524288               files     \n"
        "Max locked memory         8388608              8388608              bytes     \n"
        "Max address space         unlimited            unlimited            bytes     \n";
    harness_impact(h, 0, 41, CHUNK_LIMITS, "Max open files            7 7 files\n");
    harness_impact(h, 1, 42, CHUNK_LIMITS, text);
    h->ctx.failed_pid = 42;
    harness_run(h, &collector_limits, h->root);
    assert_int_equal(h->status, COLLECT_OK);
    assert_int_equal(harness_integer(h, "proc.0.fds_limit"), 1024);
    assert_int_equal(harness_integer(h, "proc.0.memlock_limit_bytes"), 8388608);
    assert_int_equal(harness_fact_status(h, "proc.0.address_space_limit_bytes"), FACT_ABSENT);
    assert_non_null(strstr(facts_best(h->facts, "proc.0.fds_limit")->source, "impact"));
}

static void test_limits_without_impact(void **state)
{
    struct harness *h = *state;
    struct rlimit limit;
    harness_run(h, &collector_limits, h->root);
    assert_int_equal(h->status, COLLECT_PARTIAL);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(harness_integer(h, "proc.0.fds_limit"), limit.rlim_cur);
    /* The finisher's limits, not the lowered ones of the collector's child. */
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    if (limit.rlim_cur == RLIM_INFINITY)
        assert_int_equal(harness_fact_status(h, "proc.0.file_size_limit_bytes"), FACT_ABSENT);
    assert_non_null(strstr(facts_best(h->facts, "proc.0.fds_limit")->source, "rocmcrash itself"));
}

static void test_broken_impact_files(void **state)
{
    struct harness *h = *state;
    char path[TEMP_FOLDER_MAX + 64];
    harness_impact(h, 0, 42, CHUNK_LIMITS, "Max open files            1024 1 files\n");
    (void)snprintf(path, sizeof path, "%s/impact.0", h->run_dir);
    for (off_t len = 0; len < 400; len += 7) {
        assert_int_equal(truncate(path, len), 0);
        harness_run(h, &collector_limits, h->root);
        assert_int_equal(h->status, COLLECT_PARTIAL); /* the substitute value, and its source says so */
    }
    struct shared_impact head = {.pid = 0, .arena_length = UINT64_MAX};
    struct impact_chunk chunk = {.type = CHUNK_COMM, .length = UINT64_MAX - 8};
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(&head, sizeof head, 1, f), 1);
    assert_int_equal(fwrite(&chunk, sizeof chunk, 1, f), 1);
    assert_int_equal(fclose(f), 0);
    harness_run(h, &collector_limits, h->root);
    assert_int_equal(h->status, COLLECT_PARTIAL);
}

static void test_cgroup_v2(void **state)
{
    struct harness *h = *state;
    harness_impact(h, 0, 42, CHUNK_CGROUP, "0::/kubepods/pod1/job\n");
    harness_file(h, "/sys/fs/cgroup/cgroup.controllers", "cpu memory pids\n");
    harness_file(h, "/sys/fs/cgroup/kubepods/memory.max", "max\n");
    harness_file(h, "/sys/fs/cgroup/kubepods/pod1/memory.max", "8589934592\n");
    harness_file(h, "/sys/fs/cgroup/kubepods/pod1/job/memory.max", "17179869184\n");
    harness_file(h, "/sys/fs/cgroup/kubepods/pod1/job/memory.current", "8000000000\n");
    harness_file(h, "/sys/fs/cgroup/kubepods/pod1/job/memory.peak", "8589934592\n");
    harness_file(h, "/sys/fs/cgroup/kubepods/pod1/job/memory.events",
                 "low 0\nhigh 0\nmax 77\noom 1\noom_kill 1\n");
    h->ctx.failed_pid = 42;
    harness_run(h, &collector_cgroup, h->root);
    assert_int_equal(h->status, COLLECT_OK);
    assert_int_equal(harness_integer(h, "host.cgroup_version"), 2);
    assert_true(harness_integer(h, "host.cgroup_limit_bytes") == INT64_C(8589934592));
    assert_non_null(strstr(facts_best(h->facts, "host.cgroup_limit_bytes")->source, "1 level up"));
    assert_true(harness_integer(h, "host.cgroup_used_bytes") == INT64_C(8000000000));
    assert_true(harness_integer(h, "host.cgroup_peak_bytes") == INT64_C(8589934592));
    assert_int_equal(harness_integer(h, "host.cgroup_oom_kills"), 1);
    assert_int_equal(harness_integer(h, "host.cgroup_limit_hits"), 77);
    assert_string_equal(harness_text(h, "host.container"), "kubernetes");
}

static void test_cgroup_v2_without_limit(void **state)
{
    struct harness *h = *state;
    harness_file(h, "/proc/self/cgroup", "0::/user.slice\n");
    harness_file(h, "/sys/fs/cgroup/cgroup.controllers", "memory\n");
    harness_file(h, "/sys/fs/cgroup/user.slice/memory.max", "max\n");
    harness_run(h, &collector_cgroup, h->root);
    assert_int_equal(h->status, COLLECT_OK);
    assert_int_equal(harness_fact_status(h, "host.cgroup_limit_bytes"), FACT_ABSENT);
    assert_string_equal(facts_best(h->facts, "host.cgroup_limit_bytes")->reason, "no limit is set");
    assert_int_equal(harness_fact_status(h, "host.cgroup_used_bytes"), FACT_ABSENT);
    assert_int_equal(harness_fact_status(h, "host.container"), FACT_ABSENT);
}

static void test_cgroup_v1_in_docker(void **state)
{
    struct harness *h = *state;
    /* The path is the host's; the container sees only its last part, as the root. */
    harness_file(h, "/proc/self/cgroup",
                 "5:devices:/docker/0123456789abcdef0123456789abcdef\n"
                 "4:memory:/docker/0123456789abcdef0123456789abcdef\n0::/\n");
    harness_file(h, "/.dockerenv", "");
    harness_file(h, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "4294967296\n");
    harness_file(h, "/sys/fs/cgroup/memory/memory.usage_in_bytes", "4294000000\n");
    harness_file(h, "/sys/fs/cgroup/memory/memory.max_usage_in_bytes", "4294967296\n");
    harness_file(h, "/sys/fs/cgroup/memory/memory.failcnt", "123\n");
    harness_file(h, "/sys/fs/cgroup/memory/memory.oom_control",
                 "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
    harness_file(h, "/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes", "9223372036854771712\n");
    harness_run(h, &collector_cgroup, h->root);
    assert_int_equal(h->status, COLLECT_OK);
    assert_int_equal(harness_integer(h, "host.cgroup_version"), 1);
    assert_true(harness_integer(h, "host.cgroup_limit_bytes") == INT64_C(4294967296));
    assert_int_equal(harness_integer(h, "host.cgroup_oom_kills"), 2);
    assert_int_equal(harness_integer(h, "host.cgroup_limit_hits"), 123);
    assert_int_equal(harness_fact_status(h, "host.cgroup_swap_limit_bytes"), FACT_ABSENT);
    assert_string_equal(harness_text(h, "host.container"), "docker");
    char *text = harness_staged(h, "cgroup/cgroup.txt");
    assert_non_null(text);
    assert_null(strstr(text, "0123456789abcdef"));
    free(text);
}

static void test_containers(void **state)
{
    struct harness *h = *state;
    static const struct {
        const char *path, *content, *kind;
    } cases[] = {
        {"/run/.containerenv", "", "podman"},
        {"/.singularity.d/env", "", "apptainer"},
        {"/dev/.lxc-boot-id", "", "lxc"},
        {"/var/run/secrets/kubernetes.io/serviceaccount/token", "x", "kubernetes"},
        {"/proc/version", "Linux version 5.15.90.1-microsoft-standard-WSL2 (x)", "wsl"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        harness_clear_root(h);
        harness_file(h, cases[i].path, cases[i].content);
        harness_run(h, &collector_cgroup, h->root);
        assert_string_equal(harness_text(h, "host.container"), cases[i].kind);
    }
    harness_clear_root(h);
    const char *list[] = {"container=lxc", NULL};
    h->ctx.environ_at_impact = list;
    harness_run(h, &collector_cgroup, h->root);
    assert_string_equal(harness_text(h, "host.container"), "lxc");
}

static void test_kernel_log_of_a_recorded_machine(void **state)
{
    struct harness *h = *state;
    harness_file(h, "/dev/kmsg",
                 "3,10,1343872198,-;amdgpu 0000:5a:00.0: amdgpu: [gfxhub] page fault\n"
                 " SUBSYSTEM=pci\n");
    harness_run(h, &collector_kernel_log, h->root);
    assert_int_equal(h->status, COLLECT_OK);
    assert_int_equal(harness_integer(h, "kmsg.readable"), 1);
    char *text = harness_staged(h, "kernel_log/kernel.log");
    assert_string_equal(text, "[ 1343.872198] amdgpu 0000:5a:00.0: amdgpu: [gfxhub] page fault\n");
    free(text);
    harness_clear_root(h);
    harness_file(h, "/dmesg", "[    1.0] a line\n[    2.0] another\n");
    harness_run(h, &collector_kernel_log, h->root);
    text = harness_staged(h, "kernel_log/kernel.log");
    assert_string_equal(text, "[    1.0] a line\n[    2.0] another\n");
    free(text);
    harness_clear_root(h);
    harness_run(h, &collector_kernel_log, h->root);
    assert_int_equal(h->status, COLLECT_SKIPPED);
    assert_int_equal(harness_fact_status(h, "kmsg.readable"), FACT_UNREADABLE);
}

/* The recorder's lines come first and are not repeated from the device. */
static void test_kernel_log_of_the_run(void **state)
{
    struct harness *h = *state;
    char path[TEMP_FOLDER_MAX + 64];
    (void)snprintf(path, sizeof path, "%s/kmsg", h->run_dir);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs("3,4611686018427387904,5000000,-;followed while running\n"
                      "3,4611686018427387905,500000000,-;by a clock that is minutes ahead\n",
                      f) >= 0);
    assert_int_equal(fclose(f), 0);
    h->ctx.run_dir = h->run_dir;
    h->ctx.kmsg_start_seq = 0;
    h->ctx.end_mono_ns = UINT64_C(6000000000);
    harness_run(h, &collector_kernel_log, NULL);
    assert_true(h->status == COLLECT_OK || h->status == COLLECT_PARTIAL);
    char *text = harness_staged(h, "kernel_log/kernel.log");
    assert_string_equal(text, "[    5.000000] followed while running\n"
                              "[  500.000000] by a clock that is minutes ahead\n");
    free(text);
}

static const char dump_head[] =
    "**** AMDGPU Device Coredump ****\nversion: 1\nkernel: 6.19.8-zen1-1-zen\nmodule: amdgpu\n"
    "time: 3054.167340782\nprocess_name: some python PID: 4242\n\nRing timed out details\n"
    "IP Type: 2 Ring Name: sdma0\n\n[gfxhub] Page fault observed\n"
    "Faulty page starting at address: 0x%s\nProtection fault status register: 0x%s\n\n"
    "Ring buffer information\nring 0: gfx\nRing contents\nOffset \t Value\n0x0 \t 0xsecretdata\n"
    "VRAM is lost due to GPU reset!\n";

static void test_devcoredump(void **state)
{
    struct harness *h = *state;
    char text[2048];
    (void)snprintf(text, sizeof text, dump_head, "0000000000000000", "0");
    harness_file(h, "/sys/class/drm/card0/device/uevent", "");
    harness_file(h, "/sys/class/drm/card0-DP-1/device/devcoredump/data", text);
    harness_file(h, "/sys/class/drm/card12/device/devcoredump/data", text);
    h->ctx.start_mono_ns = UINT64_C(3060) * 1000000000u;
    harness_run(h, &collector_devcoredump, h->root);
    assert_int_equal(h->status, COLLECT_OK);
    assert_int_equal(harness_integer(h, "devcoredump.present"), 1);
    assert_int_equal(harness_integer(h, "devcoredump.card"), 12);
    assert_true(harness_integer(h, "devcoredump.time_ns") == INT64_C(3054167340782));
    assert_int_equal(harness_integer(h, "devcoredump.in_window"), 0); /* of an earlier run */
    assert_string_equal(harness_text(h, "devcoredump.kernel"), "6.19.8-zen1-1-zen");
    assert_string_equal(harness_text(h, "devcoredump.process"), "some python");
    assert_int_equal(harness_integer(h, "devcoredump.process_pid"), 4242);
    assert_string_equal(harness_text(h, "devcoredump.ring"), "sdma0");
    assert_int_equal(harness_fact_status(h, "devcoredump.page_fault_address"), FACT_ABSENT);
    assert_int_equal(harness_integer(h, "devcoredump.vram_lost"), 1);
    char *staged = harness_staged(h, "devcoredump/card12.txt");
    assert_non_null(staged);
    assert_null(strstr(staged, "secretdata"));
    assert_non_null(strstr(staged, "# left out here: "));
    free(staged);
    (void)snprintf(text, sizeof text, dump_head, "00007fad9c43f000", "801031");
    harness_file(h, "/sys/class/drm/card12/device/devcoredump/data", text);
    h->ctx.start_mono_ns = UINT64_C(3000) * 1000000000u;
    harness_run(h, &collector_devcoredump, h->root);
    assert_string_equal(harness_text(h, "devcoredump.page_fault_address"), "0x00007fad9c43f000");
    assert_int_equal(harness_integer(h, "devcoredump.in_window"), 1);
    /* Reading has not changed it. */
    harness_run(h, &collector_devcoredump, h->root);
    assert_int_equal(harness_integer(h, "devcoredump.present"), 1);
}

static void test_recorded_devcoredump(void **state)
{
    struct harness *h = *state;
    char *data = NULL;
    if (fs_read_all(TEST_SHARED_DIR "/records/devcoredump-navi44-excerpt.txt", 1 << 20, &data) <
        0) {
        print_message("skipped: no records at %s\n", TEST_SHARED_DIR);
        skip();
    }
    harness_file(h, "/sys/class/drm/card1/device/devcoredump/data", data);
    free(data);
    harness_run(h, &collector_devcoredump, h->root);
    assert_string_equal(harness_text(h, "devcoredump.ring"), "sdma0");
    assert_int_equal(harness_fact_status(h, "devcoredump.page_fault_address"), FACT_ABSENT);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, harness_setup, harness_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_limits_at_impact),
        TEST(test_limits_without_impact),
        TEST(test_broken_impact_files),
        TEST(test_cgroup_v2),
        TEST(test_cgroup_v2_without_limit),
        TEST(test_cgroup_v1_in_docker),
        TEST(test_containers),
        TEST(test_kernel_log_of_a_recorded_machine),
        TEST(test_kernel_log_of_the_run),
        TEST(test_devcoredump),
        TEST(test_recorded_devcoredump),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
