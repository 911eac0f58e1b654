/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collector "models": which weights did the run use, are they complete, and do they match their
 * name? A truncated download and a wrong quantisation look like GPU faults from outside.
 *
 * Runs in a child of the finisher, after the verdict; its own workers do the reading.
 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "collect/collector.h"
#include "collectors/lib/cleantext.h"
#include "collectors/lib/hash_cache.h"
#include "collectors/lib/model_find.h"
#include "collectors/lib/model_work.h"
#include "collectors/target_user.h"

extern const struct collector collector_models;

/* No deadline of its own: it ends after hash_budget_ms + 1.2 s, and the finisher waits no longer than
 * that. */
#define DEADLINE_MS (24u * 3600u * 1000u)
#define FACT_FILES_MAX 32
#define AFTER_BUDGET_NS UINT64_C(1200000000) /* for the ends of the files that were too large */
#define WRITE_RESERVE_NS UINT64_C(600000000) /* before the runner's deadline */

enum name_check { NAME_NONE, NAME_MATCH, NAME_MISMATCH, NAME_UNCHECKED };

static enum name_check check_name(const struct model *m, char *text, size_t size)
{
    bool full = m->hash == MODEL_HASH_FULL || m->hash == MODEL_HASH_CACHED;
    const char *store = m->hub.kind == HUB_OLLAMA ? "Ollama" : "Hugging Face";
    text[0] = '\0';
    if (m->hub.kind == HUB_NONE)
        return NAME_NONE;
    if (m->hub.kind == HUB_GIT_BLOB && m->git_blob[0] == '\0') {
        (void)snprintf(text, size, "git blob id, not compared");
        return NAME_UNCHECKED;
    }
    if (m->hub.kind != HUB_GIT_BLOB && !full) {
        (void)snprintf(text, size, "not compared: the whole file was not hashed");
        return NAME_UNCHECKED;
    }
    const char *computed = m->hub.kind == HUB_GIT_BLOB ? m->git_blob : m->sha256;
    bool match = strcmp(computed, m->hub.digest) == 0;
    if (match && m->hub.kind == HUB_GIT_BLOB)
        (void)snprintf(text, size, "matches its Hugging Face name (git blob id)");
    else if (match)
        (void)snprintf(text, size, "matches its %s name", store);
    else
        (void)snprintf(text, size, "MISMATCH: its %s name says %.16s..., its contents are %.16s...",
                       store, m->hub.digest, computed);
    return match ? NAME_MATCH : NAME_MISMATCH;
}

static bool changed_since_start(const struct collect_ctx *ctx, const struct model *m)
{
    return ctx->start_wall_ns != 0 && m->mtime_ns > ctx->start_wall_ns;
}

/* The usual name of the quantisation: GGUF's file type, else the type with most bytes. */
static const char *quantisation(const struct weights *w)
{
    if (w->file_type[0] != '\0' && w->file_type[0] > '9')
        return w->file_type;
    return w->type_count > 0 ? w->types[0].name : "";
}

static void json_header(cJSON *file, const struct weights *w)
{
    cJSON *header = cJSON_AddObjectToObject(file, "header");
    if (w->version != 0)
        cleantext_json_u64(header, "version", w->version);
    if (w->big_endian)
        (void)cJSON_AddBoolToObject(header, "big_endian", 1);
    cleantext_json_text(header, "architecture", w->architecture);
    cleantext_json_text(header, "name", w->name);
    cleantext_json_text(header, "file_type", w->file_type);
    cleantext_json_text(header, "metadata_format", w->metadata_format);
    for (int f = 0; f < WEIGHTS_FIELD_MAX; f++) {
        const uint64_t *value = weights_field(w, (enum weights_field)f);
        if (value != NULL)
            cleantext_json_u64(header, weights_field_name((enum weights_field)f), *value);
    }
    cleantext_json_u64(header, "tensors", w->tensor_count);
    cleantext_json_u64(header, "tensor_bytes", w->tensor_bytes);
    cleantext_json_u64(header, "elements", w->elements);
    if (w->needed_bytes != 0)
        cleantext_json_u64(header, "file_needs_bytes", w->needed_bytes);
    cJSON *types = cJSON_AddArrayToObject(header, "types");
    for (uint32_t i = 0; i < w->type_count; i++) {
        cJSON *type = cJSON_CreateObject();
        cleantext_json_text(type, "name", w->types[i].name);
        cleantext_json_u64(type, "tensors", w->types[i].tensors);
        cleantext_json_u64(type, "bytes", w->types[i].bytes);
        (void)cJSON_AddItemToArray(types, type);
    }
}

