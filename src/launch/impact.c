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
#include "launch/tracee.h"

#define STOP_WAIT_MS 20 /* for the other threads to stop; one in D state is left out */
#define COUNT_ON_MS 15  /* for the number of what is not copied */
#define MAPS_MAX_BYTES (4u << 20)
#define FDS_MAX 4096
#define RANGES_MAX 32768
#define STACK_UNKNOWN_BYTES (16u << 10) /* of a stack whose mapping is not known */

/* The mappings of the process, in order: a stack is copied to its end and not beyond, where pages that
 * nobody used would have to be made (65 ms for 200 threads, measured). */
static struct {
    struct range {
        uint64_t start, end;
    } list[RANGES_MAX];
    uint32_t count;
} ranges;

/* An arena that is filled chunk by chunk. */
struct copier {
    struct shared *shared;
    struct shared_impact *impact;
    pid_t look;     /* whose /proc entry is read */
    uint64_t limit; /* end of the arena */
    uint64_t at;
    uint64_t stack_bytes;
};

static unsigned char *chunk_space(const struct copier *c, uint64_t *ret_room)
{
    uint64_t data = c->at + sizeof(struct impact_chunk);
    if (data + 8 > c->limit)
        return NULL;
    *ret_room = c->limit - data - 8;
    return c->shared->arena + data;
}

static void chunk_commit(struct copier *c, uint32_t type, uint64_t length, uint32_t flags,
                         const uint64_t args[2])
{
    struct impact_chunk *chunk = (struct impact_chunk *)(void *)(c->shared->arena + c->at);
    *chunk = (struct impact_chunk){.type = type, .flags = flags, .length = length};
    if (args != NULL) {
        chunk->arg = args[0];
        chunk->arg2 = args[1];
    }
    c->at += sizeof *chunk + ((length + 7) & ~(uint64_t)7);
    c->impact->arena_length = c->at - c->impact->arena_offset;
}

static void copy_bytes(struct copier *c, uint32_t type, const void *data, uint64_t length,
                       uint64_t arg)
{
    uint64_t room;
    unsigned char *space = chunk_space(c, &room);
    if (space == NULL || length > room)
        return;
    memcpy(space, data, length);
    chunk_commit(c, type, length, 0, (uint64_t[2]){arg, 0});
}

/* In the arena, not committed yet. */
struct copied {
    const char *text; /* NULL = nothing */
    uint64_t length;
    bool cut; /* at the cap */
};

static int open_proc_file(const struct copier *c, const char *name)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)c->look, name);
    return fs_open_read(path);
}

static struct copied copy_text(const struct copier *c, int fd, uint64_t max)
{
    uint64_t room;
    unsigned char *space = chunk_space(c, &room);
    if (fd < 0 || space == NULL)
        return (struct copied){.text = NULL};
    if (max > room)
        max = room;
    uint64_t length = 0;
    ssize_t n = 0;
    while (length < max && (n = read(fd, space + length, max - length)) > 0)
        length += (uint64_t)n;
    return (struct copied){.text = length > 0 ? (const char *)space : NULL,
                           .length = length,
                           .cut = length == max && n > 0};
}

static void copy_file(struct copier *c, uint32_t type, const char *name, uint64_t max)
{
    RC_AUTO_CLOSE int fd = open_proc_file(c, name);
    struct copied file = copy_text(c, fd, max);
    if (file.text != NULL)
        chunk_commit(c, type, file.length, file.cut ? CHUNK_TRUNCATED : 0, NULL);
}

static uint64_t lines_in(const char *text, size_t length)
{
    uint64_t lines = 0;
    const char *end = text + length;
    while ((text = memchr(text, '\n', (size_t)(end - text))) != NULL) {
        lines++;
        text++;
    }
    return lines;
}

/* Of a copy that was cut and what is left of its file; 0 = too many to be counted while the target
 * is held. */
