/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/privilege.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "inject/let_go.h"
#include "inject/raw.h"

#define KERNEL_SIGSET_BYTES 8

/* By its path: it may not be readable. */
static bool gains_privilege(const char *program)
{
    struct stat st;
    if (raw_call(SYS_newfstatat, AT_FDCWD, program, &st, 0) != 0)
        return false;
    return (st.st_mode & (S_ISUID | S_ISGID)) != 0 ||
           raw_call(SYS_getxattr, program, "security.capability", NULL, 0) > 0;
}

/* "TracerPid:\t0" in /proc/thread-self/status, which may be longer than what is read: the line is near its beginning. */
static bool is_traced(void)
{
    static const char name[] = "TracerPid:\t";
    char status[512];
    long fd = raw_call(SYS_openat, AT_FDCWD, "/proc/thread-self/status", O_RDONLY | O_CLOEXEC, 0);
    long n = fd >= 0 ? raw_call(SYS_read, fd, status, sizeof status - 1, 0) : 0;
    if (fd >= 0)
        (void)raw_call(SYS_close, fd, 0, 0, 0);
    status[n > 0 ? n : 0] = '\0';
    for (const char *p = status; *p != '\0'; p++)
        if (raw_starts(p, name))
            return p[sizeof name - 1] != '0';
    return false;
}

/* The tracer has answered when the call returns: the signal is taken on the way back. */
static void ask_tracer(void)
{
    uint64_t only = UINT64_C(1) << (LET_GO_SIGNAL - 1), before = 0;
    siginfo_t si = {.si_signo = LET_GO_SIGNAL, .si_code = SI_QUEUE};
    long pid = raw_call(SYS_getpid, 0, 0, 0, 0);
    si.si_pid = (pid_t)pid;
    si.si_value.sival_ptr = (void *)LET_GO_VALUE;
    (void)raw_call(SYS_rt_sigprocmask, SIG_UNBLOCK, &only, &before, KERNEL_SIGSET_BYTES);
    (void)raw_call(SYS_rt_tgsigqueueinfo, pid, raw_call(SYS_gettid, 0, 0, 0, 0), LET_GO_SIGNAL, &si);
    (void)raw_call(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, KERNEL_SIGSET_BYTES);
}

void privilege_before_exec(const char *program, bool is_known)
{
    if ((is_known || gains_privilege(program)) && is_traced())
        ask_tracer();
}
