/* SPDX-License-Identifier: Apache-2.0 */
#include "collectors/waits_text.h"

#include <inttypes.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

static const char *const words[] = {
    [WAIT_UNKNOWN] = "unknown", [WAIT_RUNS] = "runs",     [WAIT_BLOCKED] = "blocked",
    [WAIT_STOPPED] = "stopped", [WAIT_LOCK] = "lock",     [WAIT_SLEEP] = "sleep",   [WAIT_RESUMED] = "resumed",
    [WAIT_EVENTS] = "events",   [WAIT_CHILD] = "child",   [WAIT_GPU] = "gpu",
    [WAIT_PIPE] = "pipe",       [WAIT_SOCKET] = "socket", [WAIT_TERMINAL] = "terminal",
    [WAIT_FILE] = "file",       [WAIT_CALL] = "call",
};

const char *waits_word(enum wait_kind kind)
{
    return words[kind];
}

/* --- lines --- */

static const char *next_field(const char *field)
{
    const char *tab = strchr(field, '\t');
    return tab != NULL ? tab + 1 : "";
}

static void copy_field(char *out, size_t size, const char *field)
{
    size_t length = strcspn(field, "\t\n");
    (void)snprintf(out, size, "%.*s", (int)(length < size ? length : size - 1), field);
}

/* "202 0x7f 0x189 0x0 ... SP PC", "running", "-1 SP PC" or "-". */
static void parse_call(struct wait_thread *thread, const char *field)
{
    char *rest;
    thread->call = strtol(field, &rest, 10);
    if (rest == field || thread->call < 0) {
        thread->call = -1;
        return;
    }
    for (int i = 0; i < 6; i++)
        thread->args[i] = strtoull(rest, &rest, 16);
}

static void parse_lock(struct wait_thread *thread, const char *field)
{
    char *rest;
    thread->lock_word = (uint32_t)strtoul(field, &rest, 16);
    thread->has_lock = rest != field && *rest == ',';
    if (thread->has_lock)
        thread->lock_owner = (uint32_t)strtoul(rest + 1, NULL, 10);
}

static bool parse_line(const char *line, struct wait_thread *thread)
{
    *thread = (struct wait_thread){.tid = (int)strtol(line, NULL, 10)};
    const char *state = next_field(line);
    const char *cpu = next_field(state);
    const char *wchan = next_field(cpu);
    const char *call = next_field(wchan);
    const char *lock = next_field(call);
    thread->state = *state;
    thread->cpu_ns = strtoull(cpu, NULL, 10);
    copy_field(thread->wchan, sizeof thread->wchan, wchan);
    copy_field(thread->name, sizeof thread->name, next_field(lock));
    parse_call(thread, call);
    parse_lock(thread, lock);
    return thread->tid > 0 && *lock != '\0';
}

bool waits_parse(const char *text, struct wait_threads *ret)
{
    size_t lines = 0;
    for (const char *c = text; *c != '\0'; c++)
        lines += *c == '\n';
    if (lines > WAITS_THREADS_MAX)
        lines = WAITS_THREADS_MAX;
    *ret = (struct wait_threads){.list = calloc(lines + 1, sizeof *ret->list)};
    for (const char *line = text; ret->list != NULL && *line != '\0' && ret->count < lines;) {
        char one[512];
        size_t length = strcspn(line, "\n");
        (void)snprintf(one, sizeof one, "%.*s", (int)(length < sizeof one ? length : sizeof one - 1),
                       line);
        ret->count += parse_line(one, &ret->list[ret->count]);
        line += length + (line[length] == '\n');
    }
    return ret->list != NULL;
}

const struct wait_thread *waits_find(const struct wait_threads *threads, int tid)
{
    for (size_t i = 0; i < threads->count; i++)
        if (threads->list[i].tid == tid)
            return &threads->list[i];
    return NULL;
}

uint64_t waits_used_ns(const struct wait_threads *first, const struct wait_threads *again)
{
    uint64_t used_ns = 0;
    for (size_t i = 0; i < again->count; i++) {
        const struct wait_thread *before = waits_find(first, again->list[i].tid);
        uint64_t old = before != NULL ? before->cpu_ns : 0;
        if (again->list[i].cpu_ns > old)
            used_ns += again->list[i].cpu_ns - old;
    }
    return used_ns;
}

