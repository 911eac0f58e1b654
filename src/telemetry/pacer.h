/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps one kind of the sampler's work within its share of a core by stretching its period. Runs in
 * process M.
 */
#ifndef TELEMETRY_PACER_H
#define TELEMETRY_PACER_H

#include <stdbool.h>
#include <stdint.h>

#define PACER_WINDOW_NS UINT64_C(2000000000) /* while the period is not stretched */

struct pacer {
    const char *name;
    uint32_t share_ppm; /* of one core */
    uint32_t jump_max;  /* by how much the stretch may grow in one window; 0 = any */
    uint64_t window_ns; /* start of the window */
    uint64_t spent_ns;  /* CPU in the window */
    double stretch;     /* >= 1; 0 = no window is over */
    double announced;   /* the last stretch that pacer_spend() returned true for */
};

/* The stretched period, for a period of base_ns. */
uint64_t pacer_period(const struct pacer *p, uint64_t base_ns);

/* Accounts for one piece of work that ended at now_ns (any clock that does not step). used_ns is
 * the CPU time since the end of the piece before it: waking up and going to sleep is most of that
 * (60 to 100 us on a virtual machine). Each window adjusts the stretch by the CPU time used and the
 * share. True: the period has doubled or halved since the last true. */
bool pacer_spend(struct pacer *p, uint64_t used_ns, uint64_t now_ns);

#endif
