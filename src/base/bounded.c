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

enum answer { ANSWER_YES, ANSWER_NO, ANSWER_LATE, ANSWER_NO_CHILD };

static enum answer ask(bool (*question)(void *context), void *context, unsigned within_ms)
{
    pid_t pid = fork();
    if (pid < 0)
        return ANSWER_NO_CHILD;
    if (pid == 0) {
        close_descriptors(0, ~0u); /* in D state it would hold what the caller gave us */
        (void)umask(077); /* the caller's may leave not even us what we make */
        _exit(question(context) ? 0 : 1);
    }
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0); /* Linux 5.3 */
    uint64_t give_up_ns = clock_mono_ns() + within_ms * NS_PER_MS;
    int status = 0;
    pid_t reaped;
    while ((reaped = waitpid(pid, &status, WNOHANG)) == 0 && clock_mono_ns() < give_up_ns) {
        struct pollfd fd = {.fd = pidfd, .events = POLLIN};
        (void)poll(&fd, 1, pidfd >= 0 ? (int)within_ms : 1);
    }
    if (pidfd >= 0)
        (void)close(pidfd);
    if (reaped == 0) {
        (void)kill(pid, SIGKILL);
        return ANSWER_LATE;
    }
    return reaped == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? ANSWER_YES : ANSWER_NO;
}

bool bounded_ask(bool (*question)(void *context), void *context, unsigned within_ms)
{
    return ask(question, context, within_ms) == ANSWER_YES;
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
