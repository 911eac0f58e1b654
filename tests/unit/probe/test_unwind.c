/* SPDX-License-Identifier: Apache-2.0 */
/* rocmcrash-unwind against programs whose functions are known, and against broken impact files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "impact_maker.h"
#include "record/shared.h"
#include "temp_folder.h"

#define OUTPUT_MAX (1 << 18)

static char directory[TEMP_FOLDER_MAX];
static char impact[600];
static char text[OUTPUT_MAX];

static int set_up(void **state)
{
    (void)state;
    if (!temp_folder(directory, sizeof directory, "unwind"))
        return -1;
    (void)snprintf(impact, sizeof impact, "%s/impact.0", directory);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    (void)unlink(impact);
    return rmdir(directory);
}

/* Exit status, or 128 + signal; stdout and stderr in `text`. */
static int run_unwind(const char *path)
{
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_adddup2(&actions, fds[1], 1);
    (void)posix_spawn_file_actions_adddup2(&actions, fds[1], 2);
    char program[] = UNWIND_PROGRAM;
    char *argv[] = {program, (char *)(uintptr_t)path, NULL};
    extern char **environ;
    pid_t pid;
    assert_int_equal(posix_spawn(&pid, program, &actions, NULL, argv, environ), 0);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)close(fds[1]);
    size_t length = 0;
    ssize_t n;
    while ((n = read(fds[0], text + length, sizeof text - 1 - length)) > 0)
        length += (size_t)n;
    text[length] = '\0';
    (void)close(fds[0]);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void make(const char *kind, const char *mode, size_t stack_max, struct impact_made *made)
{
    char victim[1024];
    (void)snprintf(victim, sizeof victim, "%s%s", VICTIM_PREFIX, kind);
    int r = impact_make(victim, mode, stack_max, impact, made);
    if (r == -EPERM || (r == -ECHILD && getppid() == 0)) {
        print_message("SKIP: ptrace is refused here\n");
        skip();
    }
    assert_int_equal(r, 0);
}

static const char *must_have(const char *from, const char *part)
{
    const char *found = strstr(from, part);
    if (found == NULL)
        fail_msg("no '%s' in:\n%s", part, from);
    return found;
}

static void must_not_have(const char *part)
{
    if (strstr(text, part) != NULL)
        fail_msg("'%s' in:\n%s", part, text);
}

/* Does the text have the parts in this order? */
static void must_have_in_order(const char *const *parts)
{
    const char *at = text;
    for (; *parts != NULL; parts++)
        at = must_have(at, *parts) + 1;
}

static void check_thread_crash(const char *kind)
{
    struct impact_made made;
    make(kind, "thread", 65536, &made);
    assert_int_equal(made.signo, 11);
    assert_int_equal(made.threads, 5);
    assert_int_equal(run_unwind(impact), 0);
    char head[128];
    (void)snprintf(head, sizeof head, "Thread %d \"crasher\" (faulting): SIGSEGV at 0x10 ",
                   made.tid);
    char frame0[128];
    (void)snprintf(frame0, sizeof frame0, "(crash_victim_%s, build-id " VICTIM_ID ")", kind);
    const char *const parts[] = {head,           "#0 ",           "in crash_here+0x", frame0,
                                 "#1 ",          "middle_call+0x", "#2 ",             "outer_call+0x",
                                 "#3 ",          "crashing_thread+0x", "start_thread", NULL};
    /* start_thread is a local symbol of libc: it is known only with installed debug symbols. */
    const char *const without_libc[] = {parts[0], parts[1], parts[2], parts[3], parts[4], parts[5],
                                        parts[6], parts[7], parts[8], parts[9], "libc.so.6", NULL};
    must_have_in_order(strstr(text, "start_thread") != NULL ? parts : without_libc);
    must_not_have("truncated");
    must_not_have("unwinding stopped");
    /* Three threads wait at the same place: one stack, three names. */
    const char *idle = must_have(text, "idle_wait_here+0x");
    assert_null(strstr(idle + 1, "idle_wait_here+0x"));
}

static void test_thread_crash(void **state)
{
    (void)state;
    check_thread_crash("plain");
}

static void test_without_frame_pointers(void **state)
{
    (void)state;
    check_thread_crash("fast");
}

/* Without symbols: the module and the offset that addr2line takes. */
static void test_stripped(void **state)
{
    (void)state;
    struct impact_made made;
    make("stripped", "main", 65536, &made);
    assert_int_equal(run_unwind(impact), 0);
    const char *frame = must_have(text, "in crash_victim_stripped+0x");
    unsigned long got = strtoul(frame + strlen("in crash_victim_stripped+"), NULL, 16);
    unsigned long expected = strtoul(made.output, NULL, 16);
    assert_true(expected > 0 && got >= expected && got < expected + 64);
    must_have(frame, "build-id " VICTIM_ID);
    must_not_have("crash_here");
    /* The stack is unwound to its end with .eh_frame, which stripping keeps. */
    must_not_have("unwinding stopped");
}

/* The stack goes from abort() in the handler through the signal frame to the fault. One call is the last instruction of
 * its function. */
static void test_signal_frame(void **state)
{
    (void)state;
    struct impact_made made;
    static const char *const kinds[] = {"plain", "fast"};
    for (size_t i = 0; i < 2; i++) {
        make(kinds[i], "abort", 65536, &made);
        assert_int_equal(made.signo, 6);
        assert_int_equal(run_unwind(impact), 0);
        must_have(text, "(faulting): SIGABRT");
        const char *const parts[] = {"abort+0x",       "ends_in_abort+0x", "on_fault+0x",
                                     "crash_here+0x0", "middle_call+0x",   "main+0x",
                                     NULL};
        const char *const looser[] = {"abort+0x",      "ends_in_abort+0x", "on_fault+0x",
                                      "crash_here+0x", "middle_call+0x",   "main+0x",
                                      NULL};
        must_have_in_order(i == 0 ? looser : (strstr(text, "crash_here+0x0 ") ? parts : looser));
        must_not_have("next_function");
    }
}

