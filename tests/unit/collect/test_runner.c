/* SPDX-License-Identifier: Apache-2.0 */
/* The runner against collectors that hang, crash, flood and lie: every row is right, and the time is bounded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fs.h"
#include "collect/runner.h"
#include "fakes.h"
#include "temp_folder.h"

/* Without its deadline a collector would take a minute or never end; on a busy machine the test takes seconds. */
#define FOR_EVER_MS 30000

struct got {
    char name[64];
    enum collect_status status;
    char reason[700];
    uint64_t ms, bytes;
    bool for_lack_of_time;
};

static struct {
    char stage[TEMP_FOLDER_MAX];
    struct got rows[64];
    size_t count;
    struct facts *facts;
    uint64_t elapsed_ms;
    int result;
} run;

static void on_row(const struct runner_row *row, void *arg)
{
    assert_ptr_equal(arg, &run);
    assert_true(run.count < 64);
    struct got *g = &run.rows[run.count++];
    (void)snprintf(g->name, sizeof g->name, "%s", row->name);
    (void)snprintf(g->reason, sizeof g->reason, "%s", row->reason);
    g->status = row->status;
    g->ms = row->ms;
    g->bytes = row->bytes;
    g->for_lack_of_time = row->for_lack_of_time;
}

static void clear(void)
{
    if (run.stage[0] != '\0')
        (void)fs_remove_tree(AT_FDCWD, run.stage);
    facts_free(run.facts);
    memset(&run, 0, sizeof run);
    assert_true(temp_folder(run.stage, sizeof run.stage, "rc-runner"));
    run.facts = facts_new();
    assert_non_null(run.facts);
}

static const char *const no_environ[] = {NULL};
static const struct collect_ctx ctx = {.run_dir = "",
                                       .argv = no_environ,
                                       .cwd = "/some/where",
                                       .maps = "",
                                       .fds = "",
                                       .environ_at_impact = no_environ};

static void go_with(const struct collector *const *list, struct runner_options options)
{
    options.stage_dir = run.stage;
    options.callback_arg = &run;
    uint64_t start = clock_mono_ns();
    struct rc_err err;
    run.result = runner_run(list, COLLECT_QUICK, &ctx, &options, run.facts, on_row, &err);
    run.elapsed_ms = (clock_mono_ns() - start) / 1000000u;
}

static void go(const struct collector *const *list)
{
    clear();
    go_with(list, (struct runner_options){.cancel_fd = -1});
    assert_int_equal(run.result, 0);
}

static bool file_exists(const char *name)
{
    char path[TEMP_FOLDER_MAX + 128];
    struct stat st;
    (void)snprintf(path, sizeof path, "%s/%s", run.stage, name);
    return lstat(path, &st) == 0;
}

static int64_t integer(const char *name)
{
    int64_t v = -12345;
    return facts_get_integer(run.facts, name, &v) ? v : -12345;
}

static void assert_contains(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("'%s' does not contain '%s'", text, part);
}

static void test_good_ones_in_list_order(void **state)
{
    (void)state;
    const struct collector *const list[] = {
        &fake_hangs, &fake_good, &fake_good2, &fake_skips, &fake_silent, &fake_slow_phase, NULL};
    go(list);
    static const struct got want[] = {
        {"hangs", COLLECT_TIMED_OUT, "deadline passed; reading 'x'", 100, 5, false},
        {"good", COLLECT_OK, "", 0, 11, false},
        {"good2", COLLECT_PARTIAL, "one of 2", 0, 0, false},
        {"skips", COLLECT_SKIPPED, "does not apply", 0, 0, false},
        {"silent", COLLECT_OK, "", 0, 0, false},
    };
    assert_int_equal(run.count, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_string_equal(run.rows[i].name, want[i].name);
        assert_int_equal(run.rows[i].status, want[i].status);
        assert_string_equal(run.rows[i].reason, want[i].reason);
        assert_int_equal(run.rows[i].bytes, want[i].bytes);
        assert_true(run.rows[i].ms >= want[i].ms);
    }
    assert_true(file_exists("good/sub/dir/a.txt"));
    assert_true(file_exists("hangs/before.txt"));
    assert_false(file_exists("silent"));               /* nothing in it: no folder */
    assert_int_equal(integer("fake.value_bytes"), 42); /* the first in the list, not the first in time */
    assert_int_equal(integer("hang.before"), 1);
    assert_int_equal(integer("fake.deadline_is_set"), 1);
    const char *cwd = NULL;
    assert_true(facts_get_text(run.facts, "fake.cwd", &cwd));
    assert_string_equal(cwd, "/some/where");
    const struct fact *absent = facts_best(run.facts, "fake.absent");
    assert_non_null(absent);
    assert_int_equal(absent->status, FACT_ABSENT);
    assert_string_equal(absent->reason, "no such thing");
}

