/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/fit_model.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/say.h"
#include "cli/doctor_collect.h"
#include "cli/fit_memory.h"
#include "collectors/lib/cleantext.h"
#include "collectors/lib/model_cache.h"
#include "collectors/lib/model_config.h"
#include "diagnose/fact.h"

#define CONFIG_MAX ((size_t)4 << 20)
#define INDEX_MAX ((size_t)64 << 20)
#define FILES_MAX 4096u
#define LEFT_FOR_THE_REST 0.9 /* of the room, where a search starts */

/* Bytes of a number in the cache. */
static const struct cache_type {
    const char *name;
    double bytes;
} gguf_types[] = {{"f16", 2}, {"q8_0", 34.0 / 32}, {"q4_0", 18.0 / 32}, {NULL, 0}},
  torch_types[] = {{"16 bits", 2}, {"8 bits", 1}, {NULL, 0}};

static const struct cache_type *types_of(const struct fit_estimate *e)
{
    return e->header.format == WEIGHTS_GGUF ? gguf_types : torch_types;
}

/* --- reading --- */

static int read_header(const char *path, struct weights *ret, struct rc_err *err)
{
    struct stat st;
    RC_AUTO_CLOSE int fd = fs_open_regular(path);
    if (fd < 0 || fstat(fd, &st) != 0)
        return rc_err_errno(err, fd < 0 ? fd : -errno, "cannot open '%s'", path);
    weights_read(fd, (uint64_t)st.st_size, path, ret);
    if (ret->format != WEIGHTS_GGUF && ret->format != WEIGHTS_SAFETENSORS)
        return rc_err_set(err, -EBADMSG, "'%s' is neither GGUF nor safetensors", path);
    if (ret->problem[0] != '\0')
        return rc_err_set(err, -EBADMSG, "'%s': %s", path, ret->problem);
    for (uint32_t i = 0; i < ret->type_count; i++)
        if (ret->types[i].bytes == 0)
            return rc_err_set(err, -EBADMSG, "'%s' has tensors of an unknown type: %s", path, ret->types[i].name);
    return ret->tensor_count > 0 ? 0 : rc_err_set(err, -EBADMSG, "'%s' has no tensors", path);
}

/* Adds what a further file of the model holds. */
static int add_file(struct fit_estimate *e, const char *path, struct rc_err *err)
{
    static struct weights part;
    struct weights *w = &e->header;
    int r = read_header(path, e->files == 0 ? w : &part, err);
    if (r == 0 && e->files > 0) {
        w->tensor_bytes = weights_sat_add(w->tensor_bytes, part.tensor_bytes);
        w->tensor_count += part.tensor_count;
        w->key_tensors += part.key_tensors;
        w->value_tensors += part.value_tensors;
        w->fused_tensors += part.fused_tensors;
        w->key_rows = weights_sat_add(w->key_rows, part.key_rows);
        w->value_rows = weights_sat_add(w->value_rows, part.value_rows);
        w->fused_rows = weights_sat_add(w->fused_rows, part.fused_rows);
    }
    e->files += r == 0;
    return r;
}

/* "model-00001-of-00003.gguf" and the others; only the first one has the metadata. */
static int read_gguf(struct fit_estimate *e, const char *path, struct rc_err *err)
{
    char part[FS_PATH_MAX];
    int r = add_file(e, path, err);
    const uint64_t *count = weights_field(&e->header, WEIGHTS_SPLIT_COUNT);
    const uint64_t *number = weights_field(&e->header, WEIGHTS_SPLIT_NO);
    const char *mark = strstr(path, "-00001-of-");
    uint64_t parts = r == 0 && count != NULL ? *count : 1;
    if (parts > 1 && ((number != NULL && *number != 0) || mark == NULL || parts > FILES_MAX))
        return rc_err_set(err, -EBADMSG, "'%s' is a part of a model: name the first one (-00001-of-...)", path);
    for (uint64_t i = 2; r == 0 && i <= parts; i++) {
        int n = snprintf(part, sizeof part, "%.*s-%05" PRIu64 "%s", (int)(mark - path), path, i, mark + strlen("-00001"));
        r = n > 0 && (size_t)n < sizeof part ? add_file(e, part, err) : -ENAMETOOLONG;
    }
    return r;
}

/* Each file once: the index maps tensors to files. */
static int read_indexed(struct fit_estimate *e, const char *folder, const char *index, struct rc_err *err)
{
    int r = 0;
    const cJSON *tensor;
    cJSON *json = cJSON_Parse(index);
    cJSON *seen = cJSON_CreateObject();
    cJSON_ArrayForEach(tensor, cJSON_GetObjectItemCaseSensitive(json, "weight_map"))
    {
        char path[FS_PATH_MAX];
        const char *name = cJSON_GetStringValue(tensor);
        if (r < 0 || name == NULL || cJSON_HasObjectItem(seen, name))
            continue;
        (void)cJSON_AddNullToObject(seen, name);
        int n = snprintf(path, sizeof path, "%s/%s", folder, name);
        r = strchr(name, '/') == NULL && n > 0 && (size_t)n < sizeof path && e->files < FILES_MAX
                ? add_file(e, path, err)
                : rc_err_set(err, -EBADMSG, "the index in '%s' names a file outside of it", folder);
    }
    if (r == 0 && e->files == 0)
        r = rc_err_set(err, -EBADMSG, "the index in '%s' names no files", folder);
    cJSON_Delete(json);
    cJSON_Delete(seen);
    return r;
}

