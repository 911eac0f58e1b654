/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"

extern char **environ;

static int spawn(const char *const *argv, int out_fd, pid_t *ret_pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none;
    sigset_t all;
    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    if (posix_spawn_file_actions_init(&actions) != 0)
        return -ENOMEM;
    if (posix_spawnattr_init(&attr) != 0) {
        (void)posix_spawn_file_actions_destroy(&actions);
        return -ENOMEM;
    }
    /* We ignore SIGPIPE and SIGXFSZ; the program must not inherit that. */
    int e = posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    e |= posix_spawnattr_setsigdefault(&attr, &all);
    e |= posix_spawnattr_setsigmask(&attr, &none);
    e |= posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    e |= posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    e |= posix_spawn_file_actions_adddup2(&actions, out_fd, 1);
    if (e == 0)
        e = posix_spawnp(ret_pid, argv[0], &actions, &attr, (char *const *)(uintptr_t)argv,
                         environ);
    (void)posix_spawnattr_destroy(&attr);
    (void)posix_spawn_file_actions_destroy(&actions);
    return -e;
}

/* Returns 0 at end of file. */
static int read_until(int fd, uint64_t deadline_ns, struct buf *out)
{
    for (;;) {
        uint64_t now = clock_mono_ns();
        if (now >= deadline_ns)
            return -ETIMEDOUT;
        uint64_t left_ms = (deadline_ns - now) / 1000000u + 1;
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, left_ms > 1000 ? 1000 : (int)left_ms) <= 0)
            continue;
        char chunk[8192];
        ssize_t n = read(fd, chunk, sizeof chunk);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : 0;
        size_t max = out->max != 0 ? out->max : BUF_DEFAULT_MAX;
        if ((size_t)n > max - out->len) {
            buf_append(out, chunk, max - out->len);
            return -EFBIG;
        }
        buf_append(out, chunk, (size_t)n);
    }
}

/* After the end of its output a program needs a moment to exit. It gets the rest of the deadline.
 * We poll in small steps, because no wait with a time limit works on every kernel. */
static int reap(pid_t pid, uint64_t deadline_ns, bool kill_now)
{
    int status = 0;
    if (kill_now)
        (void)kill(pid, SIGKILL);
    uint64_t last_ns = kill_now ? clock_mono_ns() + 200000000u : deadline_ns;
    for (;;) {
        pid_t p = waitpid(pid, &status, WNOHANG);
        if (p == pid)
            return WIFEXITED(status) ? WEXITSTATUS(status) : COLLECT_EXEC_SIGNAL + WTERMSIG(status);
        if (p < 0 && errno != EINTR)
            return -errno;
        if (clock_mono_ns() >= last_ns) {
            (void)kill(pid, SIGKILL);
            return -ETIMEDOUT;
        }
        (void)poll(NULL, 0, 1);
    }
}

int collect_exec(const char *const *argv, uint64_t deadline_mono_ns, struct buf *out,
                 struct rc_err *err)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0)
        return rc_err_errno(err, -errno, "cannot run '%s'", argv[0]);
    RC_AUTO_CLOSE int read_fd = fds[0];
    pid_t pid = 0;
    int r = spawn(argv, fds[1], &pid);
    (void)close(fds[1]);
    if (r < 0)
        return rc_err_errno(err, r, "cannot run '%s'", argv[0]);
    r = read_until(read_fd, deadline_mono_ns, out);
    int status = reap(pid, deadline_mono_ns, r < 0);
    if (r == -ETIMEDOUT || status == -ETIMEDOUT)
        return rc_err_set(err, -ETIMEDOUT, "'%s' did not end in time", argv[0]);
    if (r < 0)
        return rc_err_errno(err, r, "cannot read the output of '%s'", argv[0]);
    return status;
}
