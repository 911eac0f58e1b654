/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When the GPU will be full, where PyTorch's memory, or what lies beside it in the same process,
 * grows steadily and has not filled it yet. Said only for a trend that is significant and that was
 * watched for at least a twentieth of what it foretells.
 */
#include "diagnose/features_internal.h"

#include "diagnose/fact.h"

#include <math.h>
#include <stddef.h>

#define HORIZON 20.0 /* times the time that was watched. [eng] */
#define MS_PER_MIN 60000.0

static bool is_true(const struct facts *facts, const char *name)
{
    double value = 0;
    return feature_input(facts, name, &value) && value != 0;
}

/* What nobody holds: of VRAM, or of the GTT that an APU's programs live in. */
static void derive_room(struct facts *facts)
{
    static const char *const vram[] = {"f.vram_total_bytes", "f.vram_used_bytes"};
    static const char *const gtt[] = {"f.gtt_total_bytes", "f.gtt_used_bytes"};
    const char *const *inputs = is_true(facts, "f.is_apu") ? gtt : vram;
    double total = 0;
    double used = 0;
    if (feature_input(facts, inputs[0], &total) && feature_input(facts, inputs[1], &used) &&
        total >= used)
        feature_set(facts, "f.gpu_room_bytes", total - used, inputs, 2);
    else
        feature_missing(facts, "f.gpu_room_bytes", inputs, 2);
}

struct trend {
    const char *feature;
    const char *inputs[4]; /* steady, slope, watched, room */
    const char *more_room; /* what is taken first, NULL = none */
};

static const char *why_not(const struct facts *facts, const struct trend *t)
{
    double slope = 0;
    if (is_true(facts, "oom.seen") || is_true(facts, "ledger.refused"))
        return "memory had run out already";
    if (!is_true(facts, t->inputs[0]) || !feature_input(facts, t->inputs[1], &slope) || slope <= 0)
        return "no steady growth (Mann-Kendall test of the windows' minima, p < 0.01)";
    return NULL;
}

static void derive_forecast(struct facts *facts, const struct trend *t)
{
    double slope = 0;
    double watched_ms = 0;
    double room = 0;
    double more = 0;
    if (!feature_input(facts, t->inputs[1], &slope))
        return; /* no PyTorch, or too short: nothing that a reader would miss */
    const char *reason = why_not(facts, t);
    if (reason == NULL && feature_input(facts, t->inputs[2], &watched_ms) &&
        feature_input(facts, t->inputs[3], &room)) {
        if (t->more_room != NULL && feature_input(facts, t->more_room, &more))
            room += more;
        double ms = room / slope * 1000;
        if (ms <= HORIZON * watched_ms) {
            feature_set(facts, t->feature, round(ms / MS_PER_MIN * 10) / 10, t->inputs, 4);
            return;
        }
        reason = "more than 20 times as far ahead as was watched";
    }
    if (reason != NULL)
        (void)facts_set_missing(facts, t->feature, FACT_IMPACT, FACT_ABSENT, reason, "features");
    else
        feature_missing(facts, t->feature, t->inputs, 4);
}

void features_torch(struct facts *facts)
{
    static const struct trend gap = {
        "f.gap_full_in_min",
        {"torch.gap_steady", "torch.gap_slope_bytes_per_s", "torch.gap_watched_ms",
         "f.gpu_room_bytes"},
        NULL};
    static const struct trend growth = {
        "f.torch_full_in_min",
        {"torch.growth.steady", "torch.growth.slope_bytes_per_s", "torch.growth.duration_ms",
         "f.gpu_room_bytes"},
        "f.torch_cache_bytes"};
    static const char *const stayed[] = {"torch.growth.total_bytes", "torch.growth.blocks_count"};
    double bytes = 0;
    double blocks = 0;
    if (!feature_input(facts, "torch.reserved_bytes", &bytes))
        return;
    derive_room(facts);
    derive_forecast(facts, &gap);
    derive_forecast(facts, &growth);
    if (feature_input(facts, stayed[0], &bytes) && feature_input(facts, stayed[1], &blocks) &&
        bytes > 0 && blocks > 0)
        feature_set(facts, "f.torch_grown_block_bytes", floor(bytes / blocks), stayed, 2);
}
