/* SPDX-License-Identifier: Apache-2.0 */
#include "make_model.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"

void gguf_uint(struct gguf_writer *w, uint64_t value, unsigned width)
{
    for (unsigned i = 0; i < width; i++) {
        unsigned shift = w->big_endian ? 8 * (width - 1 - i) : 8 * i;
        buf_putc(w->out, (char)(value >> shift & 0xff));
    }
}

void gguf_text(struct gguf_writer *w, const char *text)
{
    gguf_uint(w, strlen(text), w->version == 1 ? 4 : 8);
    buf_puts(w->out, text);
}

void gguf_begin(struct gguf_writer *w, uint64_t tensors, uint64_t pairs)
{
    buf_puts(w->out, "GGUF");
    gguf_uint(w, w->version, 4);
    gguf_uint(w, tensors, w->version == 1 ? 4 : 8);
    gguf_uint(w, pairs, w->version == 1 ? 4 : 8);
}

void gguf_pair_u32(struct gguf_writer *w, const char *key, uint32_t value)
{
    gguf_text(w, key);
    gguf_uint(w, 4, 4);
    gguf_uint(w, value, 4);
}

void gguf_pair_text(struct gguf_writer *w, const char *key, const char *value)
{
    gguf_text(w, key);
    gguf_uint(w, 8, 4);
    gguf_text(w, value);
}

void gguf_pair_tokens(struct gguf_writer *w, const char *key, unsigned count)
{
    char text[16];
    gguf_text(w, key);
    gguf_uint(w, 9, 4);
    gguf_uint(w, 8, 4);
    gguf_uint(w, count, w->version == 1 ? 4 : 8);
    for (unsigned i = 0; i < count; i++) {
        (void)snprintf(text, sizeof text, "t%u", i);
        gguf_text(w, text);
    }
}

void gguf_tensor_info(struct gguf_writer *w, const char *name, uint64_t rows, uint64_t columns,
                      uint32_t type, uint64_t offset)
{
    unsigned width = w->version == 1 ? 4 : 8;
    gguf_text(w, name);
    gguf_uint(w, columns != 0 ? 2 : 1, 4);
    gguf_uint(w, rows, width);
    if (columns != 0)
        gguf_uint(w, columns, width);
    gguf_uint(w, type, 4);
    gguf_uint(w, offset, 8);
}

void make_gguf(struct buf *out, unsigned version, bool big_endian)
{
    struct gguf_writer w = {.out = out, .version = version, .big_endian = big_endian};
    gguf_begin(&w, 3, 15);
    gguf_pair_text(&w, "general.architecture", "llama");
    gguf_pair_text(&w, "general.name", "Tiny Invented 1M");
    gguf_pair_u32(&w, "general.file_type", 15);
    gguf_pair_u32(&w, "general.alignment", 64);
    gguf_pair_u32(&w, "llama.context_length", 4096);
    gguf_pair_u32(&w, "llama.embedding_length", 256);
    gguf_pair_u32(&w, "llama.block_count", 1);
    gguf_pair_u32(&w, "llama.attention.head_count", 8);
    gguf_text(&w, "llama.attention.head_count_kv"); /* per layer */
    gguf_uint(&w, 9, 4);
    gguf_uint(&w, 4, 4);
    gguf_uint(&w, 2, version == 1 ? 4 : 8);
    gguf_uint(&w, 2, 4);
    gguf_uint(&w, 4, 4);
    gguf_pair_u32(&w, "llama.attention.key_length", 48);
    gguf_pair_u32(&w, "llama.attention.value_length", 40);
    gguf_pair_u32(&w, "llama.attention.sliding_window", 1024);
    gguf_pair_u32(&w, "llama.attention.kv_lora_rank", 512);
    gguf_text(&w, "llama.rope.freq_base"); /* float32 */
    gguf_uint(&w, 6, 4);
    gguf_uint(&w, 0x461c4000, 4);
    gguf_pair_tokens(&w, "tokenizer.ggml.tokens", 5);
    gguf_tensor_info(&w, "output_norm.weight", 8, 0, 0, 0);
    gguf_tensor_info(&w, "blk.0.attn_q.weight", 256, 2, 12, 64);
    gguf_tensor_info(&w, "output.weight", 256, 0, 14, 384);
    while (out->len % 64 != 0)
        buf_putc(out, '\0');
    for (int i = 0; i < 384 + 210; i++)
        buf_putc(out, (char)i);
}

const char small_safetensors_json[] =
    "{\"__metadata__\":{\"format\":\"pt\",\"who\":\"a \\\"test\\\"\"},"
    "\"a.weight\":{\"dtype\":\"BF16\",\"shape\":[4,8],\"data_offsets\":[0,64]},"
    "\"b\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[64,68]},"
    "\"c\":{\"dtype\":\"F16\",\"shape\":[14],\"data_offsets\":[68,96]}}  ";

void make_safetensors(struct buf *out, const char *json, uint64_t data)
{
    struct gguf_writer w = {.out = out};
    gguf_uint(&w, strlen(json), 8);
    buf_puts(out, json);
    for (uint64_t i = 0; i < data; i++)
        buf_putc(out, '\0');
}
