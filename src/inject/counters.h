/* SPDX-License-Identifier: Apache-2.0 */
/*
 * At a refusal the sampler reads all counters before the caller continues and frees memory. At most
 * 10 times a run, once a second, 50 ms each. A sampler that did not answer in time is not asked
 * again. Runs in the target.
 */
#ifndef INJECT_COUNTERS_H
#define INJECT_COUNTERS_H

#include "inject/book.h"

/* number: the refusal that gets the result, 0 = none (refused by HIP). */
void counters_at_refusal(const struct book_actor *actor, uint64_t number);

#endif
