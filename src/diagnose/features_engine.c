/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the report of an inference engine with the device: which part did not fit (weights, KV
 * cache, compute buffers), how much was short, and what would have fitted. Also the pool that XLA
 * reserves. See messages_engine.c, messages_bfc.c.
 */
#include "diagnose/features_internal.h"

#include "diagnose/fact.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define CONTEXT_STEP 256 /* llama.cpp rounds the context up to it */
#define BUFFERS 1.1      /* a tenth is left for buffers that are not known yet */
#define RUNTIME_BYTES (0.75 * 1073741824) /* CUDA 13 itself takes 0.51 GiB on an H200 */
#define INPUTS_MAX 4
#define WEIGHTS_MIN 0.8  /* share of the file's weights: the embeddings are not on the GPU */
#define WEIGHTS_MAX 1.01

/* Its source names only the inputs that have a value. */
static void put(struct facts *facts, const char *name, double value, const char *const *inputs,
                size_t count)
{
    const char *known[INPUTS_MAX] = {NULL};
    size_t n = 0;
    for (size_t i = 0; i < count && n < INPUTS_MAX; i++) {
        const struct fact *f = facts_best(facts, inputs[i]);
        if (f != NULL && f->status == FACT_PRESENT)
            known[n++] = inputs[i];
    }
    feature_set(facts, name, value, known, n);
}

static double round_down(double value, double step)
{
    return value > 0 ? floor(value / step) * step : 0;
}

/* --- llama.cpp, ollama's engine --- */

struct engine {
    double weights, cache, compute; /* 0 = not known */
    double request, context, room, layers;
    double device; /* all of its memory */
    double layer; /* weights of one, the embeddings count as one */
    double scores;  /* compute buffer for each token of context, until that buffer is made */
    double runtime; /* share of the room: 0 if the engine itself measured, which it does later */
    const char *part;
    bool reported; /* reported by the engine; else from the model file's header and the GPU's
                    * counters */
};

/* If no line names the part (the log is cut): the first part that was not there yet. */
static const char *part_by_order(const struct engine *e)
{
    if (e->weights <= 0)
        return "weights";
    return e->cache <= 0 ? "KV cache" : "compute buffer";
}

/* The line that names the part comes last, and llama.cpp loses lines at its end (it does not wait
 * for the thread that writes them). Then the size decides. NULL: it fits no part, or some layers
 * are elsewhere. */
static const char *part_by_size(const struct engine *e, double tokens, double weights)
{
    if (tokens >= CONTEXT_STEP && fmod(tokens, CONTEXT_STEP) <= 0)
        return "KV cache";
    return e->request >= WEIGHTS_MIN * weights && e->request <= WEIGHTS_MAX * weights ? "weights"
                                                                                       : NULL;
}

/* llama.cpp prints its report only with -lv 4 (since 2026). Without it, use the message that names
 * the part, the header of the only model file, and the memory in use on the only GPU before the
 * start. A size counts as the cache only if a cache of all layers has that size for a possible
 * context. */
static bool read_without_report(const struct facts *facts, struct engine *e)
{
    struct feature_model m;
    double total = 0;
    double before = 0;
    *e = (struct engine){.request = e->request};
    if (feature_input_or(facts, "gpu.count", 0) != 1 || feature_input_or(facts, "f.is_apu", 0) > 0 ||
        !feature_model(facts, &m) || !feature_input(facts, "f.vram_total_bytes", &total) ||
        !feature_input(facts, "f.vram_baseline_bytes", &before))
        return false;
    e->room = total - before;
    e->device = total;
    e->layers = m.layers;
    e->layer = m.weights / (m.layers + 1);
    e->scores = m.scores_per_token;
    e->runtime = RUNTIME_BYTES;
    double tokens = m.cache_per_token > 0 ? e->request / m.cache_per_token : 0;
    const char *by_size = part_by_size(e, tokens, m.weights);
    if (!feature_text(facts, "msg.ggml_refused_part", &e->part))
        e->part = by_size;
    if (e->part != NULL && strcmp(e->part, "weights") == 0) {
        e->weights = e->request;
        return true;
    }
    if (e->part == NULL || by_size == NULL || strcmp(e->part, "KV cache") != 0 ||
        strcmp(by_size, "KV cache") != 0)
        return false;
    e->weights = m.weights;
    e->cache = e->request;
    e->context = tokens;
    return true;
}

/* The sources of a figure depend on whether the engine reported. */
static void say(struct facts *facts, const struct engine *e, const char *name, double value,
                const char *const *reported, size_t count)
{
    static const char *const otherwise[] = {"oom.requested_bytes", "models.0.tensor_bytes",
                                            "f.vram_total_bytes", "f.vram_baseline_bytes"};
    put(facts, name, value, e->reported ? reported : otherwise, e->reported ? count : 4);
}

