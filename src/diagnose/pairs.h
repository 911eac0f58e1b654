/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pairs_to_facts(): the same command twice in a pasted session, once with a variable in front and once
 * without, with another outcome. That is an experiment: it tells more than words. Sets report.pair_variable to
 * what made the command work. Pure.
 */
#ifndef DIAGNOSE_PAIRS_H
#define DIAGNOSE_PAIRS_H

#include <stddef.h>

struct facts;

void pairs_to_facts(struct facts *, const char *data, size_t len, const char *source);

#endif
