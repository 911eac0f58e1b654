/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/supervisor_internal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/say.h"
#include "launch/finish.h"
#include "launch/keep_bundle.h"
#include "record/ledger.h"
#include "record/rundir.h"
#include "recorder/flush.h"

#define DRAIN_MS 1000
#define ASKED_TO_END_MS 60000u
#define HURRY_AFTER_MS 2000u
#define RECORDER_READS_MS 500
#define RECORDER_WORKS_MS 3000 /* it waits for a busy disk, or has not begun */
#define RECORDER_END_MS 300
#define FORK_AGAIN_MS 100
#define FINISHER_GRACE_MS 3000
#define ENDED_MS 2000 /* for the record of a rank: its file system may not answer */
#define REFUSALS_BEFORE_NS 30000000000u /* of the end */
#define FINISHER_STARTS_MAX 3 /* started again if somebody kills or stops it */

static bool a_relay_is_at_work(const struct supervisor *s)
{
    for (int i = 0; i < RELAYS; i++) {
        const struct relay *relay = &s->helpers.relays[i];
        if (s->shared->helpers[relay_helper(relay)].pid > 0 &&
            (relay_over(relay) || !relay_drained(relay, s->shared)))
            return true;
    }
    return false;
}

/* Also waits for the relays to leave if the whole tree has ended. Somebody may have stopped a
 * relay just now. If we ended first, it would keep the caller's pipe open for ever. */
void supervisor_drain_relays(struct supervisor *s)
{
    uint64_t give_up_ns = clock_mono_ns() + DRAIN_MS * NS_PER_MS;
    while (a_relay_is_at_work(s) && clock_mono_ns() < give_up_ns)
        supervisor_turn(s, 1);
    for (int i = 0; i < RELAYS; i++) {
        const struct relay *relay = &s->helpers.relays[i];
        if (s->shared->helpers[relay_helper(relay)].pid > 0 && relay_over(relay))
            helper_kill(&s->helpers, relay_helper(relay));
    }
}

void supervisor_end_recorder(struct supervisor *s, uint32_t done)
{
    s->shared->supervisor_done = done;
    uint64_t one = 1;
    (void)!write(s->recorder_wake_fd, &one, sizeof one);
    uint64_t give_up_ns = clock_mono_ns() + RECORDER_END_MS * NS_PER_MS;
    while (s->shared->helpers[HELPER_RECORDER].pid > 0 && s->shared->recorder_flushed == 0 && clock_mono_ns() < give_up_ns)
        supervisor_turn(s, 5);
    if (s->shared->recorder_flushed == 0)
        helper_kill(&s->helpers, HELPER_RECORDER);
}

/* Slurm and Kubernetes send SIGTERM, and SIGKILL some seconds later (5 to 30): what is slow must not
 * cost the bundle. A program that lived on for long was not asked to end. */
static bool must_hurry(const struct supervisor *s, uint64_t started_ns)
{
    uint64_t asked_ns = s->shared->asked_to_end_ns;
    return asked_ns != 0 && started_ns - asked_ns < ASKED_TO_END_MS * NS_PER_MS &&
           clock_mono_ns() - asked_ns > HURRY_AFTER_MS * NS_PER_MS;
}

/* While the finisher works, a signal to us asks it to come to an end; the bundle is still made. A rank's
 * record has nothing that could be left out. */
