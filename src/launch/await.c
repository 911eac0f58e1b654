/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/await.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/say.h"
#include "launch/snapshot.h"
#include "record/shared.h"

#define TURN_MS 500

int await_begin(struct await *a, pid_t pid, const struct condition_list *conditions, struct rc_err *err)
{
    int fd = -1;
    uint32_t idle_ms = conditions_idle_ms(conditions);
    *a = (struct await){.pidfd = (int)syscall(SYS_pidfd_open, pid, 0)};
    a->look_ms = idle_ms == 0 || idle_ms > 4 * STILL_LOOK_MS ? STILL_LOOK_MS : idle_ms / 4;
    if (a->pidfd < 0)
        return rc_err_set(err, -errno, errno == ESRCH ? "there is no process %d" : "cannot look at process %d",
                          (int)pid);
    a->shared = shared_create(&fd, err);
    if (a->shared == NULL)
        return -ENOMEM;
    (void)close(fd);
    a->shared->target_pid = pid;
    a->shared->target_state = TARGET_RUNNING;
    if (!conditions_watch(&a->watches, conditions))
        return rc_err_errno(err, -ENOMEM, "cannot watch process %d", (int)pid);
    a->sampler = snapshot_start_sampler(a->shared);
    return a->sampler > 0 ? 0 : rc_err_errno(err, -errno, "cannot watch process %d", (int)pid);
}

static bool has_ended(const struct await *a, int wait_ms)
{
    struct pollfd fd = {.fd = a->pidfd, .events = POLLIN};
    return poll(&fd, 1, wait_ms) > 0 && fd.revents != 0;
}

int await_next(struct await *a, char *why, unsigned size)
{
    a->still.turn_ns = 0; /* our caller has made a bundle since: the process was not paused */
    while (!has_ended(a, TURN_MS)) {
        if (waitpid(a->sampler, NULL, WNOHANG) == a->sampler) {
            a->sampler = 0;
            return -ECHILD;
        }
        uint64_t still_ms = still_turn(&a->still, a->shared, a->look_ms, STILL_SILENT_MS);
        const struct condition_times times = {.idle_ms = still_ms, .silent_ms = CONDITION_TIME_UNKNOWN,
                                              .step_ms = CONDITION_TIME_UNKNOWN};
        const struct condition_watch *crossed =
            conditions_turn(&a->watches, a->shared, &times, clock_mono_ns());
        const struct condition_watch *unread = conditions_unread(&a->watches, clock_mono_ns());
        if (unread != NULL)
            (void)say_line(stderr, "rocmcrash: --watch=%s: that cannot be read here", unread->condition.text);
        if (crossed == NULL)
            continue;
        condition_tell(crossed, why, size);
        return 1;
    }
    return 0;
}

bool await_end(struct await *a, char *why, unsigned size)
{
    if (a->sampler > 0)
        (void)kill(a->sampler, SIGKILL); /* one in D state is left behind */
    for (unsigned i = 0; i < a->watches.count; i++) {
        if (!a->watches.list[i].ever_known) {
            (void)snprintf(why, size, "%s", a->watches.list[i].condition.text);
            return false;
        }
    }
    return true;
}
