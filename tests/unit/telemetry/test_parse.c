/* SPDX-License-Identifier: Apache-2.0 */
/* The parsers: recorded input, every truncation of it, and seeded mutations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "help.h"
#include "telemetry/cgroup.h"
#include "telemetry/fdinfo.h"
#include "telemetry/keys.h"
#include "telemetry/machine.h"
#include "telemetry/procfs.h"

#define KIB UINT64_C(1024)
#define MIB (KIB * 1024)

struct fdinfo_case {
    const char *file;
    uint32_t have; /* of the memory and identity bits exactly these */
    const char *pdev;
    uint64_t client, pasid, vram, gtt, evicted, requested, shared_vram, visible;
};

#define HAVE_ALL                                                                                   \
    (FDINFO_HAVE_DRIVER | FDINFO_HAVE_PDEV | FDINFO_HAVE_CLIENT_ID | FDINFO_HAVE_PASID |           \
     FDINFO_HAVE_VRAM | FDINFO_HAVE_GTT | FDINFO_HAVE_CPU)
#define HAVE_AMD                                                                                   \
    (FDINFO_HAVE_EVICTED_VRAM | FDINFO_HAVE_REQUESTED_VRAM | FDINFO_HAVE_REQUESTED_GTT)

/* The expected values were read from the records by a person. */
static const struct fdinfo_case fdinfo_cases[] = {
    {"fdinfo-v6.1-keys-amdgpu_top87.txt", HAVE_ALL, "0000:5a:00.0", 217, 33235, 2068 * KIB,
     8192 * KIB, 0, 0, 0, 0},
    {"fdinfo-legacy-evicted.txt",
     FDINFO_HAVE_DRIVER | FDINFO_HAVE_CLIENT_ID | FDINFO_HAVE_VRAM | FDINFO_HAVE_GTT |
         FDINFO_HAVE_CPU | FDINFO_HAVE_EVICTED_VRAM | FDINFO_HAVE_REQUESTED_VRAM |
         FDINFO_HAVE_SHARED_VRAM,
     "", 550, 0, 23048 * KIB, 80128 * KIB, 59648 * KIB, 82696 * KIB, 8 * KIB, 0},
    {"fdinfo-gpu-memory-stats-v0-mixed-units.txt",
     HAVE_ALL | HAVE_AMD | FDINFO_HAVE_SHARED_VRAM | FDINFO_HAVE_VISIBLE_VRAM, "0000:d0:00.0", 30,
     32785, 544428 * KIB, 22 * MIB, 0, 544428 * KIB, 13584 * KIB, 544428 * KIB},
    {"fdinfo-gpu-memory-stats-v1-with-visible.txt",
     HAVE_ALL | HAVE_AMD | FDINFO_HAVE_SHARED_VRAM | FDINFO_HAVE_VISIBLE_VRAM, "0000:d0:00.0", 4,
     32771, 44564 * KIB, 2392 * KIB, 0, 44564 * KIB, 31952 * KIB, 44564 * KIB},
    {"fdinfo-gpu-memory-stats-all-pools.txt", HAVE_ALL | HAVE_AMD | FDINFO_HAVE_SHARED_VRAM,
     "0000:d0:00.0", 30, 33235, 155068 * KIB, 20 * MIB, 0, 155068 * KIB, 13584 * KIB, 0},
    {"fdinfo-linux7.2-ryzen-65-00.txt", HAVE_ALL | HAVE_AMD | FDINFO_HAVE_SHARED_VRAM,
     "0000:d0:00.0", 7518, 7517, 310488 * KIB, 34880 * KIB, 0, 310488 * KIB, 91096 * KIB, 0},
    {"fdinfo-apu-gtt-model-gfx1150-6.18.txt",
     FDINFO_HAVE_VRAM | FDINFO_HAVE_GTT | FDINFO_HAVE_CPU, "", 0, 0, 5348 * KIB, 25258000 * KIB, 0,
     0, 0, 0},
};

