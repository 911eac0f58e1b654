/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/impact.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
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
#include "base/room.h"
#include "launch/impact_internal.h"
#include "launch/python_stacks.h"
#include "launch/tracee.h"

#define COUNT_WITHIN_MS 30u /* well below IMPACT_COPY_MS */
#define LIVE_PYTHON_UNTIL_MS 35u /* after the hold began; the rest is for letting go */
#define STOP_WAIT_MS 20 /* for the other threads to stop; one in D state is left out */
#if defined(__x86_64__)
#define STACK_POINTER(regs) ((regs).rsp)
#define PROGRAM_COUNTER(regs) ((regs).rip)
#define RED_ZONE 128u
#elif defined(__aarch64__)
#define STACK_POINTER(regs) ((regs).sp)
#define PROGRAM_COUNTER(regs) ((regs).pc)
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

static void put_thread(struct copier *c, int mem_fd, pid_t tid, const struct user_regs_struct *regs,
                       size_t length)
{
    char path[64];
    char comm[32];
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/comm", c->impact->pid, (int)tid);
    if (fs_read_text(path, comm, sizeof comm) > 0)
        impact_put(c, CHUNK_COMM, comm, strlen(comm), (uint64_t)tid);
    impact_put(c, CHUNK_REGS, regs, length, (uint64_t)tid);
    copy_stack(c, mem_fd, STACK_POINTER(*regs), tid);
    c->impact->threads_copied++;
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
    put_thread(c, mem_fd, tid, &regs, iov.iov_len);
}

static bool is_stopped(pid_t tid)
{
    siginfo_t si = {.si_pid = 0};
    return waitid(P_PID, (id_t)tid, &si, WSTOPPED | WNOWAIT | WNOHANG | __WALL) == 0 &&
           si.si_pid == tid;
}

/* The system call in which a thread sleeps, from /proc/PID/task/TID/syscall: "202 ARGUMENT... SP PC". */
struct asleep {
    pid_t tid;
    long call;
    uint64_t argument; /* the call's first */
    uint64_t stack_pointer, program_counter; /* 0 = it does not sleep, or that may not be read */
};

static struct asleep where_asleep(pid_t pid, pid_t tid)
{
    struct asleep asleep = {.tid = tid};
    char path[64];
    char text[192];
    char *rest = text;
    uint64_t words[9] = {0};
    int count = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/syscall", (int)pid, (int)tid);
    if (fs_read_text(path, text, sizeof text) <= 0)
        return asleep;
    asleep.call = strtol(text, &rest, 10);
    if (rest == text)
        return asleep; /* "running" */
    for (char *end; count < 9; rest = end) {
        words[count] = strtoull(rest, &end, 16);
        if (end == rest)
            break;
        count++;
    }
    if (count >= 2) {
        asleep.argument = words[0];
        asleep.stack_pointer = words[count - 2];
        asleep.program_counter = words[count - 1];
    }
    return asleep;
}

/* Its other registers are not known, which may end its stack early. */
static void copy_asleep(struct copier *c, int mem_fd, const struct asleep *asleep)
{
    struct user_regs_struct regs;
    if (asleep->program_counter == 0)
        return;
    memset(&regs, 0, sizeof regs);
    STACK_POINTER(regs) = asleep->stack_pointer;
    PROGRAM_COUNTER(regs) = asleep->program_counter;
    put_thread(c, mem_fd, asleep->tid, &regs, sizeof regs);
}

struct sleepers {
    struct copier *copier;
    int mem_fd;
};

static bool copy_one_asleep(void *context, long tid)
{
    const struct sleepers *sleepers = context;
    struct copier *c = sleepers->copier;
    struct asleep asleep = where_asleep(c->impact->pid, (pid_t)tid);
    c->impact->threads_seen++;
    copy_asleep(c, sleepers->mem_fd, &asleep);
    return true;
}

static bool is_fd_of(pid_t pid, uint64_t fd, const char *const *names)
{
    char path[64], target[64];
    (void)snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, (int)fd);
    ssize_t n = readlink(path, target, sizeof target - 1);
    if (n <= 0)
        return false;
    target[n] = '\0';
    for (; *names != NULL; names++)
        if (strncmp(target, *names, strlen(*names)) == 0)
            return true;
    return false;
}

/* Linux starts these calls again after a stop as if nothing had been (signal(7), and the calls'
 * sources). It answers others with EINTR (epoll_wait(), recv() of a socket with a timeout) or ends
 * them early (write() of much to a pipe, recv() with MSG_WAITALL): a thread in such a call is not
 * stopped. */
