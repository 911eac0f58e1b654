/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GGUF (ggml/docs/gguf.md): "GGUF", version u32, tensor count u64, key-value count u64, the pairs,
 * the tensor table, padding to general.alignment, data. Version 1 counted with u32.
 *
 * No count or length is trusted: they never size an allocation, strings are cut to fixed buffers,
 * arrays are skipped, and the reader refuses to pass the end of the file.
 */
#include "collectors/lib/gguf.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "collectors/lib/byte_reader.h"
#include "collectors/lib/cleantext.h"
#include "collectors/lib/weights.h"

#define KEY_MAX 128 /* longest known: "<architecture>.attention.head_count_kv" */
#define COUNT_MAX ((uint64_t)1 << 20)
#define ARRAY_DEPTH_MAX 4
#define ALIGNMENT_DEFAULT 32
#define TENSOR_NAME_MAX 64 /* as in ggml */

enum value_type {
    VALUE_U8,
    VALUE_I8,
    VALUE_U16,
    VALUE_I16,
    VALUE_U32,
    VALUE_I32,
    VALUE_F32,
    VALUE_BOOL,
    VALUE_STRING,
    VALUE_ARRAY,
    VALUE_U64,
    VALUE_I64,
    VALUE_F64,
    VALUE_TYPE_MAX
};

static const uint8_t value_widths[VALUE_TYPE_MAX] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

/* ggml_type -> name, elements and bytes of a block (ggml-common.h; the gaps were removed there). */
static const struct tensor_type {
    const char *name;
    uint16_t block_elements, block_bytes;
} tensor_types[] = {
    [0] = {"F32", 1, 4},         [1] = {"F16", 1, 2},         [2] = {"Q4_0", 32, 18},
    [3] = {"Q4_1", 32, 20},      [6] = {"Q5_0", 32, 22},      [7] = {"Q5_1", 32, 24},
    [8] = {"Q8_0", 32, 34},      [9] = {"Q8_1", 32, 36},      [10] = {"Q2_K", 256, 84},
    [11] = {"Q3_K", 256, 110},   [12] = {"Q4_K", 256, 144},   [13] = {"Q5_K", 256, 176},
    [14] = {"Q6_K", 256, 210},   [15] = {"Q8_K", 256, 292},   [16] = {"IQ2_XXS", 256, 66},
    [17] = {"IQ2_XS", 256, 74},  [18] = {"IQ3_XXS", 256, 98}, [19] = {"IQ1_S", 256, 50},
    [20] = {"IQ4_NL", 32, 18},   [21] = {"IQ3_S", 256, 110},  [22] = {"IQ2_S", 256, 82},
    [23] = {"IQ4_XS", 256, 136}, [24] = {"I8", 1, 1},         [25] = {"I16", 1, 2},
    [26] = {"I32", 1, 4},        [27] = {"I64", 1, 8},        [28] = {"F64", 1, 8},
    [29] = {"IQ1_M", 256, 56},   [30] = {"BF16", 1, 2},       [31] = {"Q4_0_4_4", 32, 18},
    [32] = {"Q4_0_4_8", 32, 18}, [33] = {"Q4_0_8_8", 32, 18}, [34] = {"TQ1_0", 256, 54},
    [35] = {"TQ2_0", 256, 66},   [39] = {"MXFP4", 32, 17},    [40] = {"NVFP4", 64, 36},
    [41] = {"Q1_0", 128, 18},
};

/* general.file_type (llama.h enum llama_ftype): the quantisation mix of the file. */
static const char *const file_types[] = {
    [0] = "F32",      [1] = "F16",      [2] = "Q4_0",       [3] = "Q4_1",    [7] = "Q8_0",
    [8] = "Q5_0",     [9] = "Q5_1",     [10] = "Q2_K",      [11] = "Q3_K_S", [12] = "Q3_K_M",
    [13] = "Q3_K_L",  [14] = "Q4_K_S",  [15] = "Q4_K_M",    [16] = "Q5_K_S", [17] = "Q5_K_M",
    [18] = "Q6_K",    [19] = "IQ2_XXS", [20] = "IQ2_XS",    [21] = "Q2_K_S", [22] = "IQ3_XS",
    [23] = "IQ3_XXS", [24] = "IQ1_S",   [25] = "IQ4_NL",    [26] = "IQ3_S",  [27] = "IQ3_M",
    [28] = "IQ2_S",   [29] = "IQ2_M",   [30] = "IQ4_XS",    [31] = "IQ1_M",  [32] = "BF16",
    [36] = "TQ1_0",   [37] = "TQ2_0",   [38] = "MXFP4_MOE", [39] = "NVFP4",  [40] = "Q1_0",
};