static void test_truncated_stack(void **state)
{
    (void)state;
    struct impact_made made;
    make("plain", "deep", 2048, &made);
    assert_int_equal(run_unwind(impact), 0);
    const char *const parts[] = {"crash_here+0x", "recurse_deeply+0x",
                                 "stack truncated at 2048 bytes", "unwinding stopped: memory at",
                                 NULL};
    must_have_in_order(parts);
    must_not_have("in main+0x");
    /* With the whole stack, some 60 KiB, it reaches main. */
    make("plain", "deep", 1 << 20, &made);
    assert_int_equal(run_unwind(impact), 0);
    must_have(text, "in main+0x");
    must_not_have("truncated");
}

static void copy_file(const char *from, const char *to, mode_t mode)
{
    FILE *in = fopen(from, "re");
    FILE *out = fopen(to, "we");
    assert_non_null(in);
    assert_non_null(out);
    char block[65536];
    size_t n;
    while ((n = fread(block, 1, sizeof block, in)) > 0)
        assert_int_equal(fwrite(block, 1, n, out), n);
    (void)fclose(in);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(chmod(to, mode), 0);
}

/* A replaced file must not give its names to the old addresses. */
static void test_replaced_file(void **state)
{
    (void)state;
    char mine[700];
    char other[700];
    (void)snprintf(mine, sizeof mine, "%s/victim", directory);
    (void)snprintf(other, sizeof other, "%s/other", directory);
    copy_file(VICTIM_PREFIX "plain", mine, 0755);
    copy_file(VICTIM_PREFIX "fast", other, 0755);
    struct impact_made made;
    assert_int_equal(impact_make(mine, "main", 65536, impact, &made), 0);
    assert_int_equal(run_unwind(impact), 0);
    must_have(text, "in crash_here+0x");
    assert_int_equal(rename(other, mine), 0);
    assert_int_equal(run_unwind(impact), 0);
    must_not_have("crash_here");
    must_have(text, "(victim, file replaced while mapped)");
    assert_int_equal(unlink(mine), 0);
    assert_int_equal(run_unwind(impact), 0);
    must_have(text, "(victim, file not readable)");
}

static size_t load(unsigned char **ret)
{
    FILE *file = fopen(impact, "re");
    assert_non_null(file);
    struct stat st;
    assert_int_equal(fstat(fileno(file), &st), 0);
    *ret = malloc((size_t)st.st_size + 1);
    assert_non_null(*ret);
    size_t n = fread(*ret, 1, (size_t)st.st_size, file);
    (void)fclose(file);
    return n;
}

static void store(const unsigned char *data, size_t length)
{
    FILE *file = fopen(impact, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

static void must_end_cleanly(const char *what, size_t number)
{
    int status = run_unwind(impact);
    if (status != 0 && status != 1)
        fail_msg("%s %zu: status %d, said:\n%s", what, number, status, text);
    if (text[0] == '\0')
        fail_msg("%s %zu: said nothing", what, number);
}

static void test_every_truncation(void **state)
{
    (void)state;
    struct impact_made made;
    make("fast", "main", 512, &made);
    unsigned char *data;
    size_t length = load(&data);
    assert_true(length > sizeof(struct shared_impact) + 1024);
    /* Each byte of the head and of the first chunks, then in steps. */
    for (size_t cut = 0; cut < length; cut += cut < 420 ? 3 : 37) {
        store(data, cut);
        must_end_cleanly("cut at", cut);
        if (cut < sizeof(struct shared_impact))
            must_have(text, "too short for an impact");
        else
            must_have(text, "incomplete");
    }
    store(data, length);
    assert_int_equal(run_unwind(impact), 0);
    must_have(text, "in crash_here+0x");
    free(data);
}

static void test_mutations(void **state)
{
    (void)state;
    struct impact_made made;
    make("fast", "main", 512, &made);
    unsigned char *data;
    size_t length = load(&data);
    uint64_t random = 0x9e3779b97f4a7c15u;
    unsigned char *changed = malloc(length);
    assert_non_null(changed);
    for (size_t round = 0; round < 200; round++) {
        memcpy(changed, data, length);
        for (int i = 0; i < 1 + (int)(round % 24); i++) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            size_t at = (random >> 8) % (round % 2 == 0 ? length : 600);
            changed[at] = (unsigned char)(round % 3 == 0 ? 0xff : random);
        }
        store(changed, length);
        must_end_cleanly("mutation", round);
    }
    free(changed);
    free(data);
}

static void test_no_impact(void **state)
{
    (void)state;
    assert_int_equal(run_unwind("/nonexistent/impact.0"), 1);
    must_have(text, "cannot read '/nonexistent/impact.0'");
    assert_int_equal(run_unwind(directory), 1);
    must_have(text, "cannot read");
    struct shared_impact head = {
        .state = IMPACT_COMPLETE, .kind = IMPACT_EXIT_EVENT, .pid = 7, .tid = 7};
    store((const unsigned char *)&head, sizeof head);
    assert_int_equal(run_unwind(impact), 1);
    must_have(text, "unwinding stopped: no registers were copied");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_thread_crash),    cmocka_unit_test(test_without_frame_pointers),
        cmocka_unit_test(test_stripped),        cmocka_unit_test(test_signal_frame),
        cmocka_unit_test(test_truncated_stack), cmocka_unit_test(test_replaced_file),
        cmocka_unit_test(test_every_truncation), cmocka_unit_test(test_mutations),
        cmocka_unit_test(test_no_impact),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
