/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache of keys and values by the header. The expected sizes are those that llama.cpp and vLLM print for the
 * models of these shapes: 128 KiB a token for Llama 3 8B in f16, 512 KiB for Llama 2 7B, and so on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "collectors/lib/model_cache.h"
#include "collectors/lib/model_config.h"
#include "collectors/lib/weights.h"
#include "make_model.h"

#define KIB 1024

struct shape {
    const char *name;
    uint32_t layers, embedding, heads, kv_heads, head; /* head 0: not said */
    const char *key;  /* a further key of the architecture, NULL = none */
    uint32_t value;
    unsigned each;    /* every nth layer has K and V; 0 = all layers */
    bool listed;      /* heads as a list, one number a layer */
    bool fused;       /* one tensor makes Q, K and V */
    uint32_t rows;    /* width of K in the tensors, if the metadata has another one; 0 = the same */
    unsigned kib;     /* a token in f16; 0 = not known, with `why` */
    const char *why;
};

static const struct shape shapes[] = {
    {"GQA: Llama 3 8B", 32, 4096, 32, 8, 0, NULL, 0, 0, false, false, 0, 128, NULL},
    {"MHA: Llama 2 7B", 32, 4096, 32, 32, 0, NULL, 0, 0, false, false, 0, 512, NULL},
    {"heads of their own width: Qwen3 30B-A3B", 48, 2048, 32, 4, 128, NULL, 0, 0, false, false, 0, 96, NULL},
    {"one tensor for all: Phi 3 mini", 32, 3072, 32, 32, 0, NULL, 0, 0, false, true, 0, 384, NULL},
    {"every fourth layer: Qwen3-Next", 48, 2048, 16, 2, 256, NULL, 0, 4, false, false, 0, 24, NULL},
    {"every eighth layer, by a list", 32, 4096, 32, 8, 0, NULL, 0, 8, true, false, 0, 16, NULL},
    {"a window of 0 is none", 32, 4096, 32, 8, 0, "x.attention.sliding_window", 0, 0, false, false, 0, 128, NULL},
    {"no encoder", 32, 4096, 32, 8, 0, "x.attention.causal", 1, 0, false, false, 0, 128, NULL},
    {"MLA: DeepSeek V2", 27, 2048, 16, 16, 192, "x.attention.kv_lora_rank", 512, 0, false, false, 0, 0, "MLA"},
    {"window: Gemma 2", 42, 3584, 16, 8, 256, "x.attention.sliding_window", 4096, 0, false, false, 0, 0, "window of 4096"},
    {"encoder: BERT", 12, 768, 12, 12, 0, "x.attention.causal", 0, 0, false, false, 0, 0, "x.attention.causal"},
    {"shared: Gemma 3n", 30, 2048, 8, 2, 256, "x.attention.shared_kv_layers", 10, 0, false, false, 0, 0, "shared_kv_layers"},
    {"prediction: GLM 4.5", 47, 4096, 96, 8, 128, "x.nextn_predict_layers", 1, 0, false, false, 0, 0, "nextn_predict"},
    {"tensors and metadata differ", 32, 4096, 32, 8, 0, NULL, 0, 0, false, false, 512, 0, "metadata says"},
    {"no layer has K and V", 32, 4096, 32, 8, 0, NULL, 0, 99, false, false, 0, 0, "no tensors"},
};

static bool keeps(const struct shape *s, uint32_t layer)
{
    return s->each == 0 || (layer + 1) % s->each == 0;
}

static void put_kv_heads(struct gguf_writer *w, const struct shape *s)
{
    if (!s->listed) {
        gguf_pair_u32(w, "x.attention.head_count_kv", s->kv_heads);
        return;
    }
    gguf_text(w, "x.attention.head_count_kv");
    gguf_uint(w, 9, 4);
    gguf_uint(w, 4, 4);
    gguf_uint(w, s->layers, 8);
    for (uint32_t i = 0; i < s->layers; i++)
        gguf_uint(w, keeps(s, i) ? s->kv_heads : 0, 4);
}

