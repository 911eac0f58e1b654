/* SPDX-License-Identifier: Apache-2.0 */
#include "base/say_in_time.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

#define AGAIN_MS 10

struct end {
    int fd, wait_ms;
    bool gave_up; /* what follows is written only if there is room at once */
};

/* A pipe or a terminal, opened anew: O_NONBLOCK on `fd` itself would hold for all who share it. -1: it cannot be. A file takes
 * all at once, and would be written from its beginning. */
static int open_without_waiting(int fd)
{
    char path[32];
    struct stat st;
    if (fstat(fd, &st) != 0 || !(S_ISFIFO(st.st_mode) || isatty(fd)))
        return -1;
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

static ssize_t write_some(int fd, const char *data, size_t size)
{
    ssize_t n = send(fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    return n < 0 && errno == ENOTSOCK ? write(fd, data, size) : n;
}

/* How many bytes are left over. */
static size_t write_until_full(const struct end *end, int fd, const char *data, size_t size)
{
    int left_ms = end->gave_up ? 0 : end->wait_ms;
    while (size > 0) {
        struct pollfd p = {.fd = fd, .events = POLLOUT};
        int ready = poll(&p, 1, left_ms);
        if (ready == 0)
            break;
        ssize_t n = ready > 0 ? write_some(fd, data, size) : -1;
        if (n > 0) {
            data += n;
            size -= (size_t)n;
        } else if (n == 0 || (errno != EAGAIN && errno != EINTR) || left_ms <= 0) {
            break;
        } else {
            (void)poll(NULL, 0, AGAIN_MS);
            left_ms -= AGAIN_MS;
        }
    }
    return size;
}

static ssize_t put(void *cookie, const char *data, size_t size)
{
    struct end *end = cookie;
    RC_AUTO_CLOSE int own = open_without_waiting(end->fd);
    end->gave_up = write_until_full(end, own >= 0 ? own : end->fd, data, size) > 0;
    return (ssize_t)size; /* the rest is dropped */
}

void say_in_time(FILE **stream, int wait_ms)
{
    static struct end ends[2]; /* as long as the process lives */
    static unsigned count;
    if (count == sizeof ends / sizeof ends[0])
        return;
    struct end *end = &ends[count];
    *end = (struct end){.fd = fileno(*stream), .wait_ms = wait_ms};
    FILE *bounded = end->fd >= 0 ? fopencookie(end, "w", (cookie_io_functions_t){.write = put}) : NULL;
    if (bounded == NULL)
        return;
    (void)fflush(*stream);
    (void)setvbuf(bounded, NULL, _IOLBF, 0);
    *stream = bounded;
    count++;
}
