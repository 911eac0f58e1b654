/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel log: fixtures, every record form, recorded logs of real machines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "diagnose/kernel_lines.h"
#include "diagnose/verdict.h"
#include "fixture_run.h"

static void test_fixtures(void **state)
{
    (void)state;
    assert_true(fixture_run_all("k") >= 14);
}

static void test_record_forms(void **state)
{
    (void)state;
    static const struct {
        const char *record, *text; /* NULL = not a kernel record */
    } cases[] = {
        {"6,1201,98233001,-;amdgpu: a", "amdgpu: a"},
        {"6,1201,98233001,-,caller=T91;amdgpu: a", "amdgpu: a"},
        {" SUBSYSTEM=pci", NULL},
        {" DEVICE=+pci:0000:03:00.0", NULL},
        {"  in page starting at", "in page starting at"},
        {"6,12,3;a", "6,12,3;a"},
        {"6,12,34567,flags and words;a", "6,12,34567,flags and words;a"},
        {"[  781.680189] amdgpu: a", "amdgpu: a"},
        {"[  781.680189][  T912] amdgpu: a", "amdgpu: a"},
        {"[  781.680189] [    C3] amdgpu: a", "amdgpu: a"},
        {"[Sat Jan  7 14:25:56 2023] amdgpu: a", "amdgpu: a"},
        {"[Dez26 08:58] amdgpu: a", "amdgpu: a"},
        {"[  +0,000007] amdgpu: a", "amdgpu: a"},
        {"[drm:amdgpu_cs_ioctl [amdgpu]] *ERROR* a", "[drm:amdgpu_cs_ioctl [amdgpu]] *ERROR* a"},
        {"[gfxhub0] page fault", "[gfxhub0] page fault"},
        {"[12] Timeout", "[12] Timeout"},
        {"[]", "[]"},
        {"[1.5]", ""},
        {"kern  :warn  : [    1.500000] a", "a"},
        {"kern  :err   : 2026-01-07T10:02:00,123456-06:00 a", "a"},
        {"2024-02-12T01:19:31.351160+00:00 minipc kernel: amdgpu a", "amdgpu a"},
        {"maj 08 02:07:35 RX-78-FPC kernel: amdgpu 0000:d0:00.0: a", "amdgpu 0000:d0:00.0: a"},
        {"kernel: [ 2900.002745] pcieport a", "pcieport a"},
        {"nov 06 13:41:01 Odin gnome-shell[16947]: Page flip failed", NULL},
        {"systemd[1]: x.service: killed", NULL},
        {"amdgpu 0000:d0:00.0: {1}[Hardware Error]: aca entry[00].STATUS=0x9",
         "amdgpu 0000:d0:00.0: {1}[Hardware Error]: aca entry[00].STATUS=0x9"},
        {"user space", "user space"},
        {"kern", "kern"},
        {"kern : longerthanalevel : a", "kern : longerthanalevel : a"},
        {"daemon:info: a", "a"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct text in = {cases[i].record, strlen(cases[i].record)}, out = {"", 0};
        bool kernel = klog_strip(in, &out);
        if (kernel != (cases[i].text != NULL))
            fail_msg("'%s': %s", cases[i].record, kernel ? "taken" : "refused");
        if (kernel && !text_equals(out, cases[i].text))
            fail_msg("'%s': '%.*s'", cases[i].record, (int)out.len, out.at);
    }
}

/* The bad events of each recorded log, read by hand. "" = none. */
static void test_recorded_logs(void **state)
{
    (void)state;
    static const struct {
        const char *file, *first, *sequence, *fact, *value;
    } logs[] = {
        {"dmesg-apu-vega-memory-ready.txt", "", "", "kmsg.gtt_ready_bytes", "8068792320"},
        {"dmesg-compute-reset-then-vmid0-fault.txt", "gpu-hang", "gpu-hang", "kmsg.fault_echo",
         "1"},
        {"dmesg-cs-enomem-flood.txt", "", "", "kmsg.cs_enomem", "8"},
        {"dmesg-gfx1100-delta-timestamps-locale.txt", "page-fault", "page-fault",
         "kmsg.page_fault_address", "0x0000000000b93000"},
        {"dmesg-gfx1102-vmid0-fault.txt", "page-fault", "page-fault", "kmsg.page_fault_client",
         "CPC"},
        {"dmesg-gfx1103-gpu-hang-reset.txt", "gpu-hang", "gpu-hang", "kmsg.gpu_reset", "1"},
        {"dmesg-gfx1103-mes-failure-devcoredump.txt", "gpu-hang", "gpu-hang", "kmsg.ring_timeout",
         "comp_1.3.0"},
        {"dmesg-gfx1150-fault-6.x.txt", "page-fault", "page-fault", "kmsg.page_fault", "2"},
        {"dmesg-gfx1151-gttsize-deprecated.txt", "", "", "kmsg.gttsize_deprecated", "2"},
        {"dmesg-gfx1200-reset-fails.txt", "gpu-hang", "gpu-hang", "kmsg.ring_timeout_process",
         "glretrace"},
        {"dmesg-gfx90c-noretry-fault.txt", "page-fault", "page-fault", "kmsg.page_fault_process",
         "pt_main_thread"},
        {"dmesg-kfd-evict-pasid.txt", "", "", "kmsg.evictions", "4"},
        {"dmesg-llama-server-ring-timeout-noprefix.txt", "gpu-hang", "gpu-hang",
         "kmsg.ring_timeout_pid", "47953"},
        {"dmesg-mi300x-ras-aca.txt", "hw-ras", "hw-ras", "kmsg.ras_uncorrectable", "1"},
        {"dmesg-mi300x-retry-fault.txt", "page-fault", "page-fault", "kmsg.page_fault_pid",
         "69537"},
        {"dmesg-mi50-ras-athub.txt", "hw-ras", "hw-ras gpu-hang", "kmsg.ras_uncorrectable", "1"},
        {"dmesg-navi44-ring-timeout-wedged-6.19.txt", "sdma", "sdma gpu-hang", "kmsg.ring_timeouts",
         "3"},
        {"dmesg-rx7900xtx-sdma-fault-2card.txt", "sdma", "sdma", "kmsg.page_fault_client", "SDMA0"},
        {"dmesg-rx9070xt-vram-enomem-7.1.txt", "", "", "kmsg.pin_failed", "2"},
        {"dmesg-rx9070xt-vram-enomem.txt", "", "", "kmsg.cs_enomem", "2"},
        {"dmesg-nodescraper-COMPOSED.log", "hw-ras", "hw-ras", "kmsg.ras_uncorrectable", "1"},
    };
    char path[512], value[600];
    if (access(TEST_SHARED_DIR "/records", R_OK) != 0) {
        print_message("skipped: no recorded logs here\n");
        skip();
    }
    for (size_t i = 0; i < sizeof logs / sizeof logs[0]; i++) {
        size_t len;
        (void)snprintf(path, sizeof path, TEST_SHARED_DIR "/records/%s", logs[i].file);
        char *text = fixture_read(path, &len);
        if (text == NULL)
            fail_msg("cannot read %s", path);
        struct facts *f = facts_new();
        kernel_log_to_facts(f, text, len, NULL);
        if (strcmp(fixture_value(f, "kmsg.first_bad", value), logs[i].first) != 0)
            fail_msg("%s: first bad is '%s'", logs[i].file, value);
        if (strcmp(fixture_value(f, "kmsg.bad_sequence", value), logs[i].sequence) != 0)
            fail_msg("%s: sequence is '%s'", logs[i].file, value);
        if (strcmp(fixture_value(f, logs[i].fact, value), logs[i].value) != 0)
            fail_msg("%s: %s is '%s'", logs[i].file, logs[i].fact, value);
        facts_free(f);
        free(text);
    }
}

/* Many changes of class: the order is kept up to its bound, and the count continues. */
static void test_many_events(void **state)
{
    (void)state;
    char *text = malloc(200000);
    size_t len = 0;
    assert_non_null(text);
    for (int i = 0; i < 500; i++)
        len += (size_t)snprintf(text + len, 200000 - len,
                                "[ 1.%06d] ring %s timeout, signaled seq=1, emitted seq=2\n"
                                "[ 1.%06d] Out of memory: Killed process %d (p) total-vm:1kB\n",
                                i, i % 2 == 0 ? "sdma0" : "gfx", i, 1000 + i);
    struct facts *f = facts_new();
    int64_t n = 0;
    kernel_log_to_facts(f, text, len, "log");
    assert_true(facts_get_integer(f, "kmsg.count_bad", &n));
    assert_int_equal(1000, n);
    assert_true(facts_get_integer(f, "kmsg.oom_kill_pid", &n));
    assert_int_equal(1000, n);
    facts_free(f);
    free(text);
}

/* In a log without times, a fault behind a ring that recovered is an event of its own; a ring that hangs behind a fault is not. */
static void test_recovered_ring(void **state)
{
    (void)state;
    static const struct {
        const char *log, *first;
    } logs[] = {
        {"amdgpu 0000:09:00.0: amdgpu: ring gfx timeout, but soft recovered\n"
         "amdgpu 0000:09:00.0: amdgpu: [gfxhub0] no-retry page fault (src_id:0 ring:136 vmid:8 pasid:32783, for process nbody pid 6017 thread nbody pid 6017)\n"
         "amdgpu 0000:09:00.0: amdgpu:   in page starting at address 0x0000000000001000 from IH client 0x1b (UTCL2)\n",
         "page-fault"},
        {"amdgpu 0000:09:00.0: amdgpu: ring gfx timeout, signaled seq=1, emitted seq=2\n"
         "amdgpu 0000:09:00.0: amdgpu: [gfxhub0] no-retry page fault (src_id:0 ring:136 vmid:8 pasid:32783, for process nbody pid 6017 thread nbody pid 6017)\n"
         "amdgpu 0000:09:00.0: amdgpu:   in page starting at address 0x0000000000001000 from IH client 0x1b (UTCL2)\n",
         "gpu-hang"},
        {"amdgpu 0000:09:00.0: amdgpu: [gfxhub0] no-retry page fault (src_id:0 ring:136 vmid:8 pasid:32783, for process nbody pid 6017 thread nbody pid 6017)\n"
         "amdgpu 0000:09:00.0: amdgpu:   in page starting at address 0x0000000000001000 from IH client 0x1b (UTCL2)\n"
         "amdgpu 0000:09:00.0: amdgpu: ring gfx timeout, but soft recovered\n",
         "page-fault"},
    };
    char value[600];
    for (size_t i = 0; i < sizeof logs / sizeof logs[0]; i++) {
        struct facts *f = facts_new();
        kernel_log_to_facts(f, logs[i].log, strlen(logs[i].log), NULL);
        assert_string_equal(fixture_value(f, "kmsg.first_bad", value), logs[i].first);
        facts_free(f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fixtures),
        cmocka_unit_test(test_record_forms),
        cmocka_unit_test(test_recorded_logs),
        cmocka_unit_test(test_many_events),
        cmocka_unit_test(test_recovered_ring),
    };
    return cmocka_run_group_tests_name("kernel_lines", tests, NULL, NULL);
}
