/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the part of a model that was refused, from the ledger and the header of the only model file
 * that was open: its weights, or the KV cache once the weights were loaded; and what would have
 * fitted.
 */
#include "diagnose/features_internal.h"

#include "diagnose/fact.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MIB 1048576.0
#define KV_BYTES 2       /* f16, llama.cpp's default */
#define CONTEXT_STEP 256 /* llama.cpp rounds the context up to it */
#define BATCH_TOKENS 512 /* its -ub */
#define SCORE_BYTES 4    /* f32 */

/* Bits per weight of llama.cpp's file types (llama-quantize prints them); the smallest last. */
static const struct {
    const char *name;
    double bits;
} types[] = {{"F32", 32},     {"F16", 16},     {"BF16", 16},   {"Q8_0", 8.5},   {"Q6_K", 6.56},
             {"Q5_K_M", 5.7}, {"Q4_K_M", 4.9}, {"Q4_0", 4.55}, {"Q3_K_M", 4.0}, {"Q2_K", 3.2}};

/* A head is not always embedding / heads wide (Qwen3, Gemma, Mistral Nemo). With a sliding window
 * some layers keep less than the context. MLA stores a compressed vector instead of K and V. */
static double cache_per_token(const struct facts *facts, const struct feature_model *m)
{
    double width = floor(m->embedding / m->heads);
    double both = feature_input_or(facts, "models.0.key_length", width) +
                  feature_input_or(facts, "models.0.value_length", width);
    if (feature_input_or(facts, "models.0.sliding_window", 0) > 0 ||
        feature_input_or(facts, "models.0.latent_rank", 0) > 0)
        return 0;
    return m->layers * m->kv_heads * both * KV_BYTES;
}

bool feature_model(const struct facts *facts, struct feature_model *m)
{
    *m = (struct feature_model){.type = ""};
    (void)feature_text(facts, "models.0.quantisation", &m->type);
    m->context = feature_input_or(facts, "models.0.context_length", 0);
    if (feature_input_or(facts, "models.count", 0) != 1 ||
        !feature_input(facts, "models.0.tensor_bytes", &m->weights) ||
        !feature_input(facts, "models.0.block_count", &m->layers) ||
        !feature_input(facts, "models.0.embedding_length", &m->embedding) ||
        !feature_input(facts, "models.0.head_count", &m->heads) ||
        !feature_input(facts, "models.0.head_count_kv", &m->kv_heads) || m->weights <= 0 ||
        m->layers <= 0 || m->heads <= 0)
        return false;
    m->cache_per_token = cache_per_token(facts, m);
    m->scores_per_token = BATCH_TOKENS * m->heads * SCORE_BYTES;
    return true;
}

static double bits_of(const char *type)
{
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (strcasecmp(types[i].name, type) == 0)
            return types[i].bits;
    return 0;
}

/* The best type whose weights and a tenth for buffers fit into `left`. */
static void derive_type(struct facts *facts, const struct feature_model *m, double left,
                        const char *const *inputs)
{
    double bits = bits_of(m->type);
    for (size_t i = 0; bits > 0 && i < sizeof(types) / sizeof(types[0]); i++) {
        if (types[i].bits >= bits || m->weights * types[i].bits / bits * 1.1 > left)
            continue;
        char source[512];
        feature_source(facts, inputs, 2, source, sizeof(source));
        (void)facts_set_text(facts, "f.fits_quantisation", FACT_IMPACT, types[i].name, source);
        return;
    }
}

static void say_weights(struct facts *facts, const struct feature_model *m, double left, double request)
{
    static const char *const inputs[] = {"f.model_room_bytes", "models.0.tensor_bytes"};
    static const char *const requests[] = {"f.ledger_request_bytes", "models.0.tensor_bytes"};
    (void)facts_set_text(facts, "f.model_part", FACT_IMPACT, "weights",
                         "computed from the ledger and the model file's header");
    feature_flag(facts, "f.model_part_exact", fabs(request - m->weights) <= m->weights / 50,
                 requests, 2);
    /* The embeddings count as a layer; a tenth is for the buffers that follow. */
    double layers = floor(left / 1.1 / (m->weights / (m->layers + 1)));
    feature_set(facts, "f.fits_layers_count", layers < m->layers ? layers : m->layers, inputs, 2);
    derive_type(facts, m, left, inputs);
}

static void say_cache(struct facts *facts, const struct feature_model *m, double left, double request)
{
    static const char *const inputs[] = {"f.model_room_bytes", "models.0.block_count",
                                         "models.0.embedding_length", "models.0.head_count_kv"};
    double per_token = m->cache_per_token;
    double tokens = per_token > 0 ? request / per_token : 0;
    (void)facts_set_text(facts, "f.model_part", FACT_IMPACT, "KV cache",
                         "computed from the ledger and the model file's header");
    if (per_token <= 0)
        return;
    feature_flag(facts, "f.model_part_exact", tokens >= CONTEXT_STEP && tokens == floor(tokens),
                 inputs, 4);
    feature_set(facts, "f.asked_context_count", floor(tokens), inputs, 4);
    /* A tenth stays for the other buffers of the computation. */
    double fits = floor(left / 1.1 / (per_token + m->scores_per_token) / CONTEXT_STEP);
    fits *= CONTEXT_STEP;
    feature_set(facts, "f.fits_context_count", fits > 0 ? fits : 0, inputs, 4);
}

void features_model(struct facts *facts)
{
    static const char *const inputs[] = {"f.ledger_room_bytes", "f.ledger_own_bytes",
                                         "f.others_seen_bytes"};
    struct feature_model m;
    double room = 0;
    double own = 0;
    double others = 0;
    double request = 0;
    if (!feature_model(facts, &m) || !feature_input(facts, inputs[0], &room) ||
        !feature_input(facts, "f.ledger_request_bytes", &request))
        return;
    if (!feature_input(facts, inputs[1], &own))
        (void)feature_input(facts, "ledger.vram.live_bytes", &own);
    (void)feature_input(facts, inputs[2], &others);
    double left = room - own - others;
    feature_set(facts, "f.model_room_bytes", left > 0 ? left : 0, inputs, 3);
    if (own >= 0.9 * m.weights)
        say_cache(facts, &m, left, request);
    else if (own + request <= 1.05 * m.weights + 64 * MIB && request >= 0.05 * m.weights)
        say_weights(facts, &m, left, request);
}
