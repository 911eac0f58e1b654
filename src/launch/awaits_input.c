/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/awaits_input.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "launch/process_memory.h"

#define POLLED_MAX 1024
#define TABLE_MAX ((size_t)1 << 20) /* of the kernel's lists of sockets */

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000 0 4711 1 ...": the
 * state in the fourth column (0A = listening), the inode in the tenth. */
static bool listens_in_tcp(char *table, const char *inode)
{
    char *rest = NULL;
    for (char *line = strtok_r(table, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        char *word = NULL;
        char *inner = NULL;
        bool listens = false;
        int column = 0;
        for (word = strtok_r(line, " ", &inner); word != NULL && column < 9; column++) {
            listens = listens || (column == 3 && strcmp(word, "0A") == 0);
            word = strtok_r(NULL, " ", &inner);
        }
        if (listens && word != NULL && strcmp(word, inode) == 0)
            return true;
    }
    return false;
}

/* "ffff...: 00000002 00000000 00010000 0001 01 4711 /run/x": the flag of a listening socket is the
 * fourth column, the inode the seventh. */
static bool listens_in_unix(char *table, const char *inode)
{
    char *rest = NULL;
    for (char *line = strtok_r(table, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        char flags[16];
        char number[24];
        if (sscanf(line, "%*s %*s %*s %15s %*s %*s %23s", flags, number) == 2 &&
            strcmp(flags, "00010000") == 0 && strcmp(number, inode) == 0)
            return true;
    }
    return false;
}

static bool is_listening(pid_t pid, const char *inode)
{
    static const char *const names[] = {"tcp", "tcp6", "unix"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[64];
        RC_AUTO_FREE char *table = NULL;
        (void)snprintf(path, sizeof path, "/proc/%d/net/%s", (int)pid, names[i]);
        if (fs_read_all(path, TABLE_MAX, &table) <= 0 && table == NULL)
            continue;
        if (i < 2 ? listens_in_tcp(table, inode) : listens_in_unix(table, inode))
            return true;
    }
    return false;
}

/* For what a process may wait: `terminal` alone, or (0) anything that somebody outside can send. */
struct wait {
    pid_t pid;
    dev_t terminal;
};

/* A terminal, or a socket that waits for connections. */
static bool is_outside(const struct wait *w, long fd)
{
    pid_t pid = w->pid;
    char path[64];
    char link[128];
    struct stat st;
    (void)snprintf(path, sizeof path, "/proc/%d/fd/%ld", (int)pid, fd);
    ssize_t n = readlink(path, link, sizeof link - 1);
    link[n > 0 ? n : 0] = '\0';
    if (w->terminal != 0) /* stat() of a file on a server that is gone would not return */
        return begins(link, "/dev/") && stat(path, &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == w->terminal;
    if (begins(link, "/dev/pts/") || begins(link, "/dev/tty"))
        return true;
    if (!begins(link, "socket:["))
        return false;
    link[strcspn(link, "]")] = '\0';
    return is_listening(pid, link + strlen("socket:["));
}

/* "tfd:        5 events:       19 data: ...": a line for each descriptor that is waited for. */
static bool epoll_has_outside(const struct wait *w, long fd)
{
    char path[64];
    RC_AUTO_FREE char *text = NULL;
    (void)snprintf(path, sizeof path, "/proc/%d/fdinfo/%ld", (int)w->pid, fd);
    (void)fs_read_all(path, TABLE_MAX, &text);
    for (const char *line = text; line != NULL && (line = strstr(line, "tfd:")) != NULL; line += 4)
        if (is_outside(w, strtol(line + 4, NULL, 10)))
            return true;
    return false;
}

static bool poll_has_outside(const struct wait *w, uint64_t list, uint64_t count)
{
    static struct pollfd polled[POLLED_MAX];
    if (count > POLLED_MAX || !process_memory_read(w->pid, list, polled, count * sizeof polled[0]))
        return false;
    for (uint64_t i = 0; i < count; i++)
        if (polled[i].fd >= 0 && (polled[i].events & POLLIN) != 0 && is_outside(w, polled[i].fd))
            return true;
    return false;
}

static bool select_has_outside(const struct wait *w, uint64_t count, uint64_t readers)
{
    unsigned char set[FD_SETSIZE / 8] = {0};
    if (readers == 0 || count > FD_SETSIZE || !process_memory_read(w->pid, readers, set, (count + 7) / 8))
        return false;
    for (uint64_t fd = 0; fd < count; fd++)
        if ((set[fd / 8] >> fd % 8 & 1) != 0 && is_outside(w, (long)fd))
            return true;
    return false;
}

static bool is_waiting(const struct wait *w)
{
    char path[64];
    char text[192];
    char *rest = text;
    uint64_t words[3] = {0};
    (void)snprintf(path, sizeof path, "/proc/%d/syscall", (int)w->pid);
    if (fs_read_text(path, text, sizeof text) <= 0)
        return false;
    long call = strtol(text, &rest, 10);
    if (rest == text)
        return false; /* "running" */
    for (int i = 0; i < 3; i++)
        words[i] = strtoull(rest, &rest, 16);
    switch (call) {
    case SYS_accept:
    case SYS_accept4:
        return w->terminal == 0;
    case SYS_read:
        return is_outside(w, (long)words[0]);
    case SYS_epoll_pwait:
#if defined(__x86_64__)
    case SYS_epoll_wait:
#endif
        return epoll_has_outside(w, (long)words[0]);
    case SYS_ppoll:
#if defined(__x86_64__)
    case SYS_poll:
#endif
        return poll_has_outside(w, words[0], words[1]);
    case SYS_pselect6:
#if defined(__x86_64__)
    case SYS_select:
#endif
        return select_has_outside(w, words[0], words[1]);
    default:
        return false;
    }
}

bool awaits_input(pid_t pid)
{
    return is_waiting(&(struct wait){.pid = pid});
}

bool awaits_terminal(pid_t pid, dev_t terminal)
{
    return is_waiting(&(struct wait){.pid = pid, .terminal = terminal});
}