static bool goes_on_after_a_stop(pid_t pid, const struct asleep *asleep)
{
    static const char *const drivers[] = {"/dev/kfd", "/dev/dri/", NULL}; /* -ERESTARTSYS */
    static const char *const pipes[] = {"pipe:", NULL};
    static const long calls[] = {SYS_futex,  SYS_nanosleep, SYS_clock_nanosleep,
                                 SYS_ppoll,  SYS_pselect6,  SYS_rt_sigsuspend,
#if defined(__x86_64__)
                                 SYS_select, SYS_poll,      SYS_pause,
#endif
                                 SYS_wait4,  SYS_waitid};
    if (asleep->program_counter == 0) /* it runs */
        return true;
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        if (asleep->call == calls[i])
            return true;
    return (asleep->call == SYS_ioctl && is_fd_of(pid, asleep->argument, drivers)) ||
           (asleep->call == SYS_read && is_fd_of(pid, asleep->argument, pipes));
}

/* Stop all others and copy each as soon as it has stopped. The stops stay unconsumed: the main
 * loop finds them by waitid() and lets the threads go. */
static void copy_other_threads(struct copier *c, struct tracees *tracees,
                               const struct traced_process *process, int mem_fd)
{
    static pid_t waiting[TRACEE_THREADS_MAX];
    static struct asleep *sleeps; /* of `waiting`; for a live process only */
    bool is_live = c->impact->kind == IMPACT_SNAPSHOT;
    if (is_live && sleeps == NULL)
        sleeps = room_for(TRACEE_THREADS_MAX * sizeof *sleeps);
    uint32_t count = 0;
    for (uint32_t i = 0; i < TRACEE_THREADS_MAX; i++) {
        const struct traced_thread *thread = &tracees->threads[i];
        if (thread->tid == 0 || &tracees->processes[thread->process] != process || thread->exiting)
            continue;
        c->impact->threads_seen++;
        if (thread->tid == c->impact->tid && !is_live)
            continue; /* it is stopped, and was copied first */
        struct asleep asleep = {.tid = thread->tid};
        if (is_live)
            asleep = where_asleep(c->impact->pid, thread->tid);
        if (!goes_on_after_a_stop(c->impact->pid, &asleep))
            copy_asleep(c, mem_fd, &asleep);
        else if (ptrace(PTRACE_INTERRUPT, thread->tid, NULL, NULL) == 0) {
            if (sleeps != NULL)
                sleeps[count] = asleep;
            waiting[count++] = thread->tid;
        }
    }
    uint64_t give_up_ns = clock_mono_ns() + STOP_WAIT_MS * NS_PER_MS;
    while (count > 0 && clock_mono_ns() < give_up_ns) {
        uint32_t left = 0;
        for (uint32_t i = 0; i < count; i++) {
            if (is_stopped(waiting[i])) {
                copy_thread(c, mem_fd, waiting[i], NULL);
                continue;
            }
            if (sleeps != NULL)
                sleeps[left] = sleeps[i];
            waiting[left++] = waiting[i];
        }
        if (left == count)
            (void)sched_yield();
        count = left;
    }
    for (uint32_t i = 0; is_live && sleeps != NULL && i < count; i++)
        copy_asleep(c, mem_fd, &sleeps[i]); /* the machine is busy, or it is in D state */
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

/* *impact has its cause; the rest is filled here. */
static struct copier open_copy(struct shared *shared, struct shared_impact *impact,
                               const struct shared_impact *cause, uint64_t start_ns)
{
    char path[64];
    *impact = *cause;
    impact->state = IMPACT_WRITING;
    impact->time_ns = start_ns;
    impact->arena_offset = shared->arena_used;
    shared->impacts_used++;
    (void)snprintf(path, sizeof path, "/proc/%d/comm", (int)cause->pid);
    (void)fs_read_text(path, impact->comm, sizeof impact->comm);
    return (struct copier){
        .shared = shared,
        .impact = impact,
        .look = whose_entry(cause->pid, cause->tid),
        .limit = sizeof shared->arena,
        .at = shared->arena_used,
        .count_until_ns = start_ns + COUNT_WITHIN_MS * NS_PER_MS,
    };
}

static void close_copy(const struct copier *c)
{
    c->shared->arena_used = c->at;
    if (c->impact->threads_seen < c->impact->threads_copied) /* one that exits is not looked for among the others */
        c->impact->threads_seen = c->impact->threads_copied;
    c->impact->state = IMPACT_COMPLETE;
}

static void hold(struct shared *shared, uint32_t budget_ms, uint64_t now_ns)
{
    shared->held_budget_ms = budget_ms;
    shared->held_since_ns = now_ns;
}

void impact_copy(struct shared *shared, struct tracees *tracees, struct traced_process *process,
                 const struct impact_cause *cause)
{
    struct shared_impact *impact = take_slot(shared, cause);
    if (impact == NULL)
        return;
    uint64_t start_ns = clock_mono_ns();
    hold(shared, cause->kind == IMPACT_SIGNAL_STOP ? IMPACT_COPY_MS : IMPACT_LAST_EXIT_MS, start_ns);
    const struct shared_impact header = {
        .kind = cause->kind,
        .pid = cause->pid,
        .tid = cause->tid,
        .signo = cause->signo,
        .code = cause->code,
        .sender_pid = cause->sender_pid,
        .exit_status = cause->exit_status,
        .fault_address = cause->fault_address,
    };
    uint32_t request = shared_ask_counters(shared, cause->pid);
    struct copier copier = open_copy(shared, impact, &header, start_ns);
    if (cause->siginfo != NULL)
        impact_put(&copier, CHUNK_SIGINFO, cause->siginfo, sizeof(siginfo_t), (uint64_t)cause->tid);
    impact_copy_maps(&copier);
    copy_threads(&copier, tracees, process, cause->registers);
    impact_copy_process(&copier);
    wait_for_sampler(shared, request);
    impact->held_ns = clock_mono_ns() - start_ns;
    close_copy(&copier);
    shared->held_since_ns = 0;
}

/* --- of a live process --- */

/* Room for those that fail later stays: a snapshot of a run is not its end. */
static struct shared_impact *take_live_slot(struct shared *s)
{
    bool is_run = s->run.snapshot_wall_ns == 0;
    uint32_t usable = is_run ? SHARED_IMPACTS_MAX / 2 : SHARED_IMPACTS_MAX;
    uint64_t arena = is_run ? sizeof s->arena / 2 : sizeof s->arena;
    if (s->impacts_used < usable && s->arena_used + (64u << 10) <= arena)
        return &s->impacts[s->impacts_used];
    if (!is_run)
        atomic_fetch_add(&s->impacts_dropped, 1);
    return NULL;
}

static void put_text(struct copier *c, uint32_t type, const char *text, uint64_t arg)
{
    if (text != NULL)
        impact_put(c, type, text, strlen(text), arg);
}

static void copy_python(struct copier *c, const struct impact_live *live, uint64_t until_ns)
{
    uint64_t room;
    unsigned char *space = impact_space(c, &room);
    if (live->python == NULL || space == NULL) {
        put_text(c, CHUNK_PYTHON, live->no_python, 0);
        return;
    }
    if (room > PYTHON_TEXT_MAX)
        room = PYTHON_TEXT_MAX;
    size_t n = python_stacks_read(live->python, live->pid, (char *)space, room, until_ns);
    impact_commit(c, CHUNK_PYTHON, n, 0, NULL);
}

/* Python's frames are read while the threads stand: they change with every call. */
static void copy_held(struct copier *c, struct tracees *tracees, struct traced_process *process,
                      const struct impact_live *live)
{
    char path[64];
    uint64_t start_ns = clock_mono_ns();
    (void)snprintf(path, sizeof path, "/proc/%d/mem", (int)live->pid);
    RC_AUTO_CLOSE int mem_fd = open(path, O_RDONLY | O_CLOEXEC);
    hold(c->shared, IMPACT_COPY_MS, start_ns);
    copy_other_threads(c, tracees, process, mem_fd);
    copy_python(c, live, start_ns + LIVE_PYTHON_UNTIL_MS * NS_PER_MS);
    if (live->let_go != NULL)
        live->let_go(tracees, process);
    c->impact->held_ns = clock_mono_ns() - start_ns;
    c->shared->held_since_ns = 0;
}

/* The process cannot be traced, or another tracer has it: copies what can be read without a stop. */
static void copy_unheld(struct copier *c, const struct impact_live *live)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/mem", (int)live->pid);
    RC_AUTO_CLOSE int mem_fd = open(path, O_RDONLY | O_CLOEXEC);
    struct sleepers sleepers = {.copier = c, .mem_fd = mem_fd};
    impact_each_number(live->pid, "task", copy_one_asleep, &sleepers);
    copy_python(c, live, clock_mono_ns() + LIVE_PYTHON_UNTIL_MS * NS_PER_MS);
}

void impact_copy_live(struct shared *shared, struct tracees *tracees,
                      struct traced_process *process, const struct impact_live *live)
{
    struct shared_impact *impact = take_live_slot(shared);
    if (impact == NULL)
        return;
    const struct shared_impact header = {
        .kind = IMPACT_SNAPSHOT, .pid = live->pid, .tid = live->pid, .exit_status = UINT32_MAX};
    struct copier copier = open_copy(shared, impact, &header, clock_mono_ns());
    put_text(&copier, CHUNK_TASKS, live->tasks, live->tasks_ns);
    put_text(&copier, CHUNK_TASKS_AGAIN, live->tasks_again, live->tasks_again_ns);
    impact_copy_maps(&copier);
    impact_copy_process(&copier);
    if (process != NULL)
        copy_held(&copier, tracees, process, live);
    else
        copy_unheld(&copier, live);
    close_copy(&copier);
}
