/* SPDX-License-Identifier: Apache-2.0 */
/* Targets of the tests of losses; the first argument says which. Compiled as it is and with
 * -static. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A program that names ptrace(2) is not traced (launch/tracer_left_alone.c), and the deaths of these are to be seen. */
#define ptrace(...) syscall(SYS_ptrace, __VA_ARGS__)

static void say(const char *text)
{
    (void)!write(STDOUT_FILENO, text, strlen(text));
}

static void put(const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(STDERR_FILENO, data, len);
        if (n <= 0)
            _exit(9);
        data += n;
        len -= (size_t)n;
    }
}

static _Noreturn void crash(void)
{
    struct rlimit none = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &none);
    abort();
}

static double seconds(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* `bytes` of stderr as fast as they are taken; says how many MB/s. */
static int flood(size_t bytes, char last, size_t piece)
{
    char line[64];
    double began = seconds();
    static char chunk[65536];
    memset(chunk, 'x', sizeof chunk);
    if (last == '\n')
        for (size_t i = 99; i < sizeof chunk; i += 100)
            chunk[i] = '\n';
    for (size_t left = bytes; left > 0;) {
        size_t n = left < piece ? left : piece;
        put(chunk, n);
        left -= n;
    }
    (void)snprintf(line, sizeof line, "%.0f\n", (double)bytes / 1e6 / (seconds() - began));
    say(line);
    return 0;
}

/* How much stderr takes while nobody reads it. */
static int fill(void)
{
    char line[64];
    long bytes = 0;
    static const char piece[512];
    (void)fcntl(STDERR_FILENO, F_SETFL, O_NONBLOCK);
    for (int still = 0; still < 300;) {
        if (write(STDERR_FILENO, piece, sizeof piece) == (ssize_t)sizeof piece) {
            bytes += (long)sizeof piece;
            still = 0;
        } else {
            still++;
            (void)usleep(1000);
        }
    }
    (void)snprintf(line, sizeof line, "%ld\n", bytes);
    say(line);
    return 0;
}

static int replace_stderr(const char *path)
{
    put("before\n", 7);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    (void)dup2(fd, STDERR_FILENO);
    put("after\n", 6);
    crash();
}

static int close_stderr(void)
{
    put("before\n", 7);
    (void)close(STDERR_FILENO);
    crash();
}

/* A daemon that crashes after its parent has gone with 0. */
static int daemonise(void)
{
    if (fork() != 0)
        _exit(0);
    (void)setsid();
    if (fork() != 0)
        _exit(0);
    (void)usleep(200000);
    crash();
}

static int change_user(void)
{
    if (setgid(65534) != 0 || setuid(65534) != 0)
        return 3;
    say("changed\n");
    crash();
}

/* As a debugger does: a child asks to be traced, stops, goes on and ends by 5. */
static int trace_child(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(4);
        (void)raise(SIGSTOP);
        _exit(5);
    }
    int status = 0;
    if (waitpid(pid, &status, 0) != pid)
        return 1;
    if (WIFEXITED(status))
        return WEXITSTATUS(status) == 4 ? 4 : 2;
    (void)ptrace(PTRACE_CONT, pid, NULL, NULL);
    if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 5)
        return 3;
    say("traced\n");
    crash();
}

/* `count` processes at once; then the first of them crashes, and all end. */
static int many(int count)
{
    int go[2];
    int made = 0;
    if (pipe(go) != 0)
        return 1;
    for (; made < count; made++) {
        pid_t pid = fork();
        if (pid < 0)
            break;
        if (pid == 0) {
            char byte;
            (void)close(go[1]);
            (void)!read(go[0], &byte, 1);
            _exit(0);
        }
    }
    char line[64];
    (void)snprintf(line, sizeof line, "%d\n", made);
    say(line);
    (void)usleep(1500000); /* it is looked at meanwhile */
    (void)close(go[1]);
    while (waitpid(-1, NULL, 0) > 0)
        ;
    crash();
}

/* As many(), but light: they share the memory and have a page each for a stack. Each ends by a status
 * of its own, and each is waited for; says how many there were and how many ended as they should. */
static int crowd_pipe[2];

