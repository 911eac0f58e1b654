/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What inference engines report of their memory while they start: llama.cpp, ollama, vLLM.
 *
 * Pure; one line at a time. A server may load several models and try several sizes, so that the
 * last report of a thing counts. Each parser has its sample above it.
 */
#include "diagnose/messages.h"

#include <stdlib.h>
#include <string.h>

#define SIZE_RULE (TEXT_SIZE_BINARY | TEXT_SIZE_NEEDS_UNIT)
#define COUNT_MAX 1e12
#define BYTES_MAX (INT64_C(1) << 50) /* of one buffer, so that sums stay sums */

static void set(const struct scan *s, struct figure *f, int64_t value)
{
    *f = (struct figure){.value = value, .line = s->line};
}

static bool size_behind(struct text line, const char *words, int64_t *ret)
{
    struct text t;
    return text_after(line, words, &t) && text_take_size(&t, SIZE_RULE, ret) && *ret >= 0 &&
           *ret <= BYTES_MAX;
}

/* "262,144" too */
static bool count_behind(struct text line, const char *words, int64_t *ret)
{
    struct text t;
    double number;
    if (!text_after(line, words, &t))
        return false;
    while (t.len > 0 && (t.at[0] == ' ' || t.at[0] == '='))
        t = text_skip(t, 1);
    if (!text_take_real(&t, &number) || number < 0 || number > COUNT_MAX)
        return false;
    *ret = (int64_t)number;
    return true;
}

/* llama_context: n_ctx         = 16384            (n_ctx_per_seq and n_ctx_train are others) */
static bool labelled_count(struct text line, const char *label, int64_t *ret)
{
    struct text t;
    if (!text_after(line, label, &t) || (!text_starts(t, " ") && !text_starts(t, "=")))
        return false;
    while (text_starts(t, " "))
        t = text_skip(t, 1);
    return text_starts(t, "=") && count_behind(t, "=", ret);
}

/* --- llama.cpp --- */

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
        if (text_starts(name, kinds[i]) && name.len > n && name.at[n] >= '0' && name.at[n] <= '9')
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

/* Weights behind a context: the next model, or the same one for good after a trial of its sizes. */
static void begin_load(struct engine_state *st, const struct engine_device *d, int64_t size)
{
    bool same = d->parts[ENGINE_MODEL].line != 0 &&
                llabs(d->parts[ENGINE_MODEL].value - size) <= size / 100;
    for (unsigned i = 0; i < st->device_count; i++)
        memset(st->devices[i].parts, 0, ENGINE_PARTS * sizeof st->devices[i].parts[0]);
    if (!same)
        st->loads++;
    st->has_context = st->windowed = false;
    st->refused = (struct figure){0};
}

static void put_part(const struct scan *s, struct engine_state *st, struct text name,
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
    st->refused = (struct figure){0}; /* it went on with less */
    struct figure *f = &d->parts[part];
    /* layers with and without a window have a cache each */
    if (part == ENGINE_KV && st->windowed && f->line != 0 && f->value < BYTES_MAX)
        size += f->value;
    if (part == ENGINE_COMPUTE && f->line != 0 && f->value > size)
        return; /* reserved anew for another shape: the largest stays */
    set(s, f, size);
}

/* load_tensors:        ROCm0 model buffer size =  6825.32 MiB
 * llm_load_tensors:      ROCm0 buffer size =  6825.32 MiB                (before the word "model")
 * llama_kv_cache_unified:      ROCm0 KV buffer size =   512.00 MiB
 * llama_context:      ROCm0 compute buffer size =   300.00 MiB */
static void ggml_buffer(const struct scan *s, struct engine_state *st, struct text line)
{
    static const struct {
        const char *word;
        enum engine_part part;
    } kinds[] = {{"model", ENGINE_MODEL}, {"KV", ENGINE_KV}, {"compute", ENGINE_COMPUTE}};
    struct text head;
    struct text value;
    int64_t size;
    if (!text_before(line, " buffer size", &head) || !text_after(line, " buffer size", &value))
        return;
    value = text_trim(value);
    if (!text_starts(value, "=") || !size_behind(value, "=", &size))
        return;
    struct text kind = last_word(head);
    struct text before = text_first(head, (size_t)(kind.at - head.at));
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (text_equals(kind, kinds[i].word))
            put_part(s, st, last_word(before), kinds[i].part, size);
    if (text_has(before, "load_tensors"))
        put_part(s, st, kind, ENGINE_MODEL, size);
}

