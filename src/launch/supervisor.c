/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/supervisor_internal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/proc_stat.h"
#include "base/say.h"
#include "base/say_in_time.h"
#include "launch/keys.h"

#define ASIDE_WAIT_MS 1000
#define STOPPED_MAX_S 10
#define BEFORE_STOP_MS 100
#define UNFINISHED_MAX 100000u /* the recorder never counts more */

static void target_ended_here(struct supervisor *s, int status)
{
    s->shared->target_status = status;
    s->shared->target_end_ns = clock_mono_ns();
    s->shared->target_state = TARGET_ENDED;
}

static void child_ended(struct supervisor *s, pid_t pid, int status)
{
    if (helper_ended(&s->helpers, pid, status) || aside_ended(&s->hang.aside, s->shared, pid) ||
        aside_ended(&s->crossing.aside, s->shared, pid))
        return;
    if (pid == s->finisher) {
        s->finisher_ended = true;
        s->finisher_status = status;
    } else if (pid == s->shared->target_pid && s->shared->target_state == TARGET_RUNNING) {
        target_ended_here(s, status);
    }
}

/* A finisher that somebody stops would keep the caller waiting: it is started again. */
static void child_stopped(struct supervisor *s, pid_t pid, int signo)
{
    if (pid == s->finisher) {
        (void)kill(pid, SIGKILL);
    } else if (!helper_stopped(&s->helpers, pid) && pid == s->shared->target_pid) {
        s->shared->target_stopped = (uint32_t)signo;
        s->shared->target_stops++;
    }
}

static void child_changed(struct supervisor *s, const siginfo_t *si)
{
    if (si->si_code == CLD_STOPPED)
        child_stopped(s, si->si_pid, si->si_status);
    else if (si->si_code == CLD_TRAPPED)
        helper_trapped(si->si_pid);
    else if (si->si_code != CLD_CONTINUED)
        child_ended(s, si->si_pid, target_wait_status(si));
    else if (si->si_pid == s->shared->target_pid)
        s->shared->target_stopped = 0;
}

void supervisor_reap(struct supervisor *s)
{
    for (;;) {
        siginfo_t si = {.si_pid = 0};
        int r = waitid(P_ALL, 0, &si, WEXITED | WSTOPPED | WCONTINUED | WNOHANG);
        if (r != 0 && errno == EINTR)
            continue;
        if (r != 0 || si.si_pid == 0)
            return;
        child_changed(s, &si);
    }
}

/* No other one is raised here, whoever wrote it into the shared memory. */
static bool is_stop_signal(uint32_t signo)
{
    return signo == SIGSTOP || signo == SIGTSTP || signo == SIGTTIN || signo == SIGTTOU;
}

/* SIGSTOP cannot be blocked, and the target may send it to all of us. So the kernel sends us SIGCONT when
 * there was no turn for that many seconds; 0 = never. */
static void continue_after(const struct supervisor *s, int seconds)
{
    struct itimerspec in = {.it_value = {.tv_sec = seconds}};
    if (s->continues)
        (void)timer_settime(s->continue_timer, 0, &in, NULL);
}

/* They may be stopped as we were. Not killed: where a batch system stops a whole job, the tracer then sees that
 * the target was stopped, too, and we stop again as the target did. */
static void continue_helpers(const struct supervisor *s)
{
    shared_event(s->shared, "supervisor", "was stopped for %d s: going on", STOPPED_MAX_S);
    for (int id = 0; id < HELPER_MAX; id++)
        if (s->helpers.pids[id] > 0)
            (void)kill(s->helpers.pids[id], SIGCONT);
}

/* The report of a stop that we have not shown yet. */
static bool has_new_stop(const struct supervisor *s)
{
    return s->shared->target_state == TARGET_RUNNING && s->shared->target_stops != s->mirrored_stops &&
           is_stop_signal(s->shared->target_stopped);
}

/* False if it runs, whatever the report says. An unknown state, and a leader that ended before its threads,
 * prove nothing. */
static bool target_stands(const struct supervisor *s)
{
    char state = proc_state_of(s->shared->target_pid);
    return state == '\0' || strchr("RSDI", state) == NULL;
}

/* A traced target is in state 't' until the tracer has continued it. So a tracer at work may have a newer report.
 * The kernel wakes the tracer when it has one to make. */
