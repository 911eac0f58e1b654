/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures that frameworks other than PyTorch's allocator print when memory is short.
 *
 * Pure; one line at a time. Each parser has its sample above it.
 */
#include "diagnose/messages.h"

#include <string.h>

#define SIZE_RULE (TEXT_SIZE_BINARY | TEXT_SIZE_NEEDS_UNIT)

static struct oom begin(const struct scan *s, const char *framework)
{
    return (struct oom){.framework = framework, .line = s->line};
}

static bool size_behind(struct text line, const char *word, unsigned rule, int64_t *ret)
{
    struct text t;
    return text_after(line, word, &t) && text_take_size(&t, rule, ret);
}

/* ...alloc_buffer: allocating 14136.04 MiB on device 0: cudaMalloc failed: out of memory
 * ggml_gallocr_reserve_n: failed to allocate ROCm0 buffer of size 14822711296
 * llama_params_fit_impl: projected to use 61807 MiB of device memory vs. 24077 MiB of free device
 * memory */
static void ggml(const struct scan *s, struct oom_log *log, struct text line)
{
    struct oom o = begin(s, "llama.cpp");
    struct text t;
    int64_t size;
    uint64_t n;
    if (size_behind(line, "allocating ", SIZE_RULE, &size) && text_has(line, "on device") &&
        text_has(line, "out of memory")) {
        oom_set(&o, OOM_REQUESTED, size);
        if (text_after(line, "on device ", &t) && text_take_u64(&t, &n) && n < 1024)
            oom_set(&o, OOM_DEVICE, (int64_t)n);
        oom_log_add(log, &o);
    } else if (text_has(line, "failed to allocate ") && !text_has(line, "CPU") &&
               size_behind(line, "buffer of size ", 0, &size)) {
        oom_set(&o, OOM_REQUESTED, size);
        oom_log_add(log, &o);
    }
    if (text_like(line, "projected to use * MiB of device") &&
        size_behind(line, "projected to use ", SIZE_RULE, &size)) {
        scan_integer(s, "msg.ggml_projected_bytes", size);
        if (size_behind(line, "device memory vs. ", SIZE_RULE, &size))
            scan_integer(s, "msg.ggml_projected_free_bytes", size);
    }
}

/* ggml_cuda_host_malloc: failed to allocate 1900,00 MiB of pinned memory: invalid argument */
static void pinned(const struct scan *s, struct text line)
{
    struct text t;
    int64_t size;
    if (!text_after(line, "of pinned memory: ", &t))
        return;
    scan_text(s, "msg.pinned_failed", t);
    if (size_behind(line, "failed to allocate ", SIZE_RULE, &size))
        scan_integer(s, "msg.pinned_failed_bytes", size);
}

/* msg="model requires more system memory (41.2 GiB) than is available (30.1 GiB)"
 * msg="system memory" total="32.0 GiB" free="3.7 GiB"
 * msg="inference compute" ... library=ROCm compute=gfx1150 ... total="24.0 GiB" available="5.6 GiB"
 */
static void ollama(const struct scan *s, struct text line)
{
    int64_t size;
    if (size_behind(line, "requires more system memory (", SIZE_RULE, &size))
        scan_integer(s, "msg.system_needed_bytes", size);
    if (text_has(line, "requires more system memory") &&
        size_behind(line, "than is available (", SIZE_RULE, &size))
        scan_integer(s, "msg.system_available_bytes", size);
    if (text_has(line, "msg=\"system memory\"")) {
        if (size_behind(line, "total=\"", SIZE_RULE, &size))
            scan_integer(s, "msg.system_total_bytes", size);
        if (size_behind(line, "free=\"", SIZE_RULE, &size))
            scan_integer(s, "msg.system_free_bytes", size);
    }
    if (text_has(line, "msg=\"inference compute\"")) {
        if (size_behind(line, "total=\"", SIZE_RULE, &size))
            scan_integer(s, "msg.device_total_bytes", size);
        if (size_behind(line, "available=\"", SIZE_RULE, &size))
            scan_integer(s, "msg.device_free_bytes", size);
        if (text_has(line, "type=iGPU"))
            scan_boolean(s, "msg.device_is_igpu", true);
    }
}

