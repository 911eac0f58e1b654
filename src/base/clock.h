/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two clocks. Every series and event of a run is stamped with CLOCK_MONOTONIC nanoseconds. The kernel
 * log's stamps are printk's local_clock(), which NTP does not slew: 3 ms from ours after 7 hours
 * (measured), minutes after months where the oscillator is 20 ppm off. Wall time is read once at the
 * start and used only for names and for people: it may step.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* 64 bits wide: 5 s do not fit 32. */
#define NS_PER_MS UINT64_C(1000000)

static inline uint64_t clock_ns(clockid_t id)
{
    struct timespec ts;
    (void)clock_gettime(id, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* The run's clock. */
static inline uint64_t clock_mono_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

/* Wall clock, nanoseconds since the epoch (UTC). */
static inline uint64_t clock_wall_ns(void)
{
    return clock_ns(CLOCK_REALTIME);
}

#endif
