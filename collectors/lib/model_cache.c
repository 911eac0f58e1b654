/* SPDX-License-Identifier: Apache-2.0 */
#include "collectors/lib/model_cache.h"

#include <inttypes.h>
#include <stdio.h>

#include "collectors/lib/weights.h"

static uint64_t field_or(const struct weights *w, enum weights_field field, uint64_t otherwise)
{
    const uint64_t *value = weights_field(w, field);
    return value != NULL ? *value : otherwise;
}

/* Looks for signs of a cache that is not layers times heads. "" = there are none. */
static void look_for_another_cache(const struct weights *w, char *why, size_t size)
{
    uint64_t window = field_or(w, WEIGHTS_SLIDING_WINDOW, 0);
    why[0] = '\0';
    if (w->problem[0] != '\0')
        (void)snprintf(why, size, "%s", w->problem);
    else if (field_or(w, WEIGHTS_LATENT_RANK, 0) > 0)
        (void)snprintf(why, size, "K and V are kept as one compressed vector (MLA)");
    else if (window > 0)
        (void)snprintf(why, size, "some layers keep a window of %" PRIu64 " tokens only", window);
    else if (w->cache_odd[0] != '\0')
        (void)snprintf(why, size, "'%s' says that the cache is another one", w->cache_odd);
}

/* Widths of a key and of a value, together. 0 = not known. */
static uint64_t head_width(const struct weights *w)
{
    uint64_t heads = field_or(w, WEIGHTS_HEAD_COUNT, 0);
    uint64_t usual = heads > 0 ? field_or(w, WEIGHTS_EMBEDDING_LENGTH, 0) / heads : 0;
    uint64_t key = field_or(w, WEIGHTS_KEY_LENGTH, usual);
    uint64_t value = field_or(w, WEIGHTS_VALUE_LENGTH, usual);
    return key > 0 && value > 0 ? weights_sat_add(key, value) : 0;
}

static uint64_t by_metadata(const struct weights *w, uint64_t layers)
{
    uint64_t heads = field_or(w, WEIGHTS_HEAD_COUNT_KV, 0);
    if (w->heads_differ)
        return 0;
    return weights_sat_mul(weights_sat_mul(layers, heads), head_width(w));
}

/* The rows of the tensors that make K and V. Where one tensor makes Q, too, its rows are the larger part of it. */
static uint64_t by_tensors(const struct weights *w)
{
    uint64_t heads = field_or(w, WEIGHTS_HEAD_COUNT, 0);
    uint64_t usual = heads > 0 ? field_or(w, WEIGHTS_EMBEDDING_LENGTH, 0) / heads : 0;
    uint64_t query = weights_sat_mul(weights_sat_mul(heads, field_or(w, WEIGHTS_KEY_LENGTH, usual)), w->fused_tensors);
    if (w->key_tensors != w->value_tensors || (w->key_tensors > 0 && w->fused_tensors > 0))
        return 0;
    if (w->key_tensors > 0)
        return weights_sat_add(w->key_rows, w->value_rows);
    return query > 0 && w->fused_rows > query && !w->heads_differ ? w->fused_rows - query : 0;
}

bool model_cache_elements(const struct weights *w, uint64_t *ret, char *why, size_t size)
{
    bool is_gguf = w->format == WEIGHTS_GGUF;
    uint64_t tensors = by_tensors(w);
    uint64_t with_cache = w->key_tensors > 0 ? w->key_tensors : w->fused_tensors;
    uint64_t layers = field_or(w, WEIGHTS_BLOCK_COUNT, 0);
    /* Layers without these tensors (of a state-space model) keep no keys. */
    uint64_t metadata = by_metadata(w, is_gguf && with_cache > 0 && with_cache < layers ? with_cache : layers);
    uint64_t elements = is_gguf ? tensors : metadata;
    look_for_another_cache(w, why, size);
    if (why[0] != '\0')
        return false;
    if (elements == 0)
        (void)snprintf(why, size, is_gguf ? "no tensors are there that make K and V"
                                          : "layers, heads, or the width of a head are not said");
    else if (tensors > 0 && metadata > 0 && tensors != metadata)
        (void)snprintf(why, size, "its tensors make %" PRIu64 " numbers a token, the metadata says %" PRIu64, tensors,
                       metadata);
    else if (elements == UINT64_MAX)
        (void)snprintf(why, size, "the header's figures are absurd");
    *ret = elements;
    return why[0] == '\0';
}
