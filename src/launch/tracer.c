/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/tracer_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/fs.h"
#include "base/proc_stat.h"
#include "base/room.h"
#include "launch/inherited.h"
#include "launch/tree_scan.h"
#include "record/shared.h"
#include "watch/relay.h"

#define SEIZE_PASSES 8 /* until a scan finds no untraced thread */

struct tracer tracer;

static volatile sig_atomic_t scan_due;
static volatile pid_t handler_target; /* what the handler kills; 0 = nothing */

static void on_alarm(int signo)
{
    (void)signo;
    scan_due = 1;
}

/* PR_SET_PDEATHSIG: the process that the caller started is gone. Done here and not in the loop,
 * because a signal may arrive just before waitid() and would then be noticed too late. */
static void on_supervisor_death(int signo)
{
    (void)signo;
    /* We are the target's parent: it may have sent this itself, to say that it is ready. The kernel
     * gives us a new parent before it sends the death signal. */
    if (handler_target > 0 && getppid() != shared_supervisor()) {
        tracer.shared->ended_with_supervisor = 1;
        (void)kill(handler_target, SIGKILL);
    }
}

/* `rocmcrash release PID` sends SIGUSR2 with the pid: stop it, the loop then lets it go. Only reads
 * the tables, which the loop may be changing: every stop of the process repeats the round. All
 * threads, as the leader may have ended. */
static void on_release(int signo, siginfo_t *si, void *context)
{
    (void)signo;
    (void)context;
    if (si->si_code != SI_QUEUE || (si->si_uid != 0 && si->si_uid != geteuid()))
        return;
    int saved = errno;
    pid_t pid = (pid_t)si->si_value.sival_int;
    struct traced_process *process = pid > 0 ? tracee_find_process(tracer.tracees, pid) : NULL;
    if (process != NULL)
        tracer_release(process, RELEASE_FOR_GOOD);
    else
        tracer_keep_released(pid);
    errno = saved;
}

static void install_handlers(bool keep_orphan)
{
    struct sigaction sa = {.sa_handler = on_alarm};
    (void)sigaction(SIGALRM, &sa, NULL);
    sa.sa_handler = on_supervisor_death;
    (void)sigaction(SIGUSR1, &sa, NULL);
    struct sigaction release = {.sa_sigaction = on_release, .sa_flags = SA_SIGINFO};
    (void)sigaction(SIGUSR2, &release, NULL);
    sigset_t ours;
    (void)sigemptyset(&ours);
    (void)sigaddset(&ours, SIGALRM);
    (void)sigaddset(&ours, SIGUSR1);
    (void)sigaddset(&ours, SIGUSR2);
    (void)sigaddset(&ours, SIGCHLD); /* ignored: blocked, it would wait for ever, in the user's RLIMIT_SIGPENDING */
    (void)sigprocmask(SIG_UNBLOCK, &ours, NULL);
    if (!keep_orphan) {
        (void)prctl(PR_SET_PDEATHSIG, SIGUSR1);
        if (getppid() != shared_supervisor())
            (void)raise(SIGUSR1);
    }
}

void tracer_wake_supervisor(void)
{
    uint64_t one = 1;
    (void)!write(tracer.options->wake_fd, &one, sizeof one);
}

/* --- deaths --- */

static void handle_death(const siginfo_t *si)
{
    struct traced_thread *thread = tracee_find(tracer.tracees, si->si_pid);
    if (thread != NULL)
        tracee_remove(tracer.tracees, thread);
    if (si->si_pid == tracer.target) {
        struct shared *s = tracer.shared;
        handler_target = 0;
        s->target_status = target_wait_status(si);
        s->target_end_ns = clock_mono_ns();
        s->target_state = TARGET_ENDED;
    }
    siginfo_t consumed;
    (void)waitid(P_PID, (id_t)si->si_pid, &consumed, WEXITED | WNOHANG | __WALL);
    if (si->si_pid == tracer.target) {
        tracer_wake_supervisor();
        /* It may have stopped itself to show a stop of the target, and then reads nothing. */
        if (tracer.shared->target_stops > 0 && getppid() == shared_supervisor())
            (void)kill(shared_supervisor(), SIGCONT);
        _exit(0); /* what is still traced is let go by the kernel */
    }
}

