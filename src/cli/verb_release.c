/* SPDX-License-Identifier: Apache-2.0 */
/* `release PID`: the tracer of the process, which must be a rocmcrash, lets it go, so that gdb -p can attach. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fs.h"
#include "base/proc_stat.h"
#include "cli/outcome.h"
#include "cli/verbs.h"

/* 0 = none, or one that is no rocmcrash. */
static pid_t own_tracer_of(pid_t pid)
{
    char path[64];
    char exe[FS_PATH_MAX];
    pid_t tracer = (pid_t)proc_status_number(pid, "TracerPid");
    (void)snprintf(path, sizeof path, "/proc/%d/exe", (int)tracer);
    ssize_t n = tracer > 0 ? readlink(path, exe, sizeof exe - 1) : -1;
    exe[n > 0 ? n : 0] = '\0';
    const char *name = strrchr(exe, '/');
    return name != NULL && strcmp(name, "/rocmcrash") == 0 ? tracer : 0;
}

static int release(struct outcome *outcome, pid_t pid, struct rc_err *err)
{
    pid_t tracer = own_tracer_of(pid);
    if (tracer == 0)
        return rc_err_set(err, -ESRCH, "process %d is not traced by a rocmcrash", (int)pid);
    if (sigqueue(tracer, SIGUSR2, (union sigval){.sival_int = (int)pid}) != 0)
        return rc_err_errno(err, -errno, "cannot reach tracer %d", (int)tracer);
    outcome_number(outcome, "tracer", tracer);
    return 0;
}

int verb_release(int argc, char *argv[])
{
    static const struct plain_verb verb = {
        .name = "release", .usage = "release [--json] PID", .has_operand = true,
        .help = "Lets go of a traced process, so that gdb -p can attach to it. It goes on. When\n"
                "it dies, there is less in the bundle."};
    struct outcome outcome;
    struct rc_err err = {""};
    pid_t pid = 0;
    int status = plain_verb_process(&verb, argc, argv, &outcome, &pid);
    if (status != OUTCOME_GOES_ON)
        return status;
    outcome_number(&outcome, "pid", pid);
    int r = release(&outcome, pid, &err);
    return outcome_end(&outcome, r < 0 ? VERB_EXIT_FAILED : VERB_EXIT_OK, NULL, &err);
}
