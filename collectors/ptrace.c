/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Can a child be traced here? This is tried out, because Yama, a filter of system calls and SELinux refuse it
 * in ways that no file shows. The settings that could refuse it are given beside the answer.
 */
#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fs.h"
#include "collect/collector.h"
#include "collectors/machine.h"

#define STATUS_SIZE 8192
#define NOT_TRIED 255 /* exit status of the child that tries; others are numbers of errors */

static pid_t start_target(void)
{
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (getppid() == parent)
        (void)pause();
    _exit(0);
}

static _Noreturn void seize_and_exit(void)
{
    (void)prctl(PR_SET_DUMPABLE, 1); /* as a program is; a collector has taken that from itself */
    pid_t target = start_target();
    if (target < 0)
        _exit(NOT_TRIED);
    int error = ptrace(PTRACE_SEIZE, target, NULL, NULL) == 0 ? 0 : errno;
    (void)kill(target, SIGKILL);
    (void)waitpid(target, NULL, __WALL);
    _exit(error);
}

/* In a child: a filter may end the process that calls ptrace(). */
static void give_access(struct collect_out *out)
{
    static const char fact[] = "host.trace_access";
    static const char source[] = "PTRACE_SEIZE of a child";
    int status = 0;
    pid_t pid = fork();
    if (pid == 0)
        seize_and_exit();
    while (pid > 0 && waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            pid = -1;
    if (pid < 0 || (WIFEXITED(status) && WEXITSTATUS(status) == NOT_TRIED))
        collect_missing(out, fact, FACT_STATIC, FACT_UNREADABLE, "no child could be made", source);
    else if (WIFSIGNALED(status))
        collect_text(out, fact, FACT_STATIC, strsignal(WTERMSIG(status)), source);
    else
        collect_text(out, fact, FACT_STATIC,
                     WEXITSTATUS(status) == 0 ? "yes" : strerror(WEXITSTATUS(status)), source);
}

/* The number after a name of /proc/self/status; false where there is none. */
static bool field(const char *status, const char *name, int base, uint64_t *value)
{
    const char *line = strstr(status, name);
    char *end = NULL;
    if (line == NULL)
        return false;
    line += strlen(name);
    *value = strtoull(line, &end, base);
    return end != line;
}

static enum collect_status run(const struct collect_ctx *ctx, struct collect_out *out)
{
    static const char path[] = "/proc/self/status";
    char status[STATUS_SIZE];
    uint64_t tracer = 0;
    uint64_t value = 0;
    (void)ctx;
    machine_integer(out, "host.ptrace_scope", FACT_STATIC, "/proc/sys/kernel/yama/ptrace_scope");
    if (fs_sysroot()[0] != '\0') /* what this machine allows says nothing about a recorded one */
        return COLLECT_OK;
    if (fs_read_text(path, status, sizeof status) <= 0)
        return collect_reason(out, COLLECT_FAILED, "cannot read %s", path);
    if (field(status, "\nCapEff:\t", 16, &value))
        collect_boolean(out, "host.trace_capability", FACT_STATIC,
                        (value >> CAP_SYS_PTRACE & 1) != 0, path);
    if (field(status, "\nSeccomp:\t", 10, &value))
        collect_boolean(out, "host.seccomp_filter", FACT_STATIC, value == SECCOMP_MODE_FILTER, path);
    /* A debugger that follows children already traces our child. That is no refusal. */
    if (field(status, "\nTracerPid:\t", 10, &tracer) && tracer != 0)
        collect_missing(out, "host.trace_access", FACT_STATIC, FACT_ABSENT,
                        "this process is traced already", path);
    else
        give_access(out);
    return COLLECT_OK;
}

const struct collector collector_ptrace = {
    .name = "ptrace",
    .describe = "whether a child can be traced",
    .phase = COLLECT_QUICK,
    .deadline_ms = 2000,
    .run = run,
};