static void test_hanging_ones_end_in_bounded_time(void **state)
{
    (void)state;
    const struct collector *const list[] = {&fake_hangs, &fake_ignores_term, &fake_spins, NULL};
    go(list);
    assert_int_equal(run.count, 3);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(run.rows[i].status, COLLECT_TIMED_OUT);
    assert_true(run.rows[0].ms < run.rows[1].ms); /* ended by SIGTERM */
    assert_true(run.rows[1].ms >= 300); /* needed SIGKILL */
    assert_int_equal(run.rows[1].bytes, 5);
    assert_true(run.elapsed_ms < FOR_EVER_MS);
}

/* Both pids in that collector's file "pids"; -1 if there is no such file. */
static void read_pids(const char *collector, int pids[2])
{
    char path[TEMP_FOLDER_MAX + 128];
    char text[64];
    (void)snprintf(path, sizeof path, "%s/%s/pids", run.stage, collector);
    assert_true(fs_read_text(path, text, sizeof text) > 0);
    assert_int_equal(sscanf(text, "%d %d", &pids[0], &pids[1]), 2);
}

/* A killed orphan is gone or waits for init to reap it. Bounded by the deadline, not by a sleep. */
static bool process_ends(int pid)
{
    char path[64];
    char text[512];
    (void)snprintf(path, sizeof path, "/proc/%d/stat", pid);
    for (uint64_t last = clock_mono_ns() + 2000000000u; clock_mono_ns() < last;) {
        if (fs_read_text(path, text, sizeof text) < 0)
            return true;
        const char *state = strrchr(text, ')');
        if (state != NULL && (state[2] == 'Z' || state[2] == 'X'))
            return true;
        (void)poll(NULL, 0, 1);
    }
    return false;
}

static void test_grandchildren_go_with_the_group(void **state)
{
    (void)state;
    const struct collector *const list[] = {&fake_grandchild, &fake_leaves_background, NULL};
    go(list);
    int pids[2];
    assert_int_equal(run.rows[0].status, COLLECT_TIMED_OUT);
    read_pids("grandchild", pids);
    assert_true(process_ends(pids[0]));
    assert_true(process_ends(pids[1]));
    /* It ended well, although a process that it started still held the pipe. */
    assert_int_equal(run.rows[1].status, COLLECT_OK);
    read_pids("leaves_background", pids);
    assert_true(process_ends(pids[1]));
    assert_true(run.elapsed_ms < FOR_EVER_MS);
}

static void test_crashes(void **state)
{
    (void)state;
    const struct collector *const list[] = {
        &fake_segv, &fake_abort,        &fake_exits, &fake_exits_after_facts,
        &fake_good, &fake_claims_stuck, NULL};
    go(list);
    assert_int_equal(run.count, 6);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(run.rows[i].status, COLLECT_CRASHED);
    assert_contains(run.rows[0].reason, "SIGSEGV");
    assert_contains(run.rows[1].reason, "SIGABRT");
    assert_contains(run.rows[2].reason, "exited with 0");
    assert_contains(run.rows[3].reason, "exited with 3");
    assert_int_equal(run.rows[4].status, COLLECT_OK);
    assert_int_equal(run.rows[5].status, COLLECT_FAILED); /* a collector may not set STUCK */
    assert_int_equal(integer("segv.before"), 1);          /* facts before the crash are kept */
}

