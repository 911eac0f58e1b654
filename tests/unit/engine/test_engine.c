/* SPDX-License-Identifier: Apache-2.0 */
/* The size that would have fitted, from an engine's own report. The expected figures were computed by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "diagnose/fact.h"
#include "diagnose/features.h"
#include "diagnose/verdict.h"
#include "shipped_computed.h"

#define MIB(n) ((int64_t)(n) << 20)
#define ABSENT INT64_MIN

/* 24,470 MiB free; weights 19,100; 64 Ki tokens of 192 KiB; the fitting context is worked out from
 * these. */
#define START                                                                                      \
    "llama_model_load_from_file_impl: using device ROCm0 (Radeon) - 24470 MiB free\n"              \
    "print_info: n_layer          = 48\n"
#define WEIGHTS "load_tensors:        ROCm0 model buffer size = 19100.00 MiB\n"
#define CONTEXT "llama_context: n_ctx         = 65536\n"
#define OOM(mib) "x: allocating " mib " MiB on device 0: cudaMalloc failed: out of memory\n"
#define NO_CACHE                                                                                   \
    "llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv "   \
    "cache\n"
#define NO_BUFFER "graph_reserve: failed to allocate compute buffers\n"
#define NO_WEIGHTS "llama_model_load: error loading model: unable to allocate ROCm0 buffer\n"

struct row {
    const char *text;
    const char *part; /* NULL = no sentence may be printed */
    int64_t need_mib, short_mib, context, layers;
};

static const struct row rows[] = {
    /* (24470 - 19100) / 1.1 = 4881.8 MiB; 12288 MiB for 65536 tokens: 26036 of them, 101 times 256
     */
    {START WEIGHTS CONTEXT OOM("12288.00") NO_CACHE, "KV cache", 31388, 6918, 25856, ABSENT},
    /* the line that names the part is lost */
    {START WEIGHTS CONTEXT OOM("12288.00"), "KV cache", 31388, 6918, 25856, ABSENT},
    {START OOM("30000.00"), "weights", 30000, 5530, ABSENT, 36},
    /* 24470 / 1.1 = 22245.5; 30000 / 49 = 612.2 a layer */
    {START OOM("30000.00") NO_WEIGHTS, "weights", 30000, 5530, ABSENT, 36},
    /* 24470 - 19100 - 3000 = 2370 MiB for a cache of 0.0625 MiB a token: 37920, 148 times 256 */
    {START WEIGHTS CONTEXT "l: ROCm0 KV buffer size = 4096.00 MiB\n" OOM("3000.00") NO_BUFFER,
     "compute buffer", 26196, 1726, 37888, ABSENT},
    /* buffers that leave no memory for any context */
    {START WEIGHTS CONTEXT "l: ROCm0 KV buffer size = 4096.00 MiB\n" OOM("6000.00") NO_BUFFER,
     "compute buffer", 29196, 4726, 0, ABSENT},
    /* the cache of layers with a window is not linear in the context */
    {START WEIGHTS CONTEXT "llama_kv_cache_iswa: creating non-SWA KV cache\n" OOM("12288.00")
         NO_CACHE,
     "KV cache", 31388, 6918, ABSENT, ABSENT},
    /* it should have fitted: the cause is another one, and nothing is advised */
    {START WEIGHTS CONTEXT OOM("2048.00") NO_CACHE, "KV cache", 21148, -3322, ABSENT, ABSENT},
    /* the free memory at the start, or the context, is missing */
    {WEIGHTS CONTEXT OOM("12288.00") NO_CACHE, "KV cache", 31388, ABSENT, ABSENT, ABSENT},
    {START WEIGHTS OOM("12288.00") NO_CACHE, "KV cache", 31388, 6918, ABSENT, ABSENT},
    /* two GPUs, two models: it is not known which figure belongs to which */
    {START WEIGHTS "load_tensors: ROCm1 model buffer size = 100.00 MiB\n" CONTEXT OOM("12288.00"),
     NULL, 0, 0, 0, 0},
    {START WEIGHTS "l: ROCm0 KV buffer size = 1.00 MiB\n"
                   "load_tensors:  ROCm0 model buffer size = 500.00 MiB\n" CONTEXT OOM("12288.00"),
     NULL, 0, 0, 0, 0},
    /* a start that went well, and another program's out-of-memory */
    {START WEIGHTS CONTEXT "l: ROCm0 KV buffer size = 1.00 MiB\n", NULL, 0, 0, 0, 0},
    {START WEIGHTS CONTEXT "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 5 bytes.\n",
     NULL, 0, 0, 0, 0},
};

static struct facts *derive(const char *text)
{
    struct facts *facts = facts_new();
    messages_to_facts(facts, text, strlen(text), "stderr");
    features_derive(facts, computed);
    return facts;
}

static int64_t value(const struct facts *facts, const char *name)
{
    const struct fact *f = facts_best(facts, name);
    if (f == NULL || f->status != FACT_PRESENT)
        return ABSENT;
    return f->type == FACT_REAL ? llround(f->real) : f->integer;
}