static bool tracer_waits(const struct supervisor *s)
{
    pid_t tracer = s->helpers.pids[HELPER_TRACER];
    return tracer <= 0 || (s->shared->helpers[HELPER_TRACER].work_pending_ns == 0 && proc_state_of(tracer) == 'S');
}

/* The target has written something that the caller's end does not have yet. A file has it already. */
static bool has_output_left(const struct supervisor *s)
{
    for (int i = 0; i < RELAYS; i++) {
        const struct relay *relay = &s->helpers.relays[i];
        if (relay->way != RELAY_FILE && s->helpers.pids[relay_helper(relay)] > 0 && !relay_drained(relay, s->shared))
            return true;
    }
    return false;
}

/* A SIGCONT may have come to the whole job, while the tracer's report still says that the target is stopped: then
 * we were stopped, too. True if the target is really stopped, and its output is where
 * the shell's prompt comes next. Bounded: a tracer may hang, and a terminal may take no bytes. */
static bool stop_holds(struct supervisor *s)
{
    uint64_t give_up_ns = clock_mono_ns() + BEFORE_STOP_MS * NS_PER_MS;
    bool stood = false; /* a SIGCONT to the group reaches its processes one after the other: look twice */
    while (has_new_stop(s)) {
        bool stands = target_stands(s);
        bool late = clock_mono_ns() >= give_up_ns;
        if (late || (stood && stands && tracer_waits(s) && !has_output_left(s)))
            return stands && has_new_stop(s);
        stood = stands;
        supervisor_turn(s, 1);
    }
    return false;
}

/* The caller's job control sees us: stop as the target stopped. */
static void mirror_stop(struct supervisor *s)
{
    if (!stop_holds(s))
        return;
    uint32_t stops = s->shared->target_stops;
    uint32_t stop = s->shared->target_stopped;
    if (!is_stop_signal(stop)) /* it was continued just now */
        return;
    s->mirrored_stops = stops;
    struct sigaction standard = {.sa_handler = SIG_DFL};
    struct sigaction before;
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, (int)stop);
    if (stop != SIGSTOP)
        (void)sigaction((int)stop, &standard, &before);
    s->shared->supervisor_mirrors = 1;
    continue_after(s, 0);
    (void)kill(getpid(), (int)stop);
    (void)sigprocmask(SIG_UNBLOCK, &set, NULL); /* we are stopped here, and continue here */
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    s->shared->supervisor_mirrors = 0;
    if (stop != SIGSTOP)
        (void)sigaction((int)stop, &before, NULL);
}

/* A signal that ends a program which stands still ends a hang: the bundle says what it was doing. */
static void note_if_still(struct supervisor *s, int signo)
{
    if (s->shared->still_since_ns == 0 ||
        (signo != SIGINT && signo != SIGTERM && signo != SIGHUP && signo != SIGQUIT))
        return;
    shared_note_still_signal(s->shared, signo);
    hang_wake_tracer(&s->hang);
}

/* A signal to us is not meant for a process that somebody else started. */
static void take_own_signal(struct supervisor *s, int signo)
{
    if (signo == SIGINT || signo == SIGTERM || signo == SIGHUP || signo == SIGQUIT)
        s->leave_signal = signo;
}

/* Those of the target's group got SIGWINCH before their own terminal had the new size, or, while they were
 * stopped, none. We are in that group. */
static bool resize(struct supervisor *s)
{
    if (!relay_resize(&s->helpers.relays[0]))
        return false;
    pid_t target = s->shared->target_pid;
    pid_t group = getpgid(target);
    (void)kill(group > 1 ? -group : target, SIGWINCH);
    return true;
}

static void take_signals(struct supervisor *s)
{
    struct signalfd_siginfo info;
    while (!forward_is_full(&s->forwarder) &&
           read(s->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGCONT && info.ssi_code == SI_TIMER) {
            continue_helpers(s);
            continue;
        }
        if (s->is_attached) {
            take_own_signal(s, (int)info.ssi_signo);
            continue;
        }
        note_if_still(s, (int)info.ssi_signo);
        switch ((int)info.ssi_signo) {
        case SIGCHLD:
            break; /* supervisor_reap() follows in any case */
        case SIGWINCH:
            if (!resize(s))
                forward_take(&s->forwarder, &info);
            break;
        case SIGCONT: /* a shell that resumes a job does not say that the size has changed */
            (void)resize(s);
            forward_take(&s->forwarder, &info);
            break;
        case SIGTERM:
        case SIGHUP:
            s->shared->asked_to_end_ns = clock_mono_ns();
            forward_take(&s->forwarder, &info);
            break;
        default:
            forward_take(&s->forwarder, &info);
            break;
        }
    }
}

