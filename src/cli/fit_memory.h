/* SPDX-License-Identifier: Apache-2.0 */
/* What a run's bundle says of the memory it had at its peak, and of the room there was. */
#ifndef CLI_FIT_MEMORY_H
#define CLI_FIT_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct facts;

/* Bytes; 0 = not known. Of a run that failed it is what it had and what it asked for. */
double fit_memory_wanted(const struct facts *facts, int failed);
/* Bytes that this run could have had; 0 = not known. Only a refusal tells. */
double fit_memory_room(const struct facts *facts);
/* What this run's header of a model, or its engine, says that would fit, where `option` is the length of the
 * context or the number of layers on the GPU. False: nothing. */
bool fit_memory_hint(const struct facts *facts, const char *option, int64_t *ret);
/* "1.23 GiB" */
void fit_memory_text(double bytes, char *out, size_t size);

#endif
