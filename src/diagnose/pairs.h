/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pairs_to_facts(): finds the same command twice in a pasted session, with and without a variable, with
 * different outcomes. Such an experiment is better evidence than words. Sets report.pair_variable to the
 * setting that made the command work. Pure.
 */
#ifndef DIAGNOSE_PAIRS_H
#define DIAGNOSE_PAIRS_H

#include <stddef.h>

struct facts;

void pairs_to_facts(struct facts *, const char *data, size_t len, const char *source);

#endif