static void wait_for_finisher(struct supervisor *s, enum finish_what what)
{
    uint64_t bundle_ms = (uint64_t)s->options->finish_within_ms + s->options->hash_budget_ms +
                         FINISHER_GRACE_MS;
    uint64_t budget_ms = what == FINISH_ENDED ? ENDED_MS : bundle_ms;
    uint64_t started_ns = clock_mono_ns();
    uint64_t give_up_ns = started_ns + budget_ms * NS_PER_MS;
    bool told_to_hurry = false;
    struct pollfd fd = {.fd = s->signal_fd, .events = POLLIN};
    while (!s->finisher_ended && clock_mono_ns() < give_up_ns) {
        (void)poll(&fd, 1, TICK_MS);
        struct signalfd_siginfo info;
        while (read(s->signal_fd, &info, sizeof info) == (ssize_t)sizeof info)
            if (info.ssi_signo == SIGINT || info.ssi_signo == SIGTERM || info.ssi_signo == SIGHUP ||
                info.ssi_signo == SIGQUIT)
                s->hurry = true;
        if (!s->hurry && !told_to_hurry && must_hurry(s, started_ns))
            s->hurry = told_to_hurry = true;
        if (s->hurry && what != FINISH_ENDED)
            (void)kill(s->finisher, SIGTERM);
        s->hurry = false;
        supervisor_reap(s);
    }
    if (!s->finisher_ended && what != FINISH_ENDED && !s->options->quiet)
        (void)say_line(stderr, "rocmcrash: the bundle is still being made in the background");
}

/*
 * The kernel log may explain a failure without a message, but the recorder reads the log at its
 * own pace. Woken up (and not calmed again) it starts a turn at once. A turn that began after now
 * has seen everything that the kernel wrote before the end.
 */
static void let_recorder_read_on(struct supervisor *s)
{
    const struct shared_helper *recorder = &s->shared->helpers[HELPER_RECORDER];
    uint64_t one = 1;
    uint64_t started_ns = clock_mono_ns();
    uint64_t seen_ns = started_ns;
    (void)!write(s->recorder_wake_fd, &one, sizeof one);
    for (int turns = 0; turns < 2 && recorder->pid > 0;) {
        bool is_at_work = recorder->work_pending_ns != 0 || recorder->heartbeat_ns == 0;
        uint64_t patience_ms = is_at_work ? RECORDER_WORKS_MS : RECORDER_READS_MS;
        if (clock_mono_ns() - started_ns > patience_ms * NS_PER_MS)
            break;
        uint64_t beat_ns = recorder->heartbeat_ns;
        if (beat_ns > seen_ns) {
            seen_ns = beat_ns;
            turns++;
        } else {
            supervisor_turn(s, 1);
        }
    }
}

void supervisor_count_refusals(const struct supervisor *s)
{
    uint64_t end_ns = s->shared->target_end_ns != 0 ? s->shared->target_end_ns : clock_mono_ns();
    uint64_t since_ns = end_ns > REFUSALS_BEFORE_NS ? end_ns - REFUSALS_BEFORE_NS : 0;
    if (s->ledger == NULL)
        return;
    s->shared->ledger_refusals = ledger_final_refusals(s->ledger, since_ns);
    s->shared->ledger_in_use = ledger_has_allocations(s->ledger);
}

/* It cannot be executed or loaded (127: a library that is missing, or memory), or does not get at
 * the run (125): again it would be the same. */
static bool finisher_cannot_work(int status)
{
    return WIFEXITED(status) &&
           (WEXITSTATUS(status) == 127 || WEXITSTATUS(status) == LAUNCH_EXIT_OWN_FAILURE);
}

/* It ends by 0, or by 2 with a line why there is no bundle. By another status a library ended it
 * (libarchive by 1, without memory). */
static bool finisher_had_its_say(int status)
{
    return WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 2);
}

/* Writes what `recover` needs and no other process has written to the disk. */
static void keep_run(struct shared *shared)
{
    struct shared_run *run = &shared->run;
    struct rc_err err = {""};
    (void)umask(077);
    if (run->run_dir[0] == '\0' &&
        rundir_create(run->run_dir, sizeof run->run_dir, run->start_wall_ns, run->supervisor_pid,
                      &err) < 0)
        return;
    (void)recorder_flush(shared, run->run_dir, &err);
}

/* A copy: others can write to what is shared. */
static void ask_about_bundle(const struct supervisor *s)
{
    char path[sizeof s->shared->bundle_path];
    memcpy(path, s->shared->bundle_path, sizeof path);
    path[sizeof path - 1] = '\0';
    if (path[0] != '\0')
        keep_bundle_ask(path, s->signal_fd);
}

