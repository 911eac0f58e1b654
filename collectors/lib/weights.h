/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header of a model file of any format. No pointers: a worker process fills the structure, and
 * another process reads it through shared memory.
 */
#ifndef COLLECTORS_LIB_WEIGHTS_H
#define COLLECTORS_LIB_WEIGHTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct byte_reader;

enum weights_format {
    WEIGHTS_UNKNOWN,
    WEIGHTS_GGUF,
    WEIGHTS_SAFETENSORS,
    WEIGHTS_GGML,   /* before GGUF: ggml, ggmf, ggjt, ggla */
    WEIGHTS_ZIP,    /* PyTorch >= 1.6 */
    WEIGHTS_PICKLE, /* PyTorch before, joblib */
    WEIGHTS_TAR,    /* PyTorch before 0.1.10 */
    WEIGHTS_ONNX,
};

#define WEIGHTS_TYPES_MAX 32

struct weights_type {
    char name[16];
    uint64_t tensors;
    uint64_t bytes; /* 0 where the size of the type is not known */
};

struct weights {
    enum weights_format format;
    uint32_t version; /* of the format, GGUF */
    bool big_endian;
    char architecture[64];
    char name[128];
    char file_type[24];       /* GGUF general.file_type by name */
    char metadata_format[32]; /* safetensors __metadata__.format */
    /* Valid only if the bit below is set. */
    uint64_t context_length, block_count, embedding_length, head_count, head_count_kv;
    uint64_t expert_count, vocabulary, split_no, split_count;
    uint64_t key_length, value_length; /* size of a head, if not embedding / heads */
    uint64_t sliding_window, latent_rank;
    uint32_t has; /* 1u << enum weights_field */
    uint64_t tensor_count;
    uint64_t tensor_bytes;
    uint64_t elements;     /* parameters, all tensors */
    uint64_t needed_bytes; /* the file must be at least so long; 0 = not known */
    bool truncated;        /* the file is shorter than its header says it must be */
    struct weights_type types[WEIGHTS_TYPES_MAX];
    uint32_t type_count;
    /* The tensors of the language model that make K, V, or Q and both in one (model_cache.h). */
    uint32_t key_tensors, value_tensors, fused_tensors;
    uint64_t key_rows, value_rows, fused_rows;
    bool heads_differ; /* the header has a list of heads, one number a layer */
    char cache_odd[64]; /* what in the header speaks of another cache than K and V of each token; "" = nothing */
    char problem[160]; /* why the header could not be read to its end, "" = it was */
};

enum weights_field {
    WEIGHTS_CONTEXT_LENGTH,
    WEIGHTS_BLOCK_COUNT,
    WEIGHTS_EMBEDDING_LENGTH,
    WEIGHTS_HEAD_COUNT,
    WEIGHTS_HEAD_COUNT_KV,
    WEIGHTS_EXPERT_COUNT,
    WEIGHTS_VOCABULARY,
    WEIGHTS_SPLIT_NO,
    WEIGHTS_SPLIT_COUNT,
    WEIGHTS_KEY_LENGTH,
    WEIGHTS_VALUE_LENGTH,
    WEIGHTS_SLIDING_WINDOW,
    WEIGHTS_LATENT_RANK, /* K and V are kept as one compressed vector (MLA) */
    WEIGHTS_FIELD_MAX
};

const char *weights_format_name(enum weights_format format);
const char *weights_field_name(enum weights_field field);
/* NULL if the header does not say. */
const uint64_t *weights_field(const struct weights *w, enum weights_field field);
/* No model has a value as large as this. A negative number reads as one. Such a value counts as absent. */
#define WEIGHTS_VALUE_LIMIT (UINT64_C(1) << 31)
void weights_set_field(struct weights *w, enum weights_field field, uint64_t value);

/* Count one tensor; saturates. */
void weights_add_tensor(struct weights *w, const char *type, uint64_t elements, uint64_t bytes);
/* Count it among the tensors that make K and V if its name says so; `rows` is the length of what it makes. */
void weights_note_attention(struct weights *w, const char *name, uint64_t rows);
/* The type with most bytes first; the mix in one line "Q4_K 193, Q6_K 33, F32 65". */
void weights_sort_types(struct weights *w);
void weights_mix(const struct weights *w, char *out, size_t size);
/* Compare needed_bytes with the size of the file. */
void weights_judge_size(struct weights *w, uint64_t file_bytes);

uint64_t weights_sat_add(uint64_t a, uint64_t b);
uint64_t weights_sat_mul(uint64_t a, uint64_t b);

/* By the first bytes; `name` decides only for formats without a magic (safetensors, onnx). */
enum weights_format weights_sniff(const void *head, size_t len, const char *name);

/* Fill w from the file: sniff, then the parser of the format. Reads at most a few hundred MiB of
 * header in 64 KiB steps, never past `size`. Never fails: errors are in w->problem. */
void weights_read(int fd, uint64_t size, const char *name, struct weights *w);

#endif
