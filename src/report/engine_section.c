/* SPDX-License-Identifier: Apache-2.0 */
/* The memory that inference engines, JAX and TensorFlow report. */
#include "report/internal.h"

#include "base/buf.h"
#include "diagnose/fact.h"
#include "diagnose/tree.h"

#include <stdbool.h>
#include <stddef.h>

/* A sentence is printed if its first figure is known; the other figures are clauses. */
static const struct {
    const char *needs;
    const char *sentence;
} sentences[] = {
    {"msg.ggml_model_buffer_bytes",
     "model on the GPU {msg.ggml_model_buffer_bytes}[[, KV cache {msg.ggml_kv_buffer_bytes}]][[, "
     "buffers {msg.ggml_compute_buffer_bytes}]][[; context {msg.ggml_context_tokens} "
     "tokens]][[; {msg.ggml_layers_on_gpu_count} of {msg.ggml_layers_count} layers on the "
     "GPU]][[; free when it started {msg.ggml_free_at_start_bytes}]]"},
    {"msg.ollama_required_bytes",
     "ollama's estimate: {msg.ollama_required_bytes} needed[[ (weights "
     "{msg.ollama_weights_bytes}, KV cache {msg.ollama_kv_bytes}, buffers "
     "{msg.ollama_graph_bytes})]][[, {msg.ollama_available_bytes} available]]"},
    {"msg.vllm_weights_bytes",
     "vLLM: weights {msg.vllm_weights_bytes}[[, peak of the profiling run "
     "{msg.vllm_activation_bytes}]][[, outside PyTorch {msg.vllm_non_torch_bytes}]][[, graphs "
     "{msg.vllm_graphs_bytes}]][[; may use {msg.vllm_budget_bytes}]][[ of "
     "{msg.vllm_total_bytes}]]"},
    {"msg.kv_cache_available_bytes",
     "for the KV cache {msg.kv_cache_available_bytes}[[, {msg.kv_cache_tokens} tokens]][[; a "
     "context of {msg.max_model_tokens} tokens]][[ needs {msg.kv_cache_needed_bytes}]]"},
    {"f.pool_in_use_bytes",
     "JAX: {f.pool_in_use_bytes} in use[[ of a pool of {jax.limit_bytes}]][[, "
     "{f.pool_share_percent} of the GPU]][[, {f.pool_untaken_bytes} of it not obtained]][[; "
     "largest allocation "
     "{jax.largest_allocation_bytes}]][[; largest idle piece {jax.largest_free_bytes}]]"},
    {"tensorflow.in_use_bytes",
     "TensorFlow: {tensorflow.in_use_bytes} in use[[ of {msg.tensorflow_pool_bytes}]]"},
    {"msg.bfc_limit_bytes",
     "the allocator's dump[[ ({msg.bfc_allocator})]]: {msg.bfc_in_use_bytes} of "
     "{msg.bfc_limit_bytes} in use[[, at most {msg.bfc_peak_bytes}]][[; idle in it "
     "{msg.bfc_free_bytes}, the largest piece {msg.bfc_largest_free_bytes}]]"},
};

void report_engine(const struct facts *facts, struct buf *out)
{
    for (size_t i = 0; i < sizeof(sentences) / sizeof(sentences[0]); i++) {
        if (facts_is_present(facts, sentences[i].needs))
            report_cited_sentence(facts, sentences[i].sentence, out);
    }
    if (facts_is_present(facts, "f.pool_preallocated") && facts_is_present(facts, "f.pool_bytes") &&
        facts_best(facts, "f.pool_preallocated")->integer != 0 &&
        !facts_is_present(facts, "f.pool_untaken_bytes"))
        report_cited_sentence(
            facts,
            "the pool of {f.pool_bytes} was taken at the start (XLA_PYTHON_CLIENT_PREALLOCATE): "
            "this is neither a leak nor another process",
            out);
}