/* The target while it is not traced: stops and continuations as a parent sees them. While it is
 * traced nothing may be consumed here: waitid() reports a ptrace stop whatever is asked for, and
 * a signal-delivery stop that is taken this way is never answered. */
static void handle_job_control(const siginfo_t *si)
{
    siginfo_t consumed;
    int kind = si->si_code == CLD_STOPPED ? WSTOPPED : WCONTINUED;
    (void)waitid(P_PID, (id_t)si->si_pid, &consumed, kind | WNOHANG);
    if (si->si_pid != tracer.target)
        return;
    if (si->si_code == CLD_STOPPED)
        tracer_target_stopped(si->si_status);
    else
        tracer_target_continued();
}

/* The kernel reports a continuation once, for any child; see handle_job_control(). */
static int wait_for_what(void)
{
    int flags = WEXITED | WSTOPPED | WNOWAIT | __WALL;
    return tracee_find(tracer.tracees, tracer.target) == NULL ? flags | WCONTINUED : flags;
}

/* --- start --- */

static void seize_late(void)
{
    struct tree_scan scan = {
        .shared = tracer.shared,
        .tracees = tracer.tracees,
        .root = tracer.target,
        .ptrace_options = tracer.ptrace_options,
        .wanted = tracer_may_seize_again,
    };
    tree_scan_seize(&scan);
    if (tracer.shared->trace_state == TRACE_STATE_LATE &&
        tracee_find_process(tracer.tracees, tracer.target) != NULL)
        tracer.shared->trace_state = TRACE_STATE_TRACING;
}

static bool may_trace(enum trace_mode mode)
{
    char status[TRACER_STATUS_BYTES];
    if (mode == TRACE_NONE) {
        tracer.shared->trace_state = TRACE_STATE_OFF;
        return false;
    }
    /* An inner rocmcrash leaves tracing to the outer one. */
    if (fs_read_text("/proc/self/status", status, sizeof status) > 0) {
        const char *line = strstr(status, "\nTracerPid:\t");
        if (line != NULL && strtol(line + 12, NULL, 10) != 0) {
            tracer.shared->trace_state = TRACE_STATE_OFF;
            return false;
        }
    }
    return true;
}

static void start_tracing(void)
{
    const struct tracer_options *options = tracer.options;
    struct shared *s = tracer.shared;
    bool privileged = tracer.privileged;
    tracer.eager = options->mode == TRACE_EAGER || (options->mode == TRACE_AUTO && privileged);
    tracer.ptrace_options = PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_TRACEEXIT;
    if (tracer.eager)
        tracer.ptrace_options |= PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK;
    s->run.trace_mode = tracer.eager ? TRACE_EAGER : TRACE_LATE;
    if (!may_trace(options->mode))
        return;
    if (!privileged && target_exec_is_privileged(options->target.argv[0])) {
        s->trace_state = TRACE_STATE_SETUID;
    } else if (!privileged && target_is_launcher(options->target.argv[0])) {
        s->trace_state = TRACE_STATE_LATE;
    } else if (ptrace(PTRACE_SEIZE, tracer.target, NULL,
                      (void *)(intptr_t)tracer.ptrace_options) != 0) {
        s->trace_errno = errno;
        s->trace_state = TRACE_STATE_REFUSED;
        return;
    } else {
        (void)tracee_add(tracer.tracees, tracer.target, tracer.target, clock_mono_ns());
        s->processes_traced++;
        s->trace_state = TRACE_STATE_TRACING;
    }
    if (!tracer.eager)
        tracer_scan_every_second();
}

