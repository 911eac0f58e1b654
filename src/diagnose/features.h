/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Features: what follows from the facts (f.*). Each has "computed from ..." as its source; where an
 * input is missing the feature is missing too, with the reason. Pure.
 */
#ifndef DIAGNOSE_FEATURES_H
#define DIAGNOSE_FEATURES_H

struct facts;

/* All of them; called by diagnose(). Facts that are already there are left alone. */
void features_derive(struct facts *facts);

#endif
