/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fs.h"
#include "watch/kernel_log.h"
#include "temp_folder.h"

static char record[KERNEL_LOG_RECORD_MAX + 1];

static void test_classify(void **state)
{
    (void)state;
    static const struct {
        enum kernel_line want;
        const char *text;
    } cases[] = {
        {KERNEL_LINE_HANG, "3,1,2,-;amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled "
                           "seq=100, emitted seq=102"},
        {KERNEL_LINE_HANG,
         "[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring sdma0 timeout, signaled "
         "seq=1, emitted seq=3"},
        {KERNEL_LINE_HANG,
         "amdgpu 0000:c5:00.0: amdgpu: MES failed to respond to msg=REMOVE_QUEUE"},
        {KERNEL_LINE_HANG, "amdgpu 0000:c5:00.0: amdgpu: MES failed to response msg=3"},
        {KERNEL_LINE_HANG, "amdgpu 0000:03:00.0: amdgpu: GPU reset begin!. Source:  1"},
        {KERNEL_LINE_AMDGPU, "ring gfx timeout, but soft recovered [drm]"},
        {KERNEL_LINE_FAULT, "amdgpu 0000:03:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:24 "
                            "vmid:8 pasid:32772)"},
        {KERNEL_LINE_FAULT,
         "amdgpu: [gfxhub0] no-retry page fault (src_id:0 ring:24 vmid:8 pasid:1)"},
        {KERNEL_LINE_FAULT, "amdgpu: GCVM_L2_PROTECTION_FAULT_STATUS:0x00801031"},
        {KERNEL_LINE_FAULT,
         "amdgpu: uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!"},
        {KERNEL_LINE_AMDGPU, "amdgpu: no uncorrectable hardware errors detected in gfx block"},
        {KERNEL_LINE_AMDGPU,
         "amdgpu: socket: 0, 0 uncorrectable hardware errors detected in total"},
        {KERNEL_LINE_OOM, "[drm:amdgpu_cs_ioctl [amdgpu]] *ERROR* Not enough memory for command "
                          "submission!"},
        {KERNEL_LINE_OOM, "Out of memory: Killed process 77 (python3) total-vm:1kB"},
        {KERNEL_LINE_OOM, "Memory cgroup out of memory: Killed process 77 (python3)"},
        {KERNEL_LINE_OOM,
         "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task=python3,pid=7"},
        {KERNEL_LINE_OOM, "amdgpu: SVM mapping failed, exceeds resident system memory limit"},
        {KERNEL_LINE_AMDGPU, "amdgpu: Freeing queue vital buffer 0x7f, queue evicted"},
        {KERNEL_LINE_AMDGPU, "kfd kfd: amdgpu: added device 1002:744c"},
        {KERNEL_LINE_AMDGPU, "pcieport 0000:00:01.0: AER: Corrected error received: 0000:00:01.0"},
        {KERNEL_LINE_OTHER, "EXT4-fs (vda): mounted filesystem"},
        {KERNEL_LINE_OTHER, "i915 0000:00:02.0: GPU HANG: ecode 12"},
        {KERNEL_LINE_OTHER,
         "systemd[1]: x.service: A process of this unit has been killed by the OOM "
         "killer."},
        {KERNEL_LINE_OTHER, "e1000e: Detected Hardware Unit Hang, ring reset scheduled"},
        {KERNEL_LINE_OTHER, "\x01\xff\xfe garbage ;;;,,,"},
        {KERNEL_LINE_OTHER, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (kernel_log_classify(cases[i].text) != cases[i].want)
            fail_msg("classed %d: %s", (int)kernel_log_classify(cases[i].text), cases[i].text);
    }
}

/* Recorded logs: the known event of each is found. */
static void test_recorded_logs(void **state)
{
    (void)state;
    static const struct {
        const char *file;
        enum kernel_line holds;
    } logs[] = {
        {"dmesg-gfx1103-gpu-hang-reset.txt", KERNEL_LINE_HANG},
        {"dmesg-gfx1103-mes-failure-devcoredump.txt", KERNEL_LINE_HANG},
        {"dmesg-llama-server-ring-timeout-noprefix.txt", KERNEL_LINE_HANG},
        {"dmesg-navi44-ring-timeout-wedged-6.19.txt", KERNEL_LINE_HANG},
        {"dmesg-gfx1150-fault-6.x.txt", KERNEL_LINE_FAULT},
        {"dmesg-gfx90c-noretry-fault.txt", KERNEL_LINE_FAULT},
        {"dmesg-mi300x-retry-fault.txt", KERNEL_LINE_FAULT},
        {"dmesg-rx7900xtx-sdma-fault-2card.txt", KERNEL_LINE_FAULT},
        {"dmesg-mi50-ras-athub.txt", KERNEL_LINE_FAULT},
        {"dmesg-cs-enomem-flood.txt", KERNEL_LINE_OOM},
        {"dmesg-rx9070xt-vram-enomem.txt", KERNEL_LINE_OOM},
        {"dmesg-rx9070xt-vram-enomem-7.1.txt", KERNEL_LINE_OOM},
        {"dmesg-apu-vega-memory-ready.txt", KERNEL_LINE_AMDGPU},
        {"dmesg-kfd-evict-pasid.txt", KERNEL_LINE_AMDGPU},
    };
    if (access(TEST_SHARED_DIR "/records", R_OK) != 0) {
        print_message("skipped: no recorded logs at %s\n", TEST_SHARED_DIR "/records");
        skip();
    }
    for (size_t i = 0; i < sizeof logs / sizeof logs[0]; i++) {
        char path[512], line[8192];
        (void)snprintf(path, sizeof path, "%s/records/%s", TEST_SHARED_DIR, logs[i].file);
        FILE *f = fopen(path, "re");
        assert_non_null(f);
        unsigned found[5] = {0};
        while (fgets(line, sizeof line, f) != NULL)
            found[kernel_log_classify(line)]++;
        (void)fclose(f);
        if (found[logs[i].holds] == 0)
            fail_msg("%s: nothing of class %d", logs[i].file, (int)logs[i].holds);
        if (logs[i].holds == KERNEL_LINE_AMDGPU)
            assert_int_equal(found[KERNEL_LINE_OOM] + found[KERNEL_LINE_FAULT], 0);
    }
}

static void test_absent_log(void **state)
{
    (void)state;
    struct kernel_log log;
    struct rc_err err;
    fs_set_sysroot("/nonexistent");
    assert_int_equal(kernel_log_open(&log, -1, &err), -ENOENT);
    assert_int_equal(log.fd, -1);
    assert_int_equal(log.next_seq, KERNEL_LOG_SEQ_UNKNOWN);
    assert_non_null(strstr(err.msg, "kernel log"));
    kernel_log_close(&log);
    fs_set_sysroot("");
}

static void append(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    (void)close(fd);
}

/* A recorded log as a file: old records are skipped, new ones are read one by one. */
static void test_file_is_followed(void **state)
{
    (void)state;
    char root[TEMP_FOLDER_MAX], dev[TEMP_FOLDER_MAX + 8], path[TEMP_FOLDER_MAX + 16], text[4096];
    assert_true(temp_folder(root, sizeof root, "kmsg"));
    (void)snprintf(dev, sizeof dev, "%s/dev", root);
    (void)snprintf(path, sizeof path, "%s/kmsg", dev);
    assert_int_equal(mkdir(dev, 0700), 0);
    ssize_t n =
        fs_read_text(TEST_SOURCE_DIR "/tests/fixtures/watch/sysroot/dev/kmsg", text, sizeof text);
    assert_true(n > 0);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, text, (size_t)n), n);
    assert_int_equal(write(fd, "\n", 1), 1);
    (void)close(fd);
    fs_set_sysroot(root);
    struct kernel_log log;
    assert_int_equal(kernel_log_open(&log, -1, NULL), 0);
    assert_true(log.regular);
    assert_int_equal(log.next_seq, 883);
    assert_int_equal(kernel_log_read(&log, record, sizeof record), 0);
    assert_int_equal(kernel_log_read(&log, record, 100), -EINVAL);

    append(path,
           "3,883,9,-;amdgpu: ring sdma0 timeout, signaled seq=1, emitted seq=2\n SUBSYSTEM=pci\n");
    append(path, "3,886,9,-;two were lost before this\nno prefix at all\n");
    append(path, "3,887,9,-;not yet comp");
    assert_true(kernel_log_read(&log, record, sizeof record) > 0);
    assert_non_null(strstr(record, " SUBSYSTEM=pci\n"));
    assert_int_equal(kernel_log_classify(record), KERNEL_LINE_HANG);
    assert_int_equal(log.next_seq, 884);
    assert_true(kernel_log_read(&log, record, sizeof record) > 0);
    assert_string_equal(record, "3,886,9,-;two were lost before this\n");
    assert_int_equal(log.lost, 2);
    assert_true(kernel_log_read(&log, record, sizeof record) > 0);
    assert_string_equal(record, "no prefix at all\n");
    assert_int_equal(kernel_log_read(&log, record, sizeof record), 0);
    append(path, "lete\n");
    assert_true(kernel_log_read(&log, record, sizeof record) > 0);
    assert_string_equal(record, "3,887,9,-;not yet complete\n");
    assert_int_equal(log.next_seq, 888);

    char *big = malloc(30001);
    memset(big, 'z', 30000);
    big[30000] = '\0';
    append(path, big);
    append(path, "\n");
    free(big);
    size_t total = 0;
    while ((n = kernel_log_read(&log, record, sizeof record)) > 0) {
        assert_in_range(n, 1, KERNEL_LOG_RECORD_MAX);
        total += (size_t)n;
    }
    assert_int_equal(total, 30001);
    fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC); /* rewritten: read from its beginning */
    (void)close(fd);
    append(path, "3,900,9,-;a new one\n");
    assert_true(kernel_log_read(&log, record, sizeof record) > 0);
    assert_string_equal(record, "3,900,9,-;a new one\n");
    kernel_log_close(&log);

    int mark = kernel_log_mark();
    assert_true(mark >= 0);
    append(path, "3,901,9,-;between the mark and the opening\n");
    assert_int_equal(kernel_log_open(&log, mark, NULL), 0);
    assert_int_equal(log.next_seq, 902);
    assert_true(kernel_log_read(&log, record, sizeof record) > 0);
    assert_string_equal(record, "3,901,9,-;between the mark and the opening\n");
    assert_int_equal(kernel_log_read(&log, record, sizeof record), 0);
    assert_int_equal(log.lost, 0);
    kernel_log_close(&log);
    fs_set_sysroot("");
    (void)unlink(path);
    (void)rmdir(dev);
    (void)rmdir(root);
}

