/* SPDX-License-Identifier: Apache-2.0 */
/* Every host collector on machines that are recorded, made up, empty and broken. */
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
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "harness.h"
#include "record/shared.h"

extern const struct collector collector_kernel_log, collector_devcoredump, collector_host,
    collector_limits, collector_cgroup, collector_environment, collector_job;

static const struct collector *const all[] = {
    &collector_kernel_log, &collector_devcoredump, &collector_host, &collector_limits,
    &collector_cgroup,     &collector_environment, &collector_job,  NULL};

static void test_recorded_machines(void **state)
{
    struct harness *h = *state;
    RC_AUTO_CLOSEDIR DIR *dir = opendir(TEST_RECORDED_DIR "/machines");
    assert_non_null(dir);
    int machines = 0;
    int with_firmware = 0;
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        char root[512];
        struct stat st;
        (void)snprintf(root, sizeof root, "%s/machines/%s/sys", TEST_RECORDED_DIR, e->d_name);
        if (e->d_name[0] == '.' || stat(root, &st) != 0)
            continue;
        root[strlen(root) - 4] = '\0';
        machines++;
        for (size_t i = 0; all[i] != NULL; i++) {
            harness_run(h, all[i], root);
            char *firmware = harness_staged(h, "host/firmware.txt");
            with_firmware += firmware != NULL;
            free(firmware);
        }
    }
    assert_true(machines >= 25);
    assert_int_equal(with_firmware, 3); /* phoenix, r7-240, rx6900xt */
}

/* Both copies of TTM are loaded: the limit of the one that amdgpu uses counts. */
static void test_the_ttm_that_amdgpu_holds(void **state)
{
    struct harness *h = *state;
    harness_file(h, "/sys/module/ttm/parameters/pages_limit", "111\n");
    harness_file(h, "/sys/module/ttm/holders/amdgpu/uevent", "");
    harness_file(h, "/sys/module/amdttm/parameters/pages_limit", "222\n");
    harness_run(h, &collector_host, h->root);
    assert_int_equal(harness_integer(h, "host.ttm_pages_limit"), 111);
    assert_int_equal(harness_integer(h, "host.ttm_limit_bytes"), 111 * 4096);
}

static void test_recorded_ttm_parameters(void **state)
{
    struct harness *h = *state;
    harness_run(h, &collector_host, TEST_RECORDED_DIR "/machines/issue-igpu-ttm-params");
    assert_int_equal(harness_integer(h, "host.gttsize_mib"), 110000);
    assert_int_equal(harness_integer(h, "host.ttm_pages_limit"), 26856000);
    assert_true(harness_integer(h, "host.ttm_limit_bytes") == INT64_C(26856000) * 4096);
    char *text = harness_staged(h, "host/modules.txt");
    assert_non_null(text);
    assert_non_null(strstr(text, "amdgpu.gttsize=110000\n"));
    free(text);
}

/* NUL-padded to 4096 bytes, and zeros that mean "none". */
static void test_recorded_firmware(void **state)
{
    struct harness *h = *state;
    harness_run(h, &collector_host, TEST_RECORDED_DIR "/machines/lact-rx6900xt-gfx1030");
    char *text = harness_staged(h, "host/firmware.txt");
    assert_non_null(text);
    assert_non_null(strstr(text, "card0 sdma_fw_version 0x"));
    assert_null(strstr(text, "0x00000000"));
    free(text);
}

static void test_empty_machine(void **state)
{
    struct harness *h = *state;
    static const enum collect_status want[] = {COLLECT_SKIPPED, COLLECT_SKIPPED, COLLECT_SKIPPED,
                                               COLLECT_PARTIAL, COLLECT_SKIPPED, COLLECT_SKIPPED,
                                               COLLECT_SKIPPED};
    for (size_t i = 0; all[i] != NULL; i++) {
        harness_run(h, all[i], h->root);
        if (h->status != want[i])
            fail_msg("%s: status %d, %s", all[i]->name, (int)h->status, h->reason);
        if (all[i] == &collector_limits)
            continue; /* /proc/PID is always the real one */
        for (size_t k = 0; k < facts_count(h->facts); k++)
            if (facts_at(h->facts, k)->status == FACT_PRESENT)
                fail_msg("%s is there on an empty machine", facts_at(h->facts, k)->name);
    }
}

static const char *const every_path[] = {
    "/dev/kmsg",
    "/dmesg",
    "/proc/version",
    "/proc/sys/kernel/osrelease",
    "/proc/meminfo",
    "/proc/cpuinfo",
    "/proc/cmdline",
    "/proc/modules",
    "/proc/sys/vm/max_map_count",
    "/etc/os-release",
    "/sys/module/amdgpu/parameters/gttsize",
    "/sys/module/amdgpu/parameters/no_system_mem_limit",
    "/sys/module/ttm/parameters/pages_limit",
    "/sys/module/amdgpu/version",
    "/sys/kernel/security/lockdown",
    "/proc/self/cgroup",
    "/sys/fs/cgroup/cgroup.controllers",
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory.events",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    "/sys/class/drm/card0/device/devcoredump/data",
    "/sys/class/drm/card0/device/fw_version/x",
    "/etc/podinfo/labels",
};

