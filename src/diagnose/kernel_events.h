/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel log lines as a small grammar, subject and event ("ring vcn reset succeeded", "DQM update queue
 * failed"), for fragments that no message rule knows: consequences, inner parts of a dump, counters of a
 * cgroup. Pure.
 */
#ifndef DIAGNOSE_KERNEL_EVENTS_H
#define DIAGNOSE_KERNEL_EVENTS_H

#include <stddef.h>

struct facts;

/* event.*: the first line of each kind; event.hardware_elsewhere: an error of the hardware of a device
 * that nothing had happened to, whatever happened to another. */
void kernel_events_to_facts(struct facts *, const char *text, size_t len, const char *source);

#endif
