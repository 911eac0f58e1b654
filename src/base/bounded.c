/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bounded.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptors.h"

#define CHILDREN_MAX 4 /* steps that never end */
#define KILLED_MS 20 /* most that hang can be killed, and leave no zombie then */

enum answer { ANSWER_NO_CHILD, ANSWER_LATE, ANSWER_NO, ANSWER_YES };

/* waitpid() with a limit: the child's pid, 0 when it is not over, -1. */
static pid_t reap_within(pid_t pid, int pidfd, unsigned within_ms, int *ret_status)
{
    uint64_t give_up_ns = clock_mono_ns() + within_ms * NS_PER_MS;
    pid_t reaped;
    while ((reaped = waitpid(pid, ret_status, WNOHANG)) == 0 && clock_mono_ns() < give_up_ns) {
        struct pollfd fd = {.fd = pidfd, .events = POLLIN};
        (void)poll(&fd, 1, pidfd >= 0 ? (int)within_ms : 1);
    }
    return reaped;
}

static enum answer await(pid_t pid, unsigned within_ms)
{
    int status = 0;
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0); /* Linux 5.3 */
    pid_t reaped = reap_within(pid, pidfd, within_ms, &status);
    if (reaped == 0) {
        (void)kill(pid, SIGKILL);
        (void)reap_within(pid, pidfd, KILLED_MS, &status);
    }
    if (pidfd >= 0)
        (void)close(pidfd);
    if (reaped == 0)
        return ANSWER_LATE;
    return reaped == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? ANSWER_YES : ANSWER_NO;
}

static enum answer ask(bool (*question)(void *context), void *context, unsigned within_ms)
{
    pid_t pid = fork();
    if (pid == 0) {
        close_descriptors(0, ~0u); /* a child in D state would hold the caller's descriptors */
        (void)umask(077); /* the caller's umask may deny even us our own files */
        _exit(question(context) ? 0 : 1);
    }
    return pid > 0 ? await(pid, within_ms) : ANSWER_NO_CHILD;
}

bool bounded_ask(bool (*question)(void *context), void *context, unsigned within_ms)
{
    return ask(question, context, within_ms) == ANSWER_YES;
}

bool bounded_reach(bool (*question)(void *context), void *context, unsigned within_ms)
{
    return ask(question, context, within_ms) != ANSWER_LATE;
}

struct steps {
    void (*step)(void *context, uint32_t i);
    void *context;
    _Atomic uint32_t *next;
    uint32_t count;
};

static bool take_steps(void *context)
{
    const struct steps *s = context;
    while (*s->next < s->count)
        s->step(s->context, (*s->next)++);
    return true;
}

void bounded_steps(void (*step)(void *context, uint32_t i), void *context, _Atomic uint32_t *next,
                   uint32_t count, unsigned within_ms)
{
    struct steps steps = {step, context, next, count};
    for (int children = 0; children < CHILDREN_MAX && *next < count; children++) {
        if (ask(take_steps, &steps, within_ms) == ANSWER_NO_CHILD)
            (void)take_steps(&steps);
    }
}
