/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/keep_bundle.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/say.h"

/* The question was printed on stderr, so stderr must be a terminal, too. A read in the background
 * would stop us. */
static int open_terminal(void)
{
    if (!isatty(STDERR_FILENO))
        return -1;
    int fd = open("/dev/tty", O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd >= 0 && tcgetpgrp(fd) != getpgrp()) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

/* A helper that ends now (SIGCHLD) is no answer. */
static bool is_told_to_end(int signal_fd)
{
    struct signalfd_siginfo info;
    while (read(signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo != SIGCHLD && info.ssi_signo != SIGWINCH)
            return true;
    }
    return false;
}

/* The first character of the line that is typed; '\0' = no answer. The program may have left the
 * terminal without lines: then a carriage return ends one. */
static char read_answer(int fd, int signal_fd)
{
    struct pollfd fds[] = {{.fd = fd, .events = POLLIN}, {.fd = signal_fd, .events = POLLIN}};
    char first = '\0';
    for (char c;;) {
        if (poll(fds, 2, -1) < 0) {
            if (errno == EINTR)
                continue;
            return '\0';
        }
        if (fds[1].revents != 0 && is_told_to_end(signal_fd))
            return '\0';
        if (fds[0].revents == 0)
            continue;
        if (read(fd, &c, 1) != 1)
            return '\0';
        if (c == '\n' || c == '\r')
            return first;
        if (first == '\0' && c != ' ' && c != '\t')
            first = c;
    }
}

void keep_bundle_ask(const char *path, int signal_fd)
{
    RC_AUTO_CLOSE int fd = open_terminal();
    if (fd < 0) {
        (void)say_line(stderr, "rocmcrash: preview: there is no terminal to ask on: the bundle is kept");
        return;
    }
    (void)fputs("rocmcrash: preview: keep the bundle? [Y/n] ", stderr);
    (void)fflush(stderr); /* say_in_time() writes lines */
    char answer = read_answer(fd, signal_fd);
    if (answer == '\0')
        (void)fputs("\n", stderr);
    if (answer != 'n' && answer != 'N')
        (void)say_line(stderr, "rocmcrash: preview: the bundle is kept; 'rocmcrash show' prints it, 'rocmcrash open' draws it, "
                               "'rocmcrash issue' writes the report");
    else if (unlink(path) == 0)
        (void)say_line(stderr, "rocmcrash: preview: the bundle was removed");
    else
        (void)say_line(stderr, "rocmcrash: preview: cannot remove '%s': %s", path, strerror(errno));
}
