/* SPDX-License-Identifier: Apache-2.0 */
/* The first sentence: each class with and without its figures; wrapping and colour. */
#include "base/buf.h"
#include "diagnose/fact.h"
#include "diagnose/verdict.h"
#include "report/report.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

static struct facts *facts_of(const char *json)
{
    struct facts *facts = facts_new();
    cJSON *doc = cJSON_Parse(json);
    assert_non_null(doc);
    assert_int_equal(facts_from_json(facts, doc, NULL), 0);
    cJSON_Delete(doc);
    return facts;
}

#define OOM "\"oom.requested_bytes\":1696512737"
#define FREE "\"oom.free_bytes\":987758592,\"oom.total_bytes\":67108864000"

static void a_sentence_for_each(void **state)
{
    static const struct {
        const char *class_name, *subclass, *facts, *sentence;
    } cases[] = {
        {"gtt-limit", "", "{" OOM "," FREE "}",
         "GPU out of memory: 1.58 GiB wanted, 942.0 MiB free of 62.50 GiB (gtt-limit, high "
         "confidence)"},
        /* One figure of the pair is missing: neither is printed. */
        {"capacity", "", "{" OOM ",\"oom.free_bytes\":987758592}",
         "GPU out of memory: 1.58 GiB wanted (capacity, high confidence)"},
        {"capacity", "", "{" OOM "," FREE ",\"f.no_gpu\":true}",
         "GPU out of memory: 1.58 GiB wanted, 942.0 MiB free of 62.50 GiB, says the program; no GPU was found here (capacity, high confidence)"},
        {"host-oom", "allocation failed", "{}", "The program did not get host memory (host-oom, high confidence)"},
        {"leak", "", "{}", "GPU out of memory (leak, high confidence)"},
        {"held-by-other", "phantom free", "{" FREE "}",
         "GPU out of memory: 942.0 MiB free of 62.50 GiB (held-by-other, high confidence)"},
        /* The ledger's request beside the driver's counters, not the message's. */
        {"gtt-limit", "",
         "{\"f.ledger_request_bytes\":67108864,\"f.gtt_used_bytes\":2080374784,"
         "\"f.ttm_limit_bytes\":2147483648,\"f.sysfs_free_bytes\":1}",
         "GPU out of memory: 64.0 MiB wanted, 1.94 GiB in use of 2.00 GiB (gtt-limit, high "
         "confidence)"},
        {"capacity", "",
         "{\"f.ledger_request_bytes\":67108864,\"f.ledger_free_bytes\":1048576,"
         "\"f.vram_total_bytes\":2147483648}",
         "GPU out of memory: 64.0 MiB wanted, 1.0 MiB free of 2.00 GiB (capacity, high "
         "confidence)"},
        /* More was free than wanted: that figure would not explain it. */
        {"capacity", "",
         "{\"f.ledger_request_bytes\":6291456,\"f.sysfs_free_bytes\":10485760,"
         "\"f.vram_used_bytes\":2136997888,\"f.vram_total_bytes\":2147483648}",
         "GPU out of memory: 6.0 MiB wanted, 1.99 GiB in use of 2.00 GiB (capacity, high "
         "confidence)"},
        {"page-fault", "null pointer", "{\"ledger.fault.address\":\"0x0\"}",
         "GPU memory access fault at 0x0 (page-fault, high confidence)"},
        {"page-fault", "", "{}", "GPU memory access fault (page-fault, high confidence)"},
        {"gpu-hang", "", "{\"kmsg.ring_timeout\":\"gfx_0.0.0\"}",
         "The GPU stopped answering: ring gfx_0.0.0 timed out (gpu-hang, high confidence)"},
        {"host-oom", "", "{\"kmsg.oom_kill_comm\":\"python3\",\"kmsg.oom_kill_memcg\":false}",
         "Out of host memory: the kernel killed python3 (host-oom, high confidence)"},
        {"host-oom", "", "{\"kmsg.oom_kill_comm\":\"python3\",\"kmsg.oom_kill_memcg\":true}",
         "Out of host memory: the cgroup's limit was reached (host-oom, high confidence)"},
        /* The figures of the kernel at the kill, not those that were read after it. */
        {"host-oom", "",
         "{\"kmsg.oom_kill_memcg\":true,\"host.cgroup_used_bytes\":195035136,\"host.cgroup_limit_bytes\":314572800}",
         "Out of host memory: the cgroup's limit was reached (host-oom, high confidence)"},
        {"host-oom", "",
         "{\"kmsg.oom_kill_memcg\":true,\"kmsg.oom_memcg_usage_bytes\":314572800,\"kmsg.oom_memcg_limit_bytes\":314572800,"
         "\"host.cgroup_used_bytes\":195035136,\"host.cgroup_limit_bytes\":314572800}",
         "Out of host memory: the cgroup's limit was reached (300.0 MiB used of 300.0 MiB) (host-oom, high confidence)"},
        {"resource-limit", "file descriptors",
         "{\"f.fds_used_up_count\":1024,\"proc.0.fds_count\":46,\"proc.0.fds_limit\":1024}",
         "Out of file descriptors: 1024 open of 1024 (resource-limit, high confidence)"},
        {"resource-limit", "file descriptors", "{\"proc.0.fds_count\":46,\"proc.0.fds_limit\":1024}",
         "Out of file descriptors: this process may open 1024 (resource-limit, high confidence)"},
        {"resource-limit", "file descriptors", "{}", "Out of file descriptors (resource-limit, high confidence)"},
        {"leak", "",
         "{" OOM "," FREE ",\"oom.allowed_bytes\":21474836480,\"account.room_bytes\":1048576,"
         "\"account.budget_bytes\":21474836480}",
         "GPU out of memory: 1.58 GiB wanted, 1.0 MiB left of the 20.00 GiB that this process may use "
         "(leak, high confidence)"},
        {"unknown", "", "{\"oom.seen\":true,\"hook.exception_type\":\"numba.CudaAPIError\"}",
         "GPU out of memory; the cause is unknown"},
        {"resource-limit", "address space",
         "{\"proc.0.address_space_peak_bytes\":25572929536,"
         "\"proc.0.address_space_limit_bytes\":25769803776}",
         "Out of address space: 23.82 GiB used of the limit 24.00 GiB (resource-limit, high "
         "confidence)"},
        {"resource-limit", "data of the process", "{\"proc.0.data_limit_bytes\":1073741824}",
         "Host memory was refused by the process's data limit (RLIMIT_DATA), 1.00 GiB (resource-limit, high "
         "confidence)"},
        {"unknown", "killed by SIGKILL", "{\"target.signal_name\":\"KILL\"}",
         "SIGKILL ended the program; who sent it is not known"},
        {"unknown", "killed by SIGKILL", "{\"target.signal_name\":\"KILL\",\"run.ended_with_supervisor\":true}",
         "SIGKILL ended rocmcrash, and the program ended with it; who sent it is not known"},
        {"unknown", "ended by SIGQUIT", "{\"target.signal_name\":\"QUIT\"}", "SIGQUIT ended the program"},
        {"unknown", "no failure shown", "{}", "The text shows no failure"},
        {"unknown", "time limit", "{}", "A time limit ended the program; the cause is unknown"},
        {"resource-limit", "something new", "{}",
         "A resource limit was reached (resource-limit, high confidence)"},
        {"arch-mismatch", "small BAR", "{\"f.gfx\":\"gfx1100\"}",
         "The CPU cannot reach all of the GPU's memory: small BAR (arch-mismatch, high "
         "confidence)"},
        {"arch-mismatch", "", "{\"f.gfx\":\"gfx1100\"}",
         "The program has no code for this GPU, gfx1100 (arch-mismatch, high confidence)"},
        {"app-bug", "", "{\"target.failed_signal_name\":\"SEGV\",\"target.fault_says\":\"0x0, a null pointer\",\"stack.place\":\"main+0x37 (segv)\"}",
         "The program died of SIGSEGV at address 0x0, a null pointer, in main+0x37 (segv) (app-bug, high confidence)"},
        {"app-bug", "", "{\"target.failed_signal_name\":\"SEGV\",\"target.exit_code\":0}",
         "The program died of SIGSEGV (app-bug, high confidence)"},
        {"app-bug", "",
         "{\"target.failed_signal_name\":\"SEGV\",\"target.failed_is_child\":true,"
         "\"target.failed_comm\":\"worker\"}",
         "Process worker died of SIGSEGV (app-bug, high confidence)"},
        {"app-bug", "", "{\"hook.exception_type\":\"KeyError\",\"target.exit_code\":1}",
         "The program failed with KeyError (app-bug, high confidence)"},
        {"app-bug", "",
         "{\"msg.device_assert\":3,\"msg.device_assert_text\":\"i < n\",\"hook.exception_type\":\"E\"}",
         "An assertion in a GPU kernel failed: i < n (app-bug, high confidence)"},
        {"app-bug", "", "{\"msg.device_assert\":3}",
         "An assertion in a GPU kernel failed (app-bug, high confidence)"},
        {"a-class-of-tomorrow", "", "{\"target.exit_code\":7}",
         "The program ended with exit code 7 (a-class-of-tomorrow, high confidence)"},
        {"unknown", "nothing failed", "{\"target.exit_code\":0}",
         "The program ended well: nothing failed"},
        {"unknown", "seen alive: sleeps",
         "{\"snap.life\":\"The process is alive\",\"snap.main_does\":\"sleeps for a set time\"}",
         "The process is alive; its main thread sleeps for a set time"},
        {"unknown", "seen alive: sleeps",
         "{\"snap.life\":\"The process is alive\",\"snap.main_does\":\"sleeps for a set time\",\"f.stands_at\":\"a.py:4 in f\"}",
         "The process is alive; its main thread sleeps for a set time, at a.py:4 in f"},
        {"unknown", "seen alive: deadlock", "{\"snap.life\":\"The process is alive\",\"snap.deadlock\":\"thread 7 ...\"}",
         "The process is alive, in a deadlock"},
        {"unknown", "seen alive: blocked in the kernel",
         "{\"snap.life\":\"The process is alive\",\"snap.blocked\":\"is blocked in the kernel, read of /mnt/a\"}",
         "The process is alive; one of its threads is blocked in the kernel, read of /mnt/a"},
        {"unknown", "seen alive: waits for its own locks",
         "{\"snap.life\":\"The process is alive\",\"snap.self_wait\":\"all 3 threads\"}",
         "The process is alive; only a signal could make it continue"},
        {"unknown", "seen alive: waits for its own locks",
         "{\"snap.life\":\"The process is alive\",\"snap.self_wait\":\"all 3 threads\",\"f.stands_at\":\"a.py:4 in f\"}",
         "The process is alive, at a.py:4 in f; only a signal could make it continue"},
        {"unknown", "seen alive: waits for a lock",
         "{\"snap.life\":\"The program stood still for 75 s until SIGINT came\","
         "\"snap.main_does\":\"waits for a lock\"}",
         "The program stood still for 75 s until SIGINT came; its main thread waits for a lock"},
        {"unknown", "seen alive", "{\"snap.life\":\"The process is alive\"}", "The process is alive"},
        {"collective", "seen alive: in a collective", "{\"snap.life\":\"The process is alive\"}",
         "The process is alive, in a collective operation (collective, high confidence)"},
        {"unknown", "", "{\"target.exit_code\":0}",
         "The program ended with exit code 0; the cause is unknown"},
        {"unknown", "", "{" OOM "}", "GPU out of memory: 1.58 GiB wanted; the cause is unknown"},
        {"unknown", "", "{}", "The program failed; the cause is unknown"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct facts *facts = facts_of(cases[i].facts);
        struct verdict v = {.class_name = (char *)(uintptr_t)cases[i].class_name,
                            .subclass = (char *)(uintptr_t)cases[i].subclass,
                            .confidence = (char *)(uintptr_t)"high"};
        struct buf out = BUF_INIT;
        report_happened(facts, &v, &out);
        assert_string_equal(buf_str(&out), cases[i].sentence);
        buf_release(&out);
        facts_free(facts);
    }
}

static void terminal_of(unsigned columns, bool colour, const char *line_end, struct buf *out)
{
    struct facts *facts = facts_of("{" OOM "," FREE "}");
    struct verdict v = {.class_name = (char *)(uintptr_t)"gtt-limit",
                        .subclass = (char *)(uintptr_t)"",
                        .confidence = (char *)(uintptr_t)"high",
                        .sentence = (char *)(uintptr_t)"The GPU may use 62.50 GiB of RAM by the "
                                                       "TTM limit; 1.58 GiB more did not fit."};
    struct report_input in = {.facts = facts, .verdict = &v};
    struct report_style style = {.columns = columns, .colour = colour, .line_end = line_end};
    report_terminal(&in, NULL, &style, out);
    facts_free(facts);
}

static void lines_are_wrapped_below_their_text(void **state)
{
    struct buf out = BUF_INIT;
    (void)state;
    terminal_of(60, false, "\r\n", &out);
    assert_string_equal(buf_str(&out),
                        "rocmcrash: GPU out of memory: 1.58 GiB wanted, 942.0 MiB\r\n"
                        "           free of 62.50 GiB (gtt-limit, high confidence)\r\n"
                        "rocmcrash: why: The GPU may use 62.50 GiB of RAM by the TTM\r\n"
                        "           limit; 1.58 GiB more did not fit.\r\n");
    buf_release(&out);
    terminal_of(5, false, "\n", &out); /* too narrow to read: treated as an unknown width */
    assert_non_null(strstr(buf_str(&out), "942.0 MiB free of 62.50 GiB (gtt-limit, high"));
    buf_release(&out);
}

static void colour_marks_what_happened_and_the_labels(void **state)
{
    struct buf out = BUF_INIT;
    (void)state;
    terminal_of(0, true, "\n", &out);
    assert_non_null(strstr(buf_str(&out), "rocmcrash: \x1b[1mGPU out of memory"));
    assert_non_null(strstr(buf_str(&out), "confidence)\x1b[0m\n"));
    assert_non_null(strstr(buf_str(&out), "rocmcrash: \x1b[1mwhy: \x1b[0mThe GPU"));
    buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sentence_for_each),
        cmocka_unit_test(lines_are_wrapped_below_their_text),
        cmocka_unit_test(colour_marks_what_happened_and_the_labels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
