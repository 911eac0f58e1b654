/* SPDX-License-Identifier: Apache-2.0 */
/* The pure parsers of the host collectors, over recorded shapes and garbage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/number.h"
#include "collectors/cgroup_parse.h"
#include "collectors/env_secret.h"
#include "collectors/host_parse.h"
#include "collectors/kmsg_text.h"

static const char records[] =
    "6,1234,339178277,-;amdgpu: unknown parameter 'gtt_size' ignored\n"
    " SUBSYSTEM=pci\n DEVICE=+pci:0000:03:00.0\n"
    "3,1235,1343872198,-,caller=T12;amdgpu 0000:5a:00.0: \\x09tab\\x1b[2J \\xc3\\xa4 a\\x0ab\n"
    "4,1236,1343872199,c;start\n"
    "4,1237,1343872199,+; and more\n"
    "4,1240,99999999999999,-;far\n";

static void test_kmsg_records(void **state)
{
    (void)state;
    struct buf b = BUF_INIT;
    struct kmsg_window all = {.records = 0};
    assert_true(kmsg_is_records(records));
    kmsg_append_records(&b, records, sizeof records - 1, &all);
    assert_string_equal(buf_str(&b),
                        "[  339.178277] amdgpu: unknown parameter 'gtt_size' ignored\n"
                        "[ 1343.872198] amdgpu 0000:5a:00.0: \ttab\\x1b[2J \xc3\xa4 a\n"
                        "[ 1343.872198] b\n"
                        "[ 1343.872199] start and more\n"
                        "[99999999.999999] far\n");
    assert_int_equal(all.records, 5);
    assert_int_equal(all.last_seq, 1240);
    assert_int_equal(all.lost, 2);
    buf_release(&b);
}

static void test_kmsg_window(void **state)
{
    (void)state;
    struct buf b = BUF_INIT;
    struct kmsg_window w = {.first_seq = 1240};
    kmsg_append_records(&b, records, sizeof records - 1, &w);
    assert_string_equal(buf_str(&b), "[99999999.999999] far\n");
    assert_int_equal(w.lost, 0);
    buf_release(&b);
    struct kmsg_window t = {.first_usec = 1343872199};
    kmsg_append_records(&b, records, sizeof records - 1, &t);
    assert_string_equal(buf_str(&b), "[ 1343.872199] start and more\n[99999999.999999] far\n");
    buf_release(&b);
    /* Records long after the run do not belong to it. */
    struct kmsg_window u = {.first_usec = 1343872199, .until_usec = 1343872199};
    kmsg_append_records(&b, records, sizeof records - 1, &u);
    assert_string_equal(buf_str(&b), "[ 1343.872199] start and more\n");
    buf_release(&b);
    /* The start of a record was before the window: its continuation must not join another line. */
    struct kmsg_window c = {.first_seq = 1237};
    kmsg_append_records(&b, records, sizeof records - 1, &c);
    assert_string_equal(buf_str(&b), "[ 1343.872199]  and more\n[99999999.999999] far\n");
    buf_release(&b);
}

static void test_kmsg_garbage(void **state)
{
    (void)state;
    static const char *const bad[] = {"",           "\n\n",        "6,1,2",    "6,1,2,-",
                                      "x;y",        ",,,;a",       ";",        "6,,,;",
                                      "-1,2,3,-;a", "[ 1.2] text", "6,1,2 -;a"};
    struct buf b = BUF_INIT;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct kmsg_window w = {.records = 0};
        kmsg_append_records(&b, bad[i], strlen(bad[i]), &w);
        assert_int_equal(w.records, 0);
        assert_int_equal(b.len, 0);
    }
    srandom(3);
    for (int round = 0; round < 20000; round++) {
        char copy[sizeof records];
        memcpy(copy, records, sizeof records);
        for (int k = 0; k < 4; k++)
            copy[(size_t)random() % (sizeof records - 1)] = (char)random();
        size_t len = (size_t)random() % sizeof records;
        char *exact = malloc(len != 0 ? len : 1);
        memcpy(exact, copy, len);
        struct kmsg_window w = {.records = 0};
        kmsg_append_records(&b, exact, len, &w);
        for (size_t i = 0; i < b.len; i++) {
            unsigned char c = (unsigned char)b.data[i];
            assert_true(c >= 0x20 || c == '\n' || c == '\t');
        }
        buf_release(&b);
        free(exact);
    }
}

