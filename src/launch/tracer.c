/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/tracer.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "launch/impact.h"
#include "launch/inherited.h"
#include "launch/tracee.h"
#include "launch/tree_scan.h"
#include "record/shared.h"
#include "watch/relay.h"

/* Above this rate the stops cost the target more than 2 % of a core: let the process go, when it
 * has had BUSY_BURST more than that. A program that starts a few hundred threads is not busy. */
#define BUSY_EVENTS_PER_S 2000u
#define BUSY_BURST 2000u
/* A short child that is traced from its first moment costs 0.1 to 0.3 ms (fork, first stop, exec, exit,
 * end): above this rate children are traced late, as without privilege. */
#define FORKS_PER_S 100u
#define FORKS_BURST 200u
/* A failing exit of a process younger than this (grep, test, ...) is no failure of the job. */
#define EXIT_IMPACT_MIN_AGE_NS 1000000000u
#define LATE_SCAN_PERIOD_S 1
#define RELEASED_MAX 64
#define STATUS_BYTES 32768 /* /proc/PID/status of a user who is in some thousand groups */

static struct tracer {
    struct shared *shared;
    const struct tracer_options *options;
    struct tracees tracees;
    pid_t target;
    bool eager;
    int ptrace_options;
    struct rate forks; /* of the whole tree */
    pid_t released[RELEASED_MAX]; /* thread groups that were let go, newest last */
    uint32_t released_count;
} tracer;

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
    if (handler_target > 0)
        (void)kill(handler_target, SIGKILL);
}

static void release_process(struct traced_process *process)
{
    process->releasing = true;
    uint16_t index = (uint16_t)(process - tracer.tracees.processes);
    for (uint32_t i = 0; i < TRACEE_THREADS_MAX; i++) {
        const struct traced_thread *thread = &tracer.tracees.threads[i];
        if (thread->tid != 0 && thread->process == index)
            (void)ptrace(PTRACE_INTERRUPT, thread->tid, NULL, NULL);
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
    struct traced_process *process = pid > 0 ? tracee_find_process(&tracer.tracees, pid) : NULL;
    if (process != NULL)
        release_process(process);
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
    (void)sigprocmask(SIG_UNBLOCK, &ours, NULL);
    pid_t supervisor = tracer.shared->run.supervisor_pid;
    if (!keep_orphan) {
        (void)prctl(PR_SET_PDEATHSIG, SIGUSR1);
        if (getppid() != supervisor)
            (void)raise(SIGUSR1);
    }
}

static void wake_supervisor(void)
{
    uint64_t one = 1;
    (void)!write(tracer.options->wake_fd, &one, sizeof one);
}

static void resume(pid_t tid, int signo)
{
    (void)ptrace(PTRACE_CONT, tid, NULL, (void *)(intptr_t)signo);
}

static void detach(struct traced_thread *thread, int signo)
{
    (void)ptrace(PTRACE_DETACH, thread->tid, NULL, (void *)(intptr_t)signo);
    tracee_remove(&tracer.tracees, thread);
}

/* --- letting go --- */

/* What a released process is called afterwards: its new threads are attached by the kernel, and
 * must not look like a process that was never seen. */
static bool was_released(pid_t tgid)
{
    for (uint32_t i = 0; i < tracer.released_count && i < RELEASED_MAX; i++)
        if (tracer.released[i] == tgid)
            return true;
    return false;
}

static void note_released(pid_t tgid)
{
    if (!was_released(tgid))
        tracer.released[tracer.released_count++ % RELEASED_MAX] = tgid;
}

/* The number belongs to another process now. */
static void forget_released(pid_t tgid)
{
    for (uint32_t i = 0; i < tracer.released_count && i < RELEASED_MAX; i++)
        if (tracer.released[i] == tgid)
            tracer.released[i] = 0;
}

/* A bucket that drains at the rate that is fine: true when it holds more than `burst`. */
static bool rate_exceeded(struct rate *rate, uint64_t now_ns, uint32_t per_s, uint32_t burst)
{
    uint64_t drained = (now_ns - rate->drained_ns) * per_s / 1000000000u;
    if (drained > 0) {
        rate->events -= drained < rate->events ? (uint32_t)drained : rate->events;
        rate->drained_ns = now_ns;
    }
    rate->events++;
    return rate->events > burst;
}

static void note_event(struct traced_process *process, uint64_t now_ns)
{
    if (rate_exceeded(&process->rate, now_ns, BUSY_EVENTS_PER_S, BUSY_BURST) &&
        !process->releasing) {
        tracer.shared->processes_released_busy++;
        shared_event(tracer.shared, "tracer", "pid %d is busy: no longer traced", process->pid);
        release_process(process);
    }
}

/* A debugger's child must be able to ask to be traced, so a debugger and its children are let go
 * at its exec. Others that call ptrace(2) need --trace=late. */
static bool is_debugger(pid_t pid)
{
    static const char *const names[] = {"gdb",      "gdbserver", "rocgdb", "lldb",   "lldb-server",
                                        "lldb-argdumper", "strace", "ltrace", "rr", "uftrace",
                                        "perf",     "drgdb"};
    char path[64];
    char comm[32];
    (void)snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    if (fs_read_text(path, comm, sizeof comm) <= 0)
        return false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(comm, names[i]) == 0)
            return true;
    return false;
}

