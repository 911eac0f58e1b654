/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces the verdict of one run when many runs have confirmed or refuted it. The member
 * "experiment" of a verdict.json (`shown` here) holds all that this needs, so that a bundle that is judged
 * again gets the same answer. Pure.
 */
#ifndef EXPERIMENT_CAMPAIGN_VERDICT_H
#define EXPERIMENT_CAMPAIGN_VERDICT_H

#include <stdbool.h>

struct buf;
struct cJSON;
struct conclusion;
struct experiment;

/* The member "experiment": status, sentence, error, class, finding and change. The caller's to delete; NULL =
 * no memory. */
struct cJSON *campaign_shown(const struct experiment *e, const struct conclusion *conclusion);
/* The runs have confirmed or refuted something: the verdict of one run does not stand. `shown` may be NULL. */
bool campaign_decides(const struct cJSON *shown);
/* Puts a copy of `shown` into the verdict of one run. Where it decides, it also replaces class, sentence and
 * advice, and takes away what speaks of one run only (runner-up, tracker, signature). */
void campaign_verdict_apply(struct cJSON *verdict, const struct cJSON *shown);
/* The first line for a verdict that was replaced: "confirmed: with A=1 0 of 6 runs failed, without it 6 of 6
 * (sdma, high confidence)". */
void campaign_headline(const struct cJSON *verdict, struct buf *out);

#endif