/* ValueError: Free memory on device cuda:0 (19.77/22.05 GiB) on startup is less than desired GPU
 * memory utilization (0.9, 19.84 GiB). */
static void vllm_startup(const struct scan *s, struct oom_log *log, struct text line)
{
    struct text t;
    double free_number;
    int64_t size;
    struct oom o = begin(s, "vllm");
    /* "... on startup. Desired GPU memory utilization is ..." is a start that went well */
    if (!text_has(line, "less than desired") || !text_after(line, "ree memory on device", &t) ||
        !text_after(t, "(", &t) || !text_take_real(&t, &free_number) || !text_starts(t, "/"))
        return;
    struct text unit = text_skip(t, 1);
    double total_number;
    if (!text_take_real(&unit, &total_number) || !text_starts(text_trim(unit), "GiB") ||
        free_number > 1e6 || total_number > 1e6)
        return;
    oom_set(&o, OOM_FREE, (int64_t)(free_number * 0x1p30 + 0.5));
    oom_set(&o, OOM_TOTAL, (int64_t)(total_number * 0x1p30 + 0.5));
    if (text_after(t, "memory utilization (", &t) && text_after(t, ", ", &t) &&
        text_take_size(&t, SIZE_RULE, &size))
        oom_set(&o, OOM_DESIRED, size);
    oom_log_add(log, &o);
}

/* Available KV cache memory: -7.09 GiB
 * ... (4.11 GiB KV cache is needed, which is larger than the available KV cache memory (4.0 GiB).
 * max_total_tokens=131072 is larger than the profiled value -561981. */
static void kv_cache(const struct scan *s, struct text line)
{
    struct text t;
    int64_t size;
    if (size_behind(line, "vailable KV cache memory: ", SIZE_RULE, &size) ||
        size_behind(line, "available KV cache memory (", SIZE_RULE, &size))
        scan_integer(s, "msg.kv_cache_available_bytes", size);
    if (text_before(line, " KV cache is needed", &t) && text_size_before(t, &size))
        scan_integer(s, "msg.kv_cache_needed_bytes", size);
    if (size_behind(line, "than the profiled value ", 0, &size))
        scan_integer(s, "msg.profiled_tokens", size);
    if (size_behind(line, "avail mem=", SIZE_RULE, &size) && text_has(line, "Load weight end"))
        scan_integer(s, "msg.free_after_weights_bytes", size);
}

/* "3.49GiB" after a line of the pool that says "(rounded to 3752783616)": the same refusal, told by
 * the exception in three digits. */
static bool is_told_again(const struct oom_log *log, int64_t size)
{
    int64_t exact = log->last.value[OOM_REQUESTED];
    return log->count > 0 && strcmp(log->last.framework, "tensorflow") == 0 && !log->last.ladder &&
           oom_has(&log->last, OOM_REQUESTED) && size > exact - exact / 100 &&
           size < exact + exact / 100;
}

/* RESOURCE_EXHAUSTED: Out of memory while trying to allocate 4770354232 bytes.
 *                  total allocation:   14.44GiB
 *               total fragmentation:  680.30MiB (4.60%) */
static void xla(const struct scan *s, struct oom_log *log, struct text line)
{
    struct oom o = begin(s, "jax");
    struct text t;
    int64_t size;
    double percent;
    /* "Out of memory allocating N bytes": some clients, that of the CPU among them */
    if (text_has(line, "RESOURCE_EXHAUSTED") &&
        (size_behind(line, "trying to allocate ", SIZE_RULE, &size) ||
         size_behind(line, "Out of memory allocating ", SIZE_RULE, &size))) {
        if (is_told_again(log, size))
            size = log->last.value[OOM_REQUESTED];
        oom_set(&o, OOM_REQUESTED, size);
        oom_log_add(log, &o);
    }
    if (size_behind(line, "total allocation:", SIZE_RULE, &size))
        scan_integer(s, "msg.xla_total_bytes", size);
    if (text_after(line, "total fragmentation:", &t) && text_after(t, "(", &t) &&
        text_take_real(&t, &percent))
        scan_real(s, "msg.xla_fragmentation_percent", percent);
}

