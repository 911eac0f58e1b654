/* SPDX-License-Identifier: Apache-2.0 */
/* PyTorch's memory as its allocator counts it, how it grew, and what the process holds outside it. */
#include "report/internal.h"

#include "diagnose/fact.h"

#include <stdbool.h>

static bool is_positive(const struct facts *facts, const char *name)
{
    const struct fact *f = facts_best(facts, name);
    return f != NULL && f->status == FACT_PRESENT &&
           (f->type == FACT_REAL ? f->real > 0 : f->type != FACT_TEXT && f->integer > 0);
}

static bool is_text(const struct facts *facts, const char *name)
{
    const char *text = NULL;
    return facts_get_text(facts, name, &text) && text[0] != '\0';
}

static void now(const struct facts *facts, struct buf *out)
{
    if (is_positive(facts, "torch.reserved_bytes"))
        report_sentence(
            facts,
            "reserved {torch.reserved_bytes}, in use {torch.allocated_bytes}[[; idle in the "
            "common pools {torch.inactive_bytes}, the largest piece "
            "{torch.largest_inactive_bytes}]]",
            out);
    if (is_positive(facts, "torch.retries_count"))
        report_sentence(facts,
                        "retries of the allocator: {torch.retries_count}; in each it freed its idle memory "
                        "and asked the driver again",
                        out);
    if (is_positive(facts, "torch.private_pools_bytes"))
        report_sentence(
            facts,
            "{torch.private_pools_bytes} of it in private pools (graphs, MemPool), "
            "{torch.private_pools_idle_bytes} of that idle, which other requests cannot use",
            out);
    if (is_positive(facts, "torch.expandable_bytes"))
        report_sentence(facts, "{torch.expandable_bytes} of it in expandable segments", out);
    if (is_text(facts, "torch.live_by_size"))
        report_sentence(facts, "in use: {torch.live_by_size}", out);
}

static void growth(const struct facts *facts, struct buf *out)
{
    if (is_positive(facts, "torch.growth.steady"))
        report_sentence(
            facts,
            "what is in use grew steadily: {torch.growth.total_bytes} in "
            "{torch.growth.duration_ms}, {torch.growth.slope_bytes_per_s}[[, "
            "{torch.growth.blocks_count} blocks of {f.torch_grown_block_bytes} on "
            "average]][[; at this slope the GPU is full in about {f.torch_full_in_min} min]]",
            out);
    if (is_positive(facts, "torch.grown_bytes") && is_text(facts, "torch.grown_by_size"))
        report_sentence(facts,
                        "in the last {torch.grown_ms} it grew by {torch.grown_bytes}: "
                        "{torch.grown_by_size}",
                        out);
    if (is_text(facts, "torch.grown_site"))
        report_sentence(
            facts,
            "most of that, {torch.grown_site_bytes} in {torch.grown_site_blocks_count} more "
            "blocks, was allocated at {torch.grown_site}",
            out);
}

static void beside(const struct facts *facts, struct buf *out)
{
    if (!is_positive(facts, "torch.gap_bytes"))
        return;
    if (is_positive(facts, "torch.gap_steady"))
        report_sentence(
            facts,
            "the driver counts {torch.gap_bytes} more for this process than PyTorch reserved, "
            "and that grew steadily: {torch.gap_growth_bytes} in {torch.gap_watched_ms}, "
            "{torch.gap_slope_bytes_per_s}[[; at this slope the GPU is full in about "
            "{f.gap_full_in_min} min]]",
            out);
    else
        report_sentence(
            facts,
            "the driver counts {torch.gap_bytes} more for this process than PyTorch reserved "
            "(context, libraries, other allocators)[[; changed by {torch.gap_growth_bytes} in "
            "{torch.gap_watched_ms}, no steady trend]]",
            out);
}

void report_torch(const struct facts *facts, struct buf *out)
{
    now(facts, out);
    growth(facts, out);
    beside(facts, out);
}
