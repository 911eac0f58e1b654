/* SPDX-License-Identifier: Apache-2.0 */
/* The kind of a descriptor; see stream.h. Runs in the supervisor and changes nothing. */
#include "watch/stream.h"

#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum stream_kind stream_kind_of(int fd)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return STREAM_CLOSED;
    if (S_ISREG(st.st_mode))
        return STREAM_FILE;
    if (S_ISFIFO(st.st_mode))
        return STREAM_PIPE;
    if (S_ISSOCK(st.st_mode))
        return STREAM_SOCKET;
    if (S_ISCHR(st.st_mode) && isatty(fd) == 1)
        return STREAM_TERMINAL;
    return STREAM_OTHER;
}

const char *stream_kind_name(enum stream_kind kind)
{
    static const char *const names[] = {
        [STREAM_CLOSED] = "closed",       [STREAM_FILE] = "a file",     [STREAM_PIPE] = "a pipe",
        [STREAM_TERMINAL] = "a terminal", [STREAM_SOCKET] = "a socket", [STREAM_OTHER] = "a device",
    };
    return names[kind];
}

static int socket_option(int fd, int option)
{
    int value = -1;
    socklen_t len = sizeof value;
    return getsockopt(fd, SOL_SOCKET, option, &value, &len) == 0 ? value : -1;
}

bool stream_is_one_way_socket(int fd)
{
    return socket_option(fd, SO_DOMAIN) == AF_UNIX && socket_option(fd, SO_TYPE) == SOCK_STREAM &&
           !stream_same(STDIN_FILENO, fd);
}

bool stream_same(int a, int b)
{
    struct stat sa, sb;
    if (fstat(a, &sa) != 0 || fstat(b, &sb) != 0)
        return false;
    if (sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino && sa.st_rdev == sb.st_rdev)
        return true;
    /* /dev/tty and /dev/pts/N are two inodes of one terminal. TIOCGDEV (Linux 2.6.35) gives the device
     * after each of them. */
    unsigned dev_a = 0, dev_b = 0;
    return S_ISCHR(sa.st_mode) && S_ISCHR(sb.st_mode) && ioctl(a, TIOCGDEV, &dev_a) == 0 &&
           ioctl(b, TIOCGDEV, &dev_b) == 0 && dev_a == dev_b;
}