void supervisor_turn(struct supervisor *s, int timeout_ms)
{
    take_signals(s); /* before a signal that is due: another may cancel it */
    int due_ms = forward_due(&s->forwarder);
    if (due_ms >= 0 && due_ms < timeout_ms)
        timeout_ms = due_ms;
    due_ms = keys_due_ms(&s->helpers.relays[0]);
    if (due_ms >= 0 && due_ms < timeout_ms)
        timeout_ms = due_ms;
    /* A signal that cannot be forwarded yet must not wake us. The timeout is a millisecond then. */
    struct pollfd fds[] = {
        {.fd = forward_is_full(&s->forwarder) ? -1 : s->signal_fd, .events = POLLIN},
        {.fd = s->wake_fd, .events = POLLIN},
        {.fd = s->target_pidfd, .events = POLLIN},
    };
    uint64_t count;
    continue_after(s, STOPPED_MAX_S);
    if (poll(fds, 3, timeout_ms) > 0 && (fds[1].revents & POLLIN) != 0)
        (void)!read(s->wake_fd, &count, sizeof count);
    take_signals(s);
    supervisor_reap(s);
    for (int i = 0; i < RELAYS; i++)
        (void)relay_supervise(&s->helpers.relays[i], s->shared);
    helpers_watch(&s->helpers);
    keys_turn(&s->helpers.relays[0]);
}

static void tell_of_unfinished_runs(struct supervisor *s)
{
    unsigned count = s->shared->unfinished_runs;
    if (count == 0 || count > UNFINISHED_MAX || s->shared->target_status == 0 || s->told_unfinished || s->options->quiet)
        return;
    s->told_unfinished = true;
    (void)say_line(stderr, "rocmcrash: %u earlier run%s left no bundle; 'rocmcrash recover' makes %s", count,
                  count == 1 ? "" : "s", count == 1 ? "it" : "them");
}

/* Both of the kernel's answers say so. Where one is missing (no /proc, an old kernel), it does not. */
static bool still_runs(const struct supervisor *s)
{
    struct pollfd end = {.fd = s->end_pidfd, .events = POLLIN};
    char state = proc_state_of(s->started);
    return s->end_pidfd >= 0 && poll(&end, 1, 0) == 0 && state != '\0' && state != 'Z' && state != 'X';
}

/* A program that writes to the memory of the run cannot end it while it runs itself. */
static bool target_has_ended(struct supervisor *s)
{
    if (s->shared->target_state != TARGET_ENDED)
        return false;
    if (!still_runs(s))
        return true;
    s->overwritten = true;
    s->shared->target_state = TARGET_RUNNING;
    return false;
}

/* 0: it ran. */
static int exec_error(struct supervisor *s, char *const argv[])
{
    int error = 0;
    if (read(s->exec_error_fd, &error, sizeof error) != (ssize_t)sizeof error)
        error = 0;
    s->overwritten |= s->shared->exec_errno != 0;
    s->shared->exec_errno = error;
    if (error != 0)
        (void)say_line(stderr, "rocmcrash: cannot run '%s': %s", argv[0], strerror(error));
    return error;
}

/* The target runs even if a part of ours does not work. */
static int run_unobserved(struct supervisor *s, char *const argv[], const char *why)
{
    (void)say_line(stderr, "rocmcrash: %s; running without observation", why);
    if (s->shared != NULL) {
        helper_kill(&s->helpers, HELPER_RELAY);
        helper_kill(&s->helpers, HELPER_STDOUT_RELAY);
        while (waitpid(-1, NULL, 0) > 0) /* what we become knows no children */
            ;
    }
    (void)prctl(PR_SET_CHILD_SUBREAPER, 0);
    if (s->child_signal_ignored)
        (void)signal(SIGCHLD, SIG_IGN);
    (void)sigprocmask(SIG_SETMASK, &s->caller_mask, NULL);
    return target_exec_here(argv);
}