/* rocm_driver.cc:601] failed to allocate 7.35G (7889485824 bytes) from device: hipError_t(1002)
 * cuda_executor.cc:1365] [0] Failed to allocate device memory of 104.85GiB (112583507968 bytes):
 * RESOURCE_EXHAUSTED: ...
 */
static bool ladder_step(struct text line, struct text *ret)
{
    return (text_after(line, "failed to allocate ", ret) && text_has(*ret, " from device")) ||
           text_after(line, "Failed to allocate device memory of ", ret);
}

static void tensorflow(const struct scan *s, struct oom_log *log, struct text line)
{
    struct oom o = begin(s, "tensorflow");
    struct text t;
    int64_t size;
    if (ladder_step(line, &t) && text_take_size(&t, SIZE_RULE, &size)) {
        int64_t exact;
        t = text_trim(t);
        if (text_starts(t, "(")) {
            t = text_skip(t, 1);
            if (text_take_size(&t, SIZE_RULE, &exact))
                size = exact;
        }
        /* a ladder asks for 10 % less each time: its first step is what was wanted */
        oom_set(&o, OOM_REQUESTED, size);
        o.ladder = true;
        if (facts_find(s->facts, "msg.allocation_ladder_first_bytes", FACT_LOG) == NULL)
            oom_log_add(log, &o);
        scan_integer(s, "msg.allocation_ladder_first_bytes", size);
    }
    if (text_like(line, "ran out of memory trying to allocate ") &&
        !text_has(line, "not a failure") &&
        size_behind(line, "trying to allocate ", SIZE_RULE, &size)) {
        int64_t exact; /* to the next 256 bytes, where the first figure has three digits */
        if (size_behind(line, "(rounded to ", 0, &exact) && exact > size - size / 100 &&
            exact < size + size / 100)
            size = exact;
        oom_set(&o, OOM_REQUESTED, size);
        oom_log_add(log, &o);
    }
}

/* oom log chunk=0 ... size=286GB in_use_blocks=619 in_use=39.87GB free_blocks=83 free=246.13GB
 * largest_free=127.03GB    (a pool's own account of itself; "request=11.90GB" on the line before)
 */
static void pool_dump(const struct scan *s, struct oom_log *log, struct text line)
{
    int64_t size;
    if (text_like(line, "^largest_free=") && size_behind(line, "largest_free=", SIZE_RULE, &size))
        scan_integer(s, "msg.pool_largest_free_bytes", size);
    if (text_like(line, "^in_use=") && text_has(line, " free=")) {
        if (size_behind(line, " in_use=", SIZE_RULE, &size))
            scan_integer(s, "msg.pool_in_use_bytes", size);
        if (size_behind(line, " free=", SIZE_RULE, &size))
            scan_integer(s, "msg.pool_free_bytes", size);
    }
    if (text_has(line, "UT_OF_MEMORY") && size_behind(line, " request=", SIZE_RULE, &size)) {
        struct oom o = begin(s, "pool");
        oom_set(&o, OOM_REQUESTED, size);
        oom_log_add(log, &o);
    }
}

/* radv/amdgpu: Failed to allocate a buffer:
 * radv/amdgpu:    size      : 4269813760 bytes
 * ggml_vulkan: Device memory allocation of size 4269813760 failed. */
static void vulkan(const struct scan *s, struct oom_log *log, struct text line)
{
    struct oom o = begin(s, "vulkan");
    struct text t;
    int64_t size;
    bool radv = text_after(line, "amdgpu: ", &t) && text_after(t, " size ", &t) &&
                text_after(t, ": ", &t) && text_take_size(&t, SIZE_RULE, &size);
    bool ggml_vulkan = !radv && text_after(line, "emory allocation of size ", &t) &&
                       text_has(t, "failed") && text_take_size(&t, 0, &size);
    if (radv || ggml_vulkan) {
        oom_set(&o, OOM_REQUESTED, size);
        oom_log_add(log, &o);
    }
}

