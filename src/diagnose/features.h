/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Features: what follows from the facts (f.*). Each has "computed from ..." as its source; where an
 * input is missing the feature is missing too, with the reason. Pure.
 */
#ifndef DIAGNOSE_FEATURES_H
#define DIAGNOSE_FEATURES_H

#include <stdbool.h>

struct computed;
struct facts;

/* All of them, those of templates/computed.json too (NULL = without); called by diagnose(). Facts
 * that are already there are left alone. */
void features_derive(struct facts *facts, const struct computed *computed);

/* Is the fact of that name derived, and so to be derived anew where facts are read back? Growth
 * comes from the telemetry and the hook, which are not read again. */
bool feature_is_derived(const char *name);

#endif