/* If no child can be forked, we exit. The supervisor then runs the target without observation. */
static void start_target(const struct tracer_options *options)
{
    struct shared *s = tracer.shared;
    tracer.target = target_fork(s, &options->target);
    if (tracer.target < 0)
        _exit(1);
    handler_target = options->keep_orphan ? 0 : tracer.target;
    s->processes_seen = 1;
}

/* Our death would detach it, and harm it in no other way: no PTRACE_O_EXITKILL. */
static void attach(void)
{
    struct shared *s = tracer.shared;
    tracer.target = tracer.options->attach_pid;
    tracer.ptrace_options = PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_TRACEEXIT;
    s->run.trace_mode = TRACE_LATE;
    if (!may_trace(tracer.options->mode))
        return;
    if (tracer_is_left_alone(tracer.target) || tracer_may_exec_unseen(tracer.target)) {
        s->trace_state = TRACE_STATE_OFF;
        return;
    }
    uint32_t seized = 0;
    for (uint32_t pass = 0, now = 1; pass < SEIZE_PASSES && now > 0; pass++, seized += now)
        now = tree_scan_seize_threads(s, tracer.tracees, tracer.target, tracer.ptrace_options);
    s->processes_traced = seized > 0;
    s->trace_state = seized > 0                  ? TRACE_STATE_TRACING
                     : proc_status_number(tracer.target, "TracerPid") != 0 ? TRACE_STATE_OFF
                                                 : TRACE_STATE_REFUSED;
    if (seized > 0)
        tracer_scan_every_second();
}

static void start(void)
{
    const struct tracer_options *options = tracer.options;
    start_target(options);
    (void)prctl(PR_SET_NAME, "rocmcrash-T");
    install_handlers(options->keep_orphan);
    struct relay relays[RELAYS];
    memcpy(relays, options->target.relays, sizeof relays);
    relays_drop(relays);
    inherited_close(options->inherited);
    /* After the fork: the target stays in the caller's session and process group. */
    leave_caller();
    start_tracing();
    tracer_wake_supervisor(); /* it traces the recorder before the target runs: helpers.c */
    (void)!write(options->go_write_fd, "", 1);
    (void)close(options->go_write_fd);
    (void)close(options->target.exec_error_fd);
    (void)close(options->target.go_fd);
}

_Noreturn void tracer_run(struct shared *shared, const struct tracer_options *options)
{
    tracer.shared = shared;
    tracer.privileged = tree_scan_has_ptrace_capability();
    tracer.options = options;
    tracer.tracees = room_for(sizeof *tracer.tracees);
    if (tracer.tracees == NULL)
        _exit(1); /* as where no child can be forked */
    if (options->attach_pid == 0) {
        start();
    } else {
        (void)prctl(PR_SET_NAME, "rocmcrash-T");
        install_handlers(true);
        leave_caller();
        attach();
    }
    struct shared_helper *me = &shared->helpers[HELPER_TRACER];
    for (;;) {
        siginfo_t si = {.si_pid = 0};
        me->work_pending_ns = 0;
        int r = waitid(P_ALL, 0, &si, wait_for_what());
        if (r != 0 && errno != EINTR) /* no child is left, or a filter refuses waitid() for ever */
            _exit(0);
        me->work_pending_ns = clock_mono_ns();
        /* A process that was shown as untraced may be traced now. Its stop then means something
         * else: look again. */
        if (scan_due) {
            scan_due = 0;
            if (tracer.scans)
                seize_late();
            tracer_still_turn();
            continue;
        }
        if (r != 0 || si.si_pid == 0)
            continue;
        if (si.si_code == CLD_TRAPPED)
            tracer_handle_stop(si.si_pid, si.si_status);
        else if (si.si_code == CLD_STOPPED || si.si_code == CLD_CONTINUED)
            handle_job_control(&si);
        else
            handle_death(&si);
    }
}