static void test_journal_lines_lose_the_host(void **state)
{
    (void)state;
    static const char text[] =
        "-- Boot 3bad9c43f21474d74afc819489405417 --\n"
        "[  335.611647] gpu-host-7 kernel: amdgpu: unknown parameter 'gtt_size' ignored\n"
        "[  336.000001] gpu-host-7 systemd[1]: not a kernel line\n"
        "garbage kernel: x\n"
        "[  337.000001] gpu-host-7 kernel: x kernel: y";
    struct buf b = BUF_INIT;
    kmsg_append_journal(&b, text, sizeof text - 1);
    assert_string_equal(buf_str(&b), "[  335.611647] amdgpu: unknown parameter 'gtt_size' ignored\n"
                                     "[  337.000001] x kernel: y\n");
    buf_release(&b);
}

static void test_selection_keeps_what_matters(void **state)
{
    (void)state;
    struct buf in = BUF_INIT;
    for (int i = 0; i < 20000; i++) {
        buf_printf(&in, "[%5d.000000] usb 1-1: noise number %d\n", i, i);
        if (i % 1000 == 0)
            buf_printf(&in, "[%5d.000001] amdgpu 0000:5a:00.0: amdgpu: line %d\n", i, i);
    }
    struct buf out = BUF_INIT;
    assert_int_equal(kmsg_select(&out, buf_str(&in), in.len, in.len), 0);
    assert_int_equal(out.len, in.len);
    buf_release(&out);
    size_t left_out = kmsg_select(&out, buf_str(&in), in.len, 100000);
    assert_int_equal(left_out, 20000 - 200);
    for (int i = 0; i < 20000; i += 1000) {
        char want[64];
        (void)snprintf(want, sizeof want, "amdgpu: line %d\n", i);
        assert_non_null(strstr(buf_str(&out), want));
    }
    assert_non_null(strstr(buf_str(&out), "noise number 19999\n"));
    assert_non_null(strstr(buf_str(&out), "noise number 19800\n"));
    assert_null(strstr(buf_str(&out), "noise number 19799\n"));
    assert_non_null(strstr(buf_str(&out), "# 1000 lines left out\n"));
    buf_release(&out);
    buf_release(&in);
}

static void test_only_relevant_lines(void **state)
{
    (void)state;
    static const char log[] = "[    1.000000] usb 1-1: new device of somebody\n"
                              "[    2.000000] amdgpu 0000:5a:00.0: amdgpu: GPU reset begin!\n"
                              "[    3.000000] audit: type=1400 comm=\"private\"\n";
    struct buf out = BUF_INIT;
    assert_int_equal(kmsg_select_relevant(&out, log, sizeof log - 1, 100000), 2);
    assert_non_null(strstr(buf_str(&out), "GPU reset begin"));
    assert_null(strstr(buf_str(&out), "somebody"));
    assert_null(strstr(buf_str(&out), "private"));
    buf_release(&out);
}

static void test_a_claimed_window_is_capped(void **state)
{
    (void)state;
    const uint64_t hour = KMSG_CLAIMED_WINDOW_S * UINT64_C(1000000);
    const uint64_t minute = hour / 60;
    const struct {
        uint64_t first, start, end, now, want;
    } rows[] = {
        {0, 1, 5 * hour, 9 * hour, 4 * hour},                 /* an edited beginning */
        {5 * hour - 1, 5 * hour - 1, 5 * hour, 9 * hour, 5 * hour - 1}, /* a short run keeps its own */
        {0, 1, 0, 9 * hour, 8 * hour},                        /* an edited end */
        {0, 1, 99 * hour, 9 * hour, 8 * hour},
        {0, 1, hour / 2, 9 * hour, 0},
        /* an edited number of the first record: nothing from before the run, by the kernel's clock */
        {0, 5 * hour - 10 * minute, 5 * hour, 9 * hour, 5 * hour - 11 * minute - 5 * hour / 20000},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct kmsg_window window = {.first_usec = rows[i].first};
        kmsg_window_cap(&window, rows[i].start, rows[i].end, rows[i].now);
        assert_int_equal(window.first_usec, rows[i].want);
    }
}