static uint64_t lines_in_all(struct copied copied, int fd)
{
    static char rest[64 << 10];
    uint64_t lines = lines_in(copied.text, copied.length);
    uint64_t give_up_ns = clock_mono_ns() + COUNT_ON_MS * NS_PER_MS;
    ssize_t n;
    while ((n = read(fd, rest, sizeof rest)) > 0 && clock_mono_ns() < give_up_ns)
        lines += lines_in(rest, (size_t)n);
    return n == 0 ? lines : 0;
}

static const char *parse_hex(const char *p, const char *end, uint64_t *ret)
{
    uint64_t value = 0;
    for (; p < end; p++) {
        unsigned digit = *p >= '0' && *p <= '9' ? (unsigned)(*p - '0')
                         : *p >= 'a' && *p <= 'f' ? (unsigned)(*p - 'a') + 10
                                                  : 16;
        if (digit > 15)
            break;
        value = value << 4 | digit;
    }
    *ret = value;
    return p;
}

/* Real line: "7ffd1c977000-7ffd1c998000 rw-p 00000000 00:00 0                  [stack]". */
static void copy_maps(struct copier *c)
{
    RC_AUTO_CLOSE int fd = open_proc_file(c, "maps");
    struct copied maps = copy_text(c, fd, MAPS_MAX_BYTES);
    ranges.count = 0;
    if (maps.text == NULL)
        return;
    uint64_t lines = maps.cut ? lines_in_all(maps, fd) : 0;
    chunk_commit(c, CHUNK_MAPS, maps.length, maps.cut ? CHUNK_TRUNCATED : 0,
                 (uint64_t[2]){lines, 0});
    const char *p = maps.text;
    const char *end = p + maps.length;
    while (p != NULL && p < end && ranges.count < RANGES_MAX) {
        struct range *range = &ranges.list[ranges.count];
        p = parse_hex(p, end, &range->start);
        if (p >= end || *p != '-')
            return;
        p = parse_hex(p + 1, end, &range->end);
        ranges.count++;
        p = memchr(p, '\n', (size_t)(end - p));
        p = p != NULL ? p + 1 : NULL;
    }
}

/* Bytes from the address to the end of its mapping. */
static uint64_t bytes_mapped_from(uint64_t address)
{
    uint32_t low = 0;
    uint32_t high = ranges.count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (ranges.list[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < ranges.count && ranges.list[low].start <= address)
        return ranges.list[low].end - address;
    return STACK_UNKNOWN_BYTES;
}

static void copy_link(struct copier *c, uint32_t type, const char *name)
{
    char path[64];
    char target[4096];
    (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)c->look, name);
    ssize_t n = readlink(path, target, sizeof target);
    if (n > 0)
        copy_bytes(c, type, target, (uint64_t)n, 0);
}

struct linux_dirent64 {
    uint64_t d_ino;
    int64_t d_off;
    unsigned short d_reclen;
    unsigned char d_type;
    char d_name[];
};

/* Call fn for every numeric entry of /proc/PID/<what>; readdir(3) would allocate. */
static void for_each_number(pid_t pid, const char *what, bool (*fn)(void *, long), void *context)
{
    char path[64];
    char entries[8192];
    (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, what);
    RC_AUTO_CLOSE int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    long n;
    while (fd >= 0 && (n = syscall(SYS_getdents64, fd, entries, sizeof entries)) > 0) {
        for (long at = 0; at < n;) {
            struct linux_dirent64 *entry = (struct linux_dirent64 *)(void *)(entries + at);
            char *end;
            long number = strtol(entry->d_name, &end, 10);
            if (*end == '\0' && end != entry->d_name && !fn(context, number))
                return;
            at += entry->d_reclen;
        }
    }
}

struct fd_list {
    struct copier *copier;
    unsigned char *space;
    uint64_t room, length;
    uint64_t count;
    bool cut; /* the others are only counted */
    bool gave_up;
    uint64_t give_up_ns;
};

static bool count_fd(struct fd_list *list)
{
    list->count++;
    if (list->count % 256 == 0)
        list->gave_up = clock_mono_ns() > list->give_up_ns;
    return !list->gave_up;
}

