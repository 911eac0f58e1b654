/* SPDX-License-Identifier: Apache-2.0 */
/* Writers of small model files, independent of the parsers' tables. */
#ifndef TEST_MAKE_MODEL_H
#define TEST_MAKE_MODEL_H

#include <stdbool.h>
#include <stdint.h>

struct buf;

struct gguf_writer {
    struct buf *out;
    unsigned version; /* 1..3 */
    bool big_endian;
};

void gguf_begin(struct gguf_writer *w, uint64_t tensors, uint64_t pairs);
void gguf_uint(struct gguf_writer *w, uint64_t value, unsigned width);
void gguf_text(struct gguf_writer *w, const char *text);
void gguf_pair_u32(struct gguf_writer *w, const char *key, uint32_t value);
void gguf_pair_text(struct gguf_writer *w, const char *key, const char *value);
/* Array of strings "t0", "t1" ... */
void gguf_pair_tokens(struct gguf_writer *w, const char *key, unsigned count);
void gguf_tensor_info(struct gguf_writer *w, const char *name, uint64_t rows, uint64_t columns,
                      uint32_t type, uint64_t offset);
/* A llama of one block: F32 norm (8), Q4_K 256x2 (288 bytes), Q6_K 256 (210 bytes), with data. */
void make_gguf(struct buf *out, unsigned version, bool big_endian);

/* Length, JSON, `data` zero bytes. */
void make_safetensors(struct buf *out, const char *json, uint64_t data);
extern const char small_safetensors_json[];
#define SMALL_SAFETENSORS_DATA 96

#endif