/* --- impacts --- */

static bool is_fatal_signal(int signo)
{
    return signo == SIGSEGV || signo == SIGBUS || signo == SIGFPE || signo == SIGILL ||
           signo == SIGABRT || signo == SIGSYS || signo == SIGTRAP;
}

/* Real line: "SigCgt:\t0000000180004a02". Without the line: true, so that a signal of which
 * nothing is known is no impact (the exit event still is). */
static bool signal_is_in(const char *status, const char *key, int signo)
{
    const char *line = strstr(status, key);
    if (line == NULL)
        return true;
    unsigned long long mask = strtoull(line + strlen(key), NULL, 16);
    return (mask >> (signo - 1) & 1) != 0;
}

static bool disposition_is_default(pid_t tid, int signo)
{
    char path[64];
    char status[STATUS_BYTES];
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)tid);
    if (fs_read_text(path, status, sizeof status) <= 0)
        return false;
    return !signal_is_in(status, "\nSigCgt:\t", signo) && !signal_is_in(status, "\nSigIgn:\t", signo);
}

static void note_target_signal(const siginfo_t *si)
{
    struct shared *s = tracer.shared;
    uint32_t head = s->signals_seen_head;
    struct signal_seen *seen = &s->signals_seen[head % SHARED_SIGNALS_SEEN];
    seen->signo = si->si_signo;
    seen->sender_pid = si->si_code <= 0 ? si->si_pid : 0;
    seen->time_ns = clock_mono_ns();
    s->signals_seen_head = head + 1;
}

static void fatal_signal(struct traced_thread *thread, const siginfo_t *si)
{
    struct traced_process *process = tracee_process(&tracer.tracees, thread);
    bool kernel_sent = si->si_code > 0;
    if (!disposition_is_default(thread->tid, si->si_signo)) {
        /* A handler takes it (faulthandler, PyTorch's): keep it for the re-raise. The latest, as a
         * JVM or Julia takes faults all day that mean nothing. */
        if (kernel_sent) {
            thread->has_first = true;
            thread->first_signo = si->si_signo;
            thread->first_code = si->si_code;
            thread->first_address = (uint64_t)(uintptr_t)si->si_addr;
        }
        return;
    }
    if (process->impact_taken)
        return;
    process->impact_taken = true;
    struct impact_cause cause = {
        .kind = IMPACT_SIGNAL_STOP,
        .pid = process->pid,
        .tid = thread->tid,
        .signo = si->si_signo,
        .code = si->si_code,
        .sender_pid = kernel_sent ? 0 : si->si_pid,
        .exit_status = UINT32_MAX,
        .fault_address = kernel_sent ? (uint64_t)(uintptr_t)si->si_addr : 0,
        .siginfo = si,
    };
    if (!kernel_sent && si->si_pid == process->pid && thread->has_first &&
        thread->first_signo == si->si_signo) {
        cause.code = thread->first_code;
        cause.fault_address = thread->first_address;
    }
    impact_copy(tracer.shared, &tracer.tracees, process, &cause);
    wake_supervisor();
}

/* Jobs end their workers by SIGTERM, SIGPIPE and the like every day: no failure of theirs. */
static bool child_exit_matters(const struct traced_process *process, int signo)
{
    if (signo == 0)
        return clock_mono_ns() - process->first_seen_ns >= EXIT_IMPACT_MIN_AGE_NS;
    return signo == SIGKILL || is_fatal_signal(signo);
}

