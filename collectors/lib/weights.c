/* SPDX-License-Identifier: Apache-2.0 */
#include "collectors/lib/weights.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "collectors/lib/byte_reader.h"
#include "collectors/lib/cleantext.h"
#include "collectors/lib/gguf.h"
#include "collectors/lib/safetensors.h"

/* A tokenizer of 300,000 merges is 15 MB of GGUF header; safetensors caps its own at 100 MB. */
#define HEADER_LIMIT ((uint64_t)256 << 20)

const char *weights_format_name(enum weights_format format)
{
    static const char *const names[] = {"unknown",     "gguf",   "safetensors", "ggml",
                                        "pytorch zip", "pickle", "tar",         "onnx"};
    return (size_t)format < sizeof names / sizeof names[0] ? names[format] : "unknown";
}

const char *weights_field_name(enum weights_field field)
{
    static const char *const names[WEIGHTS_FIELD_MAX] = {
        "context_length", "block_count", "embedding_length", "head_count", "head_count_kv",
        "expert_count",   "vocabulary",  "split_no",         "split_count", "key_length",
        "value_length",   "sliding_window", "latent_rank"};
    return names[field];
}

static uint64_t *field_slot(struct weights *w, enum weights_field field)
{
    uint64_t *const slots[WEIGHTS_FIELD_MAX] = {
        &w->context_length, &w->block_count,  &w->embedding_length, &w->head_count,
        &w->head_count_kv,  &w->expert_count, &w->vocabulary,       &w->split_no,
        &w->split_count,    &w->key_length,   &w->value_length,     &w->sliding_window,
        &w->latent_rank};
    return slots[field];
}

const uint64_t *weights_field(const struct weights *w, enum weights_field field)
{
    if ((w->has & 1u << field) == 0)
        return NULL;
    return field_slot((struct weights *)(uintptr_t)w, field);
}

void weights_set_field(struct weights *w, enum weights_field field, uint64_t value)
{
    if (value >= WEIGHTS_VALUE_LIMIT)
        return;
    *field_slot(w, field) = value;
    w->has |= 1u << field;
}