static void json_hash(cJSON *file, const struct model *m)
{
    if (m->hash == MODEL_HASH_FULL || m->hash == MODEL_HASH_CACHED) {
        cleantext_json_text(file, "sha256", m->sha256);
        (void)cJSON_AddStringToObject(
            file, "sha256_from",
            m->hash == MODEL_HASH_CACHED ? "cache (same inode, size and times)" : "the whole file");
    } else if (m->hash == MODEL_HASH_ENDS) {
        cJSON *ends = cJSON_AddObjectToObject(file, "sha256_of_head_and_tail");
        cleantext_json_text(ends, "value", m->sha256);
        cleantext_json_u64(ends, "head_bytes", HASH_END_BYTES);
        cleantext_json_u64(ends, "tail_bytes", HASH_END_BYTES);
        (void)cJSON_AddStringToObject(
            ends, "why", "sha256 of head+tail, budget: this is not the hash of the file");
    }
    cleantext_json_text(file, "git_blob", m->git_blob);
}

static void json_hub(cJSON *file, const struct model *m)
{
    char check[160];
    if (check_name(m, check, sizeof check) == NAME_NONE)
        return;
    cJSON *hub = cJSON_AddObjectToObject(file, "hub");
    cleantext_json_text(hub, "repository", m->hub.repository);
    cleantext_json_text(hub, "revision", m->hub.revision);
    cleantext_json_text(hub, "file", m->hub.file);
    cleantext_json_text(hub, "named", m->hub.digest);
    cleantext_json_text(hub, "check", check);
}

/* 2026-11-21T13:24:19Z */
static void json_time(cJSON *file, const char *name, uint64_t wall_ns)
{
    char text[32];
    struct tm tm;
    time_t seconds = (time_t)(wall_ns / 1000000000u);
    if (gmtime_r(&seconds, &tm) != NULL && strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm))
        (void)cJSON_AddStringToObject(file, name, text);
}

static cJSON *json_file(const struct collect_ctx *ctx, const struct model *m)
{
    cJSON *file = cJSON_CreateObject();
    cleantext_json_text(file, "path", m->path);
    cleantext_json_text(file, "found", m->found);
    if (m->deleted)
        (void)cJSON_AddBoolToObject(file, "deleted", 1);
    if (m->header_read) {
        cleantext_json_u64(file, "size_bytes", m->size);
        if (m->allocated_bytes < m->size / 2) /* st_blocks; file systems that compress do it too */
            cleantext_json_u64(file, "allocated_bytes", m->allocated_bytes);
        json_time(file, "modified", m->mtime_ns);
        (void)cJSON_AddBoolToObject(file, "changed_since_start", changed_since_start(ctx, m));
        cleantext_json_text(file, "format", weights_format_name(m->weights.format));
        if (m->weights.truncated)
            (void)cJSON_AddBoolToObject(file, "truncated", 1);
        cleantext_json_text(file, "problem", m->weights.problem);
        if (m->weights.format == WEIGHTS_GGUF || m->weights.format == WEIGHTS_SAFETENSORS)
            json_header(file, &m->weights);
        json_hash(file, m);
        json_hub(file, m);
    }
    if (m->changed_hashing)
        (void)cJSON_AddStringToObject(file, "trouble", "changed while it was hashed; no hash");
    else
        cleantext_json_text(file, "trouble", m->trouble);
    return file;
}

static int write_json(const struct collect_ctx *ctx, struct collect_out *out,
                      const struct model_list *list)
{
    cJSON *root = cJSON_CreateObject();
    cJSON *looked = cJSON_AddObjectToObject(root, "looked_at");
    cleantext_json_u64(looked, "arguments", list->arguments);
    cleantext_json_u64(looked, "descriptors", list->descriptors);
    cleantext_json_u64(looked, "mapped_files", list->mappings);
    cleantext_json_u64(looked, "opened_files", list->opened);
    cleantext_json_u64(root, "omitted", list->omitted);
    cJSON *files = cJSON_AddArrayToObject(root, "files");
    for (size_t i = 0; i < list->count; i++)
        (void)cJSON_AddItemToArray(files, json_file(ctx, &list->models[i]));
    RC_AUTO_FREE char *text = cJSON_Print(root);
    cJSON_Delete(root);
    return text == NULL ? -ENOMEM : collect_write(out, "models.json", text, strlen(text));
}

/* models.N.<field> */
struct file_fact {
    struct collect_out *out;
    size_t index;
    const char *source;
};

static const char *fact_name(char *out, size_t size, const struct file_fact *f, const char *field)
{
    (void)snprintf(out, size, "models.%zu.%s", f->index, field);
    return out;
}

