/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/tracer_internal.h"

#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "launch/target.h"
#include "record/shared.h"

/* A stop costs the target 20 us. Above this rate that is 1 % of a core: let the process go, when it
 * has had BUSY_BURST more than that, and look at it again later. A program that starts a few hundred
 * threads is not busy; a shell that starts a thousand children a second is, by their SIGCHLD. */
#define BUSY_EVENTS_PER_S 500u
#define BUSY_BURST 1000u
#define BUSY_PAUSE_NS 10000000000u /* the next burst then costs 0.2 % */
/* A short child that is traced from its first moment costs 0.1 to 0.3 ms (fork, first stop, exec, exit,
 * end): above this rate children are traced late, as without privilege. */
#define FORKS_PER_S 100u
#define FORKS_BURST 100u
#define LATE_SCAN_PERIOD_S 1

void tracer_release(struct traced_process *process, enum release_reason reason)
{
    if (process->releasing != RELEASE_FOR_GOOD)
        process->releasing = reason;
    uint16_t index = (uint16_t)(process - tracer.tracees->processes);
    for (uint32_t i = 0; i < TRACEE_THREADS_MAX; i++) {
        const struct traced_thread *thread = &tracer.tracees->threads[i];
        if (thread->tid != 0 && thread->process == index)
            (void)ptrace(PTRACE_INTERRUPT, thread->tid, NULL, NULL);
    }
}

/* Remembers a released process. The kernel attaches its new threads to us, and they must not
 * look like a process that was never seen. */
static struct released *find_released(pid_t tgid)
{
    for (uint32_t i = 0; i < tracer.released_count && i < TRACER_RELEASED_MAX; i++)
        if (tracer.released[i].pid == tgid)
            return &tracer.released[i];
    return NULL;
}

bool tracer_was_released(pid_t tgid)
{
    return find_released(tgid) != NULL;
}

static void note_released(pid_t tgid, enum release_reason reason)
{
    struct released *entry = find_released(tgid);
    if (entry == NULL)
        entry = &tracer.released[tracer.released_count++ % TRACER_RELEASED_MAX];
    static const uint64_t pause_ns[] = {[RELEASE_UNTIL_EXEC] = 0, [RELEASE_BUSY] = BUSY_PAUSE_NS};
    bool for_good = reason == RELEASE_FOR_GOOD;
    *entry = (struct released){
        .pid = tgid,
        .seize_after_ns = for_good ? UINT64_MAX : clock_mono_ns() + pause_ns[reason],
    };
    if (!for_good)
        tracer_scan_every_second();
}

void tracer_note_released(const struct traced_process *process)
{
    note_released(process->pid, process->releasing);
}

void tracer_keep_released(pid_t tgid)
{
    struct released *entry = find_released(tgid);
    if (entry != NULL)
        entry->seize_after_ns = UINT64_MAX;
}

/* The number belongs to another process now. */
void tracer_forget_released(pid_t tgid)
{
    struct released *entry = find_released(tgid);
    if (entry != NULL)
        entry->pid = 0;
}

/* It may become a set-uid program at any time: "bash -c 'sleep 9; sudo x'" is replaced by its last command. */
static bool may_become_privileged(pid_t pid)
{
    char link[32], path[FS_PATH_MAX];
    (void)snprintf(link, sizeof link, "/proc/%d/exe", pid);
    ssize_t len = tracer.privileged ? -1 : readlink(link, path, sizeof path - 1);
    if (len < 0)
        return false;
    path[len] = '\0';
    return target_is_launcher(path) || tracer_may_exec_unseen(pid);
}

bool tracer_may_seize_again(pid_t tgid)
{
    struct released *entry = find_released(tgid);
    if ((entry != NULL && clock_mono_ns() < entry->seize_after_ns) || may_become_privileged(tgid))
        return false;
    if (tracer_is_left_alone(tgid)) {
        note_released(tgid, RELEASE_FOR_GOOD);
        return false;
    }
    if (entry != NULL)
        entry->pid = 0;
    return true;
}

/* A bucket that drains at the rate that is fine: true when it holds more than `burst`. */
static bool rate_exceeded(struct rate *rate, uint64_t now_ns, uint32_t per_s, uint32_t burst)
{
    uint64_t drained = (now_ns - rate->drained_ns) * per_s / 1000000000u;
    if (drained > 0) {
        rate->events -= drained < rate->events ? (uint32_t)drained : rate->events;
        rate->drained_ns = now_ns;
    }
    rate->events++;
    return rate->events > burst;
}

void tracer_note_event(struct traced_process *process, uint64_t now_ns)
{
    if (rate_exceeded(&process->rate, now_ns, BUSY_EVENTS_PER_S, BUSY_BURST) &&
        process->releasing == RELEASE_NOT) {
        tracer.shared->processes_released_busy++;
        shared_event(tracer.shared, "tracer", "pid %d is busy: no longer traced", process->pid);
        tracer_release(process, RELEASE_BUSY);
    }
}

void tracer_scan_every_second(void)
{
    struct itimerval period = {{LATE_SCAN_PERIOD_S, 0}, {LATE_SCAN_PERIOD_S, 0}};
    tracer.scans = true;
    (void)setitimer(ITIMER_REAL, &period, NULL);
}

/* The tree starts short processes all the time. The scan finds those that live on. */
static void children_become_late(const char *why)
{
    tracer.eager = false;
    tracer.ptrace_options &= ~(PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK);
    tracer.shared->children_late = 1;
    shared_event(tracer.shared, "tracer", "%s: processes are no longer traced from their start", why);
    tracer_scan_every_second();
}

void tracer_note_fork(void)
{
    if (tracer.eager && rate_exceeded(&tracer.forks, clock_mono_ns(), FORKS_PER_S, FORKS_BURST))
        children_become_late("many short processes");
}

/* A child that the program wants to trace must not be traced by us already: it would stop, and wait for a parent that
 * never hears of it. */
void tracer_leave_children(pid_t tid, pid_t pid)
{
    if (!tracer.eager || !tracer_names_ptrace(pid))
        return;
    children_become_late("a program traces others");
    (void)ptrace(PTRACE_SETOPTIONS, tid, NULL, (void *)(intptr_t)tracer.ptrace_options);
}
