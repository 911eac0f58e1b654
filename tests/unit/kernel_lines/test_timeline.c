/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel log's timeline for each device; the device that is judged; the run's window in a log that the user gives;
 * and the same answer for a log that is given as a log or pasted, whole or line by line.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../tree/tree_fixture.h"
#include "base/fs.h"
#include "diagnose/fact.h"
#include "diagnose/verdict.h"

#define A "amdgpu 0000:43:00.0: amdgpu: "
#define B "amdgpu 0000:c3:00.0: amdgpu: "
#define OOM "[  100.000000] Out of memory: Killed process 5123 (trainer) total-vm:8388608kB, anon-rss:2092760kB\n"

static const char two_cards[] =
    "[ 5012.100000] " A "[gfxhub0] page fault (src_id:0 ring:24 vmid:3 pasid:33235, for process other pid 99 thread other pid 99)\n"
    "[ 5012.200000] " A "GPU reset begin!\n"
    "[ 5014.500000] " B "ring comp_0.1.0 timeout, signaled seq=410, emitted seq=412\n"
    "[ 5014.500001] " B " Process trainer pid 4711 thread trainer pid 4711\n"
    "[ 5015.100000] " B "Ring comp_0.1.0 reset failed\n"
    "[ 5015.200000] " B "GPU reset begin!\n"
    "[ 5019.500000] " B "GPU reset(2) succeeded!\n";

static struct facts *read_log(const char *text, int64_t pid)
{
    struct facts *facts = facts_new();
    assert_non_null(facts);
    if (pid > 0)
        (void)facts_set_integer(facts, "target.failed_pid", FACT_IMPACT, pid, "test");
    kernel_log_to_facts(facts, text, strlen(text), "kernel log");
    return facts;
}

static void is_text(const struct facts *facts, const char *name, const char *wanted)
{
    const char *text = NULL;
    if (!facts_get_text(facts, name, &text))
        fail_msg("%s is not there", name);
    assert_string_equal(text, wanted);
}

static void test_each_device_by_itself(void **state)
{
    (void)state;
    struct facts *facts = read_log(two_cards, 0);
    is_text(facts, "kmsg.device.0.device", "0000:43:00.0");
    is_text(facts, "kmsg.device.0.first", "page-fault");
    is_text(facts, "kmsg.device.0.followed", "5012.200 s: GPU reset begin!");
    is_text(facts, "kmsg.device.1.device", "0000:c3:00.0");
    is_text(facts, "kmsg.device.1.first", "gpu-hang");
    is_text(facts, "kmsg.device.1.cause", "5014.500 s: ring comp_0.1.0 timeout, signaled seq=410, emitted seq=412");
    is_text(facts, "kmsg.device.1.followed", "5015.100 s: Ring comp_0.1.0 reset failed; 5015.200 s: GPU reset begin!; "
                                             "5019.500 s: GPU reset(2) succeeded!");
    assert_null(facts_best(facts, "kmsg.device.1.fragment"));
    facts_free(facts);
}

static void test_a_log_that_begins_with_what_followed(void **state)
{
    (void)state;
    struct facts *facts = read_log("[  7.1] " A "GPU reset begin!\n[  8.1] " A "GPU reset(1) succeeded!\n", 0);
    is_text(facts, "kmsg.device.0.first", "gpu-hang");
    is_text(facts, "kmsg.device.0.fragment", "7.100 s: GPU reset begin!");
    assert_null(facts_best(facts, "kmsg.device.0.cause"));
    facts_free(facts);
}

/* The kernel names the run's own process on the second card: the events of the first card are not
 * the run's. */
