/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/tracer_internal.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "inject/let_go.h"
#include "record/shared.h"

/* This many refusals in a row. A thread that was killed just now refuses once. */
#define REFUSALS_MAX 1000

/* The one answer to a stop. If the kernel keeps refusing it, waitid() keeps showing the stop and the target
 * stands still. Then we exit, and the kernel detaches all tracees. */
static void answer(enum __ptrace_request request, pid_t tid, int signo)
{
    static unsigned refusals;
    if (ptrace(request, tid, NULL, (void *)(intptr_t)signo) == 0) {
        refusals = 0;
        return;
    }
    if (++refusals < REFUSALS_MAX)
        return;
    shared_event(tracer.shared, "tracer", "thread %d cannot be continued: giving up", (int)tid);
    _exit(1);
}

static void resume(pid_t tid, int signo)
{
    answer(PTRACE_CONT, tid, signo);
}

static void detach(struct traced_thread *thread, int signo)
{
    answer(PTRACE_DETACH, thread->tid, signo);
    tracee_remove(tracer.tracees, thread);
}

static void new_child_event(const struct traced_thread *parent, int event)
{
    unsigned long message = 0;
    if (ptrace(PTRACE_GETEVENTMSG, parent->tid, NULL, &message) != 0 || message == 0)
        return;
    pid_t tid = (pid_t)message;
    pid_t tgid = tid;
    if (event == PTRACE_EVENT_CLONE) {
        pid_t parent_tgid = tracee_process(tracer.tracees, parent)->pid;
        tgid = tracee_is_thread_of(parent_tgid, tid) ? parent_tgid : tid;
    }
    if (tgid == tid && tracee_find(tracer.tracees, tid) == NULL)
        tracer.shared->processes_seen++;
    if (event != PTRACE_EVENT_CLONE)
        tracer_note_fork();
    if (event != PTRACE_EVENT_CLONE && !tracer.eager)
        (void)ptrace(PTRACE_SETOPTIONS, parent->tid, NULL, (void *)(intptr_t)tracer.ptrace_options);
    if (tgid == tid && !tracer.eager)
        return; /* detached at its first stop */
    if (tgid == tid)
        tracer_forget_released(tid);
    bool known = tracee_find(tracer.tracees, tid) != NULL;
    if (tracee_add(tracer.tracees, tid, tgid, clock_mono_ns()) != NULL && !known && tgid == tid)
        tracer.shared->processes_traced++;
}

static void release_until_exec(struct traced_process *process)
{
    tracer_release(process, RELEASE_UNTIL_EXEC);
    if (process->pid == tracer.target)
        tracer.shared->trace_state = TRACE_STATE_LATE;
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
        struct traced_thread *old = tracee_find(tracer.tracees, (pid_t)former);
        if (old != NULL)
            tracee_remove(tracer.tracees, old);
        thread = tracee_find(tracer.tracees, thread->tid);
    }
    if (thread == NULL)
        return;
    struct traced_process *process = tracee_process(tracer.tracees, thread);
    /* The exec'ing thread took the leader's place, which may have been at its exit event. */
    if (thread->exiting) {
        thread->exiting = false;
        process->threads++;
    }
    tracer_forget_first_fault(thread);
    if ((tracer.eager && tracer_is_debugger(process->pid)) || tracer_is_left_alone(process->pid))
        tracer_release(process, RELEASE_FOR_GOOD);
    else if (tracer_may_exec_unseen(process->pid))
        release_until_exec(process);
    else
        tracer_leave_children(thread->tid, process->pid);
}

void tracer_target_stopped(int signo)
{
    if (tracer.shared->target_stopped != 0)
        return;
    tracer.shared->target_stops++;
    tracer.shared->target_stopped = (uint32_t)signo;
    tracer_wake_supervisor();
}

void tracer_target_continued(void)
{
    if (tracer.shared->target_stopped == 0)
        return;
    tracer.shared->target_stopped = 0;
    /* Only the target was continued. The shell, which waits for us, must see it running, too. */
    if (getppid() == shared_supervisor())
        (void)kill(shared_supervisor(), SIGCONT);
    tracer_wake_supervisor();
}