static bool list_fd(void *context, long number)
{
    struct fd_list *list = context;
    char path[64];
    char target[512];
    if (list->cut)
        return count_fd(list);
    (void)snprintf(path, sizeof path, "/proc/%d/fd/%ld", (int)list->copier->look, number);
    ssize_t n = readlink(path, target, sizeof target - 1);
    if (n < 0)
        return true;
    target[n] = '\0';
    int len = snprintf((char *)list->space + list->length, list->room - list->length, "%ld %s\n",
                       number, target);
    if (len < 0 || (uint64_t)len >= list->room - list->length || list->count >= FDS_MAX) {
        list->cut = true;
        list->give_up_ns = clock_mono_ns() + COUNT_ON_MS * NS_PER_MS;
    } else {
        list->length += (uint64_t)len;
    }
    list->count++;
    return true;
}

static void copy_fds(struct copier *c)
{
    struct fd_list list = {.copier = c};
    list.space = chunk_space(c, &list.room);
    if (list.space == NULL)
        return;
    for_each_number(c->look, "fd", list_fd, &list);
    if (list.length > 0)
        chunk_commit(c, CHUNK_FDS, list.length, list.cut ? CHUNK_TRUNCATED : 0,
                     (uint64_t[2]){list.cut && !list.gave_up ? list.count : 0, 0});
}

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
    unsigned char *space = chunk_space(c, &room);
    uint64_t want = IMPACT_STACK_BYTES;
    if (want > IMPACT_STACKS_BYTES - c->stack_bytes)
        want = IMPACT_STACKS_BYTES - c->stack_bytes;
    if (space == NULL || mem_fd < 0 || want == 0)
        return;
    if (want > room)
        want = room;
    uint64_t from = (stack_pointer - RED_ZONE) & ~(uint64_t)7;
    uint64_t mapped = bytes_mapped_from(from);
    bool whole = mapped <= want && mapped != STACK_UNKNOWN_BYTES;
    if (want > mapped)
        want = mapped;
    ssize_t n = pread(mem_fd, space, want, (off_t)from);
    if (n <= 0)
        return;
    c->stack_bytes += (uint64_t)n;
    chunk_commit(c, CHUNK_STACK, (uint64_t)n, (uint64_t)n == want && !whole ? CHUNK_TRUNCATED : 0,
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
        copy_bytes(c, CHUNK_COMM, comm, strlen(comm), (uint64_t)tid);
    copy_bytes(c, CHUNK_REGS, &regs, iov.iov_len, (uint64_t)tid);
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

static void copy_process(struct copier *c)
{
    copy_file(c, CHUNK_STATUS, "status", 8192);
    copy_file(c, CHUNK_STAT, "stat", 2048);
    copy_file(c, CHUNK_LIMITS, "limits", 4096);
    copy_file(c, CHUNK_CGROUP, "cgroup", 8192);
    copy_file(c, CHUNK_CMDLINE, "cmdline", 64u << 10);
    copy_file(c, CHUNK_AUXV, "auxv", 4096);
    copy_file(c, CHUNK_IO, "io", 1024);
    copy_link(c, CHUNK_EXE, "exe");
    copy_file(c, CHUNK_ENVIRON, "environ", 128u << 10);
    copy_fds(c);
}

/* The counters are worth a short wait while the memory is still held, not a long one. */
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

/* Of the thread that is held: its leader may be ending just now (exit_mm(), exit_files()), and is a
 * zombie without memory and files then. /proc/TID tells of the whole process, as /proc/PID does. */
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
    };
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/comm", (int)cause->pid);
    (void)fs_read_text(path, impact->comm, sizeof impact->comm);
    if (cause->siginfo != NULL)
        copy_bytes(&copier, CHUNK_SIGINFO, cause->siginfo, sizeof(siginfo_t), (uint64_t)cause->tid);
    copy_maps(&copier);
    copy_threads(&copier, tracees, process, cause->registers);
    copy_process(&copier);
    wait_for_sampler(shared, request);
    impact->held_ns = clock_mono_ns() - start_ns;
    shared->arena_used = copier.at;
    impact->state = IMPACT_COMPLETE;
    shared->held_since_ns = 0;
}
