/* SPDX-License-Identifier: Apache-2.0 */
/* Reads from a run's bundle its peak of memory and the room that there was. */
#ifndef CLI_FIT_MEMORY_H
#define CLI_FIT_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct facts;

/* Bytes at the peak; 0 = not known. If the run failed: what it held plus what it asked for. */
double fit_memory_wanted(const struct facts *facts, int failed);
/* Bytes that this run could have had; 0 = not known. Only a refusal tells. */
double fit_memory_room(const struct facts *facts);
/* The value that would fit, computed from the header of the run's model or reported by its engine. `option` is
 * the length of the context or the number of layers on the GPU. False: not known. */
bool fit_memory_hint(const struct facts *facts, const char *option, int64_t *ret);
/* By the option's name. */
bool fit_memory_is_context(const char *option);
bool fit_memory_is_layers(const char *option);
/* "1.23 GiB" */
void fit_memory_text(double bytes, char *out, size_t size);

#endif