static void test_the_device_of_the_run(void **state)
{
    (void)state;
    static const struct {
        int64_t pid;
        const char *first_bad;
    } rows[] = {{0, "page-fault"}, {4711, "gpu-hang"}, {99, "page-fault"}, {12, "page-fault"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct facts *facts = read_log(two_cards, rows[i].pid);
        is_text(facts, "kmsg.first_bad", rows[i].first_bad);
        is_text(facts, "kmsg.device.1.first", "gpu-hang"); /* both are shown */
        assert_true((facts_best(facts, "kmsg.page_fault") == NULL) == (rows[i].pid == 4711));
        facts_free(facts);
    }
}

static void test_hardware_of_another_device(void **state)
{
    static const char ras[] = "[ 5019.550000] " B "socket: 1, die: 0 2 new uncorrectable hardware errors detected in umc block\n";
    static const char own[] = "[ 5019.550000] " A "socket: 1, die: 0 2 new uncorrectable hardware errors detected in umc block\n";
    static const char hang[] = "[ 5012.100000] " A "ring comp_0.1.0 timeout, signaled seq=410, emitted seq=412\n";
    char text[1024];
    (void)state;
    (void)snprintf(text, sizeof text, "%s%s", hang, ras);
    struct facts *facts = read_log(text, 0);
    assert_non_null(facts_best(facts, "event.hardware_elsewhere"));
    facts_free(facts);
    (void)snprintf(text, sizeof text, "%s%s", hang, own);
    facts = read_log(text, 0);
    assert_null(facts_best(facts, "event.hardware_elsewhere"));
    facts_free(facts);
}

/* Ten minutes apart: the earlier event is neither the cause nor evidence. */
static void test_an_earlier_incident(void **state)
{
    (void)state;
    struct facts *facts = read_log(OOM "[ 2000.000000] " A "ring comp_0.1.0 timeout, signaled seq=410, emitted seq=412\n", 0);
    is_text(facts, "kmsg.first_bad", "gpu-hang");
    assert_null(facts_best(facts, "event.host_oom"));
    is_text(facts, "kmsg.device.0.device", "0000:43:00.0");
    assert_null(facts_best(facts, "kmsg.device.1.device"));
    facts_free(facts);
}

/* --- the run's window --- */

static struct facts *given(const char *log, int64_t start_uptime_s)
{
    struct facts *facts = facts_new();
    (void)facts_set_integer(facts, "run.duration_ms", FACT_STATIC, 30000, "test");
    (void)facts_set_integer(facts, "run.start_time_s", FACT_STATIC, 1767225600, "test"); /* 2026-01-01 */
    if (start_uptime_s > 0)
        (void)facts_set_integer(facts, "run.start_uptime_ms", FACT_STATIC, start_uptime_s * 1000, "test");
    kernel_text_to_facts(facts, log, strlen(log), "kernel log");
    return facts;
}

static void test_window(void **state)
{
    static const struct {
        const char *log;
        int64_t start_s; /* since boot; 0 = not known */
        bool counts;
    } rows[] = {
        {OOM, 90, true},   {OOM, 101, true},   {OOM, 103, false}, /* a second of slack */
        {OOM, 5000, false}, {OOM, 8, false},   {OOM, 12, true}, /* 60 s after the end */
        {OOM, 0, true},
        {"6,77,100000000,-;Out of memory: Killed process 5123 (trainer) total-vm:8388608kB\n", 5000, false},
        {"Out of memory: Killed process 5123 (trainer) total-vm:8388608kB\n", 5000, true},
        {"[Thu Jan  1 00:00:10 2026] Out of memory: Killed process 5123 (trainer) total-vm:8388608kB\n", 5000, true},
        {"[Thu Jan  1 12:00:10 2026] Out of memory: Killed process 5123 (trainer) total-vm:8388608kB\n", 5000, true},
        {"[Tue Dec 30 00:00:10 2025] Out of memory: Killed process 5123 (trainer) total-vm:8388608kB\n", 5000, false},
        {"2026-01-03T00:00:10+00:00 host kernel: Out of memory: Killed process 5123 (trainer) total-vm:8388608kB\n", 0, false},
        {"Jan 30 00:00:10 host kernel: Out of memory: Killed process 5123 (trainer) total-vm:8388608kB\n", 5000, true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct facts *facts = given(rows[i].log, rows[i].start_s);
        int64_t outside = 0;
        if ((facts_best(facts, "kmsg.oom_kill_pid") != NULL) != rows[i].counts)
            fail_msg("row %zu: %s", i, rows[i].log);
        assert_int_equal(facts_get_integer(facts, "kmsg.outside_run_count", &outside), !rows[i].counts);
        assert_int_equal(outside, !rows[i].counts);
        facts_free(facts);
    }
    struct facts *facts = given(OOM "[ 5001.0] Out of memory: Killed process 7 (x) total-vm:1kB\n", 5000);
    assert_string_equal(facts_best(facts, "kmsg.oom_kill_pid")->source, "kernel log line 2");
    facts_free(facts);
}

/* An old line of the OOM killer made a SIGABRT "host-oom". */
static void test_an_old_kill_is_no_cause(void **state)
{
    struct tree *tree = fixture_tree();
    (void)state;
    for (int old = 0; old < 2; old++) {
        struct facts *facts = given(OOM, old ? 5000 : 90);
        struct verdict verdict;
        (void)facts_set_boolean(facts, "kmsg.readable", FACT_STATIC, true, "test");
        (void)facts_set_boolean(facts, "log.output_read", FACT_STATIC, true, "test");
        (void)facts_set_integer(facts, "target.signal", FACT_IMPACT, 6, "test");
        (void)facts_set_integer(facts, "target.failed_signal", FACT_IMPACT, 6, "test");
        (void)facts_set_text(facts, "target.failed_comm", FACT_IMPACT, "trainer", "test");
        assert_int_equal(diagnose(facts, tree, &verdict, NULL), 0);
        assert_int_equal(strcmp(verdict.class_name, "host-oom") == 0, !old);
        verdict_release(&verdict);
        facts_free(facts);
    }
    tree_free(tree);
}

/* --- the same answer, however the log is given --- */

static char *class_of(const struct tree *tree, const char *text, size_t len, bool as_kernel_log)
{
    struct facts *facts = facts_new();
    struct verdict verdict;
    if (as_kernel_log)
        (void)facts_set_boolean(facts, "kmsg.readable", FACT_STATIC, true, "test");
    (as_kernel_log ? kernel_text_to_facts : any_text_to_facts)(facts, text, len, "text");
    assert_int_equal(diagnose(facts, tree, &verdict, NULL), 0);
    char *class_name = strdup(verdict.class_name);
    verdict_release(&verdict);
    facts_free(facts);
    return class_name;
}

/* Pasted text counts as program output, too, so a single line ("python[7]: segfault") may give more
 * facts. */
static unsigned compare(const struct tree *tree, const char *file, const char *text, size_t len)
{
    char *log = class_of(tree, text, len, true), *paste = class_of(tree, text, len, false);
    bool is_line = memchr(text, '\n', len) == NULL;
    bool same = strcmp(log, paste) == 0 || (is_line && strcmp(log, "unknown") == 0);
    if (!same)
        print_error("%s: '%.*s': %s as a kernel log, %s pasted\n", file, (int)(len < 160 ? len : 160), text, log, paste);
    free(log);
    free(paste);
    return !same;
}

static unsigned compare_folder(const struct tree *tree, const char *folder, const char *prefix, unsigned *count)
{
    unsigned differ = 0;
    DIR *dir = opendir(folder);
    for (const struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;) {
        char path[800];
        char *text = NULL;
        const char *end = strrchr(e->d_name, '.');
        if (strcmp(e->d_name, "k_rebooted.txt") == 0)
            continue; /* two boots: pasted, the words of the first are also the program's */
        if (strncmp(e->d_name, prefix, strlen(prefix)) != 0 || end == NULL || (strcmp(end, ".txt") != 0 && strcmp(end, ".log") != 0))
            continue;
        (void)snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        ssize_t n = fs_read_all(path, (size_t)1 << 20, &text);
        assert_true(n >= 0);
        differ += compare(tree, e->d_name, text, (size_t)n);
        for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + (line[strcspn(line, "\n")] != '\0'))
            differ += compare(tree, e->d_name, line, strcspn(line, "\n"));
        free(text);
        ++*count;
    }
    if (dir != NULL)
        (void)closedir(dir);
    return differ;
}

static void test_given_as_a_log_or_pasted(void **state)
{
    struct tree *tree = fixture_tree();
    unsigned own = 0, recorded = 0;
    (void)state;
    unsigned differ = compare_folder(tree, TEST_SOURCE_DIR "/tests/fixtures/messages", "k_", &own);
    differ += compare_folder(tree, TEST_SHARED_DIR "/records", "dmesg", &recorded);
    print_message("%u logs of ours, %u recorded ones%s\n", own, recorded, recorded == 0 ? " (not there: skipped)" : "");
    assert_true(own >= 14);
    assert_int_equal(differ, 0);
    tree_free(tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_device_by_itself),
        cmocka_unit_test(test_a_log_that_begins_with_what_followed),
        cmocka_unit_test(test_the_device_of_the_run),
        cmocka_unit_test(test_hardware_of_another_device),
        cmocka_unit_test(test_an_earlier_incident),
        cmocka_unit_test(test_window),
        cmocka_unit_test(test_an_old_kill_is_no_cause),
        cmocka_unit_test(test_given_as_a_log_or_pasted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