/* Could not allocate tensor with 52428800 bytes. There is not enough GPU video memory available!
 * NCCL WARN Failed to CUDA calloc 4194304 bytes
 * Failed to allocate memory for requested buffer of size 1851310080 */
static void other_requests(const struct scan *s, struct oom_log *log, struct text line)
{
    int64_t size;
    if (text_has(line, "GPU video memory") &&
        size_behind(line, "allocate tensor with ", SIZE_RULE, &size)) {
        struct oom o = begin(s, "directml");
        oom_set(&o, OOM_REQUESTED, size);
        oom_log_add(log, &o);
    }
    /* ONNX Runtime, bfc_arena.cc */
    if (size_behind(line, "allocate memory for requested buffer of size ", 0, &size)) {
        struct oom o = begin(s, "onnxruntime");
        oom_set(&o, OOM_REQUESTED, size);
        oom_log_add(log, &o);
    }
    if (size_behind(line, "Failed to CUDA calloc ", SIZE_RULE, &size) ||
        size_behind(line, "Failed to CUDA malloc ", SIZE_RULE, &size)) {
        struct oom o = begin(s, "rccl");
        oom_set(&o, OOM_REQUESTED, size);
        oom_log_add(log, &o);
    }
}

/* |            CUDA OOMs: 1            |        cudaMalloc retries: 2         |
 * | Allocated memory      |  21964 MiB |  23472 MiB |  25825 GiB |  25804 GiB | */
static void torch_summary(const struct scan *s, struct text line)
{
    static const struct {
        const char *row, *fact;
    } rows[] = {
        {"| Allocated memory ", "msg.summary_allocated_bytes"},
        {"| GPU reserved memory ", "msg.summary_reserved_bytes"},
        {"| Non-releasable memory ", "msg.summary_nonreleasable_bytes"},
    };
    struct text t;
    int64_t size;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (text_after(line, rows[i].row, &t) && text_after(t, "|", &t) &&
            text_take_size(&t, SIZE_RULE, &size))
            scan_integer(s, rows[i].fact, size);
    if (size_behind(line, "CUDA OOMs:", 0, &size) || size_behind(line, "HIP OOMs:", 0, &size))
        scan_integer(s, "msg.summary_ooms", size);
}

/* Total VRAM 11872 MB, total RAM 20480 MB                                     (ComfyUI)
 * GPU memory usage -- Total: 196048MB, Used: 73012MB, Free: 123036MB
 * hipMemGetInfo:          total = 15.49 GiB */
static void totals(const struct scan *s, struct text line)
{
    int64_t size;
    if (size_behind(line, "Total VRAM ", SIZE_RULE, &size))
        scan_integer(s, "msg.total_vram_bytes", size);
    if (size_behind(line, "total RAM ", SIZE_RULE, &size))
        scan_integer(s, "msg.total_ram_bytes", size);
    if (text_has(line, "emory usage") && size_behind(line, "Total: ", SIZE_RULE, &size)) {
        scan_integer(s, "gpu.0.hip_total_bytes", size);
        if (size_behind(line, "Free: ", SIZE_RULE, &size))
            scan_integer(s, "gpu.0.hip_free_bytes", size);
    }
    /* gpu_device.cc: Total memory: 8.00GiB / Free memory: 7.75GiB */
    struct text trimmed = text_trim(line);
    if (text_starts(trimmed, "Total memory:") &&
        size_behind(trimmed, "Total memory:", SIZE_RULE, &size))
        scan_integer(s, "gpu.0.hip_total_bytes", size);
    if (text_starts(trimmed, "Free memory:") &&
        size_behind(trimmed, "Free memory:", SIZE_RULE, &size))
        scan_integer(s, "gpu.0.hip_free_bytes", size);
}

void framework_line(const struct scan *s, struct oom_log *log, struct text line)
{
    ggml(s, log, line);
    pinned(s, line);
    ollama(s, line);
    vllm_startup(s, log, line);
    kv_cache(s, line);
    xla(s, log, line);
    tensorflow(s, log, line);
    other_requests(s, log, line);
    pool_dump(s, log, line);
    vulkan(s, log, line);
    torch_summary(s, line);
    totals(s, line);
}