struct gguf {
    struct byte_reader *r;
    struct weights *w;
    unsigned count_width; /* bytes of a length: 4 in version 1, else 8 */
    uint64_t alignment;
};

static uint32_t gguf_u32(struct gguf *g)
{
    return (uint32_t)byte_reader_uint(g->r, 4, g->w->big_endian);
}

static uint64_t gguf_count(struct gguf *g)
{
    return byte_reader_uint(g->r, g->count_width, g->w->big_endian);
}

static bool gguf_problem(struct gguf *g, const char *what)
{
    if (g->w->problem[0] == '\0')
        (void)snprintf(g->w->problem, sizeof g->w->problem, "%s at byte %" PRIu64, what, g->r->pos);
    return false;
}

/* A string into a fixed buffer, cut and cleaned; the rest is skipped. */
static bool gguf_string(struct gguf *g, char *out, size_t size)
{
    char raw[256];
    uint64_t len = gguf_count(g);
    size_t take = len < sizeof raw ? (size_t)len : sizeof raw;
    out[0] = '\0';
    if (len > byte_reader_left(g->r))
        return byte_reader_skip(g->r, len); /* fails, and keeps the reason */
    if (!byte_reader_read(g->r, raw, take))
        return false;
    cleantext_copy(out, size, raw, take);
    return byte_reader_skip(g->r, len - take);
}

/* The counts we ask for are never negative: no sign extension. */
static uint64_t gguf_integer(struct gguf *g, uint32_t type)
{
    return byte_reader_uint(g->r, value_widths[type], g->w->big_endian);
}

static bool is_integer(uint32_t type)
{
    return type <= VALUE_I32 || type == VALUE_BOOL || type == VALUE_U64 || type == VALUE_I64;
}

/* Skips the elements; for integer arrays (per-layer head counts) *ret_max is the largest. */
static bool gguf_array(struct gguf *g, unsigned depth, uint64_t *ret_count, uint64_t *ret_max)
{
    uint32_t type = gguf_u32(g);
    uint64_t count = gguf_count(g);
    if (g->r->error != 0)
        return false;
    if (type >= VALUE_TYPE_MAX || depth > ARRAY_DEPTH_MAX)
        return gguf_problem(g, "unknown array type or arrays too deep");
    *ret_count = count;
    if (is_integer(type) && count <= 4096) {
        for (uint64_t i = 0; i < count && g->r->error == 0; i++) {
            uint64_t value = gguf_integer(g, type);
            *ret_max = value > *ret_max ? value : *ret_max;
        }
        return g->r->error == 0;
    }
    if (value_widths[type] != 0)
        return byte_reader_skip(g->r, weights_sat_mul(count, value_widths[type]));
    for (uint64_t i = 0; i < count; i++) {
        uint64_t ignored = 0;
        if (type == VALUE_STRING && !byte_reader_skip(g->r, gguf_count(g)))
            return false;
        if (type == VALUE_ARRAY && !gguf_array(g, depth + 1, &ignored, &ignored))
            return false;
        if (g->r->error != 0)
            return false;
    }
    return true;
}

/* "llama.attention.head_count_kv" -> the part after the architecture, for any architecture. */
static int field_of_key(const char *key)
{
    static const struct {
        const char *suffix;
        enum weights_field field;
    } fields[] = {
        {".context_length", WEIGHTS_CONTEXT_LENGTH},
        {".block_count", WEIGHTS_BLOCK_COUNT},
        {".embedding_length", WEIGHTS_EMBEDDING_LENGTH},
        {".attention.head_count", WEIGHTS_HEAD_COUNT},
        {".attention.head_count_kv", WEIGHTS_HEAD_COUNT_KV},
        {".expert_count", WEIGHTS_EXPERT_COUNT},
        {".vocab_size", WEIGHTS_VOCABULARY},
        {".attention.key_length", WEIGHTS_KEY_LENGTH},
        {".attention.value_length", WEIGHTS_VALUE_LENGTH},
        {".attention.sliding_window", WEIGHTS_SLIDING_WINDOW},
        {".attention.kv_lora_rank", WEIGHTS_LATENT_RANK},
    };
    const char *dot = strchr(key, '.');
    for (size_t i = 0; dot != NULL && i < sizeof fields / sizeof fields[0]; i++) {
        if (strcmp(dot, fields[i].suffix) == 0)
            return (int)fields[i].field;
    }
    if (strcmp(key, "split.no") == 0)
        return WEIGHTS_SPLIT_NO;
    return strcmp(key, "split.count") == 0 ? WEIGHTS_SPLIT_COUNT : -1;
}