/* The recorder has copied what there was before. */
void supervisor_tell_overwritten(struct supervisor *s)
{
    helper_kill(&s->helpers, HELPER_RECORDER);
    if (!s->options->quiet)
        (void)say_line(stderr, "rocmcrash: the program overwrote the memory that it shares with rocmcrash: no bundle; "
                               "'rocmcrash recover' makes one of what was recorded before");
}

/* Status 1 of grep(1) is no error: it is not called one. */
static void tell_hint(const struct shared *shared)
{
    if (shared->plain_matches > 0)
        (void)say_line(stderr, "rocmcrash: an error of the program itself: no bundle (--always makes one)");
    else
        (void)say_line(stderr, "rocmcrash: exit status %d: no bundle (--always makes one)", WEXITSTATUS(shared->target_status));
}

void supervisor_finish(struct supervisor *s)
{
    supervisor_count_refusals(s);
    enum finish_what what = finish_decide(s->shared, s->options);
    if (what < FINISH_RECORD && s->shared->target_status != 0) {
        let_recorder_read_on(s);
        what = finish_decide(s->shared, s->options);
    }
    supervisor_end_recorder(s, what < FINISH_ENDED ? 1 : 2);
    if (what == FINISH_HINT && !s->options->quiet && isatty(STDERR_FILENO))
        tell_hint(s->shared);
    if (what < FINISH_ENDED)
        return;
    enum loader_variables aside = LOADER_VARIABLES_ALL;
    for (int start = 0; start < FINISHER_STARTS_MAX; start++) {
        s->finisher_ended = false;
        s->finisher = finish_start(s->shared_fd, s->options, what, aside, what == FINISH_ENDED);
        shared_note_own_child(s->shared, s->finisher);
        if (s->finisher <= 0 && errno == EAGAIN) { /* fork() failed; it may succeed in a moment */
            (void)poll(NULL, 0, FORK_AGAIN_MS);
            continue;
        }
        if (s->finisher <= 0)
            break;
        helper_kill(&s->helpers, HELPER_RECORDER);
        wait_for_finisher(s, what);
        if (s->options->preview && s->finisher_ended)
            ask_about_bundle(s);
        if (!s->finisher_ended || finisher_had_its_say(s->finisher_status))
            return;
        shared_event(s->shared, "supervisor", "the finisher ended (wait status %#x)",
                     (unsigned)s->finisher_status);
        if (finisher_cannot_work(s->finisher_status) && aside == LOADER_VARIABLES_NONE)
            break;
        if (finisher_cannot_work(s->finisher_status))
            aside = LOADER_VARIABLES_NONE; /* its libraries may be where LD_LIBRARY_PATH says */
    }
    helper_kill(&s->helpers, HELPER_RECORDER);
    if (what == FINISH_ENDED) /* of 10,000 ranks each would say the same */
        return;
    keep_run(s->shared);
    bool kept = s->shared->run.run_dir[0] != '\0';
    bool started = s->finisher > 0 && !finisher_cannot_work(s->finisher_status);
    bool installed = s->options->finisher != NULL;
    if (!s->options->quiet)
        (void)say_line(stderr, "rocmcrash: %s; %s%s",
                      started ? "rocmcrash-finish was ended each time"
                      : installed
                          ? "cannot start rocmcrash-finish"
                          : "cannot start rocmcrash-finish: it is not installed beside rocmcrash",
                      kept ? "the run is kept in " : "nothing of the run could be kept",
                      s->shared->run.run_dir);
}

/* End as the target ended. Not dumpable: a second core of ours would overwrite the target's. */
int supervisor_leave_by_signal(int signo)
{
    struct rlimit none = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &none);
    (void)prctl(PR_SET_DUMPABLE, 0);
    (void)signal(signo, SIG_DFL);
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, signo);
    (void)kill(getpid(), signo);
    (void)sigprocmask(SIG_UNBLOCK, &set, NULL);
    return 128 + signo; /* as pid 1 the kernel ignores it */
}