static void fact_text(const struct file_fact *f, const char *field, const char *value)
{
    char name[64];
    if (value[0] != '\0')
        collect_text(f->out, fact_name(name, sizeof name, f, field), FACT_STATIC, value, f->source);
}

static void fact_u64(const struct file_fact *f, const char *field, uint64_t value)
{
    char name[64];
    if (value <= INT64_MAX)
        collect_integer(f->out, fact_name(name, sizeof name, f, field), FACT_STATIC, (int64_t)value,
                        f->source);
}

static void fact_hash(const struct file_fact *f, const struct model *m)
{
    char name[64];
    if (m->hash == MODEL_HASH_FULL || m->hash == MODEL_HASH_CACHED) {
        fact_text(f, "sha256", m->sha256);
        return;
    }
    const char *reason = m->changed_hashing ? "changed while it was hashed" : m->trouble;
    if (m->hash == MODEL_HASH_ENDS) {
        reason = "sha256 of head+tail only, budget";
        fact_text(f, "sha256_of_head_and_tail", m->sha256);
    }
    collect_missing(f->out, fact_name(name, sizeof name, f, "sha256"), FACT_STATIC, FACT_UNREADABLE,
                    reason[0] != '\0' ? reason : "not hashed", f->source);
}

static void facts_of_file(const struct collect_ctx *ctx, struct collect_out *out,
                          const struct model *m, size_t index)
{
    struct file_fact f = {.out = out, .index = index, .source = "models/models.json"};
    char name[64];
    char text[160];
    const char *shown = m->hub.file[0] != '\0' ? m->hub.file : m->path;
    cleantext_copy(text, sizeof text, cleantext_base(shown), strlen(cleantext_base(shown)));
    fact_text(&f, "path", text);
    fact_hash(&f, m);
    if (!m->header_read)
        return;
    fact_u64(&f, "bytes", m->size);
    fact_text(&f, "format", weights_format_name(m->weights.format));
    fact_text(&f, "architecture", m->weights.architecture);
    fact_text(&f, "quantisation", quantisation(&m->weights));
    weights_mix(&m->weights, text, sizeof text);
    fact_text(&f, "tensor_types", text);
    if (m->weights.tensor_count > 0)
        fact_u64(&f, "tensor_bytes", m->weights.tensor_bytes);
    for (int field = 0; field < WEIGHTS_FIELD_MAX; field++) {
        const uint64_t *value = weights_field(&m->weights, (enum weights_field)field);
        if (value != NULL)
            fact_u64(&f, weights_field_name((enum weights_field)field), *value);
    }
    fact_text(&f, "problem", m->weights.problem);
    collect_boolean(out, fact_name(name, sizeof name, &f, "truncated"), FACT_STATIC,
                    m->weights.truncated, f.source);
    collect_boolean(out, fact_name(name, sizeof name, &f, "changed_since_start"), FACT_STATIC,
                    changed_since_start(ctx, m), f.source);
    (void)check_name(m, text, sizeof text);
    fact_text(&f, "name_check", text);
}

static enum collect_status summarise(const struct collect_ctx *ctx, struct collect_out *out,
                                     const struct model_list *list)
{
    static const char source[] = "models/models.json";
    uint64_t bytes = 0;
    int64_t truncated = 0, mismatched = 0, changed = 0, ends = 0, unread = 0;
    char text[160];
    for (size_t i = 0; i < list->count; i++) {
        const struct model *m = &list->models[i];
        bytes = weights_sat_add(bytes, m->header_read ? m->size : 0);
        truncated += m->header_read && m->weights.truncated;
        mismatched += check_name(m, text, sizeof text) == NAME_MISMATCH;
        changed += m->header_read && changed_since_start(ctx, m);
        ends += m->hash == MODEL_HASH_ENDS;
        unread += m->hash == MODEL_HASH_NONE;
        if (i < FACT_FILES_MAX)
            facts_of_file(ctx, out, m, i);
    }
    collect_integer(out, "models.count", FACT_STATIC, (int64_t)(list->count + list->omitted),
                    source);
    collect_integer(out, "models.total_bytes", FACT_STATIC,
                    bytes > INT64_MAX ? INT64_MAX : (int64_t)bytes, source);
    collect_integer(out, "models.truncated_count", FACT_STATIC, truncated, source);
    collect_integer(out, "models.name_mismatch_count", FACT_STATIC, mismatched, source);
    collect_integer(out, "models.changed_since_start_count", FACT_STATIC, changed, source);
    if (ends + unread > 0 || list->omitted > 0)
        return collect_reason(out, COLLECT_PARTIAL,
                              "of %zu files %" PRId64 " by head+tail only (budget), %" PRId64
                              " not hashed, %zu not looked at",
                              list->count + list->omitted, ends, unread, list->omitted);
    return COLLECT_OK;
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(((const struct model *)a)->path, ((const struct model *)b)->path);
}

