/* SPDX-License-Identifier: Apache-2.0 */
#include "relay_run.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define PATIENCE_MS 30000

static void make_pipe(int *ret_read, int *ret_write)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    *ret_read = ends[0];
    *ret_write = ends[1];
}

static void open_terminal(struct run *run)
{
    run->reader = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(run->reader >= 0);
    assert_int_equal(unlockpt(run->reader), 0);
    run->slave = open(ptsname(run->reader), O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(run->slave >= 0);
    struct winsize size = {.ws_row = 33, .ws_col = 101};
    assert_int_equal(ioctl(run->slave, TIOCSWINSZ, &size), 0);
    struct termios t;
    assert_int_equal(tcgetattr(run->slave, &t), 0);
    if (run->options.raw) {
        t.c_oflag &= ~(tcflag_t)OPOST;
        assert_int_equal(tcsetattr(run->slave, TCSANOW, &t), 0);
    }
}

/* Opens the driver's future fd 2. */
static int open_stderr(struct run *run)
{
    int write_end = -1;
    int ends[2];
    switch (run->options.on) {
    case ON_PIPE:
        make_pipe(&run->reader, &write_end);
        break;
    case ON_TERMINAL:
        open_terminal(run);
        write_end = fcntl(run->slave, F_DUPFD_CLOEXEC, 3);
        break;
    case ON_FILE:
    case ON_FILE_APPEND:
        write_end = open(run->file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        assert_int_equal(write(write_end, "HIP out of memory, long ago\n", 28), 28);
        if (run->options.on == ON_FILE_APPEND)
            assert_int_equal(fcntl(write_end, F_SETFL, O_APPEND), 0);
        break;
    case ON_FILE_OVER:
        write_end = open(run->file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        assert_int_equal(write(write_end,
                               "HIP out of memory, long ago\n"
                               "HW Exception by GPU node-1, long ago\n",
                               65),
                         65);
        assert_int_equal(lseek(write_end, 0, SEEK_SET), 0);
        break;
    case ON_FILE_READ_ONLY:
        write_end = open(run->file, O_RDONLY | O_CREAT | O_CLOEXEC, 0600);
        break;
    case ON_PACKETS:
        assert_int_equal(pipe2(ends, O_DIRECT | O_CLOEXEC), 0);
        run->reader = ends[0];
        write_end = ends[1];
        break;
    case ON_SOCKET:
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        run->reader = ends[0];
        write_end = ends[1];
        break;
    }
    assert_true(write_end >= 0);
    if (run->options.nonblock)
        assert_int_equal(fcntl(write_end, F_SETFL, O_NONBLOCK), 0);
    return write_end;
}

static _Noreturn void exec_driver(const struct run *run, int in, int err)
{
    const char *argv[24];
    size_t n = 0;
    argv[n++] = WATCH_DRIVER;
    argv[n++] = "--report";
    argv[n++] = run->report;
    for (size_t i = 0; i < 8 && run->options.driver[i] != NULL; i++)
        argv[n++] = run->options.driver[i];
    argv[n++] = "--";
    argv[n++] = WATCH_TARGET;
    for (size_t i = 0; i < 8 && run->options.target[i] != NULL; i++) {
        const char *arg = run->options.target[i];
        argv[n++] = strcmp(arg, "@") == 0 ? run->result : arg;
    }
    argv[n] = NULL;
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    (void)dup2(in, 0);
    (void)dup2(run->options.both ? err : null, 1);
    if (run->options.nonblock_1) {
        char again[32];
        (void)snprintf(again, sizeof again, "/proc/self/fd/%d", err);
        (void)dup2(open(again, O_WRONLY | O_NONBLOCK | O_CLOEXEC), 1);
    }
    (void)dup2(err, 2);
    for (int fd = 3; fd < 1024; fd++) /* descriptors that the caller of the tests left open */
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    (void)execv(argv[0], (char **)(uintptr_t)argv);
    _exit(126);
}

/* Like a shell's session: it keeps the terminal, so that nobody gets SIGHUP when the driver ends. */
static _Noreturn void lead(struct run *run, int in, int err, int status_write, int released)
{
    (void)setsid();
    if (run->slave >= 0)
        (void)ioctl(run->slave, TIOCSCTTY, 0);
    (void)close(run->steps);
    (void)close(run->release);
    if (run->reader >= 0)
        (void)close(run->reader);
    pid_t pid = fork();
    if (pid == 0) {
        (void)signal(SIGPIPE, SIG_DFL);
        exec_driver(run, in, err);
    }
    (void)close(in);
    (void)close(err);
    int status = 0;
    (void)waitpid(pid, &status, 0);
    (void)write(status_write, &status, sizeof status);
    char byte;
    (void)read(released, &byte, 1);
    _exit(0);
}

void run_start(struct run *run, const struct run_options *options)
{
    *run = (struct run){.options = *options, .reader = -1, .slave = -1, .status = -1};
    assert_true(temp_folder(run->dir, sizeof run->dir, "watch"));
    (void)snprintf(run->report, sizeof run->report, "%s/report", run->dir);
    (void)snprintf(run->result, sizeof run->result, "%s/result", run->dir);
    (void)snprintf(run->file, sizeof run->file, "%s/stderr", run->dir);
    int in, status_write, released;
    make_pipe(&in, &run->steps);
    make_pipe(&run->status_pipe, &status_write);
    make_pipe(&released, &run->release);
    int err = open_stderr(run);
    run->leader = fork();
    assert_true(run->leader >= 0);
    if (run->leader == 0)
        lead(run, in, err, status_write, released);
    (void)close(in);
    (void)close(err);
    (void)close(status_write);
    (void)close(released);
}

void run_step(struct run *run)
{
    assert_int_equal(write(run->steps, "s", 1), 1);
}

void run_close_reader(struct run *run)
{
    (void)close(run->reader);
    run->reader = -1;
}

static bool readable(int fd, int wait_ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, wait_ms) > 0;
}

void run_expect(struct run *run, const char *want, size_t len)
{
    char got[4096];
    size_t have = 0;
    while (have < len) {
        if (!readable(run->reader, PATIENCE_MS))
            fail_msg("only %zu of %zu bytes came", have, len);
        ssize_t n = read(run->reader, got + have, len - have);
        assert_true(n > 0);
        have += (size_t)n;
    }
    assert_memory_equal(got, want, len);
}

static void note_status(struct run *run)
{
    int status;
    assert_int_equal(read(run->status_pipe, &status, sizeof status), sizeof status);
    assert_true(WIFEXITED(status));
    run->status = WEXITSTATUS(status);
}

int run_drain(struct run *run, void (*take)(void *arg, const unsigned char *data, size_t len),
              void *arg)
{
    static unsigned char data[1 << 16];
    for (;;) {
        bool ended = run->status >= 0;
        struct pollfd p[2] = {{.fd = run->reader, .events = POLLIN},
                              {.fd = ended ? -1 : run->status_pipe, .events = POLLIN}};
        int n = poll(p, 2, ended ? 0 : PATIENCE_MS);
        if (n == 0 && !ended)
            fail_msg("the run hangs");
        if ((p[1].revents & POLLIN) != 0)
            note_status(run);
        if ((p[0].revents & (POLLIN | POLLHUP)) != 0) {
            ssize_t got = read(run->reader, data, sizeof data);
            if (got > 0)
                take(arg, data, (size_t)got);
            else if (ended)
                return run->status;
            else if (run->status < 0)
                (void)readable(run->status_pipe, PATIENCE_MS);
        } else if (ended) {
            return run->status;
        }
    }
}

void run_expect_eof(struct run *run)
{
    char byte;
    assert_true(readable(run->reader, PATIENCE_MS));
    assert_int_equal(read(run->reader, &byte, 1), 0);
}

int run_wait(struct run *run)
{
    if (run->status < 0) {
        if (!readable(run->status_pipe, PATIENCE_MS))
            fail_msg("the driver does not end");
        note_status(run);
    }
    return run->status;
}

void run_read_file(const char *path, char *out, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    ssize_t n = read(fd, out, size - 1);
    assert_true(n >= 0);
    out[n] = '\0';
    (void)close(fd);
}

/* The number of children of `pid`, and the last of them; -1 where the kernel has no such list. */
static int children_of(pid_t pid, pid_t *ret_last)
{
    char path[64], text[256] = "";
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t n = read(fd, text, sizeof text - 1);
    (void)close(fd);
    int count = 0;
    for (char *p = strtok(n > 0 ? text : (char[]){""}, " "); p != NULL; p = strtok(NULL, " ")) {
        *ret_last = (pid_t)atoi(p);
        count++;
    }
    return count;
}

bool run_relay_is_gone(struct run *run)
{
    pid_t driver = 0, last;
    if (children_of(run->leader, &driver) != 1)
        return false;
    for (int waited_ms = 0; waited_ms < PATIENCE_MS; waited_ms++) {
        if (children_of(driver, &last) == 1)
            return true;
        (void)usleep(1000);
    }
    fail_msg("the relay does not notice that its reader is gone");
    return false;
}

long long run_reported(struct run *run, const char *name)
{
    char text[2048], key[64];
    run_read_file(run->report, text, sizeof text);
    (void)snprintf(key, sizeof key, "%s=", name);
    const char *at = strstr(text, key);
    assert_non_null(at);
    return strtoll(at + strlen(key), NULL, 10);
}

void run_end(struct run *run)
{
    int fds[] = {run->reader, run->slave, run->steps, run->status_pipe, run->release};
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++) {
        if (fds[i] >= 0)
            (void)close(fds[i]);
    }
    assert_int_equal(waitpid(run->leader, NULL, 0), run->leader);
    (void)unlink(run->report);
    (void)unlink(run->result);
    (void)unlink(run->file);
    (void)rmdir(run->dir);
}
