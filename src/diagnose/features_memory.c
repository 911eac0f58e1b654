/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arithmetic of an allocation failure: request R, total T, free F, allocated A, reserved but
 * idle U from the message, set against the device-wide counters.
 *
 * PyTorch has given back every whole free block before it prints, so U is what it cannot give back
 * (split blocks): F + U >= R > F is fragmentation, F + U < R is not (CUDACachingAllocator::malloc).
 */
#include "diagnose/features_internal.h"

#include "diagnose/fact.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB 1048576.0
#define GPUS_MAX 64

static const char *const r_name = "oom.requested_bytes";
static const char *const t_name = "oom.total_bytes";
static const char *const f_name = "oom.free_bytes";
static const char *const a_name = "oom.allocated_bytes";

/* --- which GPU --- */

static bool gpu_number(const struct facts *facts, int gpu, const char *what, double *ret)
{
    char name[64];
    (void)snprintf(name, sizeof(name), "gpu.%d.%s", gpu, what);
    return feature_input(facts, name, ret);
}

static int count_gpus(const struct facts *facts)
{
    double count = 0;
    double total = 0;
    if (feature_input(facts, "gpu.count", &count))
        return count > GPUS_MAX ? GPUS_MAX : (int)count;
    int n = 0;
    while (n < GPUS_MAX && gpu_number(facts, n, "vram.total_bytes", &total))
        n++;
    return n;
}

/* "2,5" makes 1 the device 5; -1 = none of the list, or a UUID: not known. */
static int entry_of(const char *list, int index)
{
    const char *at = list;
    for (int k = 0; k < index && at != NULL; k++)
        at = strchr(at, ',') != NULL ? strchr(at, ',') + 1 : NULL;
    char *end = NULL;
    long entry = at != NULL ? strtol(at, &end, 10) : -1;
    return at != NULL && end != at && entry >= 0 && entry < GPUS_MAX ? (int)entry : -1;
}

/* The ordinal of the message counts visible devices: HIP counts within its own list, which counts
 * within what ROCr leaves; CUDA's name is HIP's second (AMD, "GPU isolation techniques"). */
static int visible_index(const struct facts *facts, int ordinal)
{
    const char *list = NULL;
    int index = ordinal;
    if (feature_text(facts, "env.HIP_VISIBLE_DEVICES", &list) ||
        feature_text(facts, "env.CUDA_VISIBLE_DEVICES", &list))
        index = entry_of(list, index);
    if (index >= 0 && feature_text(facts, "env.ROCR_VISIBLE_DEVICES", &list))
        index = entry_of(list, index);
    return index;
}

/* Where this process held most, by its ledger: a fault or a hang names no device. */
static int gpu_of_ledger(const struct facts *facts, int count)
{
    int best = -1;
    double most = 0;
    for (int i = 0; i < count; i++) {
        double bytes = 0;
        if (gpu_number(facts, i, "ledger_vram_bytes", &bytes) && bytes > most) {
            most = bytes;
            best = i;
        }
    }
    return best;
}

static int fullest_gpu(const struct facts *facts, int count)
{
    int best = -1;
    double best_share = -1;
    for (int i = 0; i < count; i++) {
        double total = 0;
        double used = 0;
        if (!gpu_number(facts, i, "vram.total_bytes", &total) ||
            !gpu_number(facts, i, "vram.used_bytes", &used) || total <= 0)
            continue;
        if (used / total > best_share) {
            best_share = used / total;
            best = i;
        }
    }
    return best;
}

static void copy_counter(struct facts *facts, int gpu, const char *what, const char *feature)
{
    char name[64];
    const char *input = name;
    double value = 0;
    (void)snprintf(name, sizeof(name), "gpu.%d.%s", gpu, what);
    if (feature_input(facts, name, &value))
        feature_set(facts, feature, value, &input, 1);
    else
        feature_missing(facts, feature, &input, 1);
}

static void copy_moment(struct facts *facts, int gpu, const char *what, enum fact_when when,
                        const char *feature)
{
    char name[64];
    const char *input = name;
    (void)snprintf(name, sizeof(name), "gpu.%d.%s", gpu, what);
    const struct fact *f = facts_find(facts, name, when);
    if (f != NULL && f->status == FACT_PRESENT && f->type != FACT_TEXT)
        feature_set(facts, feature, f->type == FACT_REAL ? f->real : (double)f->integer, &input, 1);
    else
        (void)facts_set_missing(facts, feature, FACT_IMPACT, FACT_ABSENT, "was not sampled",
                                "features");
}