/* Which part was refused:
 * llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache
 * llama_init_from_model: failed to initialize the context: failed to allocate compute pp buffers
 * llama_model_load: error loading model: unable to allocate ROCm0 buffer */
static void ggml_refused(const struct scan *s, struct engine_state *st, struct text line)
{
    if (text_has(line, "failed to allocate buffer for kv cache"))
        set(s, &st->refused, ENGINE_KV);
    else if (text_has(line, "failed to allocate compute"))
        set(s, &st->refused, ENGINE_COMPUTE);
    else if (text_has(line, "error loading model") && text_has(line, "unable to allocate") &&
             text_has(line, "buffer"))
        set(s, &st->refused, ENGINE_MODEL);
}

/* llama_model_load_from_file_impl: using device ROCm0 (AMD Radeon RX 7900 XTX) - 24470 MiB free */
static void ggml_using(const struct scan *s, struct engine_state *st, struct text line)
{
    struct text t;
    struct text name;
    int64_t n;
    if (!text_after(line, "using device ", &t) || !text_before(line, " free", &name) ||
        !text_size_before(name, &n) || n < 0 || n > BYTES_MAX)
        return;
    struct engine_device *d = device_of(st, text_until(t, " "));
    if (d != NULL)
        set(s, &d->parts[ENGINE_FREE], n);
}

/* llama_context: n_ctx         = 16384
 * print_info: n_layer          = 32
 * load_tensors: offloaded 29/33 layers to GPU
 * llama_kv_cache_unified_iswa: creating     SWA KV cache, size = 2560 cells
 *   Device 0: AMD Radeon RX 7900 XTX, gfx1100 (0x1100), VMM: no, Wave Size: 32, VRAM: 24560 MiB
 *   Device 0: NVIDIA H200, compute capability 9.0, VMM: yes, VRAM: 143156 MiB */
static void ggml_line(const struct scan *s, struct engine_state *st, struct text line)
{
    int64_t n;
    struct text t;
    uint64_t part;
    ggml_using(s, st, line);
    ggml_buffer(s, st, line);
    ggml_refused(s, st, line);
    if (text_has(line, "iswa") || text_has(line, "SWA KV cache"))
        st->windowed = true;
    if (labelled_count(line, ": n_ctx", &n))
        set(s, &st->context, n);
    if (labelled_count(line, ": n_layer", &n))
        set(s, &st->layers, n);
    if (text_after(line, "offloaded ", &t) && text_has(t, " layers to GPU") &&
        text_take_u64(&t, &part) && text_starts(t, "/") && part < 100000 &&
        count_behind(t, "/", &n)) {
        set(s, &st->layers_on_gpu, (int64_t)part);
        set(s, &st->layers_of, n);
    }
    if (text_has(line, "  Device ") &&
        (text_has(line, "Wave Size") || text_has(line, ", compute capability ")) &&
        size_behind(line, "VRAM: ", &n))
        set(s, &st->device_total, n);
}

/* common_memory_breakdown_print: |   - ROCm0 (RX 7900 XTX) | 24560 = 1057 + (22365 = 21609 + 397 +
 * 358) + 1137 |      in MiB: total = free + (self = model + context + compute) + unaccounted */
