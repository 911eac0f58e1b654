/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/impact.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cleanup.h"
#include "base/fs.h"
#include "launch/impact_internal.h"
#include "launch/tracee.h"

#define COUNT_WITHIN_MS 30u /* well below IMPACT_COPY_MS */
#define STOP_WAIT_MS 20 /* for the other threads to stop; one in D state is left out */
#if defined(__x86_64__)
#define STACK_POINTER(regs) ((regs).rsp)
#define RED_ZONE 128u
#elif defined(__aarch64__)
#define STACK_POINTER(regs) ((regs).sp)
#define RED_ZONE 0u
#else
#error "only x86_64 and aarch64 run ROCm"
#endif

static void copy_stack(struct copier *c, int mem_fd, uint64_t stack_pointer, pid_t tid)
{
    uint64_t room;
    unsigned char *space = impact_space(c, &room);
    uint64_t want = IMPACT_STACK_BYTES;
    if (want > IMPACT_STACKS_BYTES - c->stack_bytes)
        want = IMPACT_STACKS_BYTES - c->stack_bytes;
    if (space == NULL || mem_fd < 0 || want == 0)
        return;
    if (want > room)
        want = room;
    uint64_t from = (stack_pointer - RED_ZONE) & ~(uint64_t)7;
    uint64_t mapped = impact_mapped_from(from);
    bool whole = mapped <= want && mapped != IMPACT_STACK_UNKNOWN_BYTES;
    if (want > mapped)
        want = mapped;
    ssize_t n = pread(mem_fd, space, want, (off_t)from);
    if (n <= 0)
        return;
    c->stack_bytes += (uint64_t)n;
    impact_commit(c, CHUNK_STACK, (uint64_t)n, (uint64_t)n == want && !whole ? CHUNK_TRUNCATED : 0,
                  (uint64_t[2]){from, (uint64_t)tid});
}

static void copy_thread(struct copier *c, int mem_fd, pid_t tid, const void *registers)
{
    struct user_regs_struct regs;
    struct iovec iov = {&regs, sizeof regs};
    if (ptrace(PTRACE_GETREGSET, tid, (void *)NT_PRSTATUS, &iov) != 0)
        return;
    /* The handler runs above the frames of the fault, or on a stack of its own: they are still there. */
    if (registers != NULL)
        memcpy(&regs, registers, sizeof regs);
    char path[64];
    char comm[32];
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/comm", c->impact->pid, (int)tid);
    if (fs_read_text(path, comm, sizeof comm) > 0)
        impact_put(c, CHUNK_COMM, comm, strlen(comm), (uint64_t)tid);
    impact_put(c, CHUNK_REGS, &regs, iov.iov_len, (uint64_t)tid);
    copy_stack(c, mem_fd, STACK_POINTER(regs), tid);
    c->impact->threads_copied++;
}

static bool is_stopped(pid_t tid)
{
    siginfo_t si = {.si_pid = 0};
    return waitid(P_PID, (id_t)tid, &si, WSTOPPED | WNOWAIT | WNOHANG | __WALL) == 0 &&
           si.si_pid == tid;
}

/* Stop all others and copy each as soon as it has stopped. The stops stay unconsumed: the main
 * loop finds them by waitid() and lets the threads go. */
static void copy_other_threads(struct copier *c, struct tracees *tracees,
                               const struct traced_process *process, int mem_fd)
{
    static pid_t waiting[TRACEE_THREADS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < TRACEE_THREADS_MAX; i++) {
        const struct traced_thread *thread = &tracees->threads[i];
        if (thread->tid == 0 || &tracees->processes[thread->process] != process || thread->exiting)
            continue;
        c->impact->threads_seen++;
        if (thread->tid == c->impact->tid)
            continue;
        if (ptrace(PTRACE_INTERRUPT, thread->tid, NULL, NULL) == 0)
            waiting[count++] = thread->tid;
    }
    uint64_t give_up_ns = clock_mono_ns() + STOP_WAIT_MS * NS_PER_MS;
    while (count > 0 && clock_mono_ns() < give_up_ns) {
        uint32_t left = 0;
        for (uint32_t i = 0; i < count; i++) {
            if (is_stopped(waiting[i]))
                copy_thread(c, mem_fd, waiting[i], NULL);
            else
                waiting[left++] = waiting[i];
        }
        if (left == count)
            (void)sched_yield();
        count = left;
    }
}