static int read_folder(struct fit_estimate *e, const char *folder, struct rc_err *err)
{
    char path[FS_PATH_MAX];
    RC_AUTO_FREE char *config = NULL;
    RC_AUTO_FREE char *index = NULL;
    (void)snprintf(path, sizeof path, "%s/model.safetensors.index.json", folder);
    int r;
    if (fs_read_all(path, INDEX_MAX, &index) >= 0) {
        r = read_indexed(e, folder, index, err);
    } else {
        (void)snprintf(path, sizeof path, "%s/model.safetensors", folder);
        r = add_file(e, path, err);
    }
    (void)snprintf(path, sizeof path, "%s/config.json", folder);
    ssize_t len = r == 0 ? fs_read_all(path, CONFIG_MAX, &config) : -1;
    if (r == 0 && len >= 0)
        model_config_read(config, (size_t)len, &e->header);
    return r;
}

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

int fit_model_read(struct fit_estimate *e, const char *path, struct rc_err *err)
{
    char folder[FS_PATH_MAX];
    *e = (struct fit_estimate){.files = 0};
    cleantext_copy(e->name, sizeof e->name, cleantext_base(path), strlen(cleantext_base(path)));
    (void)snprintf(folder, sizeof folder, "%s", path);
    size_t len = strlen(folder);
    bool of_folder = len > 12 && strcmp(folder + len - 12, ".safetensors") == 0;
    char *slash = strrchr(folder, '/');
    if (of_folder && slash != NULL)
        *slash = '\0';
    else if (of_folder)
        (void)snprintf(folder, sizeof folder, ".");
    int r = of_folder || is_folder(path) ? read_folder(e, folder, err) : read_gguf(e, path, err);
    if (r == 0)
        (void)model_cache_elements(&e->header, &e->cache_elements, e->cache_unknown, sizeof e->cache_unknown);
    return r;
}

static bool has_number(const struct facts *facts, int gpu, const char *what, double *ret)
{
    char name[64];
    (void)snprintf(name, sizeof name, "gpu.%d.%s", gpu, what);
    return facts_get_number(facts, name, ret);
}

int fit_model_rooms(struct fit_estimate *e, double room_bytes, struct rc_err *err)
{
    static const char *const nothing[] = {NULL};
    struct facts *facts = room_bytes > 0 ? NULL : facts_new();
    e->gpu[0] = (struct fit_gpu){.number = -1, .free_bytes = room_bytes};
    e->gpus = room_bytes > 0;
    int r = room_bytes > 0 ? 0 : facts == NULL ? -ENOMEM : doctor_collect(facts, nothing, err);
    for (int i = 0; r == 0 && facts != NULL && i < FIT_GPUS_MAX; i++) {
        double total = 0;
        double used = 0;
        double is_apu = 0;
        if (!has_number(facts, i, "vram.total_bytes", &total) || !has_number(facts, i, "vram.used_bytes", &used))
            continue;
        (void)has_number(facts, i, "is_apu", &is_apu);
        e->gpu[e->gpus++] = (struct fit_gpu){.number = i, .free_bytes = fmax(total - used, 0), .is_apu = is_apu > 0};
    }
    facts_free(facts);
    return r;
}

/* --- what follows --- */

/* Tokens for which there is room beside the weights; below 0 = not even for those. */
static double tokens_in(const struct fit_estimate *e, double room, double bytes)
{
    return floor((room - (double)e->header.tensor_bytes) / ((double)e->cache_elements * bytes));
}

static const struct fit_gpu *roomiest(const struct fit_estimate *e)
{
    const struct fit_gpu *best = NULL;
    for (unsigned i = 0; i < e->gpus; i++)
        if (!e->gpu[i].is_apu && (best == NULL || e->gpu[i].free_bytes > best->free_bytes))
            best = &e->gpu[i];
    return best;
}

bool fit_model_start(const struct fit_estimate *e, const char *option, int64_t *ret)
{
    const struct fit_gpu *gpu = roomiest(e);
    const uint64_t *layers = weights_field(&e->header, WEIGHTS_BLOCK_COUNT);
    double value = -1;
    if (gpu == NULL)
        return false;
    double room = gpu->free_bytes * LEFT_FOR_THE_REST;
    if (fit_memory_is_context(option) && e->cache_unknown[0] == '\0')
        value = tokens_in(e, room, 2);
    else if (fit_memory_is_layers(option) && layers != NULL) /* what is in no layer counts as one */
        value = fmin(floor(room / ((double)e->header.tensor_bytes / ((double)*layers + 1))), (double)*layers + 1);
    *ret = value >= 0 && value < 1e15 ? (int64_t)value : -1;
    return *ret >= 0;
}

/* --- in words --- */

