/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cli/site.h"
#include "cli/verbs.h"
#include "base/say.h"
#include "collect/collector.h"

int verb_collectors(int argc, char *argv[])
{
    static const char *const phases[] = {"perishable", "quick", "slow"};
    (void)argv;
    if (argc > 0) {
        (void)fprintf(stderr, "rocmcrash: usage: rocmcrash collectors\n");
        return VERB_EXIT_USAGE;
    }
    for (const struct collector *const *c = collectors; *c != NULL; c++)
        (void)say_line(stdout, "%-14s %-10s %s", (*c)->name, phases[(*c)->phase], (*c)->describe);
    const struct site *site = site_get();
    for (const struct collector *const *c = site->collectors; *c != NULL; c++)
        (void)say_line(stdout, "%-14s %-10s of this site: %s", (*c)->name, phases[(*c)->phase],
                       (*c)->program);
    site_tell(site);
    return VERB_EXIT_OK;
}