static void copy_threads(struct copier *c, struct tracees *tracees,
                         const struct traced_process *process, const void *registers)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/mem", (int)c->look);
    RC_AUTO_CLOSE int mem_fd = open(path, O_RDONLY | O_CLOEXEC);
    copy_thread(c, mem_fd, c->impact->tid, registers);
    if (c->impact->kind == IMPACT_SIGNAL_STOP)
        copy_other_threads(c, tracees, process, mem_fd);
}

/* While the memory is still held, the counters are worth a short wait, but not a long one. */
static void wait_for_sampler(struct shared *s, uint32_t request)
{
    uint64_t give_up_ns = clock_mono_ns() + IMPACT_SAMPLER_WAIT_MS * NS_PER_MS;
    while (s->helpers[HELPER_SAMPLER].pid > 0 && s->helpers[HELPER_SAMPLER].heartbeat_ns > 0) {
        uint32_t answer = s->impact_answer;
        uint64_t now = clock_mono_ns();
        if ((int32_t)(answer - request) >= 0 || now >= give_up_ns)
            return;
        struct timespec left = {.tv_nsec = (long)(give_up_ns - now)};
        (void)syscall(SYS_futex, &s->impact_answer, FUTEX_WAIT, answer, &left, NULL, 0);
    }
}

/* The last two slots are kept for signals, so that many failing exits cannot hide a crash. */
static struct shared_impact *take_slot(struct shared *s, const struct impact_cause *cause)
{
    uint32_t usable = cause->kind == IMPACT_SIGNAL_STOP || cause->pid == s->target_pid
                          ? SHARED_IMPACTS_MAX
                          : SHARED_IMPACTS_MAX - 2;
    if (s->impacts_used >= usable || s->arena_used + (64u << 10) > sizeof s->arena) {
        atomic_fetch_add(&s->impacts_dropped, 1);
        return NULL;
    }
    return &s->impacts[s->impacts_used];
}

/* The /proc entry of the held thread, if it has one. The leader may be ending (exit_mm(),
 * exit_files()) and is then a zombie without memory and files. /proc/TID describes the whole
 * process, as /proc/PID does. */
static pid_t whose_entry(pid_t pid, pid_t tid)
{
    char path[64];
    char target[8];
    (void)snprintf(path, sizeof path, "/proc/%d/exe", (int)tid);
    return readlink(path, target, sizeof target) > 0 ? tid : pid;
}

void impact_copy(struct shared *shared, struct tracees *tracees, struct traced_process *process,
                 const struct impact_cause *cause)
{
    struct shared_impact *impact = take_slot(shared, cause);
    if (impact == NULL)
        return;
    uint64_t start_ns = clock_mono_ns();
    shared->held_budget_ms =
        cause->kind == IMPACT_SIGNAL_STOP ? IMPACT_COPY_MS : IMPACT_LAST_EXIT_MS;
    shared->held_since_ns = start_ns;
    *impact = (struct shared_impact){
        .state = IMPACT_WRITING,
        .kind = cause->kind,
        .pid = cause->pid,
        .tid = cause->tid,
        .signo = cause->signo,
        .code = cause->code,
        .sender_pid = cause->sender_pid,
        .exit_status = cause->exit_status,
        .fault_address = cause->fault_address,
        .time_ns = start_ns,
        .arena_offset = shared->arena_used,
    };
    shared->impacts_used++;
    uint32_t request = shared_ask_counters(shared, cause->pid);
    struct copier copier = {
        .shared = shared,
        .impact = impact,
        .look = whose_entry(cause->pid, cause->tid),
        .limit = sizeof shared->arena,
        .at = shared->arena_used,
        .count_until_ns = start_ns + COUNT_WITHIN_MS * NS_PER_MS,
    };
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/comm", (int)cause->pid);
    (void)fs_read_text(path, impact->comm, sizeof impact->comm);
    if (cause->siginfo != NULL)
        impact_put(&copier, CHUNK_SIGINFO, cause->siginfo, sizeof(siginfo_t), (uint64_t)cause->tid);
    impact_copy_maps(&copier);
    copy_threads(&copier, tracees, process, cause->registers);
    impact_copy_process(&copier);
    wait_for_sampler(shared, request);
    impact->held_ns = clock_mono_ns() - start_ns;
    shared->arena_used = copier.at;
    impact->state = IMPACT_COMPLETE;
    shared->held_since_ns = 0;
}
