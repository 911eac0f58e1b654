/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stderr in a regular file: nothing is put in between, the relay process reads the file behind the
 * target. By polling, not inotify: a watch would cost the target at every write.
 */
#include "watch/relay_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "record/shared.h"

#define FOLLOW_POLL_MS 100
#define FOLLOW_CALM_MS 200 /* nothing new for CALM_AFTER looks */
#define CALM_AFTER 50
/* Behind by more than this (a program that writes 80 MB/s): look at the last part only. */
#define FOLLOW_BACKLOG_BYTES ((uint64_t)8 << 20)

/* Where the target is. With O_APPEND the size tells; else the position of fd 2, which all who
 * inherited it share: the file may hold older bytes behind it ("2<> file"). */
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
    int rc = relay_fd_high(&relay->file);
    relay->file_appends = (fcntl(STDERR_FILENO, F_GETFL) & O_APPEND) != 0;
    int64_t end = rc == 0 ? file_end(relay) : rc;
    if (end < 0)
        return rc_err_set(err, -EIO, "cannot tell where stderr stands in its file");
    relay->file_start = (uint64_t)end;
    return 0;
}

bool file_pending(const struct relay *relay, uint64_t output_bytes)
{
    int64_t end = file_end(relay);
    return end > 0 && (uint64_t)end > relay->file_start + output_bytes;
}

/* What is new from *offset on. output_bytes tells S how far we are, so it follows the offset. */
static void read_new(struct carrier *c, uint64_t *offset)
{
    int64_t end = file_end(c->relay);
    if (end < 0)
        return;
    if ((uint64_t)end < *offset) { /* truncated, or the target went back */
        matcher_gap(&c->matcher);
        *offset = 0;
    }
    if ((uint64_t)end - *offset > FOLLOW_BACKLOG_BYTES) {
        matcher_gap(&c->matcher);
        *offset = (uint64_t)end - FOLLOW_BACKLOG_BYTES / 8;
    }
    while (*offset < (uint64_t)end) {
        carry_turn(c);
        uint64_t left = (uint64_t)end - *offset;
        size_t want = left < sizeof look_buffer ? (size_t)left : sizeof look_buffer;
        ssize_t n = pread(c->relay->file, look_buffer, want, (off_t)*offset);
        if (n <= 0)
            break;
        look_at(c, look_buffer, (size_t)n);
        *offset += (uint64_t)n;
    }
    atomic_store(&c->shared->output_bytes,
                 *offset > c->relay->file_start ? *offset - c->relay->file_start : 0);
}

/* Sleep, but wake at once when the target ends: its last words are what we are here for. */
static void wait_for_more(const struct carrier *c, int *target_pidfd, int wait_ms)
{
    if (*target_pidfd == -1) {
        int32_t pid = atomic_load(&c->shared->target_pid);
        if (pid > 0)
            *target_pidfd = (int)syscall(SYS_pidfd_open, pid, 0); /* Linux 5.3 */
        if (pid > 0 && *target_pidfd < 0)
            *target_pidfd = -2;
    }
    struct pollfd p = {.fd = *target_pidfd, .events = POLLIN};
    if (poll(&p, 1, wait_ms) > 0 && *target_pidfd >= 0) {
        (void)close(*target_pidfd);
        *target_pidfd = -2;
    }
}

_Noreturn void file_run(struct carrier *c)
{
    pid_t parent = getppid();
    int target_pidfd = -1; /* -2 = ended, or cannot be had */
    unsigned quiet = 0;
    uint64_t offset = c->relay->file_start + atomic_load(&c->shared->output_bytes);
    for (;;) {
        carry_turn(c);
        bool last = getppid() != parent || atomic_load(&c->shared->supervisor_done) != 0;
        uint64_t before = offset;
        read_new(c, &offset);
        if (last)
            carry_done(c);
        carry_idle(c);
        quiet = offset != before ? 0 : quiet + 1;
        wait_for_more(c, &target_pidfd, quiet < CALM_AFTER ? FOLLOW_POLL_MS : FOLLOW_CALM_MS);
    }
}