static void test_too_much_output_is_cut(void **state)
{
    (void)state;
    const struct collector *const list[] = {&fake_writes_much, &fake_open_much, &fake_many_files,
                                            &fake_fills_disk, NULL};
    go(list);
    assert_int_equal(run.rows[0].status, COLLECT_PARTIAL);
    assert_int_equal(run.rows[0].bytes, 10000);
    assert_contains(run.rows[0].reason, "limit of 10000 bytes");
    assert_int_equal(run.rows[1].status, COLLECT_PARTIAL);
    assert_int_equal(run.rows[1].bytes, 10000);
    assert_int_equal(integer("much.errno"), EFBIG); /* an error, not SIGXFSZ */
    assert_int_equal(run.rows[2].status, COLLECT_PARTIAL);
    assert_int_equal(integer("many.opened"), 1024);
    assert_int_equal(run.rows[3].status, COLLECT_TIMED_OUT);
    assert_contains(run.rows[3].reason, "more than twice its limit");
    assert_int_equal(run.rows[3].bytes, 50000);
    assert_true(run.elapsed_ms < FOR_EVER_MS);
}

static void test_garbage_in_the_pipe(void **state)
{
    (void)state;
    const struct collector *const list[] = {&fake_garbage, &fake_garbage_first, &fake_garbage_flood,
                                            &fake_many_facts, NULL};
    go(list);
    assert_int_equal(run.rows[0].status, COLLECT_CRASHED);
    assert_contains(run.rows[0].reason, "garbage");
    assert_int_equal(integer("garbage.before"), 1);
    assert_null(facts_best(run.facts, "garbage.after"));
    assert_int_equal(run.rows[1].status, COLLECT_CRASHED);
    assert_null(facts_best(run.facts, "fake.value_bytes"));
    assert_true(run.rows[2].status == COLLECT_TIMED_OUT);
    assert_contains(run.rows[2].reason, "garbage");
    assert_true(run.rows[2].ms < 2500); /* ended before its deadline */
    /* Too many facts: those that fit arrive, and so does the last frame. */
    assert_int_equal(run.rows[3].status, COLLECT_PARTIAL);
    assert_contains(run.rows[3].reason, "the reason still arrives");
    assert_non_null(facts_best(run.facts, "many.n0"));
}

static void test_names_and_links_stay_inside(void **state)
{
    (void)state;
    const struct collector *const list[] = {&fake_bad_names, &fake_makes_links, NULL};
    go(list);
    const char *accepted = "";
    (void)facts_get_text(run.facts, "names.accepted", &accepted);
    assert_string_equal(accepted, "");
    assert_int_equal(integer("names.accepted_count"), 0);
    assert_int_equal(integer("names.mode"), 0600);
    assert_true(file_exists("bad_names/fine"));
    assert_false(file_exists("bad_names/link"));
    assert_false(file_exists("bad_names/pipe"));
    assert_int_equal(access("/tmp/in", F_OK), -1);
    assert_false(file_exists("makes_links/symbolic"));
    assert_false(file_exists("makes_links/fifo"));
    assert_int_equal(run.rows[1].status, COLLECT_PARTIAL);
}

static void test_what_the_child_sees(void **state)
{
    (void)state;
    sigset_t term;
    sigset_t old;
    (void)sigemptyset(&term);
    (void)sigaddset(&term, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &term, &old); /* like the finisher, which uses a signalfd */
    int extra = open("/dev/zero", O_RDONLY);
    const struct collector *const list[] = {&fake_environment, NULL};
    go(list);
    (void)sigprocmask(SIG_SETMASK, &old, NULL);
    (void)close(extra);
    assert_int_equal(integer("in.fds"), 5); /* null x 3, folder, status pipe */
    assert_int_equal(integer("in.own_group"), 1);
    assert_int_equal(integer("in.dumpable"), 0);
    assert_int_equal(integer("in.deathsig"), SIGKILL);
    assert_int_equal(integer("in.core"), 0);
    assert_int_equal(integer("in.fsize"), 12346);
    assert_in_range(integer("in.cpu"), 4, 6);
    assert_int_equal(integer("in.stdin"), 0);
    assert_int_equal(integer("in.stderr_is_null"), 1);
    assert_int_equal(integer("in.term_blocked"), 0);
}