static bool read_record(const char *name, char **ret, size_t *ret_len)
{
    char path[FS_PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/records/%s", TEST_SHARED_DIR, name);
    ssize_t len = fs_read_all(path, 1 << 20, ret);
    *ret_len = len < 0 ? 0 : (size_t)len;
    return len >= 0;
}

static void test_fdinfo_records(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof fdinfo_cases / sizeof fdinfo_cases[0]; i++) {
        const struct fdinfo_case *c = &fdinfo_cases[i];
        RC_AUTO_FREE char *text = NULL;
        size_t len = 0;
        if (!read_record(c->file, &text, &len)) {
            (void)printf("skipped: no %s/records\n", TEST_SHARED_DIR);
            skip();
        }
        struct fdinfo info;
        assert_true(fdinfo_parse(text, len, &info));
        assert_int_equal(info.have, c->have);
        assert_string_equal(info.pdev, c->pdev);
        assert_int_equal(info.client_id, c->client);
        assert_int_equal(info.pasid, c->pasid);
        assert_int_equal(info.vram_bytes, c->vram);
        assert_int_equal(info.gtt_bytes, c->gtt);
        assert_int_equal(info.evicted_vram_bytes, c->evicted);
        assert_int_equal(info.requested_vram_bytes, c->requested);
        assert_int_equal(info.shared_vram_bytes, c->shared_vram);
        assert_int_equal(info.visible_vram_bytes, c->visible);
    }
}

static bool fdinfo_of(const char *text, struct fdinfo *ret)
{
    return fdinfo_parse(text, strlen(text), ret);
}

static void test_fdinfo_own_cases(void **state)
{
    (void)state;
    struct fdinfo info;
    /* The fdinfo of a pipe, which is no DRM file. */
    assert_false(fdinfo_of("pos:\t0\nflags:\t01\nmnt_id:\t14\npasid:\t7\n", &info));
    assert_int_equal(info.have, 0);
    /* With only the newest keys, `resident` is used, in any order. If both are there, `memory` wins. */
    assert_true(fdinfo_of("drm-total-vram:\t9 MiB\ndrm-resident-vram:\t3 MiB\n", &info));
    assert_int_equal(info.vram_bytes, 3 * MIB);
    assert_true(fdinfo_of("drm-memory-vram:\t5 KiB\ndrm-resident-vram:\t3 MiB\n", &info));
    assert_int_equal(info.vram_bytes, 5 * KIB);
    assert_true(fdinfo_of("drm-resident-vram:\t3 MiB\ndrm-memory-vram:\t5 KiB\n", &info));
    assert_int_equal(info.vram_bytes, 5 * KIB);
    assert_true(fdinfo_of("drm-memory-vram: 0\n", &info));
    assert_int_equal(info.have, FDINFO_HAVE_VRAM);
    /* A value that cannot be parsed is absent, not 0. */
    assert_true(fdinfo_of("drm-memory-vram:\t12 parsec\ndrm-memory-gtt:\t-4 KiB\n"
                          "drm-memory-cpu:\t99999999999999999999 KiB\ndrm-client-id:\tx\n",
                          &info));
    assert_int_equal(info.have, 0);
    assert_true(fdinfo_of("drm-memory-vram:\t18446744073709551615 MiB\n", &info));
    assert_int_equal(info.have, 0);
}

static void test_status(void **state)
{
    (void)state;
    static const char text[] =
        "Name:\tpython3\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t4711\nNgid:\t0\nPid:\t4711\n"
        "PPid:\t4700\nTracerPid:\t12\nUid:\t1000\t1001\t1002\t1003\nGid:\t0\t0\t0\t0\n"
        "FDSize:\t256\nVmPeak:\t 900000 kB\nVmLck:\t     64 kB\nVmPin:\t   2048 kB\n"
        "VmHWM:\t 400000 kB\nVmRSS:\t 307200 kB\nRssAnon:\t 1 kB\nRssShmem:\t   4096 kB\n"
        "VmSwap:\t      0 kB\nThreads:\t17\nSigBlk:\t0000000000010000\n"
        "SigIgn:\t0000000000001000\nSigCgt:\t0000000180004a02\n";
    struct proc_status s;
    procfs_parse_status(text, sizeof text - 1, &s);
    assert_string_equal(s.name, "python3");
    assert_int_equal(s.state, 'S');
    assert_int_equal(s.tgid, 4711);
    assert_int_equal(s.ppid, 4700);
    assert_int_equal(s.tracer_pid, 12);
    assert_int_equal(s.uid[0], 1000);
    assert_int_equal(s.uid[3], 1003);
    assert_int_equal(s.rss_bytes, 307200 * KIB);
    assert_int_equal(s.rss_peak_bytes, 400000 * KIB);
    assert_int_equal(s.rss_shmem_bytes, 4096 * KIB);
    assert_int_equal(s.pinned_bytes, 2048 * KIB);
    assert_int_equal(s.locked_bytes, 64 * KIB);
    assert_true(s.have & PROC_HAVE_SWAP);
    assert_int_equal(s.swap_bytes, 0);
    assert_int_equal(s.threads, 17);
    assert_true(s.sig_caught == 0x180004a02);
    assert_true(s.sig_ignored == 0x1000);
    /* A zombie has no Vm lines: absent, not 0. */
    static const char zombie[] = "Name:\tx\nState:\tZ (zombie)\nTgid:\t5\nThreads:\t1\n";
    procfs_parse_status(zombie, sizeof zombie - 1, &s);
    assert_int_equal(s.have, PROC_HAVE_NAME | PROC_HAVE_STATE | PROC_HAVE_TGID |
                                 PROC_HAVE_THREADS);
}

