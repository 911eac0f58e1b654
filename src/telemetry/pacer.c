/* SPDX-License-Identifier: Apache-2.0 */
#include "telemetry/pacer.h"

#define STRETCH_MAX 600

static double at_least_1(double stretch)
{
    return stretch < 1 ? 1 : stretch;
}

uint64_t pacer_period(const struct pacer *p, uint64_t base_ns)
{
    return p->stretch > 1 ? (uint64_t)((double)base_ns * p->stretch) : base_ns;
}

bool pacer_spend(struct pacer *p, uint64_t used_ns, uint64_t now_ns)
{
    double before = at_least_1(p->stretch);
    p->spent_ns += used_ns;
    if (p->window_ns == 0)
        p->window_ns = now_ns;
    uint64_t window_ns = now_ns - p->window_ns;
    if (window_ns < (uint64_t)((double)PACER_WINDOW_NS * before))
        return false;
    double used_ppm = (double)p->spent_ns * 1e6 / (double)window_ns;
    double stretch = at_least_1(before * used_ppm / p->share_ppm);
    if (p->jump_max != 0 && stretch > before * p->jump_max)
        stretch = before * p->jump_max;
    p->stretch = stretch > STRETCH_MAX ? STRETCH_MAX : stretch;
    p->window_ns = now_ns;
    p->spent_ns = 0;
    double announced = at_least_1(p->announced);
    if (p->stretch < announced * 2 && p->stretch > announced / 2)
        return false;
    p->announced = p->stretch;
    return true;
}
