/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dates before the lines of a program's own log. Pure.
 */
#ifndef DIAGNOSE_PROGRAM_TIME_H
#define DIAGNOSE_PROGRAM_TIME_H

#include <stddef.h>

#include "diagnose/text.h"

struct facts;

/* As klog_date(): "2026-11-28 09:12:01,552 ...", "[2026-11-28T09:12:01Z] ...". -1 = none, or a record of the kernel:
 * "... kernel: ...", "2026-11-21T18:02:11,552000+01:00 ..." (dmesg --time-format iso). */
double program_date(struct text line);

/* Sets log.first_time_s, the earliest of them. */
void program_time_to_facts(struct facts *, const char *text, size_t len, const char *source);

#endif
