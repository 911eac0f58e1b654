/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps one kind of the sampler's work within its share of a core by stretching its period. Process
 * M.
 */
#ifndef TELEMETRY_PACER_H
#define TELEMETRY_PACER_H

#include <stdbool.h>
#include <stdint.h>

#define PACER_WINDOW_NS UINT64_C(2000000000) /* of a period that is not stretched */

struct pacer {
    const char *name;
    uint32_t share_ppm; /* of one core */
    uint32_t jump_max;  /* by how much the stretch may grow in one window; 0 = any */
    uint64_t window_ns; /* start of the window */
    uint64_t spent_ns;  /* CPU in the window */
    double stretch;     /* >= 1; 0 = no window is over */
    double announced;   /* the last stretch that pacer_spend() returned true for */
};

/* The period that base_ns becomes under the budget. */
uint64_t pacer_period(const struct pacer *p, uint64_t base_ns);

/* Another piece of work is done, at now_ns (any clock that does not step), with used_ns of CPU
 * since the piece before it: what it costs to wake up and to sleep again is most of it (60 to 100
 * us on a virtual machine). The stretch follows what was used against the share, window by window.
 * True: the period has become twice or half of what was last told. */
bool pacer_spend(struct pacer *p, uint64_t used_ns, uint64_t now_ns);

#endif
