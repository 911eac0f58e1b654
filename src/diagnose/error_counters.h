/* SPDX-License-Identifier: Apache-2.0 */
/*
 * error_counters_to_facts(): tables of a monitor with a column of uncorrectable errors, a row for each GPU.
 * Sets msg.ras_table_uncorrectable to the largest count. Pure.
 */
#ifndef DIAGNOSE_ERROR_COUNTERS_H
#define DIAGNOSE_ERROR_COUNTERS_H

#include <stddef.h>

struct facts;

void error_counters_to_facts(struct facts *, const char *data, size_t len, const char *source);

#endif
