/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/hang_end.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/say.h"
#include "record/shared.h"

#define TERM_GRACE_MS 10000u
#define KILL_GRACE_MS 5000u
#define LOOK_MS 20

static uint64_t passed_ms(const struct hang_ending *e)
{
    return (clock_mono_ns() - e->since_ns) / NS_PER_MS;
}

static void next_step(struct hang_ending *e, struct shared *shared, enum hang_end step)
{
    e->step = step;
    e->since_ns = clock_mono_ns();
    shared_event(shared, "supervisor", "hang watch: %s",
                 step == HANG_END_TERM   ? "SIGTERM"
                 : step == HANG_END_KILL ? "SIGKILL, as SIGTERM did not end it"
                                         : "not even SIGKILL ends it: it is blocked in the kernel");
}

static void list_processes(struct hang_ending *e, pid_t root)
{
    static pid_t pids[TREE_SCAN_MAX];
    uint32_t count = tree_scan_list(root, pids, TREE_SCAN_MAX);
    for (uint32_t i = 0; i < count && e->count < TREE_SCAN_MAX; i++) {
        int fd = (int)syscall(SYS_pidfd_open, pids[i], 0); /* Linux 5.3 */
        if (fd >= 0)
            e->processes[e->count++] = fd;
    }
}

static void signal_processes(const struct hang_ending *e, pid_t root, int signo)
{
    if (e->count == 0 && root > 0) /* this system has no pidfds */
        (void)kill(root, signo);
    for (uint32_t i = 0; i < e->count; i++)
        (void)syscall(SYS_pidfd_send_signal, e->processes[i], signo, NULL, 0);
}

static uint32_t living(const struct hang_ending *e)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < e->count; i++) {
        struct pollfd fd = {.fd = e->processes[i], .events = POLLIN}; /* readable once it has ended */
        count += poll(&fd, 1, 0) == 0;
    }
    return count;
}

static uint32_t wait_for_rest(const struct hang_ending *e, uint64_t until_ns)
{
    uint32_t left;
    while ((left = living(e)) > 0 && clock_mono_ns() < until_ns)
        (void)poll(NULL, 0, LOOK_MS);
    return left;
}

void hang_ending_turn(struct hang_ending *e, struct shared *shared, bool quiet)
{
    if (e->step == HANG_END_NONE) {
        shared_note_still_signal(shared, SIGTERM);
        shared->still_ended = 1;
        list_processes(e, shared->target_pid);
        signal_processes(e, shared->target_pid, SIGTERM);
        next_step(e, shared, HANG_END_TERM);
    } else if (e->step == HANG_END_TERM && passed_ms(e) >= TERM_GRACE_MS) {
        list_processes(e, shared->target_pid);
        signal_processes(e, shared->target_pid, SIGKILL);
        next_step(e, shared, HANG_END_KILL);
    } else if (e->step == HANG_END_KILL && passed_ms(e) >= KILL_GRACE_MS) {
        next_step(e, shared, HANG_END_GIVEN_UP);
        if (!quiet)
            (void)say_line(stderr, "rocmcrash: process %d does not even end by SIGKILL: it is blocked in "
                                   "the kernel", (int)shared->target_pid);
    }
}

uint32_t hang_ending_rest(struct hang_ending *e)
{
    uint32_t left = wait_for_rest(e, e->since_ns + TERM_GRACE_MS * NS_PER_MS);
    if (left > 0) {
        signal_processes(e, 0, SIGKILL);
        left = wait_for_rest(e, clock_mono_ns() + KILL_GRACE_MS * NS_PER_MS);
    }
    for (uint32_t i = 0; i < e->count; i++)
        (void)close(e->processes[i]);
    e->count = 0;
    return left;
}