/* A process in D state: signals are sent without effect. */
static struct {
    pid_t group;
    int signals[8];
    size_t count;
} undead;

static pid_t undead_first;

static int kill_without_effect(pid_t group, int signo)
{
    undead.group = group;
    if (undead_first == 0)
        undead_first = group;
    if (undead.count < 8)
        undead.signals[undead.count++] = signo;
    return 0;
}

static void test_stuck_is_abandoned_with_its_files(void **state)
{
    (void)state;
    memset(&undead, 0, sizeof undead);
    undead_first = 0;
    clear();
    const struct collector *const list[] = {&fake_hangs, NULL};
    go_with(list, (struct runner_options){.cancel_fd = -1, .kill_group = kill_without_effect});
    assert_int_equal(run.result, 0);
    assert_int_equal(run.count, 1);
    assert_int_equal(run.rows[0].status, COLLECT_STUCK);
    assert_contains(run.rows[0].reason, "abandoned");
    assert_int_equal(run.rows[0].bytes, 5);
    assert_true(file_exists("hangs/before.txt"));
    assert_int_equal(integer("hang.before"), 1);
    assert_int_equal(undead.count, 2);
    assert_int_equal(undead.signals[0], SIGTERM);
    assert_int_equal(undead.signals[1], SIGKILL);
    assert_in_range(run.elapsed_ms, 500, FOR_EVER_MS); /* deadline 100, then 200, then 200 */
    /* The runner did not wait for it: it is still our child. */
    assert_int_equal(waitpid(undead.group, NULL, WNOHANG), 0);
    assert_int_equal(kill(undead.group, SIGKILL), 0);
    assert_int_equal(waitpid(undead.group, NULL, 0), undead.group);
}

static void test_stuck_one_does_not_hold_the_others(void **state)
{
    (void)state;
    memset(&undead, 0, sizeof undead);
    undead_first = 0;
    clear();
    const struct collector *const list[] = {&fake_hangs, &fake_good, &fake_skips, NULL};
    go_with(list, (struct runner_options){
                      .cancel_fd = -1, .kill_group = kill_without_effect, .parallel = 1});
    assert_int_equal(run.count, 3);
    assert_int_equal(run.rows[0].status, COLLECT_STUCK);
    assert_int_equal(run.rows[1].status, COLLECT_OK);
    assert_int_equal(run.rows[2].status, COLLECT_SKIPPED);
    assert_int_equal(killpg(undead_first, SIGKILL), 0);
    assert_int_equal(waitpid(undead_first, NULL, 0), undead_first);
}

static void test_without_pidfd(void **state)
{
    (void)state;
    clear();
    const struct collector *const list[] = {&fake_good, &fake_hangs, &fake_segv, NULL};
    go_with(list, (struct runner_options){.cancel_fd = -1, .without_pidfd = true});
    assert_int_equal(run.rows[0].status, COLLECT_OK);
    assert_int_equal(run.rows[1].status, COLLECT_TIMED_OUT);
    assert_false(run.rows[1].for_lack_of_time); /* its own deadline */
    assert_int_equal(run.rows[2].status, COLLECT_CRASHED);
    assert_true(run.elapsed_ms < FOR_EVER_MS);
}

static void test_total_deadline(void **state)
{
    (void)state;
    clear();
    static struct collector patient;
    patient = fake_ignores_term;
    patient.deadline_ms = 60000;
    const struct collector *const list[] = {&patient, &fake_good, NULL};
    go_with(list, (struct runner_options){.cancel_fd = -1,
                                          .parallel = 1,
                                          .total_deadline_mono_ns = clock_mono_ns() + 150000000u});
    assert_int_equal(run.count, 2);
    assert_int_equal(run.rows[0].status, COLLECT_TIMED_OUT);
    assert_int_equal(run.rows[1].status, COLLECT_SKIPPED);
    assert_string_equal(run.rows[1].reason, "no time left");
    assert_true(run.rows[0].for_lack_of_time && run.rows[1].for_lack_of_time);
    assert_true(run.elapsed_ms < FOR_EVER_MS);
}