static void ggml_breakdown(const struct scan *s, struct engine_state *st, struct text line)
{
    struct text t;
    struct text name;
    uint64_t v[6];
    static const char *const between[] = {"=", "+ (", "=", "+", "+"};
    if (!text_after(line, "memory_breakdown_print:", &t) || !text_after(t, "|", &t) ||
        !text_after(t, " - ", &t) || !text_next_word(&t, &name) || !text_after(t, "|", &t))
        return;
    for (unsigned i = 0; i < 6; i++) {
        t = text_trim(t);
        if (!text_take_u64(&t, &v[i]) || v[i] > (uint64_t)BYTES_MAX >> 20)
            return;
        if (i < 5 && (t = text_trim(t), !text_starts(t, between[i])))
            return;
        if (i < 5)
            t = text_skip(t, strlen(between[i]));
    }
    struct engine_device *d = device_of(st, name);
    for (unsigned i = 0; d != NULL && i < ENGINE_PARTS; i++)
        if (d->parts[i].line == 0)
            set(s, &d->parts[i], (int64_t)v[3 + i] << 20);
    if (d != NULL)
        set(s, &st->device_total, (int64_t)v[0] << 20);
}

/* --- ollama --- */

/* The one size of a list "[33.6 GiB]"; of several GPUs none. */
static bool single_size(struct text line, const char *words, int64_t *ret)
{
    struct text t;
    return text_after(line, words, &t) && text_take_size(&t, SIZE_RULE, ret) && *ret >= 0 &&
           text_starts(t, "]");
}

/* msg=offload library=rocm layers.requested=-1 layers.model=63 layers.offload=63 layers.split=""
 * memory.available="[33.6 GiB]" memory.gpu_overhead="0 B" memory.required.full="20.1 GiB" ...
 * memory.required.kv="1.6 GiB" ... memory.weights.total="15.4 GiB" ... memory.graph.full="565.0
 * MiB"
 */
static void ollama_offload(const struct scan *s, struct engine_state *st, struct text line)
{
    static const struct {
        const char *words;
        unsigned figure;
    } sizes[] = {{"memory.required.full=\"", OLLAMA_REQUIRED},
                 {"memory.required.kv=\"", OLLAMA_KV},
                 {"memory.weights.total=\"", OLLAMA_WEIGHTS},
                 {"memory.graph.full=\"", OLLAMA_GRAPH}};
    int64_t n;
    if (!text_has(line, "memory.required.full=") || text_has(line, "library=cpu"))
        return;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (size_behind(line, sizes[i].words, &n))
            set(s, &st->ollama[sizes[i].figure], n);
    if (single_size(line, "memory.available=\"[", &n))
        set(s, &st->ollama[OLLAMA_AVAILABLE], n);
    if (count_behind(line, "layers.model=", &n))
        set(s, &st->layers_of, n);
    if (count_behind(line, "layers.offload=", &n))
        set(s, &st->layers_on_gpu, n);
}

/* msg="model weights" device=ROCm0 size="59.8 GiB"
 * msg="kv cache" device=ROCm0 size="450.0 MiB"
 * msg="compute graph" device=ROCm0 size="121.8 MiB"
 * msg="gpu memory" id=0 library=ROCm available="5.2 GiB" free="5.7 GiB" minimum="457.0 MiB" ...
 * msg=load request="{Operation:commit ... KvSize:8192 KvCacheType: ...
 * msg="starting llama server" cmd="... runner --model ... --ctx-size 8192 --batch-size 512 ... */
static void ollama_line(const struct scan *s, struct engine_state *st, struct text line)
{
    static const struct {
        const char *message;
        enum engine_part part;
    } parts[] = {{"msg=\"model weights\" device=", ENGINE_MODEL},
                 {"msg=\"kv cache\" device=", ENGINE_KV},
                 {"msg=\"compute graph\" device=", ENGINE_COMPUTE}};
    struct text t;
    int64_t n;
    if (!text_has(line, "msg="))
        return;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (text_after(line, parts[i].message, &t) && size_behind(t, "size=\"", &n))
            put_part(s, st, text_until(t, " "), parts[i].part, n);
    if (text_has(line, "msg=\"gpu memory\"") && size_behind(line, "available=\"", &n))
        set(s, &st->ollama[OLLAMA_AVAILABLE], n);
    if (text_has(line, "msg=load ") && count_behind(line, " KvSize:", &n))
        set(s, &st->context, n);
    if (text_has(line, "msg=\"starting llama server\"") && count_behind(line, "--ctx-size ", &n))
        set(s, &st->context, n);
    ollama_offload(s, st, line);
}