bool waits_are_at_work(const struct wait_threads *first, const struct wait_threads *again, uint64_t interval_ns)
{
    for (size_t i = 0; i < again->count; i++) {
        const struct wait_thread *before = waits_find(first, again->list[i].tid);
        if (again->list[i].state == 'R' && before != NULL && before->state == 'R')
            return true;
    }
    return interval_ns > 0 && waits_used_ns(first, again) >= interval_ns / 10;
}

/* --- what a call waits for --- */

/* "17 pipe:[123]": what descriptor 17 is; "" = not known. */
static void target_of(const char *fds, uint64_t fd, char *out, size_t size)
{
    char key[32];
    int n = snprintf(key, sizeof key, "%" PRIu64 " ", fd);
    out[0] = '\0';
    for (const char *line = fds; *line != '\0'; line += strcspn(line, "\n"), line += *line == '\n')
        if (strncmp(line, key, (size_t)n) == 0)
            copy_field(out, size, line + n);
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static enum wait_kind kind_of_target(const char *target)
{
    static const struct {
        const char *begin;
        enum wait_kind kind;
    } targets[] = {
        {"pipe:", WAIT_PIPE},          {"socket:", WAIT_SOCKET},      {"/dev/pts/", WAIT_TERMINAL},
        {"/dev/tty", WAIT_TERMINAL},   {"/dev/kfd", WAIT_GPU},        {"/dev/dri/", WAIT_GPU},
        {"/dev/nvidia", WAIT_GPU},     {"anon_inode:", WAIT_EVENTS},  {"/", WAIT_FILE},
    };
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++)
        if (begins(target, targets[i].begin))
            return targets[i].kind;
    return WAIT_CALL;
}

struct call_kind {
    long number;
    enum wait_kind kind; /* WAIT_FILE: by the target of its first argument, a descriptor */
    const char *name;
};

static const struct call_kind calls[] = {
    {SYS_futex, WAIT_LOCK, "futex"},
    {SYS_nanosleep, WAIT_SLEEP, "nanosleep"},
    {SYS_clock_nanosleep, WAIT_SLEEP, "clock_nanosleep"},
    {SYS_restart_syscall, WAIT_RESUMED, "restart_syscall"},
    {SYS_wait4, WAIT_CHILD, "wait4"},
    {SYS_waitid, WAIT_CHILD, "waitid"},
    {SYS_ppoll, WAIT_EVENTS, "ppoll"},
    {SYS_pselect6, WAIT_EVENTS, "pselect6"},
    {SYS_epoll_pwait, WAIT_EVENTS, "epoll_pwait"},
    {SYS_rt_sigtimedwait, WAIT_EVENTS, "rt_sigtimedwait"},
    {SYS_rt_sigsuspend, WAIT_EVENTS, "rt_sigsuspend"},
#if defined(__x86_64__)
    {SYS_poll, WAIT_EVENTS, "poll"},
    {SYS_select, WAIT_EVENTS, "select"},
    {SYS_epoll_wait, WAIT_EVENTS, "epoll_wait"},
    {SYS_pause, WAIT_EVENTS, "pause"},
#endif
    {SYS_accept, WAIT_SOCKET, "accept"},
    {SYS_accept4, WAIT_SOCKET, "accept4"},
    {SYS_connect, WAIT_SOCKET, "connect"},
    {SYS_recvfrom, WAIT_SOCKET, "recvfrom"},
    {SYS_recvmsg, WAIT_SOCKET, "recvmsg"},
    {SYS_sendto, WAIT_SOCKET, "sendto"},
    {SYS_sendmsg, WAIT_SOCKET, "sendmsg"},
    {SYS_read, WAIT_FILE, "read"},
    {SYS_readv, WAIT_FILE, "readv"},
    {SYS_pread64, WAIT_FILE, "pread"},
    {SYS_write, WAIT_FILE, "write"},
    {SYS_writev, WAIT_FILE, "writev"},
    {SYS_pwrite64, WAIT_FILE, "pwrite"},
    {SYS_fsync, WAIT_FILE, "fsync"},
    {SYS_fdatasync, WAIT_FILE, "fdatasync"},
    {SYS_getdents64, WAIT_FILE, "getdents"},
    {SYS_flock, WAIT_FILE, "flock"},
    {SYS_ioctl, WAIT_FILE, "ioctl"},
};

