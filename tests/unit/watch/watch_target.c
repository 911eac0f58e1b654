/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Targets with one habit each, for test_relay. They report to FILE, because their output is under test; "step" = wait
 * for a byte on fd 0.
 *
 *   stream SEED BYTES FILE  the sequence of stream_byte() in random pieces to fd 2;
 *                           BYTES 0 = until SIGUSR1; the count goes to FILE
 *   lines COUNT             80-byte lines to fd 2, one write each
 *   alternate COUNT         "o<n>\n" to fd 1, "e<n>\n" to fd 2, in turn
 *   say TEXT...             each TEXT to fd 2, a step before each but the first
 *   look FILE               isatty, size, O_NONBLOCK of fds 1 and 2
 *   size FILE               size on SIGWINCH, when it differs from the first one
 *   modes                   cfmakeraw-like and curses-like modes on fd 1, with steps between
 *   close2                  closes fds 1 and 2, then a step
 *   linger TEXT             a child in the background: a step, then TEXT; the parent exits at once
 *   flood                   writes to fd 2 until that fails; exit 7 if by an error, not a signal
 *   longline BYTES          one line, with a pattern at its end
 *   tail BYTES              the same, then 400 small pieces, each after the piece before it was read
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "stream_byte.h"

static volatile sig_atomic_t told_to_end, size_changed;

static void on_signal(int signo)
{
    if (signo == SIGUSR1)
        told_to_end = 1;
    if (signo == SIGWINCH)
        size_changed = 1;
}

static void write_all(int fd, const void *data, size_t len)
{
    const char *p = data;
    while (len > 0) {
        ssize_t n = write(fd, p, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            _exit(7);
        p += n;
        len -= (size_t)n;
    }
}

static void step(void)
{
    char byte;
    while (read(0, &byte, 1) < 0 && errno == EINTR)
        continue;
}

static FILE *result(const char *path)
{
    FILE *f = fopen(path, "we");
    if (f == NULL)
        _exit(9);
    return f;
}

static int stream(char **argv)
{
    unsigned seed = (unsigned)strtoul(argv[0], NULL, 10);
    uint64_t want = strtoull(argv[1], NULL, 10), at = 0;
    static unsigned char chunk[9000];
    while (want == 0 ? !told_to_end : at < want) {
        unsigned r = (unsigned)rand_r(&seed);
        size_t len = r % 4 == 0 ? 1 + (r >> 8) % sizeof chunk : 1 + (r >> 8) % 120;
        if (want != 0 && len > want - at)
            len = (size_t)(want - at);
        for (size_t i = 0; i < len; i++)
            chunk[i] = stream_byte(at + i);
        write_all(2, chunk, len);
        at += len;
    }
    FILE *f = result(argv[2]);
    (void)fprintf(f, "%llu\n", (unsigned long long)at);
    return fclose(f) == 0 ? 0 : 9;
}

static int lines(char **argv)
{
    unsigned long count = strtoul(argv[0], NULL, 10);
    char line[81];
    memset(line, 'x', sizeof line);
    line[79] = '\n';
    for (unsigned long i = 0; i < count; i++)
        write_all(2, line, 80);
    return 0;
}

static int alternate(char **argv)
{
    int count = atoi(argv[0]);
    char text[32];
    for (int i = 0; i < count; i++) {
        int n = snprintf(text, sizeof text, "o%d\n", i);
        write_all(1, text, (size_t)n);
        n = snprintf(text, sizeof text, "e%d\n", i);
        write_all(2, text, (size_t)n);
    }
    return 0;
}

static int say(char **argv)
{
    for (int i = 0; argv[i] != NULL; i++) {
        if (i > 0)
            step();
        write_all(2, argv[i], strlen(argv[i]));
    }
    return 0;
}

static int look(char **argv)
{
    struct winsize ws = {0};
    (void)ioctl(2, TIOCGWINSZ, &ws);
    FILE *f = result(argv[0]);
    (void)fprintf(f, "tty1=%d tty2=%d size=%dx%d nonblock1=%d nonblock2=%d open=%d\n", isatty(1),
                  isatty(2), ws.ws_row, ws.ws_col, (fcntl(1, F_GETFL) & O_NONBLOCK) != 0,
                  (fcntl(2, F_GETFL) & O_NONBLOCK) != 0, fileno(f));
    (void)fflush(f);
    /* No terminal of a shell has it: it would tell the target that the terminal was opened by us. */
    if (isatty(2) && (fcntl(2, F_GETFL) & O_CLOEXEC) != 0)
        (void)fprintf(f, "leaked=O_CLOEXEC\n");
    for (int fd = 3; fd < 256; fd++) { /* none of our descriptors may be open in the target */
        if (fd != fileno(f) && fcntl(fd, F_GETFD) >= 0)
            (void)fprintf(f, "leaked=%d\n", fd);
    }
    return fclose(f) == 0 ? 0 : 9;
}

static int size(char **argv)
{
    struct winsize ws = {0};
    sigset_t winch, before;
    (void)sigemptyset(&winch);
    (void)sigaddset(&winch, SIGWINCH);
    (void)sigprocmask(SIG_BLOCK, &winch, &before);
    write_all(2, "ready", 5);
    do {
        while (!size_changed)
            (void)sigsuspend(&before);
        size_changed = 0;
        (void)ioctl(2, TIOCGWINSZ, &ws);
    } while (ws.ws_row != 50); /* asked too early: one more signal must arrive */
    FILE *f = result(argv[0]);
    (void)fprintf(f, "%dx%d\n", ws.ws_row, ws.ws_col);
    return fclose(f) == 0 ? 0 : 9;
}

static int modes(char **argv)
{
    (void)argv;
    struct termios saved, t;
    if (tcgetattr(1, &saved) != 0)
        return 8;
    t = saved; /* as curses: initscr, cbreak, noecho */
    t.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    t.c_oflag &= ~(tcflag_t)ONLCR;
    t.c_cc[VMIN] = 3;
    (void)tcsetattr(1, TCSADRAIN, &t);
    write_all(1, "curses", 6);
    step();
    (void)tcsetattr(1, TCSADRAIN, &saved);
    write_all(1, "restored", 8);
    step();
    cfmakeraw(&t);
    (void)tcsetattr(1, TCSADRAIN, &t);
    write_all(1, "raw", 3);
    step();
    (void)tcsetattr(1, TCSADRAIN, &saved); /* and no output */
    step();
    return 0;
}

static int close2(char **argv)
{
    (void)argv;
    write_all(2, "last", 4);
    (void)close(1);
    (void)close(2);
    step();
    return 3;
}

static int linger(char **argv)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid > 0 ? 0 : 9;
    step();
    write_all(2, argv[0], strlen(argv[0]));
    return 0;
}

