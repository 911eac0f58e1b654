/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the GPU that the failure is about, and the memory of the command's other processes on
 * it. */
#include "diagnose/features_internal.h"

#include "diagnose/fact.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GPUS_MAX 64

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

/* With "2,5", ordinal 1 is device 5. -1 = not in the list, or a UUID: not known. */
static int entry_of(const char *list, int index)
{
    const char *at = list;
    for (int k = 0; k < index && at != NULL; k++)
        at = strchr(at, ',') != NULL ? strchr(at, ',') + 1 : NULL;
    char *end = NULL;
    long entry = at != NULL ? strtol(at, &end, 10) : -1;
    return at != NULL && end != at && entry >= 0 && entry < GPUS_MAX ? (int)entry : -1;
}

/* The ordinal in the message counts visible devices. HIP's list selects among the devices that
 * ROCr's list leaves; CUDA_VISIBLE_DEVICES is a second name of HIP's list (AMD, "GPU isolation
 * techniques"). */
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

/* The GPU on which this process held most, by its ledger: a fault or a hang names no device. */
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

/* By the best available evidence; `input`: the fact that was used. */
static int choose_gpu(const struct facts *facts, int count, char input[INPUT_MAX])
{
    int gpu = -1;
    (void)snprintf(input, INPUT_MAX, "gpu.count");
    if (count == 1)
        return 0;
    if (ordinal_of(facts, "ledger.refused.gpu", input, &gpu)) /* by the kernel's id of the GPU */
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
    (void)facts_set_integer(facts, "f.gpus_count", FACT_IMPACT, count,
                            "gpu.count, or the GPUs that are named");
    if (gpu < 0 || gpu >= count) {
        feature_missing(facts, "f.gpu", inputs, 3);
    } else {
        feature_set(facts, "f.gpu", gpu, &input, 1);
    }
}

/* How much more memory is in use on the other GPUs than before the start; -1 = not known for
 * all. */
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

/* A lower bound of the memory that the command's other processes hold on this GPU. Their figures
 * cover all GPUs, so the growth of the other GPUs is subtracted. */
void features_siblings(struct facts *facts)
{
    static const char *const inputs[] = {"siblings.vram_bytes", "f.gpu"};
    int count = count_gpus(facts);
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
