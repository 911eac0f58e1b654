/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/tracer_internal.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

#include "base/clock.h"
#include "base/fs.h"
#include "launch/impact.h"

/* A failing exit of a process younger than this (grep, test, ...) is no failure of the job. */
#define EXIT_IMPACT_MIN_AGE_NS 1000000000u
/* So many threads of a process are asked at each exit of another: a large process asks near its end only. */
#define UNSEEN_THREADS_MAX 16u

bool tracer_is_fatal_signal(int signo)
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
    char status[TRACER_STATUS_BYTES];
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)tid);
    if (fs_read_text(path, status, sizeof status) <= 0)
        return false;
    return !signal_is_in(status, "\nSigCgt:\t", signo) &&
           !signal_is_in(status, "\nSigIgn:\t", signo);
}

void tracer_note_target_signal(const siginfo_t *si)
{
    struct shared *s = tracer.shared;
    uint32_t head = s->signals_seen_head;
    struct signal_seen *seen = &s->signals_seen[head % SHARED_SIGNALS_SEEN];
    seen->signo = si->si_signo;
    seen->sender_pid = si->si_code <= 0 ? si->si_pid : 0;
    seen->time_ns = clock_mono_ns();
    s->signals_seen_head = head + 1;
}

/*
 * The registers of the last threads whose fatal signal a handler took: when it raises the signal
 * again (faulthandler, PyTorch's), the stack to be shown is that of the first, not that of the
 * handler, which often has one of its own (sigaltstack) from which no way leads back.
 */
#define FIRSTS 8

static struct first {
    pid_t tid;
    int signo;
    struct user_regs_struct regs;
} firsts[FIRSTS];

static const struct first *find_first(pid_t tid, int signo)
{
    for (size_t i = 0; i < FIRSTS; i++)
        if (firsts[i].tid == tid && firsts[i].signo == signo)
            return &firsts[i];
    return NULL;
}

static void remember_registers(pid_t tid, int signo)
{
    static size_t next;
    const struct first *known = find_first(tid, signo);
    size_t at = known != NULL ? (size_t)(known - firsts) : next++ % FIRSTS;
    struct iovec iov = {&firsts[at].regs, sizeof firsts[at].regs};
    firsts[at].signo = signo;
    firsts[at].tid = ptrace(PTRACE_GETREGSET, tid, (void *)NT_PRSTATUS, &iov) == 0 &&
                             iov.iov_len == sizeof firsts[at].regs
                         ? tid
                         : 0;
}

void tracer_forget_first_fault(struct traced_thread *thread)
{
    thread->has_first = false;
    for (size_t i = 0; i < FIRSTS; i++)
        if (firsts[i].tid == thread->tid)
            firsts[i].tid = 0;
}

void tracer_fatal_signal(struct traced_thread *thread, const siginfo_t *si)
{
    struct traced_process *process = tracee_process(tracer.tracees, thread);
    bool kernel_sent = si->si_code > 0;
    if (!disposition_is_default(thread->tid, si->si_signo)) {
        remember_registers(thread->tid, si->si_signo);
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
    const struct first *first = find_first(thread->tid, si->si_signo);
    if (!kernel_sent && si->si_pid == process->pid && first != NULL)
        cause.registers = &first->regs;
    impact_copy(tracer.shared, tracer.tracees, process, &cause);
    tracer_wake_supervisor();
}

/* Jobs often end their workers by SIGTERM, SIGPIPE and the like. That is no failure. */
static bool child_exit_matters(const struct traced_process *process, int signo)
{
    if (signo == 0)
        return clock_mono_ns() - process->first_seen_ns >= EXIT_IMPACT_MIN_AGE_NS;
    return signo == SIGKILL || tracer_is_fatal_signal(signo);
}

/*
 * A thread that ends by itself when another one ends the process may tell us nothing: SIGKILL wakes it
 * from its exit stop, or it does not stop (ptrace_stop(), kernel/signal.c). True when the thread is on its
 * way out: SIGKILL is pending or it is a zombie. One that has taken its SIGKILL will stop; it is false.
 */
static bool may_end_unseen(pid_t pid, pid_t tid)
{
    char path[64];
    char status[TRACER_STATUS_BYTES];
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/status", (int)pid, (int)tid);
    if (fs_read_text(path, status, sizeof status) <= 0)
        return true;
    return signal_is_in(status, "\nSigPnd:\t", SIGKILL) || strstr(status, "\nState:\tZ") != NULL ||
           strstr(status, "\nState:\tX") != NULL;
}

static bool others_may_end_unseen(const struct traced_process *process)
{
    const struct tracees *t = tracer.tracees;
    if (process->threads > UNSEEN_THREADS_MAX)
        return false;
    for (uint32_t i = 0; i < TRACEE_THREADS_MAX; i++) {
        const struct traced_thread *thread = &t->threads[i];
        if (thread->tid != 0 && &t->processes[thread->process] == process && !thread->exiting &&
            !may_end_unseen(process->pid, thread->tid))
            return false;
    }
    return true;
}

/* Only the last thread's exit event is the end of a process; a lone leader may go long before. */
void tracer_exit_event(struct traced_thread *thread)
{
    struct traced_process *process = tracee_process(tracer.tracees, thread);
    unsigned long status = 0;
    (void)ptrace(PTRACE_GETEVENTMSG, thread->tid, NULL, &status);
    if (!thread->exiting) {
        thread->exiting = true;
        process->threads--;
    }
    if (process->impact_taken || status == 0)
        return;
    int signo = (int)(status & 0x7f);
    if (process->pid != tracer.target && !child_exit_matters(process, signo))
        return;
    if (process->threads > 0 && !others_may_end_unseen(process))
        return;
    process->impact_taken = true;
    struct impact_cause cause = {
        .kind = IMPACT_EXIT_EVENT,
        .pid = process->pid,
        .tid = thread->tid,
        .signo = signo,
        .exit_status = (uint32_t)status,
    };
    impact_copy(tracer.shared, tracer.tracees, process, &cause);
    tracer_wake_supervisor();
}
