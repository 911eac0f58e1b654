/* SPDX-License-Identifier: Apache-2.0 */
/*
 * targets_to_facts(): finds lists of the GPU targets that a build has code for, and sets them as
 * msg.built_targets. A build prints them in one line ("['gfx900', 'gfx906', 'gfx1030']"), or its files are
 * named after them. Pure.
 */
#ifndef DIAGNOSE_TARGETS_H
#define DIAGNOSE_TARGETS_H

#include <stdbool.h>
#include <stddef.h>

#include "diagnose/text.h"

struct facts;

/* Does the line list targets, so that none of them is the name of the machine's GPU? */
bool targets_listed(struct text line);

void targets_to_facts(struct facts *, const char *data, size_t len, const char *source);

#endif
