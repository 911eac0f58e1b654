/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For a stderr that is a regular file. Nothing is put in between: the relay process reads the file while
 * the target writes it. It looks at intervals, because an inotify watch costs the target time at every
 * write. After some time without writes it sets a watch for a single write.
 */
#include "watch/relay_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "record/shared.h"

#define FOLLOW_POLL_MS 100
#define FOLLOW_CALM_MS 200     /* after CALM_AFTER looks without new bytes, if no watch can be set */
#define FOLLOW_WATCHED_MS 1000 /* the same with a watch */
#define CALM_AFTER 50
/* At most this much is read per turn (80 MB/s), to bound the cost for the program. The rest is read
 * later. */
#define FOLLOW_TURN_BYTES ((uint64_t)8 << 20)
/* The caller waits while the rest is read after the end. If more than this is left, only its last part
 * is read. */
#define FOLLOW_BACKLOG_BYTES ((uint64_t)256 << 20)

/* The offset at which the target writes next. With O_APPEND it is the file's size. Otherwise it is
 * the position of fd 2, which all processes that inherited it share. Older bytes may follow it:
 * "2<> file". */
static int64_t file_end(const struct relay *relay)
{
    if (!relay->file_appends)
        return (int64_t)lseek(relay->down >= 0 ? relay->down : STDERR_FILENO, 0, SEEK_CUR);
    struct stat st;
    return fstat(relay->file, &st) == 0 ? (int64_t)st.st_size : -1;
}

int file_plan(struct relay *relay, struct rc_err *err)
{
    int fd = open("/proc/self/fd/2", O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return rc_err_errno(err, -errno, "cannot read the file that stderr is written to");
    relay->file = fd;
    int r = relay_fd_high(&relay->file);
    relay->file_appends = (fcntl(STDERR_FILENO, F_GETFL) & O_APPEND) != 0;
    int64_t end = r == 0 ? file_end(relay) : r;
    if (end < 0)
        return rc_err_set(err, -EIO, "cannot find the position of stderr in its file");
    relay->file_start = (uint64_t)end;
    return 0;
}

bool file_pending(const struct relay *relay, uint64_t read_bytes)
{
    int64_t end = file_end(relay);
    return end > 0 && (uint64_t)end > relay->file_start + read_bytes;
}

/* Reads the new bytes from *offset on: all of them, or at most FOLLOW_TURN_BYTES. At the end it sets the
 * shared count of bytes to the offset, because S derives our progress from it. */
static void read_new(struct carrier *c, uint64_t *offset, bool all)
{
    int64_t end = file_end(c->relay);
    if (end < 0)
        return;
    if ((uint64_t)end < *offset) { /* truncated, or the target has seeked back */
        matcher_gap(&c->matcher);
        report_gap(c);
        *offset = 0;
    }
    if ((uint64_t)end - *offset > FOLLOW_BACKLOG_BYTES) {
        look_gap(c);
        *offset = (uint64_t)end - FOLLOW_TURN_BYTES / 8;
    }
    if (!all && (uint64_t)end - *offset > FOLLOW_TURN_BYTES)
        end = (int64_t)(*offset + FOLLOW_TURN_BYTES);
    while (*offset < (uint64_t)end) {
        carry_turn(c);
        uint64_t left = (uint64_t)end - *offset;
        size_t want = left < sizeof look_buffer ? (size_t)left : sizeof look_buffer;
        ssize_t n = pread(c->relay->file, look_buffer, want, (off_t)*offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        look_at(c, look_buffer, (size_t)n);
        *offset += (uint64_t)n;
    }
    atomic_store(&c->carried->bytes,
                 *offset > c->relay->file_start ? *offset - c->relay->file_start : 0);
}

/* Events that end a sleep early. */
struct alarms {
    pid_t parent;
    int target_pidfd; /* -1 = not yet known, -2 = ended, or not available */
    int watch_fd;     /* inotify, or -1 */
};

/* The end of the target wakes us, because the last output matters most. */
static void open_target(const struct carrier *c, struct alarms *a)
{
    int32_t pid = atomic_load(&c->shared->target_pid);
    if (a->target_pidfd != -1 || pid <= 0)
        return;
    a->target_pidfd = (int)syscall(SYS_pidfd_open, pid, 0); /* Linux 5.3 */
    if (a->target_pidfd < 0)
        a->target_pidfd = -2;
}

/* Sets a watch for one event. The kernel removes it after the event. Setting it twice does no
 * harm. */
static bool watch_once(const struct carrier *c, const struct alarms *a)
{
    char path[40];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", c->relay->file);
    return a->watch_fd >= 0 && inotify_add_watch(a->watch_fd, path, IN_MODIFY | IN_ONESHOT) >= 0;
}

/* Call it before the file is read, so that no write falls between the read and the watch. */
static int next_wait_ms(const struct carrier *c, const struct alarms *a, unsigned quiet)
{
    if (quiet < CALM_AFTER)
        return FOLLOW_POLL_MS;
    return a->target_pidfd >= 0 && watch_once(c, a) ? FOLLOW_WATCHED_MS : FOLLOW_CALM_MS;
}

/* True when the watched write came. */
static bool wait_for_more(struct alarms *a, int wait_ms)
{
    struct pollfd p[2] = {
        {.fd = a->target_pidfd, .events = POLLIN},
        {.fd = a->watch_fd, .events = POLLIN},
    };
    if (poll(p, 2, wait_ms) <= 0)
        return false;
    if (p[0].revents != 0 && a->target_pidfd >= 0) {
        (void)close(a->target_pidfd);
        a->target_pidfd = -2;
    }
    if (p[1].revents == 0)
        return false;
    (void)!read(a->watch_fd, look_buffer, sizeof look_buffer); /* IN_MODIFY, IN_IGNORED */
    return true;
}

_Noreturn void file_run(struct carrier *c)
{
    struct alarms alarms = {
        .parent = shared_supervisor(), /* it may be dead by now; then getppid() is another process */
        .target_pidfd = -1,
        .watch_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK),
    };
    unsigned quiet = 0;
    uint64_t offset = c->relay->file_start + atomic_load(&c->carried->bytes);
    for (;;) {
        carry_turn(c);
        bool last = getppid() != alarms.parent || atomic_load(&c->shared->supervisor_done) != 0;
        open_target(c, &alarms);
        int wait_ms = next_wait_ms(c, &alarms, quiet);
        uint64_t before = offset;
        read_new(c, &offset, last || alarms.target_pidfd == -2);
        if (last)
            carry_done(c);
        carry_idle(c);
        quiet = offset != before ? 0 : quiet + 1;
        if (wait_for_more(&alarms, wait_ms))
            quiet = 0;
    }
}