static void test_selection_of_a_flood(void **state)
{
    (void)state;
    struct buf in = BUF_INIT;
    for (int i = 0; i < 20000; i++)
        buf_printf(&in, "[%5d.000000] amdgpu: Not enough memory for command %d\n", i, i);
    struct buf out = BUF_INIT;
    assert_true(kmsg_select(&out, buf_str(&in), in.len, 50000) > 15000);
    assert_true(out.len < 52000 && out.len > 45000);
    assert_non_null(strstr(buf_str(&out), "command 0\n"));
    assert_non_null(strstr(buf_str(&out), "command 19999\n"));
    assert_null(strstr(buf_str(&out), "command 10000\n"));
    buf_release(&out);
    buf_release(&in);
}

static void test_versions(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t want;
    } cases[] = {{"6.14.0-1014-oem", 61400},
                 {"6.19.8-zen1-1-zen", 61908},
                 {"5.15.0", 51500},
                 {"6.18", 61800},
                 {"6.12.117-1", 61299},
                 {"7.1.0", 70100},
                 {"6", -1},
                 {"", -1},
                 {"six.one", -1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t got = -1;
        (void)number_of_version(cases[i].text, &got);
        assert_int_equal(got, cases[i].want);
    }
}

static void test_os_release_and_meminfo(void **state)
{
    (void)state;
    char out[64];
    static const char text[] = "NAME=\"Debian GNU/Linux\"\nPRETTY_NAME=\"Debian 12\"\nID=debian\n";
    assert_true(host_os_release(text, "PRETTY_NAME", out, sizeof out));
    assert_string_equal(out, "Debian 12");
    assert_true(host_os_release(text, "ID", out, sizeof out));
    assert_string_equal(out, "debian");
    assert_false(host_os_release(text, "VERSION", out, sizeof out));
    assert_false(host_os_release("PRETTY_NAME=", "PRETTY_NAME", out, sizeof out));
    uint64_t bytes = 0;
    static const char meminfo[] =
        "MemTotal:       65758092 kB\nMemFree: x kB\nHugePages_Total:  3\n";
    assert_true(host_meminfo(meminfo, "MemTotal:", &bytes));
    assert_true(bytes == UINT64_C(65758092) * 1024);
    assert_false(host_meminfo(meminfo, "MemFree:", &bytes));
    assert_true(host_meminfo(meminfo, "HugePages_Total:", &bytes));
    assert_int_equal(bytes, 3);
    assert_false(host_meminfo("MemTotal: 99999999999999999999 kB", "MemTotal:", &bytes));
    int64_t count = 0;
    assert_true(host_cpu("processor\t: 0\nmodel name\t: AMD EPYC\nprocessor\t: 1\n", out,
                         sizeof out, &count));
    assert_string_equal(out, "AMD EPYC");
    assert_int_equal(count, 2);
    assert_false(host_cpu("garbage", out, sizeof out, &count));
}

static void test_cmdline_is_an_allow_list(void **state)
{
    (void)state;
    struct buf b = BUF_INIT;
    host_append_cmdline(&b,
                        "BOOT_IMAGE=/boot/vmlinuz-6.14 root=UUID=3bad9c43-f214-74d7 ro quiet "
                        "amdgpu.gttsize=122880 ttm.pages_limit=25165824 iommu=pt "
                        "rd.luks.uuid=luks-11 password=x hostname=\"my box\" nfsroot=1.2.3.4:/x");
    assert_string_equal(buf_str(&b),
                        "BOOT_IMAGE=<redacted> root=<redacted> ro quiet amdgpu.gttsize=122880 "
                        "ttm.pages_limit=25165824 iommu=pt rd.luks.uuid=<redacted> "
                        "password=<redacted> hostname=<redacted> nfsroot=<redacted>");
    buf_release(&b);
    host_append_cmdline(&b, "a=\"");
    assert_string_equal(buf_str(&b), "a=<redacted>");
    buf_release(&b);
}

