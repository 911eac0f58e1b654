/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/hang.h"

#include <signal.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/say.h"
#include "launch/options.h"
#include "launch/tree_scan.h"
#include "record/shared.h"
#include "watch/relay.h"

#define TERM_GRACE_MS 10000u
#define KILL_GRACE_MS 5000u
#define SILENT_LOOK_MS 15000u /* how often, where nobody waits for a hang */

static void start_snapshot(struct hang *h, struct shared *shared,
                           const struct launch_options *options, struct relay *relays,
                           uint64_t still_ms)
{
    char why[96];
    (void)snprintf(why, sizeof why, "no output, CPU time or I/O for %llu s",
                   (unsigned long long)(still_ms / 1000));
    h->looked = true;
    (void)aside_start(&h->aside, shared, options, relays, why);
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
        shared_note_still_signal(shared, SIGTERM);
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

void hang_wake_tracer(const struct shared *shared)
{
    pid_t tracer = shared->helpers[HELPER_TRACER].pid;
    if (tracer > 0)
        (void)kill(tracer, SIGALRM);
}

static uint64_t look_whether_still(struct hang *h, struct shared *shared, uint32_t after_ms)
{
    uint32_t idle_ms = h->idle_ms; /* --bundle-at=idle>... */
    uint32_t soonest_ms = after_ms == 0 || (idle_ms > 0 && idle_ms < after_ms) ? idle_ms : after_ms;
    uint32_t silent_ms = after_ms > 0 && after_ms < STILL_SILENT_MS ? after_ms : STILL_SILENT_MS;
    uint32_t look_ms = soonest_ms == 0                  ? SILENT_LOOK_MS
                       : soonest_ms < 4 * STILL_LOOK_MS ? soonest_ms / 4
                                                        : STILL_LOOK_MS;
    uint64_t still_ms = still_turn(&h->still, shared, look_ms, silent_ms);
    bool is_new = shared->still_since_ns != h->woken_for_ns;
    h->woken_for_ns = shared->still_since_ns;
    if (shared->look_answer != shared->look_request ||
        (h->woken_for_ns != 0 && (is_new || shared->still_looks < 2)))
        hang_wake_tracer(shared);
    h->still_ms = still_ms;
    return still_ms;
}

void hang_turn(struct hang *h, struct shared *shared, const struct launch_options *options,
               struct relay *relays)
{
    uint32_t after_ms = options->hang_after_ms;
    uint64_t still_ms = look_whether_still(h, shared, after_ms);
    if (after_ms == 0 || shared->target_state != TARGET_RUNNING)
        return;
    if (still_ms < after_ms && h->end == HANG_END_NOT) {
        h->looked = h->looked && (h->aside.child != 0 || still_ms > 0);
        return;
    }
    if (!h->looked)
        start_snapshot(h, shared, options, relays, still_ms);
    else if (h->aside.child == 0 && options->hang_kill)
        end_program(h, shared, options->quiet);
}

bool hang_is_busy(const struct hang *h)
{
    return h->aside.child != 0 || (h->end != HANG_END_NOT && h->end != HANG_END_TOLD);
}

void hang_tell(const struct hang *h, const struct launch_options *options)
{
    char path[ASIDE_PATH_MAX];
    if (h->aside.count == 0 || options->quiet)
        return;
    if (aside_bundle(&h->aside, path, sizeof path))
        (void)say_line(stderr, "rocmcrash: the program stood still%s; bundle of that moment: %s",
                       h->end != HANG_END_NOT ? " and was ended" : "", path);
    else
        (void)say_line(stderr, "rocmcrash: the program stood still; %s", aside_why_none(&h->aside));
}
