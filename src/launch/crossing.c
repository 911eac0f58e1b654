/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/crossing.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/say.h"
#include "launch/options.h"
#include "record/shared.h"

bool crossing_begin(struct crossing *c, const struct condition_list *conditions)
{
    *c = (struct crossing){.untold = 0};
    return conditions_watch(&c->watches, conditions);
}

void crossing_turn(struct crossing *c, struct shared *shared, const struct launch_options *options,
                   struct relay *relays, uint64_t still_ms)
{
    char why[96];
    if (c->watches.count == 0 || shared->target_state != TARGET_RUNNING)
        return;
    const struct condition_watch *crossed =
        conditions_turn(&c->watches, shared, still_ms, clock_mono_ns());
    if (crossed == NULL)
        return;
    condition_tell(crossed, why, sizeof why);
    if (!aside_start(&c->aside, shared, options, relays, why))
        c->untold++;
}

void crossing_tell(const struct crossing *c, const struct launch_options *options)
{
    char path[ASIDE_PATH_MAX];
    if (c->watches.count == 0 || options->quiet)
        return;
    for (unsigned i = 0; i < c->watches.count; i++)
        if (!c->watches.list[i].ever_known)
            (void)say_line(stderr, "rocmcrash: --bundle-at=%s: that was never known here",
                           c->watches.list[i].condition.text);
    if (c->aside.count == 0)
        return;
    if (aside_bundle(&c->aside, path, sizeof path))
        (void)say_line(stderr, "rocmcrash: %u bundle%s by --bundle-at%s, the last one: %s", c->aside.count,
                       c->aside.count == 1 ? "" : "s", c->untold > 0 ? " (more were due)" : "", path);
    else
        (void)say_line(stderr, "rocmcrash: a condition of --bundle-at was met; %s", aside_why_none(&c->aside));
}
