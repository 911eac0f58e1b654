/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor's side of a relay: it plans the relay and watches the relay process. Nothing here
 * blocks. relay_child_setup() runs in the target's child.
 */
#include "watch/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/room.h"
#include "record/shared.h"
#include "watch/relay_internal.h"

#define STUCK_NS 200000000u

int relay_fd_high(int *fd)
{
    if (*fd >= RELAY_FD_MIN)
        return 0;
    int high = fcntl(*fd, F_DUPFD_CLOEXEC, RELAY_FD_MIN);
    if (high < 0)
        return -errno;
    (void)close(*fd);
    *fd = high;
    return 0;
}

void relay_close(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

int relay_pipe_high(int ends[2], int flags)
{
    if (pipe2(ends, O_CLOEXEC | flags) != 0) {
        ends[0] = ends[1] = -1;
        return -errno;
    }
    int r = relay_fd_high(&ends[0]);
    return r != 0 ? r : relay_fd_high(&ends[1]);
}

/* Tries tee and splice with one byte: an emulated kernel (gVisor) or a seccomp filter may refuse them.
 * Then nothing is interposed: with read and write, a SIGKILL of O would lose bytes. */
static int probe_splice(void)
{
    int a[2] = {-1, -1}, b[2] = {-1, -1}, c[2] = {-1, -1};
    char byte = 'x';
    int r = relay_pipe_high(a, 0);
    r = r != 0 ? r : relay_pipe_high(b, 0);
    r = r != 0 ? r : relay_pipe_high(c, 0);
    if (r == 0 && (write(a[1], &byte, 1) != 1 || tee(a[0], b[1], 1, SPLICE_F_NONBLOCK) != 1 ||
                    splice(a[0], NULL, c[1], NULL, 1, SPLICE_F_NONBLOCK) != 1))
        r = errno != 0 ? -errno : -EIO;
    int *all[] = {&a[0], &a[1], &b[0], &b[1], &c[0], &c[1]};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        relay_close(all[i]);
    return r;
}

/* fd 1 and fd 2 share one open file description, unless O_NONBLOCK differs between them. Then the pipe's
 * write end is opened once more through its link in /proc. */
static int pipe_second_end(struct relay *relay, int flags_2, int flags_1)
{
    relay->replacement_stdout = relay->replacement;
    if (((flags_2 ^ flags_1) & O_NONBLOCK) == 0)
        return 0;
    char link[64] = "/proc/self/fd/";
    size_t at = strlen(link);
    char digits[12];
    size_t n = 0;
    for (int v = relay->replacement; v > 0; v /= 10)
        digits[n++] = (char)('0' + v % 10);
    while (n > 0)
        link[at++] = digits[--n];
    link[at] = '\0';
    int fd = open(link, O_WRONLY | O_CLOEXEC | (flags_1 & O_NONBLOCK));
    if (fd < 0)
        return -errno;
    relay->replacement_stdout = fd;
    return relay_fd_high(&relay->replacement_stdout);
}

/* stdout may be bulk data. With a pipe of 64 KiB each write of that size waits for the relay and the relay
 * for the reader: 0.62 times the throughput of a pipe alone. This size has 0.79 (src/COST.md). If the user
 * may have no more pipe pages, the pipe keeps its size. */
#define BULK_PIPE_BYTES (1 << 20)

static void widen_for_bulk(const struct relay *relay)
{
    if (relay->stream == STDOUT_FILENO)
        (void)fcntl(relay->replacement, F_SETPIPE_SZ, BULK_PIPE_BYTES);
}

static int pipe_plan(struct relay *relay, struct rc_err *err)
{
    const char *name = relay->stream == STDERR_FILENO ? "stderr" : "stdout";
    int flags_2 = fcntl(relay->stream, F_GETFL);
    int flags_1 = relay->both ? fcntl(STDOUT_FILENO, F_GETFL) : flags_2;
    if ((flags_2 & O_DIRECT) != 0)
        return rc_err_set(err, -EOPNOTSUPP, "%s is a packet pipe", name);
    int ends[2];
    int r = relay_pipe_high(ends, 0);
    relay->from = ends[0];
    relay->replacement = ends[1];
    if (r == 0 && fcntl(ends[1], F_SETFL, flags_2 & O_NONBLOCK) != 0)
        r = -errno;
    if (r == 0)
        widen_for_bulk(relay);
    if (r == 0)
        r = pipe_second_end(relay, flags_2, flags_1);
    if (r == 0) {
        relay->down = fcntl(relay->stream, F_DUPFD_CLOEXEC, RELAY_FD_MIN);
        r = relay->down < 0 ? -errno : 0;
    }
    return r == 0 ? 0 : rc_err_errno(err, r, "cannot put a pipe in front of %s", name);
}

static bool writable_mode(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && (flags & O_ACCMODE) != O_RDONLY && (flags & O_PATH) == 0;
}

/* `kind`: the kind of the stream that the relay carries. */
static int plan_way(struct relay *relay, enum stream_kind kind, struct rc_err *err)
{
    int r = 0;
    relay->down_is_socket = kind == STREAM_SOCKET;
    switch (kind) {
    case STREAM_SOCKET:
        if (!stream_is_one_way_socket(relay->stream))
            break;
        /* fall through */
    case STREAM_PIPE:
    case STREAM_TERMINAL:
        r = probe_splice();
        if (r != 0)
            return rc_err_errno(err, r, "this kernel does not splice pipes");
        relay->way = kind == STREAM_TERMINAL ? RELAY_TERMINAL : RELAY_PIPE;
        return relay->way == RELAY_PIPE ? pipe_plan(relay, err) : terminal_plan(relay, err);
    case STREAM_FILE:
        relay->way = RELAY_FILE;
        return file_plan(relay, err);
    case STREAM_CLOSED:
    case STREAM_OTHER:
        break;
    }
    return 0;
}

static int plan_or_drop(struct relay *relay, enum stream_kind kind, struct rc_err *err)
{
    int r = plan_way(relay, kind, err);
    if (r == 0 && relay->way != RELAY_NONE) {
        relay->words = room_for(words_table_bytes(&match_words));
        r = relay->words != NULL ? 0 : rc_err_set(err, -ENOMEM, "no memory to find messages with");
    }
    if (r != 0) {
        relay_drop(relay);
        relay->way = RELAY_NONE;
    }
    return r;
}

int relay_plan(struct relay *relay, enum follow_mode mode, struct rc_err *err)
{
    *relay = (struct relay)RELAY_INIT;
    relay->stderr_kind = stream_kind_of(STDERR_FILENO);
    relay->stdout_kind = stream_kind_of(STDOUT_FILENO);
    if (mode == FOLLOW_NONE || !writable_mode(STDERR_FILENO))
        return 0;
    relay->both = stream_same(STDOUT_FILENO, STDERR_FILENO) && writable_mode(STDOUT_FILENO);
    return plan_or_drop(relay, relay->stderr_kind, err);
}

int relay_plan_stdout(struct relay *relay, struct rc_err *err)
{
    *relay = (struct relay)RELAY_INIT;
    relay->stream = STDOUT_FILENO;
    if (stream_kind_of(STDOUT_FILENO) != STREAM_PIPE || !writable_mode(STDOUT_FILENO) ||
        stream_same(STDOUT_FILENO, STDERR_FILENO))
        return 0;
    return plan_or_drop(relay, STREAM_PIPE, err);
}

int relay_helper(const struct relay *relay)
{
    return relay->stream == STDERR_FILENO ? HELPER_RELAY : HELPER_STDOUT_RELAY;
}

static const struct shared_helper *helper_of(const struct relay *relay, const struct shared *shared)
{
    return &shared->helpers[relay_helper(relay)];
}

static const struct shared_carried *carried_by(const struct relay *relay,
                                               const struct shared *shared)
{
    return relay->stream == STDERR_FILENO ? &shared->stderr_carried : &shared->stdout_carried;
}

void relay_child_setup(const struct relay *relay)
{
    if (relay->replacement < 0)
        return;
    (void)dup2(relay->replacement, relay->stream);
    if (relay->both)
        (void)dup2(relay->replacement_stdout, STDOUT_FILENO);
}

void relay_parent_after_fork(struct relay *relay)
{
    if (relay->replacement_stdout == relay->replacement)
        relay->replacement_stdout = -1;
    relay_close(&relay->replacement_stdout);
    relay_close(&relay->replacement);
}

void relay_drop(struct relay *relay)
{
    relay_parent_after_fork(relay);
    relay_close(&relay->down);
    relay_close(&relay->from);
    relay_close(&relay->feed);
    relay_close(&relay->master);
    relay_close(&relay->asked[0]);
    relay_close(&relay->asked[1]);
    relay_close(&relay->keys);
    relay_close(&relay->file);
}

void relays_drop(struct relay *relays)
{
    for (int i = 0; i < RELAYS; i++)
        relay_drop(&relays[i]);
}

bool relay_resize(struct relay *relay)
{
    struct winsize real, pty;
    if (relay->way != RELAY_TERMINAL || relay->master < 0 ||
        ioctl(relay->down, TIOCGWINSZ, &real) != 0 || ioctl(relay->master, TIOCGWINSZ, &pty) != 0)
        return false;
    if (memcmp(&real, &pty, sizeof real) == 0)
        return false;
    return ioctl(relay->master, TIOCSWINSZ, &real) == 0;
}

bool relay_supervise(struct relay *relay, const struct shared *shared)
{
    if (relay->from < 0 || atomic_load(&carried_by(relay, shared)->downstream_closed) == 0)
        return false;
    relay_drop(relay);
    return true;
}

/* The events that are ready now, asked without waiting. */
static short ready_now(int fd, short events)
{
    struct pollfd p = {.fd = fd, .events = events};
    int n;
    do {
        n = poll(&p, 1, 0);
    } while (n < 0 && errno == EINTR);
    return n > 0 ? p.revents : 0;
}

/* For a pty, use poll(): it first flushes the flip buffer, which FIONREAD does not count. Ask the master
 * before the pipe that it feeds: bytes that move in between are then seen in the pipe. */
static bool relay_pending(const struct relay *relay, const struct shared *shared)
{
    if (relay->way == RELAY_FILE)
        return file_pending(relay, atomic_load(&carried_by(relay, shared)->bytes));
    if (relay->master >= 0 && (ready_now(relay->master, POLLIN) & POLLIN) != 0)
        return true;
    /* While O waits for room on the terminal, it holds this pipe's lock, for which FIONREAD would wait. */
    if (relay->way == RELAY_TERMINAL)
        return relay->from >= 0 && (ready_now(relay->from, POLLIN) & POLLIN) != 0;
    int bytes = 0;
    return relay->from >= 0 && ioctl(relay->from, FIONREAD, &bytes) == 0 && bytes > 0;
}

bool relay_drained(const struct relay *relay, const struct shared *shared)
{
    if (relay->way == RELAY_NONE)
        return true;
    return !relay_pending(relay, shared) &&
           atomic_load(&helper_of(relay, shared)->work_pending_ns) == 0;
}

bool relay_over(const struct relay *relay)
{
    if (relay->way == RELAY_NONE || relay->way == RELAY_FILE || relay->from < 0)
        return false;
    short ready = ready_now(relay->master >= 0 ? relay->master : relay->from, POLLIN);
    return (ready & (POLLHUP | POLLIN)) == POLLHUP;
}

static bool down_takes_bytes(const struct relay *relay)
{
    if (relay->way == RELAY_FILE)
        return true;
    return (ready_now(relay->down, POLLOUT) & POLLOUT) != 0;
}

bool relay_stuck(struct relay *relay, const struct shared *shared)
{
    uint64_t heartbeat = atomic_load(&helper_of(relay, shared)->heartbeat_ns);
    bool waiting = relay->way != RELAY_NONE && relay_pending(relay, shared) &&
                   down_takes_bytes(relay) && heartbeat == relay->stuck_heartbeat_ns;
    if (!waiting) {
        relay->stuck_heartbeat_ns = heartbeat;
        relay->stuck_since_ns = 0;
        return false;
    }
    uint64_t now = clock_mono_ns();
    if (relay->stuck_since_ns == 0)
        relay->stuck_since_ns = now;
    if (now - relay->stuck_since_ns < STUCK_NS)
        return false;
    relay->stuck_since_ns = 0; /* the replacement gets its own 200 ms */
    return true;
}