static void test_modules(void **state)
{
    (void)state;
    struct buf b = BUF_INIT;
    host_append_modules(&b, "amdttm 131072 2 amdgpu,amddrm_ttm_helper, Live 0xffffffffc0 (OE)\n"
                            "ttm 118784 1 drm_ttm_helper, Live 0x0\next4 9999 1 - Live 0x0\n"
                            "amd broken");
    assert_string_equal(buf_str(&b), "amdttm 131072 amdgpu,amddrm_ttm_helper, out-of-tree\n"
                                     "ttm 118784 drm_ttm_helper,\n");
    buf_release(&b);
}

static void test_cgroup_paths(void **state)
{
    (void)state;
    char path[256];
    static const char v1[] = "5:devices:/\n4:cpu,memory:/docker/0123\n0::/v2/path\n";
    assert_true(cgroup_path(v1, "memory", path, sizeof path));
    assert_string_equal(path, "/docker/0123");
    assert_true(cgroup_path(v1, "", path, sizeof path));
    assert_string_equal(path, "/v2/path");
    assert_false(cgroup_path(v1, "pids", path, sizeof path));
    assert_false(cgroup_path("0::/../other\n", "", path, sizeof path));
    assert_true(cgroup_path("0::/a..b\n", "", path, sizeof path));
    assert_false(cgroup_path("0::relative", "", path, sizeof path));
    assert_false(cgroup_path("::", "", path, sizeof path));
    assert_false(cgroup_path("garbage\n:\n", "memory", path, sizeof path));
    char small[4];
    assert_false(cgroup_path("0::/long/path\n", "", small, sizeof small));
}

static void test_cgroup_numbers(void **state)
{
    (void)state;
    uint64_t v = 0;
    assert_false(cgroup_limit("max", &v));
    assert_false(cgroup_limit("9223372036854771712", &v));
    assert_false(cgroup_limit("", &v));
    assert_false(cgroup_limit("-5", &v));
    assert_true(cgroup_limit("0", &v));
    assert_true(cgroup_limit("8589934592", &v));
    assert_true(v == UINT64_C(8589934592));
    static const char events[] = "low 0\nhigh 0\nmax 77\noom 3\noom_kill 2\noom_group_kill 0";
    assert_true(cgroup_key(events, "oom_kill", &v));
    assert_int_equal(v, 2);
    assert_true(cgroup_key(events, "oom", &v));
    assert_int_equal(v, 3);
    assert_false(cgroup_key(events, "oom_kil", &v));
    assert_false(cgroup_key("oom_kill x", "oom_kill", &v));
}

static void test_cgroup_containers_and_ids(void **state)
{
    (void)state;
    static const char hex[] = "0123456789abcdef0123456789abcdef";
    char text[256];
    (void)snprintf(text, sizeof text, "0::/kubepods.slice/kubepods-pod%s.slice/cri-%s.scope", hex,
                   hex);
    assert_string_equal(cgroup_container(text), "kubernetes");
    assert_string_equal(cgroup_container("4:memory:/docker/0123"), "docker");
    assert_string_equal(cgroup_container("0::/machine.slice/libpod-1.scope"), "podman");
    assert_null(cgroup_container("0::/user.slice/user-1000.slice/session-2.scope"));
    assert_null(cgroup_container(""));
    struct buf b = BUF_INIT;
    cgroup_append_path(&b, text + 3);
    assert_null(strstr(buf_str(&b), "0123456789ab"));
    assert_non_null(strstr(buf_str(&b), "kubepods"));
    buf_release(&b);
    cgroup_append_path(&b, "/user.slice/user-1000.slice/session-2.scope");
    assert_string_equal(buf_str(&b), "/user.slice/user-1000.slice/session-2.scope");
    buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kmsg_records),
        cmocka_unit_test(test_kmsg_window),
        cmocka_unit_test(test_kmsg_garbage),
        cmocka_unit_test(test_journal_lines_lose_the_host),
        cmocka_unit_test(test_selection_keeps_what_matters),
        cmocka_unit_test(test_only_relevant_lines),
        cmocka_unit_test(test_a_claimed_window_is_capped),
        cmocka_unit_test(test_selection_of_a_flood),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_os_release_and_meminfo),
        cmocka_unit_test(test_cmdline_is_an_allow_list),
        cmocka_unit_test(test_modules),
        cmocka_unit_test(test_cgroup_paths),
        cmocka_unit_test(test_cgroup_numbers),
        cmocka_unit_test(test_cgroup_containers_and_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