static void derive_stranded(struct facts *facts)
{
    static const char *const inputs[] = {"f.vram_after_bytes", "f.vram_baseline_bytes"};
    double after = 0;
    double before = 0;
    if (feature_input(facts, inputs[0], &after) && feature_input(facts, inputs[1], &before))
        feature_set(facts, "f.stranded_bytes", after - before, inputs, 2);
    else
        feature_missing(facts, "f.stranded_bytes", inputs, 2);
}

#define INPUT_MAX 64

static bool ordinal_of(const struct facts *facts, const char *name, char *input, int *ret)
{
    double value = 0;
    (void)snprintf(input, INPUT_MAX, "%s", name);
    if (!feature_input(facts, name, &value) || value < 0 || value >= GPUS_MAX)
        return false;
    *ret = (int)value;
    return true;
}

/* By the best evidence there is; `input`: the fact that it was. */
static int choose_gpu(const struct facts *facts, int count, char input[INPUT_MAX])
{
    int gpu = -1;
    (void)snprintf(input, INPUT_MAX, "gpu.count");
    if (count == 1)
        return 0;
    if (ordinal_of(facts, "ledger.refused.gpu", input, &gpu)) /* by the kernel's own id of it */
        return gpu;
    if (ordinal_of(facts, "oom.device", input, &gpu))
        return visible_index(facts, gpu);
    gpu = gpu_of_ledger(facts, count);
    (void)snprintf(input, INPUT_MAX, "gpu.%d.ledger_vram_bytes", gpu);
    if (gpu >= 0)
        return gpu;
    gpu = fullest_gpu(facts, count);
    (void)snprintf(input, INPUT_MAX, "gpu.%d.vram.used_bytes", gpu);
    return gpu;
}

void features_gpu(struct facts *facts)
{
    static const char *const inputs[] = {"oom.device", "ledger.refused.gpu", "gpu.count"};
    char name[INPUT_MAX];
    const char *input = name;
    int count = count_gpus(facts);
    int gpu = choose_gpu(facts, count, name);
    if (gpu < 0 || gpu >= count) {
        feature_missing(facts, "f.gpu", inputs, 3);
        gpu = 0; /* the names below then say which file was not there */
    } else {
        feature_set(facts, "f.gpu", gpu, &input, 1);
    }
    copy_counter(facts, gpu, "vram.total_bytes", "f.vram_total_bytes");
    copy_counter(facts, gpu, "vram.used_bytes", "f.vram_used_bytes");
    copy_counter(facts, gpu, "gtt.total_bytes", "f.gtt_total_bytes");
    copy_counter(facts, gpu, "gtt.used_bytes", "f.gtt_used_bytes");
    copy_counter(facts, gpu, "hip_total_bytes", "f.hip_total_bytes");
    copy_counter(facts, gpu, "vram_visible.total_bytes", "f.vram_visible_bytes");
    copy_moment(facts, gpu, "vram.used_bytes", FACT_BASELINE, "f.vram_baseline_bytes");
    copy_moment(facts, gpu, "vram.used_bytes", FACT_AFTER, "f.vram_after_bytes");
    copy_moment(facts, gpu, "vram.used_bytes", FACT_PEAK, "f.vram_peak_bytes");
    derive_stranded(facts);
}

/* --- the message's figures --- */

/* feature = sum of sign * input; missing when one of them is. */
static void derive_sum(struct facts *facts, const char *feature, const char *const *inputs,
                       const int *signs, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        double value = 0;
        if (!feature_input(facts, inputs[i], &value)) {
            feature_missing(facts, feature, inputs, count);
            return;
        }
        sum += signs[i] * value;
    }
    feature_set(facts, feature, sum, inputs, count);
}

static void derive_idle(struct facts *facts)
{
    static const char *const named = "oom.reserved_unallocated_bytes";
    static const char *const old[] = {"oom.reserved_bytes", "oom.allocated_bytes"};
    double idle = 0;
    if (feature_input(facts, named, &idle))
        feature_set(facts, "f.idle_bytes", idle, &named, 1);
    else
        derive_sum(facts, "f.idle_bytes", old, (const int[]){1, -1}, 2);
}

