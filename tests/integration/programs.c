/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Targets of the tests that Python cannot be: it merges signals, has no vfork, and its threads do
 * not end before it. Compiled by the tests; the first argument says which.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define FAULT_ADDRESS ((volatile int *)0x1230)

static void say(const char *text)
{
    (void)!write(STDOUT_FILENO, text, strlen(text));
}

static void wait_for_line(void)
{
    char byte;
    while (read(STDIN_FILENO, &byte, 1) < 0 && errno == EINTR)
        ;
}

static void say_number(const char *what, long number)
{
    char line[64];
    (void)snprintf(line, sizeof line, "%s %ld\n", what, number);
    say(line);
}

/* --- queued real-time signals: each arrives, in order --- */

static _Atomic int queued_seen;
static _Atomic int queued_bad;

static void on_queued(int signo, siginfo_t *si, void *context)
{
    (void)signo;
    (void)context;
    if (si->si_value.sival_int != queued_seen)
        queued_bad = 1;
    queued_seen = queued_seen + 1;
    if (queued_seen % 100 == 0)
        say("+\n");
}

static void take_queued(void)
{
    struct sigaction sa = {.sa_sigaction = on_queued, .sa_flags = SA_SIGINFO};
    (void)sigaction(SIGRTMIN + 1, &sa, NULL);
}

static int receive_queued(int count)
{
    take_queued();
    say_number("pid", getpid());
    while (queued_seen < count)
        (void)usleep(1000);
    say(queued_bad ? "out of order\n" : "in order\n");
    return queued_bad ? 1 : 0;
}

/* Takes none, and has no room for any, until a line comes. */
static int receive_later(int count)
{
    struct rlimit limit;
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGRTMIN + 1);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    (void)getrlimit(RLIMIT_SIGPENDING, &limit);
    struct rlimit none = {0, limit.rlim_max};
    (void)setrlimit(RLIMIT_SIGPENDING, &none);
    say("ready\n");
    wait_for_line();
    take_queued();
    (void)setrlimit(RLIMIT_SIGPENDING, &limit);
    (void)sigprocmask(SIG_UNBLOCK, &set, NULL);
    return receive_queued(count);
}

static int send_queued(pid_t pid, int count)
{
    for (int i = 0; i < count; i++)
        while (sigqueue(pid, SIGRTMIN + 1, (union sigval){.sival_int = i}) != 0) {
            if (errno != EAGAIN)
                return 1;
            (void)usleep(1000);
        }
    return 0;
}

/* --- storms --- */

static void *nothing(void *arg)
{
    return arg;
}

static void on_signal(int signo)
{
    (void)signo;
}

static int storm(const char *kind)
{
    (void)signal(SIGUSR1, on_signal);
    (void)fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
    say("started\n");
    char byte;
    for (unsigned i = 0; read(STDIN_FILENO, &byte, 1) != 1; i++) {
        pthread_t thread;
        if (strcmp(kind, "signals") == 0) {
            (void)raise(SIGUSR1);
        } else if (strcmp(kind, "threads") == 0) {
            if (pthread_create(&thread, NULL, nothing, NULL) == 0)
                (void)pthread_join(thread, NULL);
        } else {
            pid_t pid = fork();
            if (pid == 0)
                _exit(0);
            int status = 1;
            if (pid > 0 && (waitpid(pid, &status, 0) != pid || status != 0))
                return 1;
        }
        if (i % 16 == 0)
            say(".");
    }
    return 7;
}

/* --- crashes --- */

static void *crash(void *arg)
{
    (void)arg;
    say_number("tid", syscall(SYS_gettid));
    *FAULT_ADDRESS = 1;
    return NULL;
}

static void *crash_on_line(void *arg)
{
    wait_for_line();
    return crash(arg);
}

static int thread_crash(void)
{
    pthread_t thread;
    (void)pthread_create(&thread, NULL, crash, NULL);
    (void)pthread_join(thread, NULL);
    return 0;
}

/* The leader is gone for as long as nobody writes a line. */
static int leader_gone(void)
{
    pthread_t thread;
    (void)pthread_create(&thread, NULL, crash_on_line, NULL);
    say_number("pid", getpid());
    pthread_exit(NULL);
}

static _Atomic int leaving;

static void *leave(void *arg)
{
    (void)arg;
    leaving = 1;
    return NULL;
}

/* A thread ends by itself at the moment when the process ends. */
static int end_together(void)
{
    pthread_t thread;
    (void)pthread_create(&thread, NULL, leave, NULL);
    (void)pthread_detach(thread);
    while (leaving == 0)
        ;
    return 1;
}

static void *sleeper(void *arg)
{
    (void)arg;
    for (;;)
        (void)pause();
    return NULL;
}