static void test_cancel(void **state)
{
    (void)state;
    clear();
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    static struct collector patient;
    patient = fake_hangs;
    patient.deadline_ms = 60000;
    const struct collector *const list[] = {&fake_good, &patient, &fake_good2, NULL};
    assert_int_equal(write(fds[1], "x", 1), 1);
    go_with(list, (struct runner_options){.cancel_fd = fds[0], .parallel = 2});
    assert_int_equal(run.count, 3);
    /* The first may have ended before the runner looked. */
    assert_true(run.rows[0].status == COLLECT_OK || run.rows[0].status == COLLECT_TIMED_OUT);
    assert_int_equal(run.rows[1].status, COLLECT_TIMED_OUT);
    assert_contains(run.rows[1].reason, "cancelled");
    assert_int_equal(run.rows[2].status, COLLECT_SKIPPED);
    assert_string_equal(run.rows[2].reason, "cancelled");
    assert_true(run.elapsed_ms < FOR_EVER_MS);
    char c;
    assert_int_equal(read(fds[0], &c, 1), 1); /* left for the other collectors */
    (void)close(fds[0]);
    (void)close(fds[1]);
}

static void test_no_staging_folder_still_gives_rows(void **state)
{
    (void)state;
    clear();
    (void)rmdir(run.stage);
    const struct collector *const list[] = {&fake_good, &fake_skips, NULL};
    go_with(list, (struct runner_options){.cancel_fd = -1});
    assert_int_equal(run.result, -ENOENT);
    assert_int_equal(run.count, 2);
    assert_int_equal(run.rows[0].status, COLLECT_FAILED);
    run.stage[0] = '\0';
}

static void test_folder_in_the_way(void **state)
{
    (void)state;
    clear();
    char path[TEMP_FOLDER_MAX + 16];
    char elsewhere[TEMP_FOLDER_MAX];
    assert_true(temp_folder(elsewhere, sizeof elsewhere, "rc-elsewhere"));
    (void)snprintf(path, sizeof path, "%s/good", run.stage);
    assert_int_equal(symlink(elsewhere, path), 0);
    const struct collector *const list[] = {&fake_good, NULL};
    go_with(list, (struct runner_options){.cancel_fd = -1});
    assert_int_equal(run.rows[0].status, COLLECT_FAILED);
    assert_contains(run.rows[0].reason, "cannot start");
    assert_int_equal(rmdir(elsewhere), 0); /* it is empty */
}

/* None of the tests leaves a descriptor or a child behind. */
static void test_nothing_leaks(void **state)
{
    (void)state;
    const struct collector *const list[] = {&fake_good, &fake_segv, &fake_hangs, &fake_garbage,
                                            NULL};
    go(list);
    int before = dup(0);
    (void)close(before);
    go(list);
    int after = dup(0);
    (void)close(after);
    assert_int_equal(after, before);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

static int teardown(void **state)
{
    (void)state;
    if (run.stage[0] != '\0')
        (void)fs_remove_tree(AT_FDCWD, run.stage);
    facts_free(run.facts);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_ones_in_list_order),
        cmocka_unit_test(test_hanging_ones_end_in_bounded_time),
        cmocka_unit_test(test_grandchildren_go_with_the_group),
        cmocka_unit_test(test_crashes),
        cmocka_unit_test(test_too_much_output_is_cut),
        cmocka_unit_test(test_garbage_in_the_pipe),
        cmocka_unit_test(test_names_and_links_stay_inside),
        cmocka_unit_test(test_what_the_child_sees),
        cmocka_unit_test(test_stuck_is_abandoned_with_its_files),
        cmocka_unit_test(test_stuck_one_does_not_hold_the_others),
        cmocka_unit_test(test_without_pidfd),
        cmocka_unit_test(test_total_deadline),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_no_staging_folder_still_gives_rows),
        cmocka_unit_test(test_folder_in_the_way),
        cmocka_unit_test(test_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
