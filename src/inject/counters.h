/* SPDX-License-Identifier: Apache-2.0 */
/*
 * At a refusal: have the sampler read all counters before the caller goes on and frees what it
 * holds. At most 10 times a run, once a second, 50 ms each; a sampler that did not answer in time
 * is not waited for again. Runs in the target.
 */
#ifndef INJECT_COUNTERS_H
#define INJECT_COUNTERS_H

#include "inject/book.h"

/* number: of the refusal that the findings belong to, 0 = none (HIP's own). */
void counters_at_refusal(const struct book_actor *actor, uint64_t number);

#endif