static void test_status_of_ourselves(void **state)
{
    (void)state;
    char text[8192];
    ssize_t len = fs_read_text("/proc/self/status", text, sizeof text);
    assert_true(len > 0);
    struct proc_status s;
    procfs_parse_status(text, (size_t)len, &s);
    assert_int_equal(s.tgid, getpid());
    assert_int_equal(s.ppid, getppid());
    assert_int_equal(s.uid[0], getuid());
    assert_true(s.have & PROC_HAVE_RSS && s.rss_bytes > 100 * KIB);
    assert_true(s.have & PROC_HAVE_SIG_CAUGHT);
    uint64_t limit = 0;
    len = fs_read_text("/proc/self/limits", text, sizeof text);
    assert_true(procfs_parse_fd_limit(text, (size_t)len, &limit));
    assert_int_equal(limit, sysconf(_SC_OPEN_MAX));
}

static bool oom_kills(const char *text, uint64_t *ret)
{
    return procfs_parse_oom_kills(text, strlen(text), ret);
}

static void test_host_texts(void **state)
{
    (void)state;
    static const char meminfo[] = "MemTotal:       65610692 kB\nMemFree:  1 kB\n"
                                  "SwapTotal:             0 kB\nSwapCached: 3 kB\n";
    struct meminfo m;
    procfs_parse_meminfo(meminfo, sizeof meminfo - 1, &m);
    assert_int_equal(m.have, MEMINFO_HAVE_TOTAL | MEMINFO_HAVE_SWAP_TOTAL);
    assert_int_equal(m.total_bytes, 65610692 * KIB);
    struct pressure p;
    static const char psi[] = "some avg10=0.00 avg60=0.00 avg300=0.00 total=12345\n"
                              "full avg10=0.00 avg60=0.00 avg300=0.00 total=67\n";
    procfs_parse_pressure(psi, sizeof psi - 1, &p);
    assert_true(p.has_some && p.has_full);
    assert_int_equal(p.some_us, 12345);
    assert_int_equal(p.full_us, 67);
    procfs_parse_pressure("some total=x\n", 13, &p);
    assert_false(p.has_some);
    uint64_t n = 0;
    assert_true(oom_kills("low 0\noom 7\noom_kill 3\noom_group_kill 9\n", &n));
    assert_int_equal(n, 3);
    assert_true(oom_kills("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n", &n));
    assert_int_equal(n, 2);
    assert_false(oom_kills("oom_kill_disable 0\n", &n));
    static const char no_limit[] = "Max open files            unlimited  unlimited files\n";
    assert_false(procfs_parse_fd_limit(no_limit, sizeof no_limit - 1, &n));
}

static void test_cgroup_paths(void **state)
{
    (void)state;
    struct cgroup_paths c;
    static const char v2[] = "0::/user.slice/a:b.scope\n";
    procfs_parse_cgroup(v2, sizeof v2 - 1, &c);
    assert_string_equal(c.v2, "/user.slice/a:b.scope");
    assert_string_equal(c.v1_memory, "");
    static const char v1[] = "9:name=systemd:/x\n8:cpu,memory,pids:/docker/abc\n0::/\n";
    procfs_parse_cgroup(v1, sizeof v1 - 1, &c);
    assert_string_equal(c.v1_memory, "/docker/abc");
    assert_string_equal(c.v2, "/");
    uint64_t limit = 0;
    assert_false(cgroup_parse_limit("max", &limit));
    assert_false(cgroup_parse_limit("9223372036854771712", &limit));
    assert_true(cgroup_parse_limit("536870912", &limit));
    assert_int_equal(limit, 536870912);
}

static void test_cgroup_resolve(void **state)
{
    (void)state;
    char root[256];
    help_make_dir(root, sizeof root);
    fs_set_sysroot(root);
    help_write(root, "/sys/fs/cgroup/a/memory.max", "1000000\n");
    help_write(root, "/sys/fs/cgroup/a/b/memory.max", "max\n");
    help_write(root, "/sys/fs/cgroup/a/b/memory.current", "5\n");
    struct cgroup_paths paths = {.v2 = "/a/b"};
    struct cgroup_memory m;
    cgroup_resolve(&paths, &m);
    assert_true(m.found);
    assert_string_equal(m.leaf, "/sys/fs/cgroup/a/b");
    assert_string_equal(m.limit, "/sys/fs/cgroup/a");
    /* In a container the host's path does not exist: the root of the mount is used. */
    help_write(root, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "777\n");
    struct cgroup_paths docker = {.v1_memory = "/docker/0123"};
    cgroup_resolve(&docker, &m);
    assert_true(m.found && m.v1);
    assert_string_equal(m.leaf, "/sys/fs/cgroup/memory");
    assert_string_equal(m.limit, "/sys/fs/cgroup/memory");
    struct cgroup_paths none = {.v2 = ""};
    cgroup_resolve(&none, &m);
    assert_false(m.found);
    fs_set_sysroot(NULL);
    help_remove(root);
}