static void expect(const char *text, const struct facts *facts, const char *name, int64_t wanted)
{
    if (value(facts, name) != wanted)
        fail_msg("%s is %lld, not %lld in:\n%s", name, (long long)value(facts, name),
                 (long long)wanted, text);
}

static int64_t mib(int64_t n)
{
    return n == ABSENT ? ABSENT : n * (1 << 20);
}

static void test_llama(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct row *r = &rows[i];
        struct facts *facts = derive(r->text);
        const char *part = NULL;
        bool said = facts_get_text(facts, "f.engine_part", &part);
        if (said != (r->part != NULL) || (said && strcmp(part, r->part) != 0))
            fail_msg("part %s in:\n%s", said ? part : "(none)", r->text);
        bool any = r->part != NULL;
        expect(r->text, facts, "f.engine_need_bytes", any ? mib(r->need_mib) : ABSENT);
        expect(r->text, facts, "f.engine_short_bytes", any ? mib(r->short_mib) : ABSENT);
        expect(r->text, facts, "f.engine_fits_context_count", any ? r->context : ABSENT);
        expect(r->text, facts, "f.engine_fits_layers_count", any ? r->layers : ABSENT);
        facts_free(facts);
    }
}

#define NEEDS(need, have)                                                                          \
    "ValueError: To serve at least one request with the model's max seq len (32768), (" need       \
    " GiB KV cache is needed, which is larger than the available KV cache memory (" have           \
    " GiB).\n"
#define DEVICE(share)                                                                              \
    "Free memory on device (23.50/24.00 GiB) on startup. Desired GPU memory utilization is "       \
    "(" share ", 20.4 GiB). Actual usage is\n"

struct vllm_row {
    const char *text;
    const char *part;
    int64_t context, asked;
    double step; /* 0 = must not be said */
};

static const struct vllm_row vllm_rows[] = {
    /* 3 of 4 GiB: three quarters of 32768; no device is known, so no share either */
    {NEEDS("4.0", "3.0"), "KV cache", 24576, 32768, 0},
    /* 1 of 24 GiB is 0.0417 more; 23.5 of 24 are free: up to 0.979 */
    {DEVICE("0.85") NEEDS("4.0", "3.0"), "KV cache", 24576, 32768, 0.05},
    {DEVICE("0.96") NEEDS("4.0", "3.0"), "KV cache", 24576, 32768, 0},
    /* 23405.7 tokens, in blocks of 16 */
    {NEEDS("4.2", "3.0"), "KV cache", 23392, 32768, 0},
    /* vLLM's own figure precedes the arithmetic */
    {NEEDS("4.0",
           "3.0") "Based on the available memory, the estimated maximum model length is 20000.\n",
     "KV cache", 20000, 32768, 0},
    {DEVICE("0.85") NEEDS("1.0", "-0.5"), "weights and profiling run", 0, 32768, 0.07},
    {"Available KV cache memory: -1.50 GiB\nValueError: No available memory for the cache "
     "blocks.\n",
     "weights and profiling run", ABSENT, ABSENT, 0},
    {"model weights take 14.24GiB; the rest of the memory reserved for KV Cache is 4.00GiB.\n"
     "ValueError: The model's max seq len (40000) is larger than the maximum number of tokens that "
     "can "
     "be stored in KV cache (10000).\n",
     "KV cache", 10000, 40000, 0},
    {"ValueError: No available memory for the cache blocks.\n", NULL, ABSENT, ABSENT, 0},
    {"Available KV cache memory: 4.87 GiB\nGPU KV cache size: 51,081 tokens\n", NULL, ABSENT,
     ABSENT, 0},
};

static void test_vllm(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof vllm_rows / sizeof vllm_rows[0]; i++) {
        const struct vllm_row *r = &vllm_rows[i];
        struct facts *facts = derive(r->text);
        const char *part = NULL;
        bool said = facts_get_text(facts, "f.engine_part", &part);
        if (said != (r->part != NULL) || (said && strcmp(part, r->part) != 0))
            fail_msg("part %s in:\n%s", said ? part : "(none)", r->text);
        expect(r->text, facts, "f.engine_fits_context_count", r->context);
        expect(r->text, facts, "f.engine_asked_context_count", r->asked);
        const struct fact *step = facts_best(facts, "f.engine_utilization_step");
        if ((step != NULL) != (r->step > 0) || (step != NULL && fabs(step->real - r->step) > 1e-9))
            fail_msg("step %f in:\n%s", step != NULL ? step->real : 0, r->text);
        facts_free(facts);
    }
}

struct pool_row {
    const char *text, *variable, *setting;
    int64_t jax_limit_mib, vram_mib; /* 0 = not known */
    int64_t pool, room, outside;     /* MiB */
    int preallocated;                /* -1 = not printed */
};