static const struct call_kind *find_call(long number)
{
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        if (calls[i].number == number)
            return &calls[i];
    return NULL;
}

/* select(0, ...) and poll(NULL, 0, ...) are sleeps. */
static bool waits_for_no_descriptor(const struct wait_thread *t)
{
#if defined(__x86_64__)
    if (t->call == SYS_select)
        return t->args[0] == 0;
    if (t->call == SYS_poll)
        return t->args[1] == 0;
#endif
    return (t->call == SYS_pselect6 && t->args[0] == 0) || (t->call == SYS_ppoll && t->args[1] == 0);
}

enum wait_kind waits_kind(const struct wait_thread *t, const char *fds)
{
    char target[256];
    const struct call_kind *call = find_call(t->call);
    if (t->state == 'R')
        return WAIT_RUNS;
    if (t->state == 'D')
        return WAIT_BLOCKED;
    if (t->state == 'T' || t->state == 't')
        return WAIT_STOPPED;
    if (t->call < 0)
        return begins(t->wchan, "kfd_wait") ? WAIT_GPU
               : begins(t->wchan, "futex_wait") ? WAIT_LOCK
                                                : WAIT_UNKNOWN;
    if (call == NULL)
        return WAIT_CALL;
    if (call->kind == WAIT_EVENTS && waits_for_no_descriptor(t))
        return WAIT_SLEEP;
    if (call->kind != WAIT_FILE)
        return call->kind;
    target_of(fds, t->args[0], target, sizeof target);
    return kind_of_target(target);
}

/* " (fuse_wait)": the kernel function in which the thread sleeps, if it is known. */
static const char *kernel_place(const struct wait_thread *t, char *out, size_t size)
{
    bool told = t->wchan[0] != '\0' && strcmp(t->wchan, "-") != 0;
    (void)snprintf(out, size, told ? " (in %s)" : "%s", told ? t->wchan : "");
    return out;
}

void waits_phrase(const struct wait_thread *t, const char *fds, char *out, size_t size)
{
    static const char *const phrases[] = {
        [WAIT_UNKNOWN] = "sleeps; what it waits for may not be read", [WAIT_RUNS] = "runs on the CPU",
        [WAIT_STOPPED] = "is stopped by a signal", [WAIT_LOCK] = "waits for a lock",
        [WAIT_SLEEP] = "sleeps for a set time",
        [WAIT_RESUMED] = "waits for a time, or for something with a time limit",
        [WAIT_EVENTS] = "waits for events",
        [WAIT_CHILD] = "waits for a child process", [WAIT_GPU] = "waits for the GPU's driver",
    };
    char target[200] = "";
    char place[80];
    enum wait_kind kind = waits_kind(t, fds);
    const struct call_kind *call = find_call(t->call);
    if (call != NULL && call->kind == WAIT_FILE)
        target_of(fds, t->args[0], target, sizeof target);
    (void)kernel_place(t, place, sizeof place);
    if (kind == WAIT_BLOCKED)
        (void)snprintf(out, size, "is blocked in the kernel, %s%s%s%s",
                       call != NULL ? call->name : "in a page fault or an unknown call",
                       target[0] != '\0' ? " of " : "", target, place);
    else if (target[0] != '\0')
        (void)snprintf(out, size, "waits in %s of %s%s", call->name, target, place);
    else if (kind < sizeof phrases / sizeof phrases[0] && phrases[kind] != NULL)
        (void)snprintf(out, size, "%s%s", phrases[kind], kind == WAIT_UNKNOWN ? place : "");
    else if (call != NULL)
        (void)snprintf(out, size, "waits in %s%s", call->name, place);
    else
        (void)snprintf(out, size, "waits in system call %ld%s", t->call, place);
}

