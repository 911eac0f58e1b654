/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/tracee.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/proc_stat.h"

/* Asking for one process takes 0.3 us; reading /proc/TID/status of a new thread takes 20 us. */
#define ASKED_PROCESSES_MAX 32u

static uint32_t slot_of(pid_t tid)
{
    return ((uint32_t)tid * 2654435761u) % TRACEE_THREADS_MAX;
}

struct traced_thread *tracee_find(struct tracees *t, pid_t tid)
{
    if (tid <= 0)
        return NULL; /* that is what a free slot says */
    for (uint32_t i = slot_of(tid);; i = (i + 1) % TRACEE_THREADS_MAX) {
        if (t->threads[i].tid == tid)
            return &t->threads[i];
        if (t->threads[i].tid == 0) /* one in four is free: tracee_add() */
            return NULL;
    }
}

struct traced_process *tracee_find_process(struct tracees *t, pid_t pid)
{
    for (uint32_t i = 0; i < t->process_high; i++)
        if (t->processes[i].pid == pid)
            return &t->processes[i];
    return NULL;
}

static struct traced_process *process_add(struct tracees *t, pid_t pid, uint64_t now_ns)
{
    struct traced_process *process = tracee_find_process(t, pid);
    if (process != NULL)
        return process;
    process = tracee_find_process(t, 0);
    if (process == NULL && t->process_high < TRACEE_PROCESSES_MAX)
        process = &t->processes[t->process_high++];
    if (process != NULL)
        *process = (struct traced_process){
            .pid = pid, .first_seen_ns = now_ns, .rate.drained_ns = now_ns};
    return process;
}

struct traced_thread *tracee_add(struct tracees *t, pid_t tid, pid_t pid, uint64_t now_ns)
{
    struct traced_thread *thread = tracee_find(t, tid);
    if (thread != NULL)
        return thread;
    /* One in four stays free so that searches end soon. */
    if (t->thread_count >= TRACEE_THREADS_MAX * 3 / 4)
        return NULL;
    struct traced_process *process = process_add(t, pid, now_ns);
    if (process == NULL)
        return NULL;
    uint32_t i = slot_of(tid);
    while (t->threads[i].tid != 0)
        i = (i + 1) % TRACEE_THREADS_MAX;
    t->threads[i] = (struct traced_thread){
        .tid = tid, .process = (uint16_t)(process - t->processes)};
    t->thread_count++;
    process->threads++;
    process->members++;
    return &t->threads[i];
}

struct traced_process *tracee_process(struct tracees *t, const struct traced_thread *thread)
{
    return &t->processes[thread->process];
}

void tracee_remove(struct tracees *t, struct traced_thread *thread)
{
    struct traced_process *process = tracee_process(t, thread);
    if (!thread->exiting && process->threads > 0)
        process->threads--;
    uint32_t hole = (uint32_t)(thread - t->threads);
    t->threads[hole].tid = 0;
    t->thread_count--;
    /* Close the gap, so that searches may stop at the first free slot. */
    for (uint32_t i = (hole + 1) % TRACEE_THREADS_MAX; t->threads[i].tid != 0;
         i = (i + 1) % TRACEE_THREADS_MAX) {
        uint32_t home = slot_of(t->threads[i].tid);
        uint32_t from_home = (i - home) % TRACEE_THREADS_MAX;
        uint32_t from_hole = (i - hole) % TRACEE_THREADS_MAX;
        if (from_home < from_hole)
            continue;
        t->threads[hole] = t->threads[i];
        t->threads[i].tid = 0;
        hole = i;
    }
    if (--process->members == 0)
        process->pid = 0;
}

/* Signal 0 only asks. ESRCH: there is no such thread in the process. (glibc 2.28 has no tgkill().) */
bool tracee_is_thread_of(pid_t pid, pid_t tid)
{
    return syscall(SYS_tgkill, pid, tid, 0) == 0 || errno != ESRCH;
}

pid_t tracee_tgid(const struct tracees *t, pid_t tid)
{
    if (tracee_is_thread_of(tid, tid))
        return tid;
    for (uint32_t i = 0; i < t->process_high && i < ASKED_PROCESSES_MAX; i++)
        if (t->processes[i].pid != 0 && tracee_is_thread_of(t->processes[i].pid, tid))
            return t->processes[i].pid;
    return (pid_t)proc_status_number(tid, "Tgid");
}