/* --- vLLM --- */

/* Model loading took 14.9889 GiB memory and 3.21 seconds
 * Loading model weights took 14.9595 GB
 * model weights take 14.24GiB; non_torch_memory takes 0.08GiB; PyTorch activation peak memory takes
 * 1.41GiB; the rest of the memory reserved for KV Cache is 3.98GiB. */
static void vllm_profile(const struct scan *s, struct engine_state *st, struct text line)
{
    static const struct {
        const char *words;
        unsigned figure;
    } sizes[] = {{"Model loading took ", VLLM_WEIGHTS},
                 {"Loading model weights took ", VLLM_WEIGHTS},
                 {"model weights take ", VLLM_WEIGHTS},
                 {"non_torch_memory takes ", VLLM_OTHER},
                 {"PyTorch activation peak memory takes ", VLLM_ACTIVATION}};
    int64_t n;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (size_behind(line, sizes[i].words, &n))
            set(s, &st->vllm[sizes[i].figure], n);
    if (size_behind(line, "memory reserved for KV Cache is ", &n))
        scan_integer(s, "msg.kv_cache_available_bytes", n);
}

/* Desired GPU memory utilization is (0.92, 14.27 GiB). Actual usage is 10.47 GiB for consumed
 * memory (weights + non-torch), 0.79 GiB for peak activation, and 0.04 GiB for CUDAGraph memory.
 *                    before 0.2x: ... 10.31 GiB for weight, 0.79 GiB for peak activation, 0.16 GiB
 * for non-torch memory, and 0.04 GiB for CUDAGraph memory.
 * the current vLLM instance can use total_gpu_memory (47.50GiB) x gpu_memory_utilization (0.78) =
 * 37.18GiB */
static void vllm_budget(const struct scan *s, struct engine_state *st, struct text line)
{
    static const struct {
        const char *words;
        unsigned figure;
    } before[] = {{" for peak activation", VLLM_ACTIVATION},
                  {" for non-torch memory", VLLM_OTHER},
                  {" for CUDAGraph memory", VLLM_GRAPHS}};
    struct text t;
    int64_t n;
    bool newer = text_after(line, "Desired GPU memory utilization is (", &t);
    bool older = !newer && text_has(line, "total_gpu_memory (") &&
                 text_after(line, "gpu_memory_utilization (", &t);
    double share;
    if ((!newer && !older) || !text_take_real(&t, &share) || share <= 0 || share > 1)
        return;
    st->vllm_share = share;
    st->vllm_share_line = s->line;
    t = text_skip(t, newer && text_starts(t, ",") ? 1 : 0);
    if (newer ? text_take_size(&t, SIZE_RULE, &n) : size_behind(t, ") = ", &n))
        set(s, &st->vllm[VLLM_BUDGET], n);
    if (older && size_behind(line, "total_gpu_memory (", &n))
        set(s, &st->vllm[VLLM_TOTAL], n);
    for (size_t i = 0; newer && i < sizeof before / sizeof before[0]; i++)
        if (text_before(line, before[i].words, &t) && text_size_before(t, &n) && n >= 0)
            set(s, &st->vllm[before[i].figure], n);
}

/* Free memory on device (31.23/31.86 GiB) on startup. Desired ...          (a start that went well)
 * Free memory on device cuda:0 (19.77/22.05 GiB) on startup is less than desired ... */
static void vllm_device(const struct scan *s, struct engine_state *st, struct text line)
{
    struct text t;
    double free_gib;
    double total_gib;
    if (!text_after(line, "ree memory on device", &t) || !text_after(t, "(", &t) ||
        !text_take_real(&t, &free_gib) || !text_starts(t, "/"))
        return;
    t = text_skip(t, 1);
    if (!text_take_real(&t, &total_gib) || !text_starts(text_trim(t), "GiB") || free_gib < 0 ||
        free_gib > 1e6 || total_gib < free_gib || total_gib > 1e6)
        return;
    set(s, &st->vllm[VLLM_FREE], (int64_t)(free_gib * 0x1p30 + 0.5));
    set(s, &st->vllm[VLLM_TOTAL], (int64_t)(total_gib * 0x1p30 + 0.5));
}

