/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/hang.h"

#include <signal.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/say.h"
#include "launch/options.h"
#include "launch/step_length.h"
#include "record/shared.h"
#include "watch/relay.h"

#define BUNDLE_GRACE_MS 10000u
#define SILENT_LOOK_MS 15000u /* how often without --hang-after */

static void start_snapshot(struct hang *h, struct shared *shared,
                           const struct launch_options *options, struct relay *relays,
                           uint64_t still_ms)
{
    char why[128];
    int n = snprintf(why, sizeof why, "no output, CPU time or I/O for %llu s",
                     (unsigned long long)(still_ms / 1000));
    if (options->hang_after_ms == HANG_AFTER_AUTO && step_length_holds(&h->steps, h->still.since_ns))
        (void)snprintf(why + n, sizeof why - (size_t)n, "; 99 of 100 of its steps took at most %.2f s",
                       (double)h->steps.usual_us / 1e6);
    h->looked = true;
    h->looked_ns = clock_mono_ns();
    h->looked_said = h->still.output_bytes;
    (void)aside_start(&h->aside, shared, options, relays, why);
}

void hang_wake_tracer(const struct hang *hang)
{
    if (*hang->tracer > 0)
        (void)kill(*hang->tracer, SIGALRM);
}

static uint32_t patience_ms(struct hang *h, const struct shared *shared, const struct launch_options *options)
{
    if (options->hang_after_ms != HANG_AFTER_AUTO)
        return options->hang_after_ms;
    h->steps = step_length_read(shared);
    uint64_t ms = step_length_patience_ms(&h->steps, h->still.since_ns, h->still.longest_ns / NS_PER_MS);
    return ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
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
        hang_wake_tracer(h);
    h->still_ms = still_ms;
    return still_ms;
}

/* Our own look makes a program work for a moment. While its bundle is being made, only output shows that it went on. */
static bool is_same_standstill(const struct hang *h, uint64_t still_ms)
{
    return h->still.output_bytes == h->looked_said && (h->aside.child != 0 || still_ms > 0);
}

/* Not for ever: the maker may hang, too. */
static bool still_makes_bundle(const struct hang *h, const struct launch_options *options)
{
    uint64_t limit_ms = (uint64_t)options->finish_within_ms + BUNDLE_GRACE_MS;
    return h->aside.child != 0 && clock_mono_ns() - h->looked_ns < limit_ms * NS_PER_MS;
}

void hang_turn(struct hang *h, struct shared *shared, const struct launch_options *options,
               struct relay *relays)
{
    uint32_t after_ms = patience_ms(h, shared, options);
    uint64_t still_ms = look_whether_still(h, shared, after_ms);
    if (after_ms == 0 || shared->target_state != TARGET_RUNNING)
        return;
    if (still_ms < after_ms && h->ending.step == HANG_END_NONE) {
        h->looked = h->looked && is_same_standstill(h, still_ms);
        return;
    }
    if (!h->looked && !still_makes_bundle(h, options))
        start_snapshot(h, shared, options, relays, still_ms);
    else if (h->looked && options->hang_kill && !still_makes_bundle(h, options))
        hang_ending_turn(&h->ending, shared, options->quiet);
}

bool hang_is_busy(const struct hang *h)
{
    return h->aside.child != 0 || (h->ending.step != HANG_END_NONE && h->ending.step != HANG_END_GIVEN_UP);
}

void hang_tell(struct hang *h, const struct launch_options *options)
{
    bool ended = h->ending.step != HANG_END_NONE;
    uint32_t left = ended ? hang_ending_rest(&h->ending) : 0;
    if (h->aside.count == 0 || options->quiet)
        return;
    if (left > 0)
        (void)say_line(stderr, "rocmcrash: %u processes of the program do not end, not even by SIGKILL", left);
    aside_tell(&h->aside, ended ? "the program stood still and was ended (attach the bundle of its end)" : "the program stood still");
}
