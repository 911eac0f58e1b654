/* SPDX-License-Identifier: Apache-2.0 */
/* The stacks collector: reading the unwinder's text, and a whole run. */
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

#include "base/clock.h"
#include "base/fs.h"
#include "collect/runner.h"
#include "collectors/stack_text.h"
#include "impact_maker.h"
#include "temp_folder.h"

extern const struct collector collector_stacks;

static char directory[TEMP_FOLDER_MAX];

static int set_up(void **state)
{
    (void)state;
    return temp_folder(directory, sizeof directory, "stacks") ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return fs_remove_tree(AT_FDCWD, directory);
}

static const char hip_abort[] =
    "Process 9 \"python3\": SIGABRT sent by process 9 (si_code -6); 2 of 2 threads copied\n"
    "\n"
    "Thread 9 \"python3\" (faulting): SIGABRT sent by process 9 (si_code -6)\n"
    "  #0   0x00007f0c2d0a1234 in __pthread_kill_implementation+0x114 (libc.so.6, build-id 00)\n"
    "  #1   0x00007f0c2d0a1235 in raise+0x12 (libc.so.6, build-id 00)\n"
    "  #2   0x00007f0c2d0a1236 in abort+0xd3 (libc.so.6, build-id 00)\n"
    "  #3   0x00007f0c2e0a1236 in libtorch_hip.so+0x9934 (libtorch_hip.so, file not readable)\n"
    "  #4   0x00007f0c2f0a1237 in hsa_amd_queue_create+0x31 (libhsa-runtime64.so.1, build-id 1f)\n"
    "  #5   0x00007f0c30000000 in ?? (code without a file: made at run time)\n"
    "  #6   0x00007f0c2f0b1237 in hipMalloc+0x44 (libamdhip64.so.6, build-id 2f)\n"
    "  unwinding stopped: memory at 0x7ffc was not copied\n"
    "\n"
    "Thread 10 \"idle\":\n"
    "  #0   0x00007f0c2f0b1237 in rocblas_sgemm+0x44 (librocblas.so.4)\n";

static void test_summary(void **state)
{
    (void)state;
    struct stack_summary s;
    assert_true(stack_text_summary(hip_abort, &s));
    assert_string_equal(s.top, "hsa_amd_queue_create");
    assert_int_equal(s.top_frame, 4);
    assert_string_equal(s.place, "libtorch_hip.so+0x9934"); /* past abort(), with or without a name */
    assert_int_equal(s.place_frame, 3);
    assert_string_equal(s.module, "libc.so.6");
    assert_string_equal(s.gpu_module, "libtorch_hip.so");
    assert_int_equal(s.gpu_frame, 3);
}

/* As a debug build of GCC 12 has it: std::vector<int>::at() is in the program's own file. */
static const char out_of_range[] =
    "Thread 9 \"exc\" (faulting): SIGABRT sent by process 9 (si_code -6)\n"
    "  #0   0x00007f60a88a8eec in __pthread_kill_implementation+0x10c (libc.so.6, build-id 93)\n"
    "  #1   0x00007f60a8859fb2 in raise+0x12 (libc.so.6, build-id 93)\n"
    "  #2   0x00007f60a8844472 in abort+0xd3 (libc.so.6, build-id 93)\n"
    "  #3   0x00007f60a8a9d919 in libstdc++.so.6.0.30+0x9d919 (libstdc++.so.6.0.30, build-id 28)\n"
    "  #4   0x00007f60a8aa8e85 in _ZSt9terminatev+0x15 (libstdc++.so.6.0.30, build-id 28)\n"
    "  #5   0x00007f60a8aa90d8 in __cxa_throw+0x48 (libstdc++.so.6.0.30, build-id 28)\n"
    "  #6   0x000055d4f8ceb57f in _ZNKSt6vectorIiSaIiEE14_M_range_checkEm+0x51 (exc, build-id 99)\n"
    "  #7   0x000055d4f8ceb361 in _ZNSt6vectorIiSaIiEE2atEm+0x23 (exc, build-id 99)\n"
    "  #8   0x000055d4f8ceb1e0 in main+0x47 (exc, build-id 99)\n"
    "  #9   0x00007f60a884524a in __libc_start_call_main+0x7a (libc.so.6, build-id 93)\n";

