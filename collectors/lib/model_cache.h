/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache of keys and values that a model keeps for each token of its context, from its header: how many
 * numbers, in all layers together. A size that only the program's code decides is not known here.
 */
#ifndef COLLECTORS_LIB_MODEL_CACHE_H
#define COLLECTORS_LIB_MODEL_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct weights;

/* False, with the reason in `why`, where it is not known. GGUF: the tensors that make K and V decide, and the
 * metadata must not contradict them. Safetensors: config.json decides (model_config.h), and those tensors must not
 * contradict it. */
bool model_cache_elements(const struct weights *w, uint64_t *ret, char *why, size_t size);

#endif