/* GPU KV cache size: 651,081 tokens, Maximum concurrency for 262,144 tokens per request: 2.48x
 * The model's max seq len (131072) is larger than the maximum number of tokens that can be stored
 * in KV cache (95520).
 * ... the estimated maximum model length is 32560. */
static void vllm_tokens(const struct scan *s, struct engine_state *st, struct text line)
{
    int64_t n;
    if (count_behind(line, "GPU KV cache size: ", &n) ||
        (text_has(line, "max seq len") && count_behind(line, "stored in KV cache (", &n)))
        set(s, &st->vllm[VLLM_CACHE_TOKENS], n);
    if (count_behind(line, "aximum concurrency for ", &n) && text_has(line, "tokens per request"))
        set(s, &st->vllm[VLLM_MODEL_TOKENS], n);
    if (text_has(line, "KV cache") && count_behind(line, "max seq len (", &n))
        set(s, &st->vllm[VLLM_MODEL_TOKENS], n);
    if (count_behind(line, "estimated maximum model length is ", &n))
        set(s, &st->vllm[VLLM_FITS_TOKENS], n);
}

void engine_line(const struct scan *s, struct engine_state *st, struct text line)
{
    ggml_line(s, st, line);
    ggml_breakdown(s, st, line);
    ollama_line(s, st, line);
    vllm_profile(s, st, line);
    vllm_budget(s, st, line);
    vllm_device(s, st, line);
    vllm_tokens(s, st, line);
}

/* --- at the end of the text --- */

static void emit(const struct scan *s, const char *name, const struct figure *f)
{
    if (f->line != 0)
        scan_integer_at(s, f->line, name, f->value);
}

/* Over all GPUs; the line is the first one's. */
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

static void emit_devices(const struct scan *s, const struct engine_state *st)
{
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
}

static void emit_refused(const struct scan *s, const struct figure *refused)
{
    static const char *const names[ENGINE_PARTS] = {"weights", "KV cache", "compute buffer"};
    struct scan at = *s;
    if (refused->line == 0)
        return;
    const char *name = names[refused->value];
    at.line = refused->line;
    scan_text(&at, "msg.ggml_refused_part", (struct text){name, strlen(name)});
}

void engine_emit(const struct scan *s, const struct engine_state *st)
{
    static const char *const ollama[OLLAMA_FIGURES] = {
        "msg.ollama_available_bytes", "msg.ollama_required_bytes", "msg.ollama_kv_bytes",
        "msg.ollama_weights_bytes", "msg.ollama_graph_bytes"};
    static const char *const vllm[VLLM_FIGURES] = {
        "msg.vllm_weights_bytes",   "msg.vllm_activation_bytes", "msg.vllm_non_torch_bytes",
        "msg.vllm_graphs_bytes",    "msg.vllm_budget_bytes",     "msg.vllm_free_bytes",
        "msg.vllm_total_bytes",     "msg.kv_cache_tokens",       "msg.max_model_tokens",
        "msg.max_model_fits_tokens"};
    emit_devices(s, st);
    emit_refused(s, &st->refused);
    emit(s, "msg.ggml_context_tokens", &st->context);
    emit(s, "msg.ggml_layers_count", st->layers.line != 0 ? &st->layers : &st->layers_of);
    emit(s, "msg.ggml_layers_on_gpu_count", &st->layers_on_gpu);
    emit(s, "msg.ggml_device_total_bytes", &st->device_total);
    for (unsigned i = 0; i < OLLAMA_FIGURES; i++)
        emit(s, ollama[i], &st->ollama[i]);
    for (unsigned i = 0; i < VLLM_FIGURES; i++)
        emit(s, vllm[i], &st->vllm[i]);
    struct scan at = *s;
    at.line = st->vllm_share_line;
    if (at.line != 0)
        scan_real(&at, "msg.vllm_utilization", st->vllm_share);
}