static void put_tensors(struct gguf_writer *w, const struct shape *s)
{
    uint32_t head = s->head != 0 ? s->head : s->embedding / s->heads;
    uint32_t rows = s->rows != 0 ? s->rows : s->kv_heads * head;
    char name[64];
    for (uint32_t i = 0; i < s->layers; i++) {
        const char *k = !keeps(s, i) ? "ssm_in" : s->fused ? "attn_qkv" : "attn_k";
        const char *v = !keeps(s, i) ? "ssm_out" : s->fused ? "attn_output" : "attn_v";
        (void)snprintf(name, sizeof name, "blk.%u.%s.weight", i, k);
        gguf_tensor_info(w, name, s->embedding, s->fused ? s->heads * head + 2 * rows : rows, 1, 0);
        (void)snprintf(name, sizeof name, "blk.%u.%s.weight", i, v);
        gguf_tensor_info(w, name, s->embedding, rows, 1, 0);
    }
    gguf_tensor_info(w, "v.blk.0.attn_k.weight", 64, 64, 1, 0); /* of an image encoder */
}

static void make_header(struct buf *out, const struct shape *s)
{
    struct gguf_writer w = {.out = out, .version = 3};
    gguf_begin(&w, 2 * s->layers + 1, 5 + (s->head != 0 ? 2 : 0) + (s->key != NULL));
    gguf_pair_text(&w, "general.architecture", "x");
    gguf_pair_u32(&w, "x.block_count", s->layers);
    gguf_pair_u32(&w, "x.embedding_length", s->embedding);
    gguf_pair_u32(&w, "x.attention.head_count", s->heads);
    put_kv_heads(&w, s);
    if (s->head != 0) {
        gguf_pair_u32(&w, "x.attention.key_length", s->head);
        gguf_pair_u32(&w, "x.attention.value_length", s->head);
    }
    if (s->key != NULL)
        gguf_pair_u32(&w, s->key, s->value);
    put_tensors(&w, s);
}

/* The file has no weights: only the header is read. */
static void read_header(const struct buf *b, const char *name, struct weights *w)
{
    int fd = memfd_create("model", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, b->data, b->len), b->len);
    weights_read(fd, UINT64_C(1) << 50, name, w);
    (void)close(fd);
}

static void check(const struct weights *w, const char *name, unsigned kib, const char *why)
{
    uint64_t elements = 0;
    char said[160];
    bool known = model_cache_elements(w, &elements, said, sizeof said);
    if (known != (kib > 0) || (kib > 0 && elements * 2 != (uint64_t)kib * KIB) ||
        (kib == 0 && strstr(said, why) == NULL))
        fail_msg("%s: %llu numbers a token; '%s'", name, (unsigned long long)elements, said);
}

static void test_gguf(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct buf b = BUF_INIT;
        struct weights w;
        make_header(&b, &shapes[i]);
        read_header(&b, "m.gguf", &w);
        assert_string_equal(w.problem, "");
        check(&w, shapes[i].name, shapes[i].kib, shapes[i].why);
        buf_release(&b);
    }
}

static void test_a_count_that_no_model_has_is_not_said(void **state)
{
    (void)state;
    const uint32_t values[] = {4096, (uint32_t)-5, UINT32_MAX};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        const struct shape shape = {.layers = 2, .embedding = 512, .heads = 8, .head = 64, .kv_heads = 8,
                                    .key = "x.context_length", .value = values[i]};
        struct buf b = BUF_INIT;
        struct weights w;
        make_header(&b, &shape);
        read_header(&b, "model.gguf", &w);
        const uint64_t *length = weights_field(&w, WEIGHTS_CONTEXT_LENGTH);
        assert_true(i == 0 ? length != NULL && *length == 4096 : length == NULL);
        buf_release(&b);
    }
}

static void test_a_damaged_header_tells_nothing(void **state)
{
    struct buf b = BUF_INIT;
    (void)state;
    make_header(&b, &shapes[0]);
    for (size_t len = 4; len < b.len; len += 97) {
        struct buf cut = {.data = b.data, .len = len};
        struct weights w;
        uint64_t elements;
        char why[160];
        int fd = memfd_create("model", MFD_CLOEXEC);
        assert_int_equal(write(fd, cut.data, cut.len), cut.len);
        weights_read(fd, len, "m.gguf", &w);
        (void)close(fd);
        assert_false(model_cache_elements(&w, &elements, why, sizeof why));
        assert_true(why[0] != '\0');
    }
    buf_release(&b);
}

/* --- safetensors with config.json --- */

#define LLAMA_32_1B "\"model_type\":\"llama\",\"num_hidden_layers\":16,\"hidden_size\":2048,\"num_attention_heads\":32," \
                    "\"num_key_value_heads\":8,\"head_dim\":64"
#define QWEN_25_7B "\"num_hidden_layers\":28,\"hidden_size\":3584,\"num_attention_heads\":28,\"num_key_value_heads\":4," \
                   "\"sliding_window\":131072"

