/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Features: facts that follow from other facts (f.*). Each has "computed from ..." as its source.
 * If an input is missing, the feature is missing, with the reason. Pure.
 */
#ifndef DIAGNOSE_FEATURES_H
#define DIAGNOSE_FEATURES_H

#include <stdbool.h>

struct computed;
struct facts;

/* Derives all features, also those of templates/computed.json (NULL = without). Called by
 * diagnose(). Existing facts stay. */
void features_derive(struct facts *facts, const struct computed *computed);

/* Is the fact with this name derived? A derived fact must be derived again after facts are read
 * from a bundle. False for growth: it comes from the telemetry and the hook, which are not read
 * again. */
bool feature_is_derived(const char *name);

#endif