/* Only the last thread's exit event is the end of a process; a lone leader may go long before. */
static void exit_event(struct traced_thread *thread)
{
    struct traced_process *process = tracee_process(&tracer.tracees, thread);
    unsigned long status = 0;
    (void)ptrace(PTRACE_GETEVENTMSG, thread->tid, NULL, &status);
    if (!thread->exiting) {
        thread->exiting = true;
        process->threads--;
    }
    if (process->threads > 0 || process->impact_taken || status == 0)
        return;
    int signo = (int)(status & 0x7f);
    if (process->pid != tracer.target && !child_exit_matters(process, signo))
        return;
    process->impact_taken = true;
    struct impact_cause cause = {
        .kind = IMPACT_EXIT_EVENT,
        .pid = process->pid,
        .tid = thread->tid,
        .signo = signo,
        .exit_status = (uint32_t)status,
    };
    impact_copy(tracer.shared, &tracer.tracees, process, &cause);
    wake_supervisor();
}

/* --- stops --- */

static void scan_every_second(void)
{
    struct itimerval period = {{LATE_SCAN_PERIOD_S, 0}, {LATE_SCAN_PERIOD_S, 0}};
    (void)setitimer(ITIMER_REAL, &period, NULL);
}

/* The tree starts short processes all the time: what lives on is found by the scan. */
static void children_become_late(void)
{
    tracer.eager = false;
    tracer.ptrace_options &= ~(PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK);
    tracer.shared->children_late = 1;
    shared_event(tracer.shared, "tracer", "many short processes: no longer traced from their start");
    scan_every_second();
}

static void new_child_event(const struct traced_thread *parent, int event)
{
    unsigned long message = 0;
    if (ptrace(PTRACE_GETEVENTMSG, parent->tid, NULL, &message) != 0 || message == 0)
        return;
    pid_t tid = (pid_t)message;
    pid_t tgid = tid;
    if (event == PTRACE_EVENT_CLONE) {
        char path[64];
        pid_t parent_tgid = tracee_process(&tracer.tracees, parent)->pid;
        (void)snprintf(path, sizeof path, "/proc/%d/task/%d", (int)parent_tgid, (int)tid);
        tgid = access(path, F_OK) == 0 ? parent_tgid : tid;
    }
    if (tgid == tid && tracee_find(&tracer.tracees, tid) == NULL)
        tracer.shared->processes_seen++;
    if (event != PTRACE_EVENT_CLONE && tracer.eager &&
        rate_exceeded(&tracer.forks, clock_mono_ns(), FORKS_PER_S, FORKS_BURST))
        children_become_late();
    if (event != PTRACE_EVENT_CLONE && !tracer.eager)
        (void)ptrace(PTRACE_SETOPTIONS, parent->tid, NULL, (void *)(intptr_t)tracer.ptrace_options);
    if (tgid == tid && !tracer.eager)
        return; /* detached at its first stop */
    if (tgid == tid)
        forget_released(tid);
    bool known = tracee_find(&tracer.tracees, tid) != NULL;
    if (tracee_add(&tracer.tracees, tid, tgid, clock_mono_ns()) != NULL && !known && tgid == tid)
        tracer.shared->processes_traced++;
}

static void exec_event(struct traced_thread *thread)
{
    unsigned long former = 0;
    siginfo_t consumed;
    /* A thread that took the leader's number may not be touched before its exec event was waited
     * for (looks_like_a_spurious_pid(), kernel/ptrace.c): ESRCH. No signal can be lost by that. */
    (void)waitid(P_PID, (id_t)thread->tid, &consumed, WSTOPPED | WNOHANG | __WALL);
    if (ptrace(PTRACE_GETEVENTMSG, thread->tid, NULL, &former) == 0 && former != 0 &&
        (pid_t)former != thread->tid) {
        struct traced_thread *old = tracee_find(&tracer.tracees, (pid_t)former);
        if (old != NULL)
            tracee_remove(&tracer.tracees, old);
        thread = tracee_find(&tracer.tracees, thread->tid);
    }
    if (thread == NULL)
        return;
    struct traced_process *process = tracee_process(&tracer.tracees, thread);
    /* The exec'ing thread took the leader's place, which may have been at its exit event. */
    if (thread->exiting) {
        thread->exiting = false;
        process->threads++;
    }
    thread->has_first = false;
    if (tracer.eager && is_debugger(process->pid))
        release_process(process);
}

static void target_stopped(int signo)
{
    if (tracer.shared->target_stopped != 0)
        return;
    tracer.shared->target_stops++;
    tracer.shared->target_stopped = (uint32_t)signo;
    wake_supervisor();
}