static int many(int threads, int mappings)
{
    pthread_attr_t attr;
    (void)pthread_attr_init(&attr);
    (void)pthread_attr_setstacksize(&attr, 64 << 10);
    for (int i = 0; i < threads; i++) {
        pthread_t thread;
        if (pthread_create(&thread, &attr, sleeper, NULL) != 0)
            return 2;
    }
    long page = sysconf(_SC_PAGESIZE);
    char *base = mmap(NULL, (size_t)mappings * (size_t)page, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return 2;
    for (int i = 0; i < mappings / 2; i++)
        (void)mprotect(base + (size_t)i * 2 * (size_t)page, (size_t)page, PROT_READ);
    say_number("pid", getpid());
    wait_for_line();
    *FAULT_ADDRESS = 1;
    return 0;
}

/* As many mappings of the file and descriptors as asked for, if they are granted; says how many. */
static int hoard(const char *path, int mappings, int descriptors)
{
    struct rlimit limit;
    int fd = open(path, O_RDONLY);
    long page = sysconf(_SC_PAGESIZE);
    long mapped = 0, opened = 0;
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    while (mapped < mappings && /* neighbours that differ are not merged */
           mmap(NULL, (size_t)page, mapped % 2 != 0 ? PROT_READ : PROT_NONE, MAP_SHARED, fd, 0) !=
               MAP_FAILED)
        mapped++;
    while (opened < descriptors && dup(fd) >= 0)
        opened++;
    say_number("mapped", mapped);
    say_number("opened", opened);
    *FAULT_ADDRESS = 1;
    return 0;
}

/* --- unusual ways to start something --- */

static char *const true_argv[] = {"/bin/sh", "-c", "exit 9", NULL};
extern char **environ;

static void *exec_here(void *arg)
{
    (void)execve("/bin/sh", arg, environ);
    return NULL;
}

static int exec_from_thread(void)
{
    pthread_t thread;
    (void)pthread_create(&thread, NULL, exec_here, (void *)(uintptr_t)true_argv);
    (void)pause();
    return 2;
}

static int use_vfork(void)
{
    int status = 0;
    pid_t pid = vfork();
    if (pid == 0) {
        (void)execve("/bin/sh", true_argv, environ);
        _exit(1);
    }
    (void)waitpid(pid, &status, 0);
    return WEXITSTATUS(status);
}

static int clone_child(void *arg)
{
    (void)arg;
    return 9;
}

/* A process of its own that tells of its end by no signal: the kernel calls that a clone. */
static int use_clone(void)
{
    static char stack[64 << 10] __attribute__((aligned(16)));
    int status = 0;
    pid_t pid = clone(clone_child, stack + sizeof stack, 0, NULL);
    (void)waitpid(pid, &status, __WALL);
    return WEXITSTATUS(status);
}

/* Counts what arrives while it is stopped and continued by others. */
static _Atomic int continued, users;

static void on_count(int signo)
{
    if (signo == SIGCONT)
        continued = continued + 1;
    else
        users = users + 1;
    say(signo == SIGCONT ? "cont\n" : "user\n");
}

static int count_signals(void)
{
    struct sigaction sa = {.sa_handler = on_count, .sa_flags = SA_RESTART};
    (void)sigaction(SIGCONT, &sa, NULL);
    (void)sigaction(SIGUSR1, &sa, NULL);
    say_number("pid", getpid());
    wait_for_line();
    say_number("continued", continued);
    say_number("users", users);
    return 0;
}

static int deep(int depth)
{
    volatile char frame[1000];
    frame[0] = (char)depth;
    if (depth == 0)
        abort();
    return deep(depth - 1) + frame[0];
}

static sigjmp_buf after_fault;

static void on_fault(int signo)
{
    (void)signo;
    siglongjmp(after_fault, 1);
}

/* A fault that was handled, long ago; the signal has its default action again. */
static int handled_fault(char *then[])
{
    (void)signal(SIGSEGV, on_fault);
    if (sigsetjmp(after_fault, 1) == 0)
        *FAULT_ADDRESS = 1;
    (void)signal(SIGSEGV, SIG_DFL);
    if (then[0] != NULL)
        (void)execv(then[0], then);
    say("up\n");
    for (;;)
        (void)pause();
}

int main(int argc, char *argv[])
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "receive") == 0)
        return receive_queued(atoi(argv[2]));
    if (strcmp(what, "receive-later") == 0)
        return receive_later(atoi(argv[2]));
    if (strcmp(what, "send") == 0)
        return send_queued((pid_t)atoi(argv[2]), atoi(argv[3]));
    if (strcmp(what, "storm") == 0)
        return storm(argv[2]);
    if (strcmp(what, "thread-crash") == 0)
        return thread_crash();
    if (strcmp(what, "leader-gone") == 0)
        return leader_gone();
    if (strcmp(what, "end-together") == 0)
        return end_together();
    if (strcmp(what, "many") == 0)
        return many(atoi(argv[2]), atoi(argv[3]));
    if (strcmp(what, "hoard") == 0)
        return hoard(argv[2], atoi(argv[3]), atoi(argv[4]));
    if (strcmp(what, "exec-from-thread") == 0)
        return exec_from_thread();
    if (strcmp(what, "vfork") == 0)
        return use_vfork();
    if (strcmp(what, "clone") == 0)
        return use_clone();
    if (strcmp(what, "count") == 0)
        return count_signals();
    if (strcmp(what, "deep") == 0)
        return deep(atoi(argv[2]));
    if (strcmp(what, "handled-fault") == 0)
        return handled_fault(argv + 2);
    return 3;
}
