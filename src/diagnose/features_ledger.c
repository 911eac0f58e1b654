/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What follows from the ledger of GPU allocations (collectors/ledger.c): what was asked for, what
 * this process would have held with it, how much no visible process owns. Bytes of the refused GPU.
 */
#include "diagnose/features_internal.h"

#include "diagnose/fact.h"

#include <math.h>
#include <stdio.h>

#define MIB 1048576.0

static double or_zero(const struct facts *facts, const char *name)
{
    double value = 0;
    return feature_input(facts, name, &value) ? value : 0;
}

/* HIP's request is the program's; the ioctl's may be a block of the runtime's own. */
static void derive_request(struct facts *facts)
{
    static const char *const inputs[] = {"ledger.hip.size_bytes", "ledger.refused.size_bytes"};
    double value = 0;
    for (size_t i = 0; i < 2; i++)
        if (feature_input(facts, inputs[i], &value)) {
            feature_set(facts, "f.ledger_request_bytes", value, &inputs[i], 1);
            return;
        }
    feature_missing(facts, "f.ledger_request_bytes", inputs, 2);
}

/* What the process would have held of the GPU had it got what it asked for. */
static void derive_need(struct facts *facts)
{
    char own[64] = "ledger.vram.live_bytes";
    const char *const inputs[] = {own, "f.ledger_request_bytes"};
    double gpu = 0;
    double live = 0;
    double request = 0;
    if (feature_input(facts, "ledger.refused.gpu", &gpu))
        (void)snprintf(own, sizeof(own), "gpu.%d.ledger_vram_bytes", (int)gpu);
    if (!feature_input(facts, own, &live))
        (void)snprintf(own, sizeof(own), "ledger.vram.live_bytes");
    if (!feature_input(facts, own, &live) || !feature_input(facts, inputs[1], &request)) {
        feature_missing(facts, "f.ledger_need_bytes", inputs, 2);
        return;
    }
    feature_set(facts, "f.ledger_own_bytes", live, inputs, 1);
    feature_set(facts, "f.ledger_need_bytes", live + request, inputs, 2);
}

/*
 * What programs can get of the GPU: KFD keeps back max((RAM + VRAM) >> 14, 8 MiB) for page tables
 * (amdgpu_amdkfd_gpuvm.c), firmware and the console take some more. [eng] for the 64 MiB and 1 %.
 */
static void derive_room(struct facts *facts)
{
    static const char *const inputs[] = {"f.vram_total_bytes", "f.ledger_need_bytes"};
    double total = 0;
    double need = 0;
    if (!feature_input(facts, inputs[0], &total)) {
        feature_missing(facts, "f.ledger_room_bytes", inputs, 1);
        return;
    }
    double room = floor(total - fmax(64 * MIB, total / 100));
    feature_set(facts, "f.ledger_room_bytes", room, inputs, 1);
    if (feature_input(facts, inputs[1], &need))
        feature_set(facts, "f.ledger_short_bytes", need - room, inputs, 2);
    else
        feature_missing(facts, "f.ledger_short_bytes", inputs, 2);
}

static void derive_growth(struct facts *facts)
{
    static const char *const inputs[] = {"ledger.growth.live_bytes", "f.ledger_own_bytes"};
    static const char *const never[] = {"ledger.growth.frees_count",
                                        "ledger.growth.allocations_count"};
    double part = 0;
    double whole = 0;
    if (feature_input(facts, inputs[0], &part) && feature_input(facts, inputs[1], &whole) &&
        whole > 0)
        feature_set(facts, "f.ledger_growth_percent", floor(100 * part / whole), inputs, 2);
    else
        feature_missing(facts, "f.ledger_growth_percent", inputs, 2);
    if (feature_input(facts, never[0], &part) && feature_input(facts, never[1], &whole) &&
        whole > 0)
        feature_set(facts, "f.ledger_growth_freed_percent", floor(100 * part / whole), never, 2);
    else
        feature_missing(facts, "f.ledger_growth_freed_percent", never, 2);
}

/* VRAM that no process that we can see owns: the device's counter less every owner. */
static void derive_unowned(struct facts *facts)
{
    static const char *const now[] = {"f.vram_used_bytes", "proc.0.kfd_vram_bytes",
                                      "f.others_seen_bytes"};
    static const char *const after[] = {"f.vram_after_bytes", "f.others_seen_bytes"};
    double used = 0;
    double own = 0;
    if (feature_input(facts, now[0], &used) && feature_input(facts, now[1], &own))
        feature_set(facts, "f.unowned_bytes", fmax(0, used - own - or_zero(facts, now[2])), now, 3);
    else
        feature_missing(facts, "f.unowned_bytes", now, 2);
    if (feature_input(facts, after[0], &used))
        feature_set(facts, "f.unowned_after_bytes", fmax(0, used - or_zero(facts, after[1])), after,
                    2);
    else
        feature_missing(facts, "f.unowned_after_bytes", after, 1);
}

void features_ledger(struct facts *facts)
{
    const struct fact *there = facts_best(facts, "ledger.pid");
    derive_unowned(facts);
    if (there == NULL || there->status != FACT_PRESENT)
        return; /* nothing to be said to be missing */
    derive_request(facts);
    derive_need(facts);
    derive_room(facts);
    derive_growth(facts);
    features_model(facts);
}