static void test_own_code_comes_before_the_libraries_of_the_language(void **state)
{
    (void)state;
    struct stack_summary s;
    assert_true(stack_text_summary(out_of_range, &s));
    assert_string_equal(s.place, "main+0x47 (exc)");
    assert_int_equal(s.place_frame, 8);
    assert_string_equal(s.top, "main");
    /* All of it in the C library: its innermost frame past abort(). */
    assert_true(stack_text_summary("Thread 9 \"x\" (faulting): SIGSEGV at 0x0 (si_code 1)\n"
                                   "  #0   0x0000000000001139 in __strlen_evex+0x18 (libc.so.6, build-id 93)\n"
                                   "  #1   0x0000000000001139 in start_thread+0x2 (libc.so.6, build-id 93)\n", &s));
    assert_string_equal(s.place, "__strlen_evex+0x18 (libc.so.6)");
    assert_string_equal(s.top, "__strlen_evex");
}

static void test_place_of_a_live_thread(void **state)
{
    (void)state;
    char place[STACK_PLACE_MAX];
    int frame = -1;
    assert_true(stack_text_own_place("Process 9 \"x\": alive\n\nThread 9 \"x\":\n"
                                     "  #0   0x00007f0c2d0a1234 in __lll_lock_wait+0x2 (libc.so.6, build-id 00)\n"
                                     "  #1   0x00007f0c2d0a1234 in x+0x22 (x, build-id 00)\n"
                                     "  #2   0x00007f0c2d0a1234 in take+0x12 (x, build-id 00)\n",
                                     place, sizeof place, &frame));
    assert_string_equal(place, "take+0x12 (x)");
    assert_int_equal(frame, 2);
    assert_false(stack_text_own_place("\nThread 9 \"x\":\n  #0   0x1 in pause+0x2 (libc.so.6)\n", place, sizeof place, &frame));
}

static void test_summary_without(void **state)
{
    (void)state;
    struct stack_summary s;
    assert_false(stack_text_summary("", &s));
    assert_false(stack_text_summary("unwinding stopped: no registers\n", &s));
    assert_false(stack_text_summary("Thread 1 \"x\" (faulting): SIGSEGV", &s));
    /* A jump to an invalid address: frame 0 is in no file, so there is no module, and no GPU library. */
    assert_true(stack_text_summary("Thread 1 \"x\" (faulting): SIGSEGV at 0x0 (si_code 1)\n"
                                   "  #0   0x0000000000000000 in ?? (no memory is mapped there)\n"
                                   "  #1   0x0000000000001139 in main+0x9 (a.out)\n"
                                   "  #2   0x0000000000001139 in f+0x9 (libamdhip64x.so)\n",
                                   &s));
    assert_string_equal(s.top, "main");
    assert_int_equal(s.top_frame, 1);
    assert_string_equal(s.module, "");
    assert_string_equal(s.gpu_module, "");
}

static void test_summary_garbage(void **state)
{
    (void)state;
    /* Every prefix, and every byte replaced: no read outside the text (for the sanitizers). */
    size_t length = sizeof hip_abort;
    struct stack_summary s;
    for (size_t cut = 0; cut < length; cut++) {
        char *text = malloc(cut + 1);
        assert_non_null(text);
        memcpy(text, hip_abort, cut);
        text[cut] = '\0';
        (void)stack_text_summary(text, &s);
        if (cut > 0) {
            static const char odd[] = "\n+( )#\1\377%";
            text[cut / 2] = odd[cut % (sizeof odd - 1)];
            (void)stack_text_summary(text, &s);
        }
        free(text);
    }
    char *longest = malloc(70000);
    assert_non_null(longest);
    memset(longest, 'A', 69999);
    longest[69999] = '\0';
    static const char head[] = "(faulting): x\n  #0   0x1 in ";
    memcpy(longest, head, sizeof head - 1);
    (void)stack_text_summary(longest, &s);
    longest[40000] = '+';
    memcpy(longest + 50000, " (", 2);
    assert_true(stack_text_summary(longest, &s));
    free(longest);
}

struct row_seen {
    enum collect_status status;
    char reason[256];
};