/* --- deadlocks --- */

/* A wait that no clock ends. */
static bool waits_without_end(const struct wait_thread *t)
{
    uint64_t command = t->args[1] & ~(uint64_t)(FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME);
    bool waits = command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET || command == FUTEX_LOCK_PI ||
                 command == FUTEX_LOCK_PI2;
    return t->state == 'S' && t->call == SYS_futex && waits && t->args[3] == 0;
}

/* "7f00-7f10 rw-p ...": memory of this process alone. */
static bool is_private(const char *maps, uint64_t address)
{
    for (const char *line = maps; *line != '\0'; line += strcspn(line, "\n"), line += *line == '\n') {
        char *rest;
        uint64_t start = strtoull(line, &rest, 16);
        uint64_t end = *rest == '-' ? strtoull(rest + 1, &rest, 16) : 0;
        if (address >= start && address < end)
            return strlen(rest) > 4 && rest[4] == 'p';
    }
    return false;
}

static bool held_from_inside(const struct wait_thread *t, const char *maps)
{
    return waits_without_end(t) &&
           ((t->args[1] & FUTEX_PRIVATE_FLAG) != 0 || is_private(maps, t->args[0]));
}

static bool same_wait(const struct wait_thread *a, const struct wait_thread *b)
{
    return b != NULL && a->call == b->call && a->args[0] == b->args[0] && a->cpu_ns == b->cpu_ns;
}

/* The thread that owns the mutex which this one waits for; NULL = it is no contended mutex, or the
 * owner is not of this process. */
static const struct wait_thread *owner_of(const struct wait_threads *threads,
                                          const struct wait_thread *t)
{
    if (!waits_without_end(t) || !t->has_lock || t->lock_word != 2 || t->lock_owner > INT32_MAX)
        return NULL;
    return waits_find(threads, (int)t->lock_owner);
}

static bool is_in_circle(const struct wait_threads *first, const struct wait_threads *again,
                         const struct wait_thread *start)
{
    const struct wait_thread *t = start;
    for (size_t steps = 0; t != NULL && steps <= again->count; steps++) {
        const struct wait_thread *before = waits_find(first, t->tid);
        if (before == NULL || !same_wait(t, before))
            return false;
        t = owner_of(again, t);
        if (t == start)
            return true;
    }
    return false;
}

static bool find_circle(const struct wait_threads *first, const struct wait_threads *again,
                        char *out, size_t size)
{
    for (size_t i = 0; i < again->count; i++) {
        const struct wait_thread *start = &again->list[i];
        if (!is_in_circle(first, again, start))
            continue;
        size_t n = 0;
        const struct wait_thread *t = start;
        do {
            const struct wait_thread *owner = owner_of(again, t);
            n += (size_t)snprintf(out + n, size - n, "%sthread %d waits for a mutex of thread %d",
                                  n > 0 ? ", " : "", t->tid, owner->tid);
            t = owner;
        } while (t != start && n + 96 < size);
        return true;
    }
    return false;
}

static bool all_wait_inside(const struct wait_threads *first, const struct wait_threads *again,
                            const char *maps)
{
    for (size_t i = 0; i < again->count; i++)
        if (!held_from_inside(&again->list[i], maps) ||
            !same_wait(&again->list[i], waits_find(first, again->list[i].tid)))
            return false;
    return again->count > 0;
}

enum deadlock waits_deadlock(const struct wait_threads *first, const struct wait_threads *again,
                             const char *maps, char *out, size_t size)
{
    out[0] = '\0';
    if (find_circle(first, again, out, size))
        return DEADLOCK_CIRCLE;
    if (!all_wait_inside(first, again, maps))
        return DEADLOCK_NONE;
    (void)snprintf(out, size,
                   again->count == 1 ? "its only thread waits, without a time limit, for a lock of its own"
                                     : "all %zu threads wait, without a time limit, for locks that only "
                                       "these threads can release",
                   again->count);
    return DEADLOCK_INSIDE;
}