/* Keys of models that keep something else than K and V of each token in each layer that has them: an encoder
 * keeps nothing, T5 keeps the encoder's, Gemma 3n shares layers, the layers that predict further tokens are not
 * run by all programs. */
static void note_other_cache(struct weights *w, const char *key, uint64_t value)
{
    static const char *const others[] = {".attention.shared_kv_layers", ".attention.relative_buckets_count",
                                         ".decoder_block_count", ".nextn_predict_layers", ".attention.chunk_size"};
    const char *dot = strchr(key, '.');
    bool odd = dot != NULL && strcmp(dot, ".attention.causal") == 0 && value == 0;
    for (size_t i = 0; dot != NULL && i < sizeof others / sizeof others[0]; i++)
        odd |= strcmp(dot, others[i]) == 0 && value > 0;
    if (odd && w->cache_odd[0] == '\0')
        (void)snprintf(w->cache_odd, sizeof w->cache_odd, "%.*s", (int)sizeof w->cache_odd - 1, key);
}

static void gguf_keep_integer(struct gguf *g, const char *key, uint64_t value)
{
    if (strcmp(key, "general.alignment") == 0) {
        /* The specification wants a multiple of 8; ggml a power of two. Other values are
         * ignored. */
        if (value == 0 || value > 1u << 20 || (value & (value - 1)) != 0)
            (void)gguf_problem(g, "general.alignment is not a power of two");
        else
            g->alignment = value;
        return;
    }
    if (strcmp(key, "general.file_type") == 0) {
        bool known = value < sizeof file_types / sizeof file_types[0] && file_types[value] != NULL;
        if (known)
            (void)snprintf(g->w->file_type, sizeof g->w->file_type, "%s", file_types[value]);
        else
            (void)snprintf(g->w->file_type, sizeof g->w->file_type, "%" PRIu64, value);
        return;
    }
    int field = field_of_key(key);
    if (field >= 0)
        weights_set_field(g->w, (enum weights_field)field, value);
    note_other_cache(g->w, key, value);
}

static bool gguf_text_value(struct gguf *g, const char *key)
{
    char ignored[8];
    if (strcmp(key, "general.architecture") == 0)
        return gguf_string(g, g->w->architecture, sizeof g->w->architecture);
    if (strcmp(key, "general.name") == 0)
        return gguf_string(g, g->w->name, sizeof g->w->name);
    return gguf_string(g, ignored, sizeof ignored);
}

static bool gguf_array_value(struct gguf *g, const char *key)
{
    uint64_t count = 0;
    uint64_t max = 0;
    if (!gguf_array(g, 0, &count, &max))
        return false;
    int field = field_of_key(key);
    if (strcmp(key, "tokenizer.ggml.tokens") == 0)
        weights_set_field(g->w, WEIGHTS_VOCABULARY, count);
    else if (field == WEIGHTS_HEAD_COUNT || field == WEIGHTS_HEAD_COUNT_KV)
        weights_set_field(g->w, (enum weights_field)field, max); /* per layer: the largest */
    g->w->heads_differ |= field == WEIGHTS_HEAD_COUNT || field == WEIGHTS_HEAD_COUNT_KV;
    return true;
}

static bool gguf_pair(struct gguf *g)
{
    char key[KEY_MAX];
    if (!gguf_string(g, key, sizeof key))
        return false;
    uint32_t type = gguf_u32(g);
    if (g->r->error != 0)
        return false;
    if (type >= VALUE_TYPE_MAX)
        return gguf_problem(g, "unknown value type");
    if (type == VALUE_STRING)
        return gguf_text_value(g, key);
    if (type == VALUE_ARRAY)
        return gguf_array_value(g, key);
    if (!is_integer(type))
        return byte_reader_skip(g->r, value_widths[type]);
    uint64_t value = gguf_integer(g, type);
    if (g->r->error == 0)
        gguf_keep_integer(g, key, value);
    return g->r->error == 0;
}