/* The real /dev/kmsg, if root may read and write it: only records after the open are read. */
/* The records of the device. Other processes may write to it, too. */
static void expect_what_came_before_the_opening(void)
{
    struct kernel_log log;
    int mark = kernel_log_mark();
    int out = open("/dev/kmsg", O_WRONLY | O_CLOEXEC);
    char marker[64];
    int len = snprintf(marker, sizeof marker, "<6>rocmcrash mark %d\n", (int)getpid());
    assert_int_equal(write(out, marker, (size_t)len), len);
    (void)close(out);
    marker[len - 1] = '\0';
    assert_int_equal(kernel_log_open(&log, mark, NULL), 0);
    bool found = false;
    while (!found && kernel_log_read(&log, record, sizeof record) > 0)
        found = strstr(record, marker + 3) != NULL;
    assert_true(found);
    assert_int_equal(log.lost, 0);
    kernel_log_close(&log);
}

static void test_real_device(void **state)
{
    (void)state;
    fs_set_sysroot("");
    struct kernel_log log;
    struct rc_err err;
    int r = kernel_log_open(&log, -1, &err);
    /* On a busy machine the search for the number may exceed its time limit. */
    for (int i = 0; i < 50 && r == 0 && log.next_seq == KERNEL_LOG_SEQ_UNKNOWN; i++) {
        kernel_log_close(&log);
        r = kernel_log_open(&log, -1, &err);
    }
    int out = open("/dev/kmsg", O_WRONLY | O_CLOEXEC);
    if (r != 0 || out < 0) {
        print_message("skipped: %s\n", r != 0 ? err.msg : "cannot write /dev/kmsg");
        kernel_log_close(&log);
        skip();
    }
    assert_false(log.regular);
    assert_true(log.next_seq != KERNEL_LOG_SEQ_UNKNOWN);
    uint64_t first = log.next_seq;
    char marker[64];
    int len = snprintf(marker, sizeof marker, "<6>rocmcrash test %d\n", (int)getpid());
    assert_int_equal(write(out, marker, (size_t)len), len);
    (void)close(out);
    marker[len - 1] = '\0';
    bool found = false;
    while (!found && kernel_log_read(&log, record, sizeof record) > 0)
        found = strstr(record, marker + 3) != NULL;
    assert_true(found);
    assert_in_range(log.next_seq, first + 1, first + 100);
    assert_int_equal(log.overruns, 0);
    kernel_log_close(&log);
    expect_what_came_before_the_opening();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_classify),    cmocka_unit_test(test_recorded_logs),
        cmocka_unit_test(test_absent_log),  cmocka_unit_test(test_file_is_followed),
        cmocka_unit_test(test_real_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