static int one_of_the_crowd(void *number)
{
    char byte;
    while (syscall(SYS_read, crowd_pipe[0], &byte, (size_t)1) < 0)
        ;
    return (int)((uintptr_t)number % 251);
}

static int crowd(int count)
{
    const size_t page = 4096;
    char *stacks = mmap(NULL, (size_t)count * page, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    pid_t *pids = calloc((size_t)count + 1, sizeof *pids);
    int made = 0;
    if (stacks == MAP_FAILED || pids == NULL || pipe(crowd_pipe) != 0)
        return 1;
    for (; made < count; made++) {
        pids[made] = clone(one_of_the_crowd, stacks + (size_t)(made + 1) * page,
                           CLONE_VM | CLONE_FS | CLONE_FILES | SIGCHLD, (void *)(uintptr_t)made);
        if (pids[made] < 0)
            break;
    }
    char line[80];
    (void)snprintf(line, sizeof line, "%d made\n", made);
    say(line);
    (void)sleep(3); /* they are looked at meanwhile */
    char *bytes = calloc((size_t)made + 1, 1);
    for (int left = made; left > 0;) {
        ssize_t n = write(crowd_pipe[1], bytes, (size_t)left);
        left -= n > 0 ? (int)n : 0;
    }
    int right = 0;
    for (int i = 0; i < made; i++) {
        int status = 0;
        right += waitpid(pids[i], &status, 0) == pids[i] && WIFEXITED(status) &&
                 WEXITSTATUS(status) == i % 251;
    }
    (void)snprintf(line, sizeof line, "%d right\n", right);
    say(line);
    crash();
}

static unsigned lives_on_s;

static void on_term(int signo)
{
    (void)signo;
    for (unsigned left_s = lives_on_s; left_s > 0;)
        left_s = sleep(left_s);
    crash();
}

/* A program that saves its work first. */
static _Noreturn void until_term(unsigned seconds)
{
    lives_on_s = seconds;
    (void)signal(SIGTERM, on_term);
    say("ready\n");
    for (;;)
        (void)pause();
}

/* Numbered lines for `ms`, then SIGABRT: what the attacks at random moments are made on. */
static int lines(int ms)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    long end_ms = ts.tv_sec * 1000 + ts.tv_nsec / 1000000 + ms;
    for (int i = 0;; i++) {
        char line[32];
        int n = snprintf(line, sizeof line, "line %07d\n", i);
        put(line, (size_t)n);
        (void)clock_gettime(CLOCK_MONOTONIC, &ts);
        if (ts.tv_sec * 1000 + ts.tv_nsec / 1000000 >= end_ms) {
            n = snprintf(line, sizeof line, "wrote %d\n", i + 1);
            (void)!write(STDOUT_FILENO, line, (size_t)n);
            crash();
        }
        (void)usleep(500);
    }
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    const char *arg = argc > 2 ? argv[2] : "0";
    if (strcmp(what, "flood") == 0)
        return flood((size_t)strtoull(arg, NULL, 10) << 20, '\n', argc > 3 ? 100 : 65536);
    if (strcmp(what, "longline") == 0)
        return flood((size_t)strtoull(arg, NULL, 10) << 20, 'x', 65536), crash(), 0;
    if (strcmp(what, "fill") == 0)
        return fill();
    if (strcmp(what, "replace") == 0)
        return replace_stderr(arg);
    if (strcmp(what, "close") == 0)
        return close_stderr();
    if (strcmp(what, "daemon") == 0)
        return daemonise();
    if (strcmp(what, "user") == 0)
        return change_user();
    if (strcmp(what, "trace") == 0)
        return trace_child();
    if (strcmp(what, "many") == 0)
        return many((int)strtol(arg, NULL, 10));
    if (strcmp(what, "crowd") == 0)
        return crowd((int)strtol(arg, NULL, 10));
    if (strcmp(what, "term") == 0)
        until_term((unsigned)strtol(argc > 3 ? argv[3] : "0", NULL, 10));
    if (strcmp(what, "lines") == 0)
        return lines((int)strtol(arg, NULL, 10));
    if (strcmp(what, "abort") == 0)
        crash();
    return 2;
}