uint64_t weights_sat_add(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

uint64_t weights_sat_mul(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

void weights_add_tensor(struct weights *w, const char *type, uint64_t elements, uint64_t bytes)
{
    w->tensor_count++;
    w->elements = weights_sat_add(w->elements, elements);
    w->tensor_bytes = weights_sat_add(w->tensor_bytes, bytes);
    uint32_t i = 0;
    while (i < w->type_count && strcmp(w->types[i].name, type) != 0)
        i++;
    if (i == w->type_count && i == WEIGHTS_TYPES_MAX) {
        i = WEIGHTS_TYPES_MAX - 1; /* absurd file: the rest is lumped together */
        (void)snprintf(w->types[i].name, sizeof w->types[i].name, "other");
    } else if (i == w->type_count) {
        w->type_count++;
        w->types[i] = (struct weights_type){0};
        (void)snprintf(w->types[i].name, sizeof w->types[i].name, "%s", type);
    }
    w->types[i].tensors++;
    w->types[i].bytes = weights_sat_add(w->types[i].bytes, bytes);
}

/* The names that GGUF and transformers give. Encoders of pictures and sound have such tensors, too. */
void weights_note_attention(struct weights *w, const char *name, uint64_t rows)
{
    static const char *const encoders[] = {"vis", "audio", "encoder", "cross", "v.blk", "mtp"};
    const struct {
        const char *suffix;
        uint32_t *tensors;
        uint64_t *rows;
    } kinds[] = {
        {".attn_k.weight", &w->key_tensors, &w->key_rows},
        {".k_proj.weight", &w->key_tensors, &w->key_rows},
        {".attn_v.weight", &w->value_tensors, &w->value_rows},
        {".v_proj.weight", &w->value_tensors, &w->value_rows},
        {".attn_qkv.weight", &w->fused_tensors, &w->fused_rows},
        {".qkv_proj.weight", &w->fused_tensors, &w->fused_rows},
    };
    for (size_t i = 0; i < sizeof encoders / sizeof encoders[0]; i++)
        if (strstr(name, encoders[i]) != NULL)
            return;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (cleantext_ends(name, kinds[i].suffix)) {
            *kinds[i].tensors += 1;
            *kinds[i].rows = weights_sat_add(*kinds[i].rows, rows);
        }
}

static int compare_types(const void *a, const void *b)
{
    const struct weights_type *x = a;
    const struct weights_type *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return strcmp(x->name, y->name);
}

void weights_sort_types(struct weights *w)
{
    qsort(w->types, w->type_count, sizeof w->types[0], compare_types);
}

void weights_mix(const struct weights *w, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < w->type_count; i++) {
        int n = snprintf(out + used, size - used, "%s%s %" PRIu64, i ? ", " : "", w->types[i].name,
                         w->types[i].tensors);
        if (n < 0 || (size_t)n >= size - used) {
            out[used] = '\0'; /* a whole entry or none */
            return;
        }
        used += (size_t)n;
    }
}

void weights_judge_size(struct weights *w, uint64_t file_bytes)
{
    if (w->needed_bytes > file_bytes) {
        w->truncated = true;
        if (w->problem[0] == '\0')
            (void)snprintf(w->problem, sizeof w->problem,
                           "the header needs %" PRIu64 " bytes, the file has %" PRIu64,
                           w->needed_bytes, file_bytes);
    }
}

enum weights_format weights_sniff(const void *head, size_t len, const char *name)
{
    static const struct {
        const char *bytes;
        size_t len;
        enum weights_format format;
    } magics[] = {
        {"GGUF", 4, WEIGHTS_GGUF},       {"lmgg", 4, WEIGHTS_GGML}, /* ggml.h: 0x67676d6c, LE */
        {"fmgg", 4, WEIGHTS_GGML},       {"tjgg", 4, WEIGHTS_GGML},
        {"algg", 4, WEIGHTS_GGML},       {"PK\003\004", 4, WEIGHTS_ZIP},
        {"\x80\x02", 2, WEIGHTS_PICKLE}, {"\x80\x03", 2, WEIGHTS_PICKLE},
        {"\x80\x04", 2, WEIGHTS_PICKLE}, {"\x80\x05", 2, WEIGHTS_PICKLE},
    };
    const unsigned char *p = head;
    for (size_t i = 0; i < sizeof magics / sizeof magics[0]; i++) {
        if (len >= magics[i].len && memcmp(p, magics[i].bytes, magics[i].len) == 0)
            return magics[i].format;
    }
    if (len >= 262 && memcmp(p + 257, "ustar", 5) == 0)
        return WEIGHTS_TAR;
    /* 8 bytes length (below 2^40), then '{'. */
    if (len >= 9 && p[8] == '{' && p[5] == 0 && p[6] == 0 && p[7] == 0)
        return WEIGHTS_SAFETENSORS;
    if (cleantext_ends(name, ".safetensors"))
        return WEIGHTS_SAFETENSORS;
    if (cleantext_ends(name, ".onnx"))
        return WEIGHTS_ONNX;
    return WEIGHTS_UNKNOWN;
}

/* A zip that lost its end has no end-of-central-directory record (22 bytes + comment <= 65535). */
static void judge_zip(int fd, uint64_t size, struct weights *w)
{
    char tail[(64 << 10) + 22];
    size_t want = size < sizeof tail ? (size_t)size : sizeof tail;
    ssize_t n = fs_pread_full(fd, tail, want, (off_t)(size - want));
    if (n != (ssize_t)want)
        return;
    if (memmem(tail, want, "PK\005\006", 4) == NULL) {
        w->truncated = true;
        (void)snprintf(w->problem, sizeof w->problem,
                       "the zip archive has no end record: the file was cut or is still written");
    }
}

static void read_header(int fd, uint64_t size, struct weights *w)
{
    struct byte_reader reader;
    int r = byte_reader_init(&reader, fd, size, HEADER_LIMIT);
    if (r < 0)
        (void)snprintf(w->problem, sizeof w->problem, "out of memory");
    else if (w->format == WEIGHTS_GGUF)
        gguf_read(&reader, w);
    else
        safetensors_read(&reader, w);
    byte_reader_release(&reader);
}

void weights_read(int fd, uint64_t size, const char *name, struct weights *w)
{
    unsigned char head[512];
    *w = (struct weights){0};
    ssize_t n = fs_pread_full(fd, head, size < sizeof head ? (size_t)size : sizeof head, 0);
    if (n < 0) {
        (void)snprintf(w->problem, sizeof w->problem, "cannot read: %s", strerror((int)-n));
        return;
    }
    w->format = weights_sniff(head, (size_t)n, name);
    if (w->format == WEIGHTS_GGUF || w->format == WEIGHTS_SAFETENSORS)
        read_header(fd, size, w);
    else if (w->format == WEIGHTS_ZIP)
        judge_zip(fd, size, w);
    static const char pointer[] = "version https://git-lfs.github.com/spec/";
    if ((size_t)n > sizeof pointer && memcmp(head, pointer, sizeof pointer - 1) == 0) {
        w->truncated = true;
        (void)snprintf(w->problem, sizeof w->problem,
                       "a git-lfs pointer, not the model: it was never downloaded");
    }
}