static void target_continued(void)
{
    if (tracer.shared->target_stopped == 0)
        return;
    tracer.shared->target_stopped = 0;
    /* Somebody continued the target alone: who waits for us must see it run, too. */
    if (getppid() == tracer.shared->run.supervisor_pid)
        (void)kill(tracer.shared->run.supervisor_pid, SIGCONT);
    wake_supervisor();
}

static void group_stop(struct traced_thread *thread, int signo)
{
    if (thread->tid == tracer.target)
        target_stopped(signo);
    thread->listening = true;
    (void)ptrace(PTRACE_LISTEN, thread->tid, NULL, NULL);
}

static void stop_event(struct traced_thread *thread, int signo)
{
    if (signo == SIGSTOP || signo == SIGTSTP || signo == SIGTTIN || signo == SIGTTOU) {
        group_stop(thread, signo);
        return;
    }
    if (thread->listening && thread->tid == tracer.target)
        target_continued();
    thread->listening = false;
    resume(thread->tid, 0);
}

static void signal_stop(struct traced_thread *thread, int signo)
{
    siginfo_t si;
    if (ptrace(PTRACE_GETSIGINFO, thread->tid, NULL, &si) == 0) {
        if (tracee_process(&tracer.tracees, thread)->pid == tracer.target)
            note_target_signal(&si);
        if (is_fatal_signal(signo))
            fatal_signal(thread, &si);
    }
    resume(thread->tid, signo);
}

/* A thread that stopped before its clone event told us of it. */
static struct traced_thread *unknown_thread(pid_t tid)
{
    pid_t tgid = tracee_read_tgid(tid);
    if (tgid == 0 || (tgid != tid && was_released(tgid)))
        return NULL;
    bool new_process = tracee_find_process(&tracer.tracees, tgid) == NULL;
    if (new_process && !tracer.eager)
        return NULL;
    struct traced_thread *thread = tracee_add(&tracer.tracees, tid, tgid, clock_mono_ns());
    if (thread != NULL && new_process)
        tracer.shared->processes_traced++;
    return thread;
}

static void dispatch_event(struct traced_thread *thread, int event)
{
    pid_t tid = thread->tid;
    switch (event) {
    case PTRACE_EVENT_FORK:
    case PTRACE_EVENT_VFORK:
    case PTRACE_EVENT_CLONE:
        new_child_event(thread, event);
        break;
    case PTRACE_EVENT_EXEC:
        exec_event(thread);
        break;
    case PTRACE_EVENT_EXIT:
        exit_event(thread);
        break;
    default:
        break;
    }
    resume(tid, 0);
}

static void handle_stop(pid_t tid, int status)
{
    int signo = status & 0xff;
    int event = status >> 8;
    struct traced_thread *thread = tracee_find(&tracer.tracees, tid);
    if (thread == NULL)
        thread = unknown_thread(tid);
    int pass_on = event == 0 ? signo : 0;
    if (thread == NULL) {
        siginfo_t consumed; /* see exec_event() */
        if (event == PTRACE_EVENT_EXEC)
            (void)waitid(P_PID, (id_t)tid, &consumed, WSTOPPED | WNOHANG | __WALL);
        (void)ptrace(PTRACE_DETACH, tid, NULL, (void *)(intptr_t)pass_on);
        return;
    }
    struct traced_process *process = tracee_process(&tracer.tracees, thread);
    note_event(process, clock_mono_ns());
    if (process->releasing && event == PTRACE_EVENT_EXEC) {
        exec_event(thread);
        thread = tracee_find(&tracer.tracees, tid); /* others have moved in the table */
        if (thread == NULL)
            return;
    }
    if (process->releasing && event != PTRACE_EVENT_EXIT) {
        /* Other threads of a process released by request are interrupted now. */
        note_released(process->pid);
        release_process(process);
        detach(thread, pass_on);
        return;
    }
    if (event == PTRACE_EVENT_STOP)
        stop_event(thread, signo);
    else if (event != 0)
        dispatch_event(thread, event);
    else
        signal_stop(thread, signo);
}

/* --- deaths --- */

static int wait_status_of(const siginfo_t *si)
{
    if (si->si_code == CLD_EXITED)
        return (si->si_status & 0xff) << 8;
    return si->si_status | (si->si_code == CLD_DUMPED ? 0x80 : 0);
}