/* max(256 MiB, 1 % of T): above idle offsets (109 to 162 MiB measured) and message rounding. */
static void derive_eps(struct facts *facts)
{
    double total = 0;
    if (feature_input(facts, t_name, &total))
        feature_set(facts, "f.eps_bytes", floor(fmax(256 * MIB, total / 100)), &t_name, 1);
    else
        (void)facts_set_integer(facts, "f.eps_bytes", FACT_IMPACT, (int64_t)(256 * MIB),
                                "256 MiB, no total known");
}

/* What was too little; no number where free and idle memory together would have been enough. */
static void derive_shortfall(struct facts *facts)
{
    static const char *const terms[] = {r_name, f_name, "f.idle_bytes"};
    double requested = 0;
    double available = 0;
    if (feature_input(facts, r_name, &requested) &&
        feature_input(facts, "f.available_bytes", &available) && requested <= available)
        (void)facts_set_missing(facts, "f.shortfall_bytes", FACT_IMPACT, FACT_ABSENT,
                                "free and idle memory together were enough", "features");
    else
        derive_sum(facts, "f.shortfall_bytes", terms, (const int[]){1, -1, -1}, 3);
}

static void derive_message(struct facts *facts)
{
    derive_idle(facts);
    derive_eps(facts);
    derive_sum(facts, "f.available_bytes", (const char *const[]){f_name, "f.idle_bytes"},
               (const int[]){1, 1}, 2);
    derive_shortfall(facts);
    derive_sum(facts, "f.other_bytes",
               (const char *const[]){t_name, f_name, a_name, "f.idle_bytes"},
               (const int[]){1, -1, -1, -1}, 4);
    derive_sum(facts, "f.demand_bytes", (const char *const[]){a_name, r_name}, (const int[]){1, 1},
               2);
    derive_sum(facts, "f.need_bytes", (const char *const[]){a_name, "f.idle_bytes", r_name},
               (const int[]){1, 1, 1}, 3);
    derive_sum(facts, "f.held_bytes", (const char *const[]){a_name, "f.idle_bytes"},
               (const int[]){1, 1}, 2);
    feature_share(facts, "f.idle_share_percent", "f.idle_bytes", "f.held_bytes");
    feature_share(facts, "f.held_share_percent", "f.held_bytes", t_name);
    feature_share(facts, "f.free_share_percent", f_name, t_name);
    feature_share(facts, "f.request_share_percent", r_name, t_name);
    feature_share(facts, "f.other_share_percent", "f.other_bytes", t_name);
}

/* --- against the counters --- */

/* The largest holder is the largest of all GPUs: KFD tells its sum only. With several it is named
 * when all of that fits into what others hold on this one. */
static bool largest_is_here(const struct facts *facts, int count)
{
    char here[64];
    double gpu = 0;
    double held = 0;
    double largest = 0;
    if (count <= 1)
        return true;
    if (!feature_input(facts, "f.gpu", &gpu) ||
        !feature_input(facts, "others.largest_bytes", &largest))
        return false;
    (void)snprintf(here, sizeof(here), "gpu.%d.others_kfd_vram_bytes", (int)gpu);
    return feature_input(facts, here, &held) && largest <= held;
}

static void derive_holder_pid(struct facts *facts, int count)
{
    static const char *const pids[] = {"others.largest_pid", "oom.holder_pid"};
    double value = 0;
    bool here = largest_is_here(facts, count);
    for (size_t i = here ? 0 : 1; i < 2; i++) {
        if (feature_input(facts, pids[i], &value)) {
            feature_set(facts, "f.holder_pid", value, &pids[i], 1);
            return;
        }
    }
    if (!here && feature_input(facts, pids[0], &value))
        (void)facts_set_missing(facts, "f.holder_pid", FACT_IMPACT, FACT_ABSENT,
                                "the largest holder of all GPUs may hold another one", "features");
    else
        feature_missing(facts, "f.holder_pid", pids, 2);
}