static const struct {
    const char *config;
    unsigned rows; /* of K, of one layer in the file; 0 = none is there */
    unsigned kib;
    const char *why;
} configs[] = {
    {"{" LLAMA_32_1B "}", 0, 32, NULL},
    {"{\"text_config\":{" LLAMA_32_1B "},\"vision_config\":{\"num_hidden_layers\":99}}", 0, 32, NULL},
    {"{" QWEN_25_7B ",\"use_sliding_window\":false}", 0, 56, NULL},
    {"{" QWEN_25_7B "}", 0, 0, "window of 131072"},
    {"{" LLAMA_32_1B ",\"layer_types\":[\"full_attention\",\"full_attention\"]}", 0, 32, NULL},
    {"{" LLAMA_32_1B ",\"layer_types\":[\"full_attention\",\"linear_attention\"]}", 0, 0, "layer_types"},
    {"{" LLAMA_32_1B ",\"kv_lora_rank\":512}", 0, 0, "MLA"},
    {"{" LLAMA_32_1B ",\"kv_lora_rank\":null,\"mamba_d_state\":null}", 0, 32, NULL},
    {"{" LLAMA_32_1B ",\"mamba_d_state\":128}", 0, 0, "mamba_d_state"},
    {"{" LLAMA_32_1B ",\"is_encoder_decoder\":true}", 0, 0, "is_encoder_decoder"},
    {"{" LLAMA_32_1B ",\"num_nextn_predict_layers\":1}", 0, 0, "nextn"},
    {"{\"n_layer\":12,\"n_head\":12,\"n_embd\":768}", 0, 0, "heads"},
    {"{\"num_hidden_layers\":1,\"hidden_size\":64,\"num_attention_heads\":4,\"num_key_value_heads\":2}", 32, 0, "metadata says"},
    {"{\"num_hidden_layers\":-1,\"hidden_size\":1e300,\"num_attention_heads\":\"8\",\"num_key_value_heads\":2.5}", 0, 0, "heads"},
    {"[]", 0, 0, "no JSON object"},
    {"{\"num_hidden", 0, 0, "no JSON object"},
    {"", 0, 0, "no JSON object"},
};

static void test_safetensors(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof configs / sizeof configs[0]; i++) {
        struct weights w = {.format = WEIGHTS_SAFETENSORS};
        w.key_tensors = w.value_tensors = configs[i].rows > 0;
        w.key_rows = configs[i].rows;
        w.value_rows = 2 * configs[i].rows;
        model_config_read(configs[i].config, strlen(configs[i].config), &w);
        check(&w, configs[i].config, configs[i].kib, configs[i].why);
    }
}

/* The first number of the shape is the number of rows. Packed numbers and image encoders are not counted. */
static void test_tensors_of_safetensors(void **state)
{
    static const char json[] =
        "{\"model.layers.0.self_attn.k_proj.weight\":{\"dtype\":\"BF16\",\"shape\":[32,64],\"data_offsets\":[0,4096]},"
        "\"model.layers.0.self_attn.v_proj.weight\":{\"dtype\":\"BF16\",\"shape\":[32,64],\"data_offsets\":[0,4096]},"
        "\"model.layers.1.self_attn.k_proj.weight\":{\"dtype\":\"U8\",\"shape\":[999,1],\"data_offsets\":[0,4096]},"
        "\"vision_tower.layers.0.self_attn.k_proj.weight\":{\"dtype\":\"BF16\",\"shape\":[7,64],\"data_offsets\":[0,4096]}}";
    static const char config[] =
        "{\"num_hidden_layers\":1,\"hidden_size\":64,\"num_attention_heads\":4,\"num_key_value_heads\":2}";
    struct buf b = BUF_INIT;
    struct weights w;
    uint64_t elements = 0;
    char why[160];
    (void)state;
    make_safetensors(&b, json, 4096);
    read_header(&b, "m.safetensors", &w);
    assert_int_equal(w.key_tensors, 1);
    assert_int_equal(w.key_rows, 32);
    model_config_read(config, sizeof config - 1, &w);
    assert_true(model_cache_elements(&w, &elements, why, sizeof why));
    assert_int_equal(elements, 64);
    buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gguf),
        cmocka_unit_test(test_a_count_that_no_model_has_is_not_said),
        cmocka_unit_test(test_a_damaged_header_tells_nothing),
        cmocka_unit_test(test_safetensors),
        cmocka_unit_test(test_tensors_of_safetensors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
