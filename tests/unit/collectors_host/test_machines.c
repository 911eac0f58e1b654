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
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "harness.h"

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
        TEST(test_this_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