/* Bytes of a tensor; 0 = type not known. A row is whole blocks. */
static uint64_t tensor_bytes(const struct tensor_type *type, uint64_t elements)
{
    if (type == NULL)
        return 0;
    uint64_t blocks = elements / type->block_elements + (elements % type->block_elements != 0);
    return weights_sat_mul(blocks, type->block_bytes);
}

/* name, dimensions u32, each u64 (u32 in version 1), type u32, offset u64. */
static bool gguf_tensor(struct gguf *g, uint64_t *max_end)
{
    char name[TENSOR_NAME_MAX];
    uint64_t rows = 0;
    if (!gguf_string(g, name, sizeof name))
        return false;
    uint32_t dimensions = gguf_u32(g);
    if (dimensions > 8)
        return gguf_problem(g, "a tensor of more than 8 dimensions");
    uint64_t elements = 1;
    for (uint32_t i = 0; i < dimensions; i++) {
        uint64_t length = gguf_count(g);
        elements = weights_sat_mul(elements, length);
        rows = i == 1 ? length : rows;
    }
    uint32_t code = gguf_u32(g);
    uint64_t offset = byte_reader_uint(g->r, 8, g->w->big_endian);
    if (g->r->error != 0)
        return false;
    const struct tensor_type *type = NULL;
    if (code < sizeof tensor_types / sizeof tensor_types[0] && tensor_types[code].name != NULL)
        type = &tensor_types[code];
    char unknown[16];
    (void)snprintf(unknown, sizeof unknown, "type %" PRIu32, code % 100000);
    uint64_t bytes = tensor_bytes(type, elements);
    weights_add_tensor(g->w, type != NULL ? type->name : unknown, elements, bytes);
    weights_note_attention(g->w, name, rows);
    uint64_t end = weights_sat_add(offset, bytes);
    *max_end = end > *max_end ? end : *max_end;
    return true;
}

static bool gguf_tables(struct gguf *g, uint64_t tensors, uint64_t pairs)
{
    for (uint64_t i = 0; i < pairs; i++) {
        if (!gguf_pair(g))
            return false;
    }
    uint64_t max_end = 0;
    for (uint64_t i = 0; i < tensors; i++) {
        if (!gguf_tensor(g, &max_end))
            return false;
    }
    if (tensors > 0) { /* vocabulary-only files end here, without padding */
        uint64_t data = (g->r->pos + g->alignment - 1) & ~(g->alignment - 1);
        g->w->needed_bytes = weights_sat_add(data, max_end);
    }
    return true;
}

static bool gguf_start(struct gguf *g, uint64_t *ret_tensors, uint64_t *ret_pairs)
{
    char magic[4];
    if (!byte_reader_read(g->r, magic, sizeof magic))
        return false;
    if (memcmp(magic, "GGUF", 4) != 0)
        return gguf_problem(g, "no GGUF magic");
    uint32_t version = gguf_u32(g);
    if (version != 0 && (version & 0xffff) == 0) { /* the other byte order: since version 3 */
        version = __builtin_bswap32(version);
        g->w->big_endian = true;
    }
    if (g->r->error != 0)
        return false;
    g->w->version = version;
    if (version < 1 || version > 3)
        return gguf_problem(g, "a GGUF version that is not 1, 2 or 3");
    g->count_width = version == 1 ? 4 : 8;
    *ret_tensors = gguf_count(g);
    *ret_pairs = gguf_count(g);
    if (g->r->error != 0)
        return false;
    if (*ret_tensors > COUNT_MAX || *ret_pairs > COUNT_MAX)
        return gguf_problem(g, "more than a million tensors or keys");
    return true;
}

void gguf_read(struct byte_reader *r, struct weights *w)
{
    struct gguf g = {.r = r, .w = w, .count_width = 8, .alignment = ALIGNMENT_DEFAULT};
    uint64_t tensors = 0;
    uint64_t pairs = 0;
    w->format = WEIGHTS_GGUF;
    bool complete = gguf_start(&g, &tensors, &pairs) && gguf_tables(&g, tensors, pairs);
    if (!complete && r->error == -ENODATA) {
        w->truncated = true;
        (void)gguf_problem(&g, "the header runs past the end of the file");
    } else if (!complete && r->error != 0) {
        (void)gguf_problem(&g, r->error == -EFBIG ? "the header is absurdly long" : "read error");
    }
    if (complete)
        weights_judge_size(w, r->size);
    weights_sort_types(w);
}
