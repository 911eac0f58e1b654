/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The child of a collector, before and after the collector's own code: it gives up everything with
 * which it could harm the finisher, the terminal or the disk.
 */
#include "collect/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/memory.h"
#include "collect/out.h"

#ifdef ROCMCRASH_COVERAGE
extern void __gcov_dump(void);
extern void __gcov_reset(void);
#endif

enum { FD_DIR = 3, FD_STATUS = 4, FD_FIRST_CLOSED = 5 };

static void limit_soft(__rlimit_resource_t resource, rlim_t value)
{
    struct rlimit limit;
    if (getrlimit(resource, &limit) != 0)
        return;
    limit.rlim_cur =
        limit.rlim_max == RLIM_INFINITY || value < limit.rlim_max ? value : limit.rlim_max;
    (void)setrlimit(resource, &limit);
}

static void set_limits(uint64_t deadline_ns, uint64_t max_bytes)
{
    uint64_t now = clock_mono_ns();
    uint64_t left_s = deadline_ns > now ? (deadline_ns - now) / 1000000000u : 0;
    /* One process cannot use more CPU time than wall time. One second more lets the deadline act
     * first. One byte more shows the runner that something was cut. */
    limit_soft(RLIMIT_CPU, (rlim_t)left_s + 2);
    limit_soft(RLIMIT_FSIZE, (rlim_t)max_bytes + 1);
    limit_soft(RLIMIT_CORE, 0);
    (void)prctl(PR_SET_DUMPABLE, 0);
}

static void reset_signals(void)
{
    for (int signo = 1; signo < NSIG; signo++)
        (void)signal(signo, SIG_DFL);
    /* A write beyond the limit, or to a runner that is gone, must be an error, not a fatal
     * signal. */
    (void)signal(SIGXFSZ, SIG_IGN);
    (void)signal(SIGPIPE, SIG_IGN);
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* 0, 1, 2 = /dev/null, 3 = folder, 4 = status pipe, nothing else. */
static int arrange_fds(int dir_fd, int status_fd)
{
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null_fd < 0)
        return -errno;
    /* Move both above 4 first, so that no dup2() below closes what is still needed. */
    int high_null = fcntl(null_fd, F_DUPFD_CLOEXEC, 16);
    int high_dir = fcntl(dir_fd, F_DUPFD_CLOEXEC, 16);
    int high_status = fcntl(status_fd, F_DUPFD_CLOEXEC, 16);
    if (high_null < 0 || high_dir < 0 || high_status < 0)
        return -errno;
    for (int fd = 0; fd <= 2; fd++)
        if (dup2(high_null, fd) < 0)
            return -errno;
    if (dup3(high_dir, FD_DIR, O_CLOEXEC) < 0 || dup3(high_status, FD_STATUS, O_CLOEXEC) < 0)
        return -errno;
    close_descriptors(FD_FIRST_CLOSED, ~0u);
    return 0;
}

_Noreturn static void leave(int status)
{
#ifdef ROCMCRASH_COVERAGE
    limit_soft(RLIMIT_FSIZE, RLIM_INFINITY);
    __gcov_dump();
#endif
    _exit(status);
}

_Noreturn void child_run(const struct collector *collector, const struct collect_ctx *ctx,
                         pid_t parent, int dir_fd, int status_fd, uint64_t deadline_ns,
                         uint64_t max_bytes)
{
#ifdef ROCMCRASH_COVERAGE
    __gcov_reset();
#endif
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    reset_signals();
    static struct collect_out out;
    out.memory_refusals = memory_refusals();
    int r = arrange_fds(dir_fd, status_fd);
    if (r != 0) {
        out.status_fd = status_fd;
        collect_out_done(&out, collect_reason(&out, COLLECT_FAILED, "cannot start: %s",
                                              strerror(-r)));
        leave(0);
    }
    set_limits(deadline_ns, max_bytes);
    out.dir_fd = FD_DIR;
    out.status_fd = FD_STATUS;
    out.max_bytes = max_bytes;
    struct collect_ctx own = *ctx;
    own.deadline_mono_ns = deadline_ns;
    own.program = collector->program;
    collect_out_done(&out, collector->run(&own, &out));
    leave(0);
}