static void test_gfx_names(void **state)
{
    (void)state;
    static const struct {
        uint64_t version;
        const char *name;
    } names[] = {{90010, "gfx90a"},  {90402, "gfx942"},  {110501, "gfx1151"}, {120001, "gfx1201"},
                 {90012, "gfx90c"},  {90006, "gfx906"},  {100302, "gfx1032"}, {90500, "gfx950"},
                 {110003, "gfx1103"}};
    char name[16];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_true(machine_gfx_name(names[i].version, name));
        assert_string_equal(name, names[i].name);
    }
    assert_false(machine_gfx_name(0, name));
    assert_false(machine_gfx_name(99999999, name));
}

/* Everything that takes a text, on exactly sized heap memory: a read beyond it is seen by ASan. */
static void run_all(const char *text, size_t len)
{
    RC_AUTO_FREE char *copy = malloc(len ? len : 1);
    memcpy(copy, text, len);
    struct fdinfo info;
    struct proc_status status;
    struct meminfo meminfo;
    struct pressure pressure;
    struct cgroup_paths paths;
    uint64_t n = 0;
    bool drm = fdinfo_parse(copy, len, &info);
    assert_true(drm || info.have == 0);
    assert_true(memchr(info.pdev, '\0', sizeof info.pdev) != NULL);
    procfs_parse_status(copy, len, &status);
    assert_true(memchr(status.name, '\0', sizeof status.name) != NULL);
    procfs_parse_meminfo(copy, len, &meminfo);
    procfs_parse_pressure(copy, len, &pressure);
    procfs_parse_cgroup(copy, len, &paths);
    assert_true(paths.v2[0] == '\0' || paths.v2[0] == '/');
    (void)procfs_parse_fd_limit(copy, len, &n);
    (void)procfs_parse_oom_kills(copy, len, &n);
    assert_true(procfs_count_lines(copy, len) <= len);
}

static void attack(const char *text, size_t len, uint64_t *random)
{
    for (size_t cut = 0; cut <= len; cut++)
        run_all(text, cut);
    RC_AUTO_FREE char *copy = malloc(len + 1);
    for (int round = 0; round < 300 && len > 0; round++) {
        memcpy(copy, text, len);
        for (uint32_t k = help_random(random) % 8 + 1; k > 0; k--)
            copy[help_random(random) % len] = (char)help_random(random);
        run_all(copy, len);
    }
}

static void test_garbage(void **state)
{
    (void)state;
    uint64_t random = help_seed();
    glob_t found = {0};
    size_t tried = 0;
    char pattern[FS_PATH_MAX];
    (void)snprintf(pattern, sizeof pattern, "%s/records/fdinfo-*.txt", TEST_SHARED_DIR);
    if (glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++) {
            RC_AUTO_FREE char *text = NULL;
            ssize_t len = fs_read_all(found.gl_pathv[i], 1 << 16, &text);
            assert_true(len > 0);
            attack(text, (size_t)len, &random);
            tried++;
        }
    globfree(&found);
    static const char *const own[] = {"/proc/self/status", "/proc/meminfo", "/proc/self/limits",
                                      "/proc/self/cgroup", "/proc/pressure/memory"};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        char text[8192];
        ssize_t len = fs_read_text(own[i], text, sizeof text);
        if (len <= 0)
            continue;
        attack(text, (size_t)len, &random);
        tried++;
    }
    assert_true(tried >= 3);
    static const char colons[] = ":::\n:\n\n drm-:\ndrm-memory-vram\n";
    run_all(colons, sizeof colons - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fdinfo_records),
        cmocka_unit_test(test_fdinfo_own_cases),
        cmocka_unit_test(test_status),
        cmocka_unit_test(test_status_of_ourselves),
        cmocka_unit_test(test_host_texts),
        cmocka_unit_test(test_cgroup_paths),
        cmocka_unit_test(test_cgroup_resolve),
        cmocka_unit_test(test_gfx_names),
        cmocka_unit_test(test_garbage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