/* One GPU and one model only: else it is not known to which of them a figure belongs. */
static bool read_engine(const struct facts *facts, struct engine *e)
{
    const char *framework = "";
    struct feature_model m;
    *e = (struct engine){
        .reported = true,
        .weights = feature_input_or(facts, "msg.ggml_model_buffer_bytes", 0),
        .cache = feature_input_or(facts, "msg.ggml_kv_buffer_bytes", 0),
        .compute = feature_input_or(facts, "msg.ggml_compute_buffer_bytes", 0),
        .context = feature_input_or(facts, "msg.ggml_context_tokens", 0),
        .room = feature_input_or(facts, "msg.ggml_free_at_start_bytes", 0),
        .layers = feature_input_or(facts, "msg.ggml_layers_count", 0),
        .device = feature_input_or(facts, "msg.ggml_device_total_bytes",
                           feature_input_or(facts, "f.vram_total_bytes", 0)),
    };
    if (!feature_text(facts, "oom.framework", &framework) || strcmp(framework, "llama.cpp") != 0 ||
        !feature_input(facts, "oom.requested_bytes", &e->request) || e->request <= 0 ||
        feature_input_or(facts, "msg.ggml_devices_count", 0) > 1 ||
        feature_input_or(facts, "msg.ggml_loads_count", 1) > 1)
        return false;
    if (feature_input_or(facts, "msg.ggml_devices_count", 0) == 0)
        return read_without_report(facts, e);
    if (!feature_text(facts, "msg.ggml_refused_part", &e->part))
        e->part = part_by_order(e);
    double *asked = &e->compute;
    if (strcmp(e->part, "weights") == 0)
        asked = &e->weights;
    else if (strcmp(e->part, "KV cache") == 0)
        asked = &e->cache;
    *asked = e->request;
    if (e->compute <= 0 && feature_model(facts, &m))
        e->scores = m.scores_per_token;
    e->layer = e->weights / (e->layers + 1);
    return true;
}

/* The cache grows with the context; weights and buffers do not. If the buffers were not made yet,
 * subtract a tenth and the attention scores (flash attention needs none): the context that we name
 * must fit. */
static void say_context(struct facts *facts, const struct engine *e)
{
    static const char *const inputs[] = {"msg.ggml_free_at_start_bytes",
                                         "msg.ggml_model_buffer_bytes", "msg.ggml_context_tokens",
                                         "oom.requested_bytes"};
    double windowed = 0;
    (void)feature_input(facts, "msg.ggml_windowed", &windowed);
    if (e->cache <= 0 || e->context <= 0 || e->room <= 0 || e->weights <= 0 || windowed > 0)
        return;
    double left = e->room - e->runtime - e->weights - e->compute;
    double tokens = left / (e->compute > 0 ? 1 : BUFFERS) / (e->cache / e->context + e->scores);
    if (tokens < e->context)
        say(facts, e, "f.engine_fits_context_count", round_down(tokens, CONTEXT_STEP), inputs, 4);
}

static void say_layers(struct facts *facts, const struct engine *e)
{
    static const char *const inputs[] = {"msg.ggml_free_at_start_bytes", "oom.requested_bytes",
                                         "msg.ggml_layers_count"};
    if (strcmp(e->part, "weights") != 0 || e->layers <= 0 || e->room <= 0)
        return;
    double fits = floor((e->room - e->runtime) / BUFFERS / e->layer);
    if (fits > e->layers)
        return;
    say(facts, e, "f.engine_fits_layers_count", fits, inputs, 3);
    say(facts, e, "f.engine_layers_count", e->layers, inputs + 2, 1);
}

void features_engine(struct facts *facts)
{
    static const char *const inputs[] = {"oom.requested_bytes", "msg.ggml_model_buffer_bytes",
                                         "msg.ggml_kv_buffer_bytes",
                                         "msg.ggml_compute_buffer_bytes"};
    static const char *const room[] = {"msg.ggml_free_at_start_bytes"};
    static const char *const context[] = {"msg.ggml_context_tokens"};
    static const char *const device[] = {"msg.ggml_device_total_bytes", "f.vram_total_bytes"};
    static const char *const shorts[] = {"f.engine_need_bytes", "f.engine_room_bytes"};
    struct engine e;
    double told = 0;
    if (!read_engine(facts, &e))
        return;
    (void)facts_set_text(facts, "f.engine_part", FACT_IMPACT, e.part,
                         e.reported ? "computed from the engine's report"
                                    : "computed from the engine's message and the model's header");
    say(facts, &e, "f.engine_need_bytes", e.weights + e.cache + e.compute, inputs, 4);
    if (e.weights > 0)
        say(facts, &e, "f.engine_weights_bytes", e.weights, inputs, 2);
    if (e.cache > 0)
        say(facts, &e, "f.engine_cache_bytes", e.cache, inputs, 3);
    if (e.context > 0)
        say(facts, &e, "f.engine_asked_context_count", e.context, context, 1);
    if (e.device > 0)
        say(facts, &e, "f.engine_device_bytes", e.device, device,
            feature_input(facts, device[0], &told) ? 1 : 2);
    if (e.room > 0) {
        say(facts, &e, "f.engine_room_bytes", e.room, room, 1);
        put(facts, "f.engine_short_bytes", e.weights + e.cache + e.compute - e.room, shorts, 2);
    }
    say_context(facts, &e);
    say_layers(facts, &e);
}
