/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pairs_to_facts(): finds experiments in a pasted text: the same command with and without a variable, or with
 * another value of it, and different outcomes. Such an experiment is better evidence than words. Sets
 * report.pair_variable to the setting that made the command work. Where only the trial with the setting is
 * shown, and it worked, sets report.setting_works. Pure.
 */
#ifndef DIAGNOSE_PAIRS_H
#define DIAGNOSE_PAIRS_H

#include <stddef.h>

struct facts;

void pairs_to_facts(struct facts *, const char *data, size_t len, const char *source);

#endif