static void handle_death(const siginfo_t *si)
{
    struct traced_thread *thread = tracee_find(&tracer.tracees, si->si_pid);
    if (thread != NULL)
        tracee_remove(&tracer.tracees, thread);
    if (si->si_pid == tracer.target) {
        struct shared *s = tracer.shared;
        handler_target = 0;
        s->target_status = wait_status_of(si);
        s->target_end_ns = clock_mono_ns();
        s->target_state = TARGET_ENDED;
    }
    siginfo_t consumed;
    (void)waitid(P_PID, (id_t)si->si_pid, &consumed, WEXITED | WNOHANG | __WALL);
    if (si->si_pid == tracer.target) {
        wake_supervisor();
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
        target_stopped(si->si_status);
    else
        target_continued();
}

/* The kernel tells of a continuation once and for all children; see handle_job_control(). */
static int wait_for_what(void)
{
    int flags = WEXITED | WSTOPPED | WNOWAIT | __WALL;
    return tracee_find(&tracer.tracees, tracer.target) == NULL ? flags | WCONTINUED : flags;
}

/* --- start --- */

static void seize_late(void)
{
    scan_due = 0;
    struct tree_scan scan = {
        .shared = tracer.shared,
        .tracees = &tracer.tracees,
        .root = tracer.target,
        .ptrace_options = tracer.ptrace_options,
    };
    tree_scan_seize(&scan);
}

static bool may_trace(enum trace_mode mode)
{
    char status[STATUS_BYTES];
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
    bool privileged = tree_scan_has_ptrace_capability();
    tracer.eager = options->mode == TRACE_EAGER || (options->mode == TRACE_AUTO && privileged);
    tracer.ptrace_options = PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_TRACEEXIT;
    if (tracer.eager)
        tracer.ptrace_options |= PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK;
    s->run.trace_mode = tracer.eager ? TRACE_EAGER : TRACE_LATE;
    if (!may_trace(options->mode))
        return;
    if (!privileged && target_exec_is_privileged(options->target.argv[0])) {
        s->trace_state = TRACE_STATE_SETUID;
    } else if (ptrace(PTRACE_SEIZE, tracer.target, NULL,
                      (void *)(intptr_t)tracer.ptrace_options) != 0) {
        s->trace_errno = errno;
        s->trace_state = TRACE_STATE_REFUSED;
        return;
    } else {
        (void)tracee_add(&tracer.tracees, tracer.target, tracer.target, clock_mono_ns());
        s->processes_traced++;
        s->trace_state = TRACE_STATE_TRACING;
    }
    if (!tracer.eager)
        scan_every_second();
}

static void leave_terminal_and_streams(void)
{
    (void)setsid();
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd <= 2 && null_fd >= 0; fd++)
        (void)dup2(null_fd, fd);
}

/* Without a child the supervisor sees us end, and runs the target without observation. */
static void start_target(const struct tracer_options *options)
{
    struct shared *s = tracer.shared;
    tracer.target = target_fork(s, &options->target);
    if (tracer.target < 0)
        _exit(1);
    handler_target = options->keep_orphan ? 0 : tracer.target;
    s->processes_seen = 1;
}

_Noreturn void tracer_run(struct shared *shared, const struct tracer_options *options)
{
    tracer.shared = shared;
    tracer.options = options;
    start_target(options);
    (void)prctl(PR_SET_NAME, "rocmcrash-T");
    install_handlers(options->keep_orphan);
    struct relay relay = *options->target.relay;
    relay_drop(&relay);
    inherited_close(options->inherited);
    /* After the fork: the target stays in the caller's session and process group. */
    leave_terminal_and_streams();
    start_tracing();
    (void)!write(options->go_write_fd, "", 1);
    (void)close(options->go_write_fd);
    (void)close(options->target.exec_error_fd);
    (void)close(options->target.go_fd);
    struct shared_helper *me = &shared->helpers[HELPER_TRACER];
    for (;;) {
        siginfo_t si = {.si_pid = 0};
        me->work_pending_ns = 0;
        int r = waitid(P_ALL, 0, &si, wait_for_what());
        if (r != 0 && errno == ECHILD)
            _exit(0);
        me->work_pending_ns = clock_mono_ns();
        if (scan_due)
            seize_late();
        if (r != 0 || si.si_pid == 0)
            continue;
        if (si.si_code == CLD_TRAPPED)
            handle_stop(si.si_pid, si.si_status);
        else if (si.si_code == CLD_STOPPED || si.si_code == CLD_CONTINUED)
            handle_job_control(&si);
        else
            handle_death(&si);
    }
}