/* How much more the other GPUs hold than before the start; -1 = not known of all. */
static double grown_elsewhere(const struct facts *facts, int count, int here)
{
    double sum = 0;
    for (int gpu = 0; gpu < count; gpu++) {
        char name[64];
        (void)snprintf(name, sizeof(name), "gpu.%d.vram.used_bytes", gpu);
        const struct fact *before = facts_find(facts, name, FACT_BASELINE);
        const struct fact *now = facts_find(facts, name, FACT_IMPACT);
        if (gpu == here)
            continue;
        if (before == NULL || now == NULL || before->status != FACT_PRESENT ||
            now->status != FACT_PRESENT)
            return -1;
        if (now->integer > before->integer)
            sum += (double)(now->integer - before->integer);
    }
    return sum;
}

/* What the command's other processes hold on this GPU, at least: their figures are of all GPUs
 * together, so what the other GPUs have grown by is taken off. */
static void derive_siblings(struct facts *facts, int count)
{
    static const char *const inputs[] = {"siblings.vram_bytes", "f.gpu"};
    double held = 0;
    double gpu = 0;
    bool known = feature_input(facts, inputs[0], &held) && feature_input(facts, inputs[1], &gpu);
    double elsewhere = known ? grown_elsewhere(facts, count, (int)gpu) : -1;
    if (known && elsewhere < 0)
        (void)facts_set_missing(facts, "f.siblings_bytes", FACT_IMPACT, FACT_ABSENT,
                                "on which GPU they hold it is not known", "features");
    else if (!known)
        feature_missing(facts, "f.siblings_bytes", inputs, 2);
    else
        feature_set(facts, "f.siblings_bytes", held > elsewhere ? held - elsewhere : 0, inputs, 2);
}

/* What others hold on this GPU; their sum over all GPUs only where that is not known. */
static void derive_others(struct facts *facts)
{
    char here[64] = "gpu.0.others_kfd_vram_bytes";
    const char *const candidates[] = {here, "others.vram_bytes", "oom.holder_bytes"};
    double value = 0;
    if (feature_input(facts, "f.gpu", &value))
        (void)snprintf(here, sizeof(here), "gpu.%d.others_kfd_vram_bytes", (int)value);
    else
        here[0] = '\0';
    for (size_t i = 0; i < 3; i++) {
        if (feature_input(facts, candidates[i], &value)) {
            feature_set(facts, "f.others_seen_bytes", value, &candidates[i], 1);
            break;
        }
    }
    if (facts_best(facts, "f.others_seen_bytes") == NULL)
        feature_missing(facts, "f.others_seen_bytes", candidates + 1, 2);
    derive_holder_pid(facts, count_gpus(facts));
    derive_siblings(facts, count_gpus(facts));
}

/* "Process P has M in use" names this very process when M covers what its allocator holds: NVML
 * lists it first in a container, where the pid is not ours (seen in vLLM reports). */
static void derive_holder_is_self(struct facts *facts)
{
    static const char *const inputs[] = {"oom.holder_bytes", "f.held_bytes", t_name};
    double holder = 0;
    double held = 0;
    double total = 0;
    if (!feature_input(facts, inputs[0], &holder) || !feature_input(facts, inputs[1], &held) ||
        !feature_input(facts, inputs[2], &total)) {
        feature_missing(facts, "f.holder_is_self", inputs, 3);
        return;
    }
    feature_flag(facts, "f.holder_is_self", holder + held > total * 1.05, inputs, 3);
}

void features_memory(struct facts *facts)
{
    derive_message(facts);
    derive_others(facts);
    derive_holder_is_self(facts);
    derive_sum(facts, "f.sysfs_free_bytes",
               (const char *const[]){"f.vram_total_bytes", "f.vram_used_bytes"},
               (const int[]){1, -1}, 2);
    derive_sum(facts, "f.phantom_bytes", (const char *const[]){f_name, "f.sysfs_free_bytes"},
               (const int[]){1, -1}, 2);
    derive_sum(facts, "f.not_torch_bytes",
               (const char *const[]){"proc.0.kfd_vram_bytes", "f.held_bytes"}, (const int[]){1, -1},
               2);
    feature_share(facts, "f.vram_used_percent", "f.vram_used_bytes", "f.vram_total_bytes");
    feature_share(facts, "f.stranded_percent", "f.stranded_bytes", "f.vram_total_bytes");
    features_ledger(facts);
}
