/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/hang.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/err.h"
#include "base/loader_variables.h"
#include "base/say.h"
#include "launch/finish.h"
#include "launch/options.h"
#include "launch/snapshot.h"
#include "launch/tree_scan.h"
#include "record/shared.h"
#include "watch/relay.h"

#define TERM_GRACE_MS 10000u
#define KILL_GRACE_MS 5000u
#define HASH_MS 5000u

static int finish(int fd, const struct launch_options *options, enum loader_variables aside)
{
    int status = -1;
    pid_t finisher = finish_start(fd, options, FINISH_BUNDLE, aside, true);
    if (finisher > 0 && waitpid(finisher, &status, 0) != finisher)
        status = -1;
    return status;
}

static _Noreturn void make_snapshot(struct shared *snapshot, int fd, pid_t target,
                                    const struct launch_options *options, struct relay *relays,
                                    uint64_t still_ms)
{
    char why[96];
    struct rc_err err = {""};
    struct launch_options own = *options;
    own.preview = false; /* nobody is asked while the program runs */
    own.hash_budget_ms = HASH_MS;
    (void)snprintf(why, sizeof why, "no output, CPU time or I/O for %llu s",
                   (unsigned long long)(still_ms / 1000));
    (void)umask(077);
    relays_drop(relays);
    leave_caller();
    finish_lift_limits();
    const struct snapshot_options what = {
        .pid = target, .tree = true, .why = why, .output_dir = options->output_dir};
    if (snapshot_take(snapshot, &what, &err) < 0)
        _exit(1);
    int status = finish(fd, &own, LOADER_VARIABLES_ALL);
    if (status != 0 && snapshot->bundle_path[0] == '\0') /* its libraries may be where LD_LIBRARY_PATH says */
        status = finish(fd, &own, LOADER_VARIABLES_NONE);
    _exit(status == 0 ? 0 : 1);
}

static void start_snapshot(struct hang *h, struct shared *shared,
                           const struct launch_options *options, struct relay *relays,
                           uint64_t still_ms)
{
    struct rc_err err = {""};
    int fd = -1;
    h->looked = true;
    if (h->count >= HANG_SNAPSHOTS_MAX)
        return;
    struct shared *snapshot = shared_create(&fd, &err);
    if (snapshot == NULL) {
        shared_event(shared, "supervisor", "hang watch: %s", err.msg);
        return;
    }
    if (h->snapshot != NULL)
        (void)munmap(h->snapshot, sizeof *h->snapshot);
    h->snapshot = snapshot;
    h->count++;
    h->child = fork();
    if (h->child == 0)
        make_snapshot(snapshot, fd, shared->target_pid, options, relays, still_ms);
    (void)close(fd);
    shared_event(shared, "supervisor", "hang watch: no output, CPU time or I/O for %llu ms",
                 (unsigned long long)still_ms);
}

bool hang_child_ended(struct hang *h, pid_t pid)
{
    if (pid != h->child || pid <= 0)
        return false;
    h->child = 0;
    return true;
}

/* --- ending it --- */

static void kill_tree(pid_t root)
{
    static pid_t pids[TREE_SCAN_MAX];
    uint32_t count = tree_scan_list(root, pids, TREE_SCAN_MAX);
    for (uint32_t i = 0; i < count; i++)
        (void)kill(pids[i], SIGKILL);
}

static void next_end(struct hang *h, struct shared *shared, enum hang_end end)
{
    h->end = end;
    h->end_ns = clock_mono_ns();
    shared_event(shared, "supervisor", "hang watch: %s",
                 end == HANG_END_TERM   ? "SIGTERM"
                 : end == HANG_END_KILL ? "SIGKILL, as SIGTERM did not end it"
                                        : "not even SIGKILL ends it: it is blocked in the kernel");
}

/* TERM, grace, KILL; one in D state outlives that, and is told of. */
static void end_program(struct hang *h, struct shared *shared, bool quiet)
{
    uint64_t waited_ms = h->end == HANG_END_NOT ? 0 : (clock_mono_ns() - h->end_ns) / NS_PER_MS;
    if (h->end == HANG_END_NOT) {
        (void)kill(shared->target_pid, SIGTERM);
        next_end(h, shared, HANG_END_TERM);
    } else if (h->end == HANG_END_TERM && waited_ms >= TERM_GRACE_MS) {
        kill_tree(shared->target_pid);
        next_end(h, shared, HANG_END_KILL);
    } else if (h->end == HANG_END_KILL && waited_ms >= KILL_GRACE_MS) {
        next_end(h, shared, HANG_END_TOLD);
        if (!quiet)
            (void)say_line(stderr, "rocmcrash: process %d does not even end by SIGKILL: it is blocked in "
                                   "the kernel", (int)shared->target_pid);
    }
}

void hang_turn(struct hang *h, struct shared *shared, const struct launch_options *options,
               struct relay *relays)
{
    uint32_t after_ms = options->hang_after_ms;
    if (after_ms == 0)
        return;
    uint32_t look_ms = after_ms > 0 && after_ms < 4 * STILL_LOOK_MS ? after_ms / 4 : STILL_LOOK_MS;
    uint64_t still_ms = still_turn(&h->still, shared, look_ms);
    if (shared->target_state != TARGET_RUNNING)
        return;
    if (still_ms < after_ms && h->end == HANG_END_NOT) {
        h->looked = h->looked && (h->child != 0 || still_ms > 0);
        return;
    }
    if (!h->looked)
        start_snapshot(h, shared, options, relays, still_ms);
    else if (h->child == 0 && options->hang_kill)
        end_program(h, shared, options->quiet);
}

bool hang_is_busy(const struct hang *h)
{
    return h->child != 0 || (h->end != HANG_END_NOT && h->end != HANG_END_TOLD);
}

void hang_tell(const struct hang *h, const struct launch_options *options)
{
    char path[sizeof h->snapshot->bundle_path];
    if (h->snapshot == NULL || options->quiet)
        return;
    memcpy(path, h->snapshot->bundle_path, sizeof path);
    path[sizeof path - 1] = '\0';
    if (path[0] != '\0')
        (void)say_line(stderr, "rocmcrash: the program stood still%s; bundle of that moment: %s",
                       h->end != HANG_END_NOT ? " and was ended" : "", path);
    else
        (void)say_line(stderr, "rocmcrash: the program stood still; no bundle of that moment could be made");
}