static _Noreturn int flood(char **argv)
{
    (void)argv;
    for (;;)
        write_all(2, "flood flood flood\n", 18);
}

static int longline(char **argv)
{
    uint64_t left = strtoull(argv[0], NULL, 10);
    static char chunk[65536];
    memset(chunk, 'H', sizeof chunk);
    for (; left > 0; left -= left < sizeof chunk ? left : sizeof chunk)
        write_all(2, chunk, left < sizeof chunk ? (size_t)left : sizeof chunk);
    write_all(2, "HIP out of memory. Tried", 24);
    return 0;
}

static int tail(char **argv)
{
    (void)longline(argv);
    for (int i = 0; i < 400; i++) {
        for (int left = 1; ioctl(2, FIONREAD, &left) == 0 && left > 0;)
            (void)sched_yield();
        write_all(2, "and so on\n", 10);
    }
    return 0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int args;
        int (*run)(char **argv);
    } habits[] = {{"stream", 3, stream}, {"lines", 1, lines},      {"alternate", 1, alternate},
                  {"say", 1, say},       {"look", 1, look},        {"size", 1, size},
                  {"modes", 0, modes},   {"close2", 0, close2},    {"linger", 1, linger},
                  {"flood", 0, flood},   {"longline", 1, longline},
                  {"tail", 1, tail}};
    (void)alarm(50); /* no process of a failed test survives */
    struct sigaction sa = {.sa_handler = on_signal};
    (void)sigaction(SIGUSR1, &sa, NULL);
    (void)sigaction(SIGWINCH, &sa, NULL);
    for (size_t i = 0; i < sizeof habits / sizeof habits[0]; i++) {
        if (argc >= 2 && strcmp(argv[1], habits[i].name) == 0 && argc - 2 >= habits[i].args)
            return habits[i].run(argv + 2);
    }
    return 64;
}