static void group_stop(struct traced_thread *thread, int signo)
{
    if (thread->tid == tracer.target)
        tracer_target_stopped(signo);
    thread->listening = true;
    answer(PTRACE_LISTEN, thread->tid, 0);
}

static void stop_event(struct traced_thread *thread, int signo)
{
    if (signo == SIGSTOP || signo == SIGTSTP || signo == SIGTTIN || signo == SIGTTOU) {
        group_stop(thread, signo);
        return;
    }
    if (thread->listening && thread->tid == tracer.target)
        tracer_target_continued();
    thread->listening = false;
    resume(thread->tid, 0);
}

/* Its own pid in it may be one of another pid namespace. */
static bool asks_to_be_let_go(const siginfo_t *si)
{
    return si->si_signo == LET_GO_SIGNAL && si->si_code == SI_QUEUE && (uintptr_t)si->si_value.sival_ptr == LET_GO_VALUE;
}

/* It executes a program that gains privilege. A tracer with privilege is no hindrance. */
static void let_go(struct traced_thread *thread)
{
    struct traced_process *process = tracee_process(tracer.tracees, thread);
    if (tracer.privileged) {
        resume(thread->tid, 0);
        return;
    }
    tracer_release(process, RELEASE_FOR_GOOD);
    tracer_note_released(process);
    detach(thread, 0);
}

static void signal_stop(struct traced_thread *thread, int signo)
{
    siginfo_t si;
    if (ptrace(PTRACE_GETSIGINFO, thread->tid, NULL, &si) == 0) {
        if (asks_to_be_let_go(&si)) {
            let_go(thread);
            return;
        }
        if (tracee_process(tracer.tracees, thread)->pid == tracer.target)
            tracer_note_target_signal(&si);
        if (tracer_is_fatal_signal(signo))
            tracer_fatal_signal(thread, &si);
        else
            tracer_still_signal(tracee_process(tracer.tracees, thread), signo);
    }
    resume(thread->tid, signo);
}

/* The thread stopped before its clone event announced it. */
static struct traced_thread *unknown_thread(pid_t tid)
{
    pid_t tgid = tracee_tgid(tracer.tracees, tid);
    if (tgid == 0 || (tgid != tid && tracer_was_released(tgid)))
        return NULL;
    bool new_process = tracee_find_process(tracer.tracees, tgid) == NULL;
    if (new_process && !tracer.eager)
        return NULL;
    struct traced_thread *thread = tracee_add(tracer.tracees, tid, tgid, clock_mono_ns());
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
        tracer_exit_event(thread);
        break;
    default:
        break;
    }
    resume(tid, 0);
}

void tracer_handle_stop(pid_t tid, int status)
{
    int signo = status & 0xff;
    int event = status >> 8;
    struct traced_thread *thread = tracee_find(tracer.tracees, tid);
    if (thread == NULL)
        thread = unknown_thread(tid);
    int pass_on = event == 0 ? signo : 0;
    if (thread == NULL) {
        siginfo_t consumed; /* see exec_event() */
        if (event == PTRACE_EVENT_EXEC)
            (void)waitid(P_PID, (id_t)tid, &consumed, WSTOPPED | WNOHANG | __WALL);
        answer(PTRACE_DETACH, tid, pass_on);
        return;
    }
    struct traced_process *process = tracee_process(tracer.tracees, thread);
    tracer_note_event(process, clock_mono_ns());
    if (process->releasing != RELEASE_NOT && event == PTRACE_EVENT_EXEC) {
        exec_event(thread);
        thread = tracee_find(tracer.tracees, tid); /* others have moved in the table */
        if (thread == NULL)
            return;
    }
    if (process->releasing != RELEASE_NOT && event != PTRACE_EVENT_EXIT) {
        /* Other threads of a process released by request are interrupted now. */
        tracer_note_released(process);
        tracer_release(process, process->releasing);
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
