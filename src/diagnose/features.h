/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Features: what follows from the facts (f.*). Each has "computed from ..." as its source; where an
 * input is missing the feature is missing too, with the reason. Pure.
 */
#ifndef DIAGNOSE_FEATURES_H
#define DIAGNOSE_FEATURES_H

#include <stddef.h>
#include <stdint.h>

struct facts;

/* All of them; called by diagnose(). Facts that are already there are left alone. */
void features_derive(struct facts *facts);

/*
 * Judge a series of memory in use, equally spaced over `duration_ms` (UINT64_MAX = gap), and set
 * f.growth.*. `source` names it: "telemetry: GPU 0 VRAM used", "torch statistics per step". Called
 * by who has the series, before diagnose().
 */
void features_add_growth(struct facts *facts, const char *source, const uint64_t *values,
                         size_t count, uint64_t duration_ms);

#endif