static void print_model(const struct fit_estimate *e)
{
    const struct weights *w = &e->header;
    const uint64_t *layers = weights_field(w, WEIGHTS_BLOCK_COUNT);
    const uint64_t *context = weights_field(w, WEIGHTS_CONTEXT_LENGTH);
    char text[160] = "";
    size_t n = 0;
    if (layers != NULL)
        n = (size_t)snprintf(text, sizeof text, ", %" PRIu64 " layers", *layers);
    if (context != NULL)
        (void)snprintf(text + n, sizeof text - n, ", made for %" PRIu64 " tokens", *context);
    (void)say_line(stdout, "rocmcrash: %s: %s%s%s%s", e->name, w->architecture[0] != '\0' ? w->architecture : "a model",
                   w->file_type[0] != '\0' ? ", " : "", w->file_type, text);
}

static void print_counted(const struct fit_estimate *e)
{
    char weights[64];
    char cache[64];
    fit_memory_text((double)e->header.tensor_bytes, weights, sizeof weights);
    (void)say_line(stdout, "rocmcrash: counted: weights %s (%" PRIu64 " tensors in %u file%s)", weights, e->header.tensor_count,
                   e->files, e->files == 1 ? "" : "s");
    for (const struct cache_type *t = types_of(e); e->cache_unknown[0] == '\0' && t->name != NULL; t++) {
        fit_memory_text((double)e->cache_elements * t->bytes, cache, sizeof cache);
        (void)say_line(stdout, "rocmcrash: counted: KV cache %s a token in %s (K and V of every layer)", cache, t->name);
    }
    if (e->cache_unknown[0] != '\0')
        (void)say_line(stdout, "rocmcrash: KV cache: unknown: %s", e->cache_unknown);
    (void)say_line(stdout, "rocmcrash: not counted: buffers of the computation, the runtime's own memory, what an allocator rounds up");
}

static void print_room(const struct fit_estimate *e, const struct fit_gpu *gpu)
{
    char room[64];
    char where[32] = "in";
    fit_memory_text(gpu->free_bytes, room, sizeof room);
    if (gpu->number >= 0)
        (void)snprintf(where, sizeof where, "GPU %d has free now:", gpu->number);
    if (gpu->is_apu)
        (void)say_line(stdout, "rocmcrash: %s %s of its own, and its programs live in RAM, too: name the room (--room 24GiB)", where, room);
    else if (gpu->free_bytes < (double)e->header.tensor_bytes)
        (void)say_line(stdout, "rocmcrash: %s %s: less than the weights need", where, room);
    else if (e->cache_unknown[0] != '\0')
        (void)say_line(stdout, "rocmcrash: %s %s: the weights fit, of the context nothing is known", where, room);
    for (const struct cache_type *t = types_of(e); t->name != NULL; t++)
        if (!gpu->is_apu && e->cache_unknown[0] == '\0' && gpu->free_bytes >= (double)e->header.tensor_bytes)
            (void)say_line(stdout, "rocmcrash: %s %s: beside the weights there is room for %.0f tokens in %s", where, room,
                           tokens_in(e, gpu->free_bytes, t->bytes), t->name);
}

void fit_model_print(const struct fit_estimate *e)
{
    print_model(e);
    print_counted(e);
    for (unsigned i = 0; i < e->gpus; i++)
        print_room(e, &e->gpu[i]);
    if (e->gpus == 0)
        (void)say_line(stdout, "rocmcrash: the free memory of no GPU could be read: name the room (--room 24GiB)");
}

static void room_to_json(const struct fit_estimate *e, const struct fit_gpu *gpu, cJSON *list)
{
    cJSON *room = cJSON_CreateObject();
    if (gpu->number >= 0)
        (void)cJSON_AddNumberToObject(room, "gpu", gpu->number);
    (void)cJSON_AddNumberToObject(room, "free_bytes", gpu->free_bytes);
    cJSON *tokens = !gpu->is_apu && e->cache_unknown[0] == '\0' ? cJSON_AddObjectToObject(room, "room_for_tokens") : NULL;
    for (const struct cache_type *t = types_of(e); tokens != NULL && t->name != NULL; t++)
        (void)cJSON_AddNumberToObject(tokens, t->name, fmax(tokens_in(e, gpu->free_bytes, t->bytes), 0));
    cJSON_AddItemToArray(list, room);
}

struct cJSON *fit_model_to_json(const struct fit_estimate *e)
{
    cJSON *json = cJSON_CreateObject();
    (void)cJSON_AddStringToObject(json, "model", e->name);
    (void)cJSON_AddStringToObject(json, "architecture", e->header.architecture);
    (void)cJSON_AddNumberToObject(json, "weights_bytes", (double)e->header.tensor_bytes);
    if (e->cache_unknown[0] == '\0')
        (void)cJSON_AddNumberToObject(json, "cache_elements_a_token", (double)e->cache_elements);
    else
        (void)cJSON_AddStringToObject(json, "cache_unknown", e->cache_unknown);
    cJSON *list = cJSON_AddArrayToObject(json, "rooms");
    for (unsigned i = 0; list != NULL && i < e->gpus; i++)
        room_to_json(e, &e->gpu[i], list);
    return json;
}