static void see_row(const struct runner_row *row, void *arg)
{
    struct row_seen *seen = arg;
    seen->status = row->status;
    (void)snprintf(seen->reason, sizeof seen->reason, "%s", row->reason);
}

static struct facts *collect(const char *run_dir, int64_t failed_pid, struct row_seen *seen)
{
    char stage[600];
    (void)snprintf(stage, sizeof stage, "%s/stage", directory);
    (void)fs_remove_tree(AT_FDCWD, stage);
    assert_int_equal(mkdir(stage, 0700), 0);
    static const char *const none[] = {NULL};
    struct collect_ctx ctx = {.run_dir = run_dir, .failed_pid = failed_pid, .argv = none,
                              .cwd = "", .maps = "", .fds = "", .environ_at_impact = none};
    const struct collector *const list[] = {&collector_stacks, NULL};
    struct runner_options options = {
        .stage_dir = stage, .cancel_fd = -1, .callback_arg = seen};
    struct facts *facts = facts_new();
    assert_non_null(facts);
    assert_int_equal(
        runner_run(list, COLLECT_QUICK, &ctx, &options, facts, see_row, NULL), 0);
    return facts;
}

static void test_collector(void **state)
{
    (void)state;
    char path[600];
    struct impact_made other;
    struct impact_made made;
    (void)snprintf(path, sizeof path, "%s/impact.0", directory);
    int r = impact_make(VICTIM_PREFIX "plain", "main", 65536, path, &other);
    if (r == -EPERM) {
        print_message("SKIP: ptrace is refused here\n");
        skip();
    }
    assert_int_equal(r, 0);
    (void)snprintf(path, sizeof path, "%s/impact.3", directory);
    assert_int_equal(impact_make(VICTIM_PREFIX "plain", "abort", 65536, path, &made), 0);
    struct row_seen seen;
    struct facts *facts = collect(directory, made.pid, &seen);
    assert_int_equal(seen.status, COLLECT_OK);
    const char *value;
    /* The facts are those of the process that failed first, although its file is the second. The frames of abort() are
     * skipped. */
    assert_true(facts_get_text(facts, "stack.top", &value));
    assert_string_equal(value, "ends_in_abort");
    assert_true(facts_get_text(facts, "stack.module", &value));
    assert_string_equal(value, "libc.so.6");
    const struct fact *gpu = facts_find(facts, "stack.gpu_module", FACT_IMPACT);
    assert_non_null(gpu);
    assert_int_equal(gpu->status, FACT_ABSENT);
    facts_free(facts);
    static const char *const files[] = {"stage/stacks/stacks.0.txt", "stage/stacks/stacks.3.txt"};
    for (size_t i = 0; i < 2; i++) {
        char *text = NULL;
        (void)snprintf(path, sizeof path, "%s/%s", directory, files[i]);
        assert_true(fs_read_all(path, 1 << 20, &text) > 0);
        assert_non_null(strstr(text, i == 0 ? "in crash_here+0x" : "in on_fault+0x"));
        free(text);
    }
}

static void test_collector_bad_impact(void **state)
{
    (void)state;
    char path[600];
    char run[560];
    (void)snprintf(run, sizeof run, "%s/empty", directory);
    assert_int_equal(mkdir(run, 0700), 0);
    struct row_seen seen;
    facts_free(collect(run, 5, &seen));
    assert_int_equal(seen.status, COLLECT_SKIPPED);
    assert_string_equal(seen.reason, "no registers or stacks were copied");
    (void)snprintf(path, sizeof path, "%s/impact.0", run);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    for (int i = 0; i < 4096; i++)
        (void)fputc(i * 7 & 0xff, file);
    assert_int_equal(fclose(file), 0);
    facts_free(collect(run, 5, &seen));
    assert_int_equal(seen.status, COLLECT_FAILED);
    assert_non_null(strstr(seen.reason, "impact.0: rocmcrash-unwind"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_summary),         cmocka_unit_test(test_own_code_comes_before_the_libraries_of_the_language),
        cmocka_unit_test(test_place_of_a_live_thread),
        cmocka_unit_test(test_summary_without),
        cmocka_unit_test(test_summary_garbage), cmocka_unit_test(test_collector),
        cmocka_unit_test(test_collector_bad_impact),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
