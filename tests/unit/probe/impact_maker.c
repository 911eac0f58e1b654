/* SPDX-License-Identifier: Apache-2.0 */
#include "impact_maker.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "record/shared.h"

#define THREADS_MAX 64

#if defined(__x86_64__)
#define STACK_POINTER(regs) ((regs).rsp)
#else
#define STACK_POINTER(regs) ((regs).sp)
#endif

struct maker {
    FILE *file;
    struct shared_impact head;
    pid_t tids[THREADS_MAX];
    int count;
    size_t stack_max;
};

static void put_chunk(struct maker *m, uint32_t type, uint32_t flags, const void *data,
                      size_t length, const uint64_t args[2])
{
    static const char padding[8];
    struct impact_chunk chunk = {
        .type = type, .flags = flags, .length = length, .arg = args[0], .arg2 = args[1]};
    (void)fwrite(&chunk, sizeof chunk, 1, m->file);
    (void)fwrite(data, 1, length, m->file);
    (void)fwrite(padding, 1, (8 - length % 8) % 8, m->file);
    m->head.arena_length += sizeof chunk + (length + 7) / 8 * 8;
}

static void put_proc_file(struct maker *m, uint32_t type, const char *name, int number)
{
    static char text[1 << 20];
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/%s", m->head.pid, name);
    FILE *file = fopen(path, "re");
    size_t n = file != NULL ? fread(text, 1, sizeof text, file) : 0;
    if (file != NULL)
        (void)fclose(file);
    put_chunk(m, type, 0, text, n, (uint64_t[2]){(uint64_t)number, 0});
}

static void put_thread(struct maker *m, pid_t tid)
{
    struct user_regs_struct regs;
    struct iovec iov = {&regs, sizeof regs};
    if (ptrace(PTRACE_GETREGSET, tid, (void *)NT_PRSTATUS, &iov) != 0)
        return;
    char name[32];
    (void)snprintf(name, sizeof name, "task/%d/comm", tid);
    put_proc_file(m, CHUNK_COMM, name, tid);
    put_chunk(m, CHUNK_REGS, 0, &regs, iov.iov_len, (uint64_t[2]){(uint64_t)tid, 0});
    unsigned char *stack = malloc(m->stack_max);
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/mem", m->head.pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    uint64_t from = STACK_POINTER(regs) - 128;
    ssize_t n = pread(fd, stack, m->stack_max, (off_t)from);
    if (n > 0)
        put_chunk(m, CHUNK_STACK, (size_t)n == m->stack_max ? CHUNK_TRUNCATED : 0, stack,
                  (size_t)n, (uint64_t[2]){from, (uint64_t)tid});
    (void)close(fd);
    free(stack);
    m->head.threads_copied++;
}

static void note_thread(struct maker *m, pid_t tid)
{
    for (int i = 0; i < m->count; i++)
        if (m->tids[i] == tid)
            return;
    if (m->count < THREADS_MAX)
        m->tids[m->count++] = tid;
}

static void write_impact(struct maker *m)
{
    (void)fwrite(&m->head, sizeof m->head, 1, m->file);
    put_thread(m, m->head.tid);
    for (int i = 0; i < m->count; i++) {
        if (m->tids[i] == m->head.tid)
            continue;
        int status;
        (void)ptrace(PTRACE_INTERRUPT, m->tids[i], NULL, NULL);
        if (waitpid(m->tids[i], &status, __WALL) == m->tids[i] && WIFSTOPPED(status))
            put_thread(m, m->tids[i]);
    }
    put_proc_file(m, CHUNK_AUXV, "auxv", 0);
    put_proc_file(m, CHUNK_MAPS, "maps", 0);
    m->head.threads_seen = (uint32_t)m->count;
    m->head.state = IMPACT_COMPLETE;
    rewind(m->file);
    (void)fwrite(&m->head, sizeof m->head, 1, m->file);
}

static int fatal(pid_t tid, int signo, const char *mode)
{
    (void)tid;
    return signo == SIGABRT || (signo == SIGSEGV && strcmp(mode, "abort") != 0);
}

static int follow(struct maker *m, const char *mode)
{
    for (;;) {
        int status;
        pid_t tid = waitpid(-1, &status, __WALL);
        if (tid < 0)
            return -errno;
        if (!WIFSTOPPED(status)) {
            if (tid == m->head.pid)
                return -ECHILD; /* it ended without a fatal signal */
            continue;
        }
        note_thread(m, tid);
        int event = status >> 16;
        int signo = event != 0 ? 0 : WSTOPSIG(status);
        if (fatal(tid, signo, mode)) {
            siginfo_t info;
            (void)ptrace(PTRACE_GETSIGINFO, tid, NULL, &info);
            m->head.tid = tid;
            m->head.signo = signo;
            m->head.code = info.si_code;
            m->head.fault_address = signo == SIGSEGV ? (uint64_t)(uintptr_t)info.si_addr : 0;
            write_impact(m);
            return 0;
        }
        (void)ptrace(PTRACE_CONT, tid, NULL, (void *)(intptr_t)signo);
    }
}

static pid_t start(const char *program, const char *mode, int output[2])
{
    pid_t pid = fork();
    if (pid == 0) {
        (void)dup2(output[1], STDOUT_FILENO);
        (void)raise(SIGSTOP);
        (void)execl(program, program, mode, (char *)NULL);
        _exit(127);
    }
    int status;
    (void)waitpid(pid, &status, WUNTRACED);
    (void)ptrace(PTRACE_SEIZE, pid, NULL,
                 (void *)(intptr_t)(PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL));
    (void)kill(pid, SIGCONT);
    return pid;
}

int impact_make(const char *program, const char *mode, size_t stack_max, const char *path,
                struct impact_made *ret)
{
    int output[2];
    if (pipe2(output, O_CLOEXEC) != 0)
        return -errno;
    struct maker m = {.stack_max = stack_max, .file = fopen(path, "w+e")};
    m.head.pid = start(program, mode, output);
    m.head.kind = IMPACT_SIGNAL_STOP;
    (void)snprintf(m.head.comm, sizeof m.head.comm, "victim");
    int r = m.file != NULL ? follow(&m, mode) : -ENOENT;
    (void)kill(m.head.pid, SIGKILL);
    while (waitpid(-1, NULL, __WALL) > 0 || errno == EINTR)
        ;
    (void)close(output[1]);
    ssize_t n = read(output[0], ret->output, sizeof ret->output - 1);
    ret->output[n > 0 ? n : 0] = '\0';
    (void)close(output[0]);
    ret->pid = m.head.pid;
    ret->tid = m.head.tid;
    ret->signo = m.head.signo;
    ret->threads = (int)m.head.threads_copied;
    if (m.file != NULL && fclose(m.file) != 0 && r == 0)
        r = -errno;
    return r;
}
