/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/crossing.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/say.h"
#include "launch/options.h"
#include "launch/step_length.h"
#include "record/shared.h"

bool crossing_begin(struct crossing *c, const struct condition_list *conditions)
{
    *c = (struct crossing){.silence.file = -1};
    if (conditions_need_output(conditions))
        silence_begin(&c->silence);
    return conditions_watch(&c->watches, conditions);
}

static uint64_t step_ms(const struct shared *shared)
{
    uint64_t ended_ns = step_length_last_ns(shared);
    uint64_t now_ns = clock_mono_ns();
    if (ended_ns == 0)
        return CONDITION_TIME_UNKNOWN;
    return ended_ns < now_ns ? (now_ns - ended_ns) / NS_PER_MS : 0;
}

void crossing_turn(struct crossing *c, struct shared *shared, const struct launch_options *options,
                   struct relay *relays, uint64_t still_ms)
{
    char why[96];
    if (c->watches.count == 0 || shared->target_state != TARGET_RUNNING)
        return;
    const struct condition_times times = {
        .idle_ms = still_ms, .silent_ms = silence_turn(&c->silence, shared, relays), .step_ms = step_ms(shared)};
    const struct condition_watch *crossed =
        conditions_turn(&c->watches, shared, &times, clock_mono_ns());
    const struct condition_watch *unread = conditions_unread(&c->watches, clock_mono_ns());
    if (unread != NULL && !options->quiet)
        (void)say_line(stderr, "rocmcrash: --bundle-at=%s: that cannot be read here", unread->condition.text);
    if (crossed == NULL)
        return;
    condition_tell(crossed, why, sizeof why);
    if (!aside_start(&c->aside, shared, options, relays, why))
        c->untold++;
}

void crossing_tell(struct crossing *c, const struct launch_options *options)
{
    if (c->watches.count == 0 || options->quiet)
        return;
    for (unsigned i = 0; i < c->watches.count; i++)
        if (!c->watches.list[i].ever_known)
            (void)say_line(stderr, "rocmcrash: --bundle-at=%s: that was never known here",
                           c->watches.list[i].condition.text);
    aside_tell(&c->aside, "a condition of --bundle-at was met");
    if (c->untold > 0)
        (void)say_line(stderr, "rocmcrash: conditions of --bundle-at were met %u more time%s; no bundle was made of that",
                       c->untold, c->untold == 1 ? "" : "s");
}