static void test_garbage_in_every_file(void **state)
{
    struct harness *h = *state;
    srandom(11);
    static char data[70000];
    for (int round = 0; round < 12; round++) {
        for (size_t i = 0; i < sizeof every_path / sizeof every_path[0]; i++) {
            size_t len = round == 0 ? 0 : (size_t)random() % sizeof data;
            for (size_t k = 0; k < len; k++)
                data[k] = round % 3 == 0 ? "0:,;=/\n x"[random() % 9] : (char)random();
            harness_bytes(h, every_path[i], data, len);
        }
        for (size_t i = 0; all[i] != NULL; i++)
            harness_run(h, all[i], h->root);
    }
    /* Folders in the place of files, and a FIFO that nobody writes to. */
    harness_clear_root(h);
    for (size_t i = 0; i < sizeof every_path / sizeof every_path[0]; i++) {
        char path[TEMP_FOLDER_MAX + 256];
        (void)snprintf(path, sizeof path, "%s%s", h->root, every_path[i]);
        char *slash = strrchr(path, '/');
        *slash = '\0';
        assert_int_equal(fs_mkdir_p(path), 0);
        *slash = '/';
        if (i % 2 == 0)
            assert_int_equal(fs_mkdir_p(path), 0);
        else
            (void)mkfifo(path, 0600);
    }
    for (size_t i = 0; all[i] != NULL; i++)
        harness_run(h, all[i], h->root);
}

/* --- one by one --- */

static void test_host_of_an_invented_machine(void **state)
{
    struct harness *h = *state;
    harness_file(h, "/proc/sys/kernel/osrelease", "6.14.0-1014-oem\n");
    harness_file(h, "/proc/meminfo",
                 "MemTotal: 65758092 kB\nMemAvailable: 1024 kB\nSwapFree: 0 kB\n");
    harness_file(h, "/proc/sys/vm/max_map_count", "65530\n");
    harness_file(h, "/proc/cmdline", "root=UUID=3bad9c43 ro amdgpu.gttsize=4096\n");
    harness_file(h, "/sys/kernel/security/lockdown", "none [integrity] confidentiality\n");
    harness_bytes(h, "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c",
                  "\6\0\0\0\1", 5);
    harness_file(h, "/sys/module/amdgpu/parameters/gttsize", "-1\n");
    harness_file(h, "/sys/module/amdgpu/parameters/no_system_mem_limit", "Y\n");
    harness_file(h, "/sys/module/ttm/parameters/pages_limit", "111\n");
    harness_file(h, "/sys/module/amdttm/parameters/pages_limit", "25165824\n");
    harness_file(h, "/sys/module/amdgpu/version", "6.10.5\n");
    harness_file(h, "/sys/module/amdgpu/srcversion", "ABCDEF\n");
    harness_run(h, &collector_host, h->root);
    assert_int_equal(h->status, COLLECT_OK);
    assert_string_equal(harness_text(h, "host.kernel"), "6.14.0-1014-oem");
    assert_int_equal(harness_integer(h, "host.kernel_version"), 61400);
    assert_true(harness_integer(h, "host.mem_total_bytes") == INT64_C(65758092) * 1024);
    assert_int_equal(harness_integer(h, "host.swap_free_bytes"), 0); /* a real 0 */
    assert_int_equal(harness_fact_status(h, "host.swap_total_bytes"), FACT_ABSENT);
    assert_int_equal(harness_integer(h, "host.max_map_count"), 65530);
    assert_int_equal(harness_fact_status(h, "host.gttsize_mib"), FACT_ABSENT); /* -1 */
    assert_int_equal(harness_integer(h, "host.no_system_mem_limit"), 1);
    assert_int_equal(harness_integer(h, "host.ttm_pages_limit"), 25165824); /* amdttm's limit counts */
    assert_int_equal(harness_integer(h, "host.amdgpu_is_dkms"), 1);
    assert_int_equal(harness_integer(h, "host.secure_boot"), 1);
    assert_string_equal(harness_text(h, "host.lockdown"), "integrity");
    assert_string_equal(harness_text(h, "host.kernel_cmdline"),
                        "root=<redacted> ro amdgpu.gttsize=4096");
}

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

/* The real machine, whatever it is. */
static void test_this_machine(void **state)
{
    struct harness *h = *state;
    for (size_t i = 0; all[i] != NULL; i++)
        harness_run(h, all[i], NULL);
    harness_run(h, &collector_host, NULL);
    assert_true(harness_integer(h, "host.mem_total_bytes") > 0);
    assert_true(harness_integer(h, "host.kernel_version") > 40000);
    assert_int_equal(harness_integer(h, "host.page_size"), sysconf(_SC_PAGESIZE));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, harness_setup, harness_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_recorded_machines),
        TEST(test_recorded_ttm_parameters),
        TEST(test_the_ttm_that_amdgpu_holds),
        TEST(test_recorded_firmware),
        TEST(test_empty_machine),
        TEST(test_garbage_in_every_file),
        TEST(test_host_of_an_invented_machine),
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
        TEST(test_this_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
