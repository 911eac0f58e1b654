/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pager.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOT_FOUND 127

static bool print_plain(const char *text)
{
    return fputs(text, stdout) >= 0 && fflush(stdout) == 0;
}

/* A line counts as one row: `show` breaks lines at the terminal's width. Of --raw, which it does not
 * break, too few rows are counted. */
static bool is_longer_than_terminal(const char *text)
{
    struct winsize size = {.ws_row = 0};
    size_t lines = 0;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0)
        return false;
    for (const char *at = text; *at != '\0'; lines++) {
        size_t len = strcspn(at, "\n");
        at += len + (at[len] == '\n');
    }
    return lines >= size.ws_row;
}

/* The user's own variable: a command line for the shell, as for git and man. */
static _Noreturn void run_pager(int from)
{
    (void)signal(SIGINT, SIG_DFL);
    (void)signal(SIGPIPE, SIG_DFL);
    (void)dup2(from, STDIN_FILENO);
    (void)setenv("LESS", "FRX", 0); /* ends by itself on one page, shows colours, clears nothing */
    const char *command = getenv("PAGER"); /* setenv() may have moved it */
    if (command != NULL)
        (void)execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    else
        (void)execlp("less", "less", (char *)NULL);
    _exit(NOT_FOUND);
}

static void feed(int fd, const char *text)
{
    size_t left = strlen(text);
    while (left > 0) {
        ssize_t n = write(fd, text, left);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return; /* the reader has quit */
        text += n;
        left -= (size_t)n;
    }
}

/* False when there is no such pager: nothing was shown. */
static bool page(const char *text)
{
    int ends[2];
    int status = 0;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    /* Ctrl-C is for the pager, which stays; its end must not end us before it has put the terminal
     * back. */
    void (*on_interrupt)(int) = signal(SIGINT, SIG_IGN);
    void (*on_pipe)(int) = signal(SIGPIPE, SIG_IGN);
    pid_t pid = fork();
    if (pid == 0)
        run_pager(ends[0]);
    (void)close(ends[0]);
    if (pid > 0)
        feed(ends[1], text);
    (void)close(ends[1]);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    (void)signal(SIGINT, on_interrupt);
    (void)signal(SIGPIPE, on_pipe);
    return pid > 0 && !(WIFEXITED(status) && WEXITSTATUS(status) == NOT_FOUND);
}

bool pager_print(const char *text, bool may_page)
{
    const char *command = getenv("PAGER");
    const char *term = getenv("TERM"); /* such a terminal cannot go back a line: "less" asks for RETURN */
    if (term == NULL || term[0] == '\0' || strcmp(term, "dumb") == 0)
        may_page = false;
    if (command != NULL && (command[0] == '\0' || strcmp(command, "cat") == 0))
        may_page = false;
    if (may_page && isatty(STDOUT_FILENO) && isatty(STDIN_FILENO) && is_longer_than_terminal(text) &&
        fflush(stdout) == 0 && page(text))
        return true;
    return print_plain(text);
}