#define DUMP "BFCAllocator dump for GPU_0_bfc\nLimit: 19327352832\nInUse: 17179869184\n"
#define HOST "BFCAllocator dump for xla_gpu_host_bfc\nLimit: 19327352832\nInUse: 17179869184\n"

static const struct pool_row pool_rows[] = {
    {DUMP, "", "", 0, 24576, 18432, 2048, 6144, -1},
    {DUMP, "", "", 0, 0, 18432, 2048, ABSENT, -1},
    {DUMP, "", "", 18432, 24576, 18432, ABSENT, 6144, 1},
    {DUMP, "env.XLA_PYTHON_CLIENT_PREALLOCATE", "False", 18432, 24576, 18432, ABSENT, 6144, 0},
    {DUMP, "env.XLA_PYTHON_CLIENT_PREALLOCATE", "0", 0, 24576, 18432, 2048, 6144, 0},
    {DUMP, "env.XLA_PYTHON_CLIENT_PREALLOCATE", "true", 18432, 24576, 18432, ABSENT, 6144, 1},
    {DUMP, "env.XLA_PYTHON_CLIENT_ALLOCATOR", "platform", 18432, 24576, 18432, ABSENT, 6144, 0},
    {"XLA backend allocating 19327352832 bytes on device 0 for BFCAllocator.\n", "", "", 0, 24576,
     18432, ABSENT, 6144, 1},
    {"XLA backend will use up to 19327352832 bytes on device 0 for BFCAllocator.\n", "", "", 0,
     24576, 18432, ABSENT, 6144, 0},
    {HOST, "", "", 0, 24576, ABSENT, ABSENT, ABSENT, -1},
    {"nothing of that kind", "", "", 0, 24576, ABSENT, ABSENT, ABSENT, -1},
};

static void test_pool(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof pool_rows / sizeof pool_rows[0]; i++) {
        const struct pool_row *r = &pool_rows[i];
        struct facts *facts = facts_new();
        messages_to_facts(facts, r->text, strlen(r->text), "stderr");
        if (r->vram_mib > 0)
            facts_set_integer(facts, "gpu.0.vram.total_bytes", FACT_STATIC, MIB(r->vram_mib), "x");
        if (r->jax_limit_mib > 0)
            facts_set_integer(facts, "jax.limit_bytes", FACT_IMPACT, MIB(r->jax_limit_mib), "x");
        if (r->variable[0] != '\0')
            facts_set_text(facts, r->variable, FACT_STATIC, r->setting, "x");
        features_derive(facts, computed);
        expect(r->text, facts, "f.pool_bytes", mib(r->pool));
        expect(r->text, facts, "f.pool_free_bytes", mib(r->room));
        expect(r->text, facts, "f.pool_outside_bytes", mib(r->outside));
        expect(r->text, facts, "f.pool_preallocated",
               r->preallocated < 0 ? ABSENT : r->preallocated);
        facts_free(facts);
    }
}

/* JAX's pool by its own counters, in MiB. */
static void test_jax_pool(void **state)
{
    static const struct {
        int64_t limit, first, pool, in_use, requested;
        int64_t idle, untaken, short_by, preallocated;
    } pools[] = {
        {1000, 1000, 1000, 990, 20, 10, ABSENT, 10, 1},          /* taken at the start, and full */
        {1000, 300, 300, 290, 60, 10, 700, ABSENT, 1},           /* the GPU had no more memory */
        {1000, 2, 1000, 900, 50, 100, ABSENT, ABSENT, 0},        /* grown */
        {1000, ABSENT, ABSENT, 900, 150, ABSENT, ABSENT, 50, 1}, /* not counted */
    };
    (void)state;
    for (size_t i = 0; i < sizeof pools / sizeof pools[0]; i++) {
        struct facts *facts = facts_new();
        facts_set_integer(facts, "jax.limit_bytes", FACT_IMPACT, MIB(pools[i].limit), "x");
        facts_set_integer(facts, "jax.in_use_bytes", FACT_IMPACT, MIB(pools[i].in_use), "x");
        facts_set_integer(facts, "oom.requested_bytes", FACT_LOG, MIB(pools[i].requested), "x");
        if (pools[i].pool != ABSENT) {
            facts_set_integer(facts, "jax.pool_bytes", FACT_BASELINE, MIB(pools[i].first), "x");
            facts_set_integer(facts, "jax.pool_bytes", FACT_IMPACT, MIB(pools[i].pool), "x");
        }
        features_derive(facts, computed);
        expect("pool", facts, "f.pool_idle_bytes", mib(pools[i].idle));
        expect("pool", facts, "f.pool_untaken_bytes", mib(pools[i].untaken));
        expect("pool", facts, "f.pool_short_bytes", mib(pools[i].short_by));
        expect("pool", facts, "f.pool_preallocated", pools[i].preallocated);
        facts_free(facts);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_llama),
        cmocka_unit_test(test_vllm),
        cmocka_unit_test(test_pool),
        cmocka_unit_test(test_jax_pool),
    };
    return cmocka_run_group_tests(tests, read_computed, free_computed);
}