void supervisor_take_over_signals(struct supervisor *s)
{
    sigset_t all;
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_BLOCK, &all, &s->caller_mask);
    struct sigaction child;
    (void)sigaction(SIGCHLD, NULL, &child);
    struct sigevent wake = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGCONT};
    s->continues = timer_create(CLOCK_MONOTONIC, &wake, &s->continue_timer) == 0;
    s->child_signal_ignored = child.sa_handler == SIG_IGN;
    if (s->child_signal_ignored)
        (void)signal(SIGCHLD, SIG_DFL);
}

/* The supervisor depends on waitid(). In a sandbox that refuses it we would wait for ever. */
static int check_waiting(void)
{
    siginfo_t si;
    bool allowed = waitid(P_ALL, 0, &si, WEXITED | WNOHANG | WNOWAIT) == 0 || errno == ECHILD;
    return allowed ? 0 : -errno;
}

static const char *start_error(int code, struct rc_err *err)
{
    if (code == -ECHILD)
        return "no process for the tracer";
    (void)rc_err_errno(err, code, "cannot start what observes the command");
    return err->msg;
}

/* Those that make a bundle of an earlier moment may be almost done. */
void supervisor_wait_for_asides(struct supervisor *s)
{
    uint64_t give_up_ns = clock_mono_ns() + ASIDE_WAIT_MS * NS_PER_MS;
    while ((s->hang.aside.child != 0 || s->crossing.aside.child != 0) && clock_mono_ns() < give_up_ns)
        supervisor_turn(s, 20);
}

int launch_run(const struct launch_options *options, char *const argv[])
{
    static struct supervisor s;
    struct rc_err err = {""};
    s = (struct supervisor){.options = options, .target_pidfd = -1, .end_pidfd = -1, .helpers = {.options = options,
                                           .relays = {RELAY_INIT, RELAY_INIT}}};
    supervisor_take_over_signals(&s);
    say_in_time(&stderr, SUPERVISOR_WAIT_MS);
    inherited_list(&s.inherited);
    if (check_waiting() < 0)
        return run_unobserved(&s, argv, "waitid() is refused here");
    s.shared = shared_create(&s.shared_fd, &err);
    if (s.shared == NULL)
        return run_unobserved(&s, argv, err.msg);
    s.helpers.shared = s.shared;
    s.forwarder.shared = s.shared;
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    supervisor_fill_run(&s, argv);
    supervisor_plan_relay(&s, argv);
    s.hang.idle_ms = conditions_idle_ms(&options->bundle_at);
    s.hang.tracer = &s.helpers.pids[HELPER_TRACER];
    (void)crossing_begin(&s.crossing, &options->bundle_at);
    int r = supervisor_start_processes(&s, argv);
    if (r < 0)
        return run_unobserved(&s, argv, start_error(r, &err));

    while (!target_has_ended(&s)) {
        bool busy = hang_is_busy(&s.hang) || s.crossing.aside.child != 0;
        supervisor_turn(&s, helpers_calm(&s.helpers) && !busy ? CALM_TICK_MS : TICK_MS);
        mirror_stop(&s);
        hang_turn(&s.hang, s.shared, options, s.helpers.relays);
        crossing_turn(&s.crossing, s.shared, options, s.helpers.relays, s.hang.still_ms);
    }
    supervisor_drain_relays(&s);
    tell_of_unfinished_runs(&s);
    supervisor_wait_for_asides(&s);
    hang_tell(&s.hang, options);
    crossing_tell(&s.crossing, options);
    int status = s.shared->target_status;
    int error = exec_error(&s, argv);
    if (s.overwritten || !shared_is_intact(s.shared))
        supervisor_tell_overwritten(&s);
    else if (error != 0)
        supervisor_end_recorder(&s, 1);
    else
        supervisor_finish(&s);
    helper_kill(&s.helpers, HELPER_SAMPLER);
    helper_reap(&s.helpers, HELPER_TRACER); /* the caller's wait4() then has its times */
    return WIFSIGNALED(status) ? supervisor_leave_by_signal(WTERMSIG(status)) : WEXITSTATUS(status);
}
