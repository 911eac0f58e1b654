/* SPDX-License-Identifier: Apache-2.0 */
#include "collectors/lib/model_config.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "collectors/lib/cleantext.h"
#include "collectors/lib/weights.h"

#define INTEGER_MAX 9007199254740992.0 /* 2^53: what a double of cJSON holds */

/* The names that architectures of transformers give to one thing. */
static const struct {
    const char *name;
    enum weights_field field;
} fields[] = {
    {"num_hidden_layers", WEIGHTS_BLOCK_COUNT},
    {"n_layer", WEIGHTS_BLOCK_COUNT},
    {"hidden_size", WEIGHTS_EMBEDDING_LENGTH},
    {"n_embd", WEIGHTS_EMBEDDING_LENGTH},
    {"num_attention_heads", WEIGHTS_HEAD_COUNT},
    {"n_head", WEIGHTS_HEAD_COUNT},
    {"num_key_value_heads", WEIGHTS_HEAD_COUNT_KV},
    {"head_dim", WEIGHTS_KEY_LENGTH},
    {"head_dim", WEIGHTS_VALUE_LENGTH},
    {"max_position_embeddings", WEIGHTS_CONTEXT_LENGTH},
    {"n_positions", WEIGHTS_CONTEXT_LENGTH},
    {"kv_lora_rank", WEIGHTS_LATENT_RANK},
    {"vocab_size", WEIGHTS_VOCABULARY},
};

/* Members by which layers keep another cache than K and V of every token, and the beginnings of such. */
static const char *const others[] = {
    "attention_chunk_size", "attn_layer_period", "block_types",        "full_attention_interval", "layers_block_type",
    "num_kv_shared_layers", "num_nextn_predict_layers", "hybrid_override_pattern", "layer_group_size"};
static const char *const other_beginnings[] = {"mamba", "ssm_", "linear_", "rwkv", "conv_"};

static bool says_something(const cJSON *member)
{
    return !cJSON_IsNull(member) && !cJSON_IsFalse(member) && !(cJSON_IsNumber(member) && member->valuedouble <= 0);
}

static bool is_another_cache(const cJSON *member)
{
    const char *name = member->string;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strcmp(name, others[i]) == 0)
            return says_something(member);
    for (size_t i = 0; i < sizeof other_beginnings / sizeof other_beginnings[0]; i++)
        if (strncmp(name, other_beginnings[i], strlen(other_beginnings[i])) == 0)
            return says_something(member);
    return false;
}

/* "layer_types": all of them must be "full_attention". */
static bool has_other_layers(const cJSON *config)
{
    const cJSON *type;
    cJSON_ArrayForEach(type, cJSON_GetObjectItemCaseSensitive(config, "layer_types"))
    {
        if (!cJSON_IsString(type) || strcmp(type->valuestring, "full_attention") != 0)
            return true;
    }
    return false;
}

static void read_window(const cJSON *config, struct weights *w)
{
    const cJSON *window = cJSON_GetObjectItemCaseSensitive(config, "sliding_window");
    const cJSON *used = cJSON_GetObjectItemCaseSensitive(config, "use_sliding_window");
    if (cJSON_IsNumber(window) && window->valuedouble > 0 && window->valuedouble < INTEGER_MAX && !cJSON_IsFalse(used))
        weights_set_field(w, WEIGHTS_SLIDING_WINDOW, (uint64_t)window->valuedouble);
}

static void read_numbers(const cJSON *config, struct weights *w)
{
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        const cJSON *value = cJSON_GetObjectItemCaseSensitive(config, fields[i].name);
        bool whole = cJSON_IsNumber(value) && value->valuedouble >= 0 && value->valuedouble < INTEGER_MAX &&
                     value->valuedouble == floor(value->valuedouble);
        if (whole && weights_field(w, fields[i].field) == NULL)
            weights_set_field(w, fields[i].field, (uint64_t)value->valuedouble);
    }
}

static void read_type(const cJSON *config, struct weights *w)
{
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(config, "model_type");
    const cJSON *dtype = cJSON_GetObjectItemCaseSensitive(config, "dtype");
    if (!cJSON_IsString(dtype))
        dtype = cJSON_GetObjectItemCaseSensitive(config, "torch_dtype");
    if (cJSON_IsString(type))
        cleantext_copy(w->architecture, sizeof w->architecture, type->valuestring, strlen(type->valuestring));
    if (cJSON_IsString(dtype))
        cleantext_copy(w->file_type, sizeof w->file_type, dtype->valuestring, strlen(dtype->valuestring));
}

static void look_for_odd_members(const cJSON *config, struct weights *w)
{
    const cJSON *member;
    const char *odd = has_other_layers(config) ? "layer_types" : NULL;
    if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(config, "is_encoder_decoder")))
        odd = "is_encoder_decoder";
    cJSON_ArrayForEach(member, config)
    {
        if (odd == NULL && is_another_cache(member))
            odd = member->string;
    }
    if (odd != NULL)
        cleantext_copy(w->cache_odd, sizeof w->cache_odd, odd, strlen(odd));
}

void model_config_read(const char *text, size_t len, struct weights *w)
{
    cJSON *json = cJSON_ParseWithLength(text, len);
    const cJSON *inner = cJSON_GetObjectItemCaseSensitive(json, "text_config"); /* of a model that also sees */
    const cJSON *config = cJSON_IsObject(inner) ? inner : json;
    if (!cJSON_IsObject(config)) {
        if (w->problem[0] == '\0')
            (void)snprintf(w->problem, sizeof w->problem, "config.json is no JSON object");
    } else {
        read_numbers(config, w);
        read_window(config, w);
        read_type(config, w);
        look_for_odd_members(config, w);
    }
    cJSON_Delete(json);
}