static enum collect_status nothing_found(const struct collect_ctx *ctx, struct collect_out *out,
                                         const struct model_list *list)
{
    if (ctx->maps[0] == '\0' && ctx->fds[0] == '\0') {
        collect_missing(out, "models.count", FACT_STATIC, FACT_UNREADABLE,
                        "no list of open and mapped files; none among the arguments", "models");
        return collect_reason(out, COLLECT_SKIPPED,
                              "no model file among the arguments (%zu); open files are not known",
                              list->arguments);
    }
    collect_integer(out, "models.count", FACT_STATIC, 0,
                    "arguments, descriptors, mappings, the ledger's opened files");
    return collect_reason(out, COLLECT_SKIPPED,
                          "no model file among the arguments (%zu), the open files (%zu) and the mapped ones (%zu)",
                          list->arguments, list->descriptors, list->mappings);
}

/* Read and hash; afterwards remember the new hashes for the next crash. */
static int read_all(const struct collect_ctx *ctx, const struct model_list *list)
{
    char folder[FS_PATH_MAX] = "";
    struct hash_cache cache = {0};
    bool has_folder = hash_cache_folder(folder, sizeof folder) == 0;
    if (has_folder)
        hash_cache_load(&cache, folder);
    uint64_t now = clock_mono_ns();
    uint64_t budget = now + ctx->hash_budget_ms * NS_PER_MS;
    uint64_t end = budget + AFTER_BUDGET_NS;
    if (ctx->deadline_mono_ns != 0 && end + WRITE_RESERVE_NS > ctx->deadline_mono_ns)
        end = ctx->deadline_mono_ns - WRITE_RESERVE_NS;
    struct model_work work = {.models = list->models,
                              .count = list->count,
                              .cache = &cache,
                              .budget_mono_ns = budget < end ? budget : end,
                              .end_mono_ns = end};
    int r = target_user_begin(ctx); /* the workers inherit it; the cache of hashes is ours */
    if (r == 0)
        r = model_work_run(&work);
    target_user_end();
    uint64_t wall = clock_wall_ns();
    bool news = false;
    for (size_t i = 0; i < list->count; i++) {
        const struct model *m = &list->models[i];
        if (m->hash != MODEL_HASH_FULL)
            continue;
        news |= hash_cache_put(&cache,
                               &(struct stat){.st_dev = m->dev,
                                              .st_ino = m->ino,
                                              .st_size = (off_t)m->size,
                                              .st_mtim = {(time_t)(m->mtime_ns / 1000000000u),
                                                          (long)(m->mtime_ns % 1000000000u)},
                                              .st_ctim = {(time_t)(m->ctime_ns / 1000000000u),
                                                          (long)(m->ctime_ns % 1000000000u)}},
                               wall, m->sha256) == 0;
    }
    if (has_folder &&
        news) /* if the home cannot be written, only the next run is slower */
        (void)hash_cache_save(&cache, folder);
    hash_cache_release(&cache);
    return r;
}

static enum collect_status run(const struct collect_ctx *ctx, struct collect_out *out)
{
    struct model_list list = {.models = model_table_new()};
    if (list.models == NULL)
        return collect_reason(out, COLLECT_FAILED, "no memory for the table of files");
    model_find(ctx, &list);
    enum collect_status status;
    if (list.count == 0) {
        status = nothing_found(ctx, out, &list);
    } else {
        int r = read_all(ctx, &list);
        /* The workers' indices into the table are no longer needed, so sort it for readers. */
        qsort(list.models, list.count, sizeof list.models[0], compare_paths);
        int w = write_json(ctx, out, &list);
        status = summarise(ctx, out, &list);
        if (r < 0)
            status =
                collect_reason(out, COLLECT_FAILED, "no worker could be started: %s", strerror(-r));
        else if (w < 0)
            status = collect_reason(out, COLLECT_PARTIAL, "models.json was not written: %s",
                                    strerror(-w));
    }
    model_table_free(list.models);
    return status;
}

const struct collector collector_models = {
    .name = "models",
    .describe = "model files in use: header, quantisation, completeness, SHA-256",
    .phase = COLLECT_SLOW,
    .needs_run = true,
    .deadline_ms = DEADLINE_MS,
    .max_bytes = 4u << 20,
    .run = run,
};
