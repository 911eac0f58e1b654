/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds up what llama.cpp and ollama report for each device while they load a model.
 *
 * Pure; one line at a time, as the rules of templates/messages.rules found it. A server may load
 * several models and try several sizes, so the last report of each part counts.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "diagnose/messages.h"

#define BYTES_MAX (INT64_C(1) << 50) /* of one buffer, so that sums do not overflow */

static void set(const struct rules_run *run, struct figure *f, int64_t value)
{
    *f = (struct figure){.value = value, .line = run->s->line};
}

static struct text last_word(struct text t)
{
    t = text_trim(t);
    size_t from = t.len;
    while (from > 0 && t.at[from - 1] != ' ' && t.at[from - 1] != ':')
        from--;
    return text_skip(t, from);
}

static bool is_gpu_name(struct text name)
{
    static const char *const kinds[] = {"ROCm", "CUDA", "HIP", "Vulkan"};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        size_t n = strlen(kinds[i]);
        if (text_starts(name, kinds[i]) && name.len > n && isdigit((unsigned char)name.at[n]))
            return true;
    }
    return false;
}

/* NULL: no GPU (CPU_Mapped, ROCm_Host), or more of them than there is room for. */
static struct engine_device *device_of(struct engine_state *st, struct text name)
{
    if (!is_gpu_name(name) || name.len >= sizeof st->devices[0].name)
        return NULL;
    for (unsigned i = 0; i < st->device_count; i++)
        if (text_equals(name, st->devices[i].name))
            return &st->devices[i];
    if (st->device_count == ENGINE_DEVICES_MAX)
        return NULL;
    struct engine_device *d = &st->devices[st->device_count++];
    *d = (struct engine_device){.parts = {{0}}};
    (void)text_copy(name, d->name, sizeof d->name);
    return d;
}

/* Weights after a context: the next model, or the final load after a trial of sizes. */
static void begin_load(struct engine_state *st, const struct engine_device *d, int64_t size)
{
    bool same = d->parts[ENGINE_MODEL].line != 0 &&
                llabs(d->parts[ENGINE_MODEL].value - size) <= size / 100;
    for (unsigned i = 0; i < st->device_count; i++)
        memset(st->devices[i].parts, 0, ENGINE_PARTS * sizeof st->devices[i].parts[0]);
    if (!same)
        st->loads++;
    st->has_context = st->windowed = false;
}

static void put_part(struct rules_run *run, struct engine_state *st, struct text name,
                     enum engine_part part, int64_t size)
{
    struct engine_device *d = device_of(st, name);
    if (d == NULL)
        return;
    if (part == ENGINE_MODEL && st->has_context)
        begin_load(st, d, size);
    if (part == ENGINE_MODEL && st->loads == 0)
        st->loads = 1;
    if (part != ENGINE_MODEL)
        st->has_context = true;
    rules_forget(run, "msg.ggml_refused_part"); /* it continued with less */
    struct figure *f = &d->parts[part];
    /* layers with and without a window have a cache each */
    if (part == ENGINE_KV && st->windowed && f->line != 0 && f->value < BYTES_MAX)
        size += f->value;
    if (part == ENGINE_COMPUTE && f->line != 0 && f->value > size)
        return; /* reserved again for another shape: the largest counts */
    set(run, f, size);
}

/* `head` ends in the device and the kind: "load_tensors: ROCm0 model". Older versions
 * (llm_load_tensors) print only the device, without the word "model". */
static void buffer(struct rules_run *run, struct engine_state *st, struct text head, int64_t size)
{
    static const char *const kinds[ENGINE_PARTS] = {"model", "KV", "compute"};
    struct text kind = last_word(head);
    struct text before = text_first(head, (size_t)(kind.at - head.at));
    for (unsigned i = 0; i < ENGINE_PARTS; i++)
        if (text_equals(kind, kinds[i]))
            put_part(run, st, last_word(before), i, size);
    if (text_has(before, "load_tensors"))
        put_part(run, st, kind, ENGINE_MODEL, size);
}

/* In MiB; values reported earlier are more exact. */
static void breakdown(struct rules_run *run, struct engine_state *st, const struct rule_takes *takes)
{
    static const char *const parts[ENGINE_PARTS] = {"_model", "_context", "_compute"};
    struct engine_device *d = device_of(st, rule_taken_text(takes, "_device"));
    for (unsigned i = 0; d != NULL && i < ENGINE_PARTS; i++)
        if (d->parts[i].line == 0)
            set(run, &d->parts[i], rule_taken_integer(takes, parts[i], 0) << 20);
    if (d != NULL)
        rules_keep_integer(run, "msg.ggml_device_total_bytes",
                           rule_taken_integer(takes, "_total", 0) << 20);
}

bool engine_read(struct rules_run *run, struct engine_state *st, enum rule_reader reader,
                 const struct rule_takes *takes)
{
    struct text device = rule_taken_text(takes, "_device");
    int64_t size = rule_taken_integer(takes, "_size", -1);
    struct engine_device *d;
    switch (reader) {
    case READ_GGML_FREE:
        d = size >= 0 && size <= BYTES_MAX ? device_of(st, device) : NULL;
        if (d != NULL)
            set(run, &d->parts[ENGINE_FREE], size);
        break;
    case READ_GGML_BUFFER:
        buffer(run, st, rule_taken_text(takes, "_head"), size);
        break;
    case READ_GGML_WINDOWED:
        st->windowed = true;
        break;
    case READ_GGML_BREAKDOWN:
        breakdown(run, st, takes);
        break;
    case READ_ENGINE_MODEL:
        put_part(run, st, device, ENGINE_MODEL, size);
        break;
    case READ_ENGINE_KV:
        put_part(run, st, device, ENGINE_KV, size);
        break;
    case READ_ENGINE_COMPUTE:
        put_part(run, st, device, ENGINE_COMPUTE, size);
        break;
    default:
        break;
    }
    return true;
}

static void emit(const struct scan *s, const char *name, const struct figure *f)
{
    if (f->line != 0)
        scan_integer_at(s, f->line, name, f->value);
}

static struct figure sum_of(const struct engine_state *st, enum engine_part part)
{
    struct figure sum = {0};
    for (unsigned i = 0; i < st->device_count; i++) {
        const struct figure *f = &st->devices[i].parts[part];
        sum.value += f->value;
        sum.line = sum.line == 0 ? f->line : sum.line;
    }
    return sum;
}

void engine_emit(const struct rules_run *run, const struct engine_state *st)
{
    const struct scan *s = run->s;
    static const char *const names[ENGINE_FIGURES] = {
        "msg.ggml_model_buffer_bytes", "msg.ggml_kv_buffer_bytes", "msg.ggml_compute_buffer_bytes",
        "msg.ggml_free_at_start_bytes"};
    unsigned first = 0;
    for (unsigned part = 0; part < ENGINE_FIGURES; part++) {
        struct figure sum = sum_of(st, part);
        emit(s, names[part], &sum);
        first = sum.line != 0 && (first == 0 || sum.line < first) ? sum.line : first;
    }
    if (st->device_count > 0 && first > 0)
        scan_integer_at(s, first, "msg.ggml_devices_count", st->device_count);
    if (st->loads > 0 && first > 0)
        scan_integer_at(s, first, "msg.ggml_loads_count", st->loads);
    if (st->windowed)
        scan_boolean_at(s, first, "msg.ggml_windowed", true);
    const struct rule_slot *layers = rules_kept(run, "_layers_of");
    if (layers != NULL) /* unless they were reported directly: the first value stays */
        scan_integer_at(s, layers->line, "msg.ggml_layers_count", layers->value.integer);
}
