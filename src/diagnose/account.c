/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/account.h"

#include "diagnose/fact.h"
#include "diagnose/features_internal.h"

#include <math.h>
#include <string.h>

const struct account_part account_parts[] = {
    {"account.others_bytes", "other processes", 'o'},
    {"account.siblings_bytes", "other processes of this command", 'k'},
    {"account.context_bytes", "this process beside the allocator: context and libraries", 'c'},
    {"account.outside_bytes", "this process beside the allocator: grown since", 'x'},
    {"account.private_bytes", "private pools (graphs)", 'p'},
    {"account.live_bytes", "in use", 'U'},
    {"account.plateau_bytes", "in use before the growth", 'U'},
    {"account.growth_bytes", "grown since", 'G'},
    {"account.step_bytes", "this step", 's'},
    {"account.waiting_bytes", "freed, waiting for the GPU", 'w'},
    {"account.idle_split_bytes", "idle, in pieces", '-'},
    {"account.idle_whole_bytes", "idle, whole segments", '-'},
    {"account.idle_bytes", "idle in the allocator", '-'},
    {"account.free_bytes", "free", '.'},
    {"account.remainder_bytes", "not accounted for", '?'},
};
const size_t account_part_count = sizeof account_parts / sizeof account_parts[0];

const struct account account_of_gpu = {"", "memory of the GPU at the refusal",
                                       "account.total_bytes", account_parts,
                                       sizeof account_parts / sizeof account_parts[0]};

#define INPUTS_MAX 4

/* The first of `names` that has a value becomes `part`. */
static bool take(struct facts *facts, const char *part, const char *const *names, size_t count)
{
    double value = 0;
    for (size_t i = 0; i < count; i++) {
        if (feature_input(facts, names[i], &value)) {
            feature_set(facts, part, fmax(0, value), &names[i], 1);
            return true;
        }
    }
    return false;
}

/* part = signed sum of the inputs, at least 0; not set if an input is missing. */
static bool take_sum(struct facts *facts, const char *part, const char *const *inputs,
                     const int *signs, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        double value = 0;
        if (!feature_input(facts, inputs[i], &value))
            return false;
        sum += signs[i] * value;
    }
    feature_set(facts, part, fmax(0, sum), inputs, count);
    return true;
}

static const int minus[] = {1, -1, -1, -1};

/* --- the device --- */

/* XLA's pool is larger than the driver's counter: the process was already freeing memory when the
 * counter was read. */
static bool counter_is_late(const struct facts *facts)
{
    double pool = 0;
    double used = 0;
    return feature_input(facts, "jax.pool_bytes", &pool) &&
           feature_input(facts, "f.vram_used_bytes", &used) && pool > used;
}

static bool take_device(struct facts *facts)
{
    static const char *const totals[] = {"oom.total_bytes", "f.vram_total_bytes"};
    static const char *const counters[] = {"f.vram_total_bytes", "f.vram_used_bytes"};
    static const char *const at_peak[] = {"f.vram_total_bytes", "f.vram_peak_bytes"};
    static const char *const said = "oom.free_bytes";
    double free_bytes = 0;
    double total = 0;
    bool by_driver = feature_input(facts, said, &free_bytes) &&
                     feature_input(facts, totals[0], &total) && free_bytes <= total;
    if (by_driver) {
        feature_set(facts, "account.total_bytes", total, totals, 1);
        feature_set(facts, "account.free_bytes", free_bytes, &said, 1);
        return true;
    }
    if (!feature_input(facts, totals[1], &total))
        return false;
    feature_set(facts, "account.total_bytes", total, totals + 1, 1);
    if (counter_is_late(facts) && take_sum(facts, "account.free_bytes", at_peak, minus, 2))
        return true;
    return take_sum(facts, "account.free_bytes", counters, minus, 2);
}

static void take_others(struct facts *facts)
{
    static const char *const seen[] = {"f.others_seen_bytes"};
    double self = 0;
    /* In a container NVML may list this process under another pid. */
    if (!(feature_input(facts, "f.holder_is_self", &self) && self != 0))
        (void)take(facts, "account.others_bytes", seen, 1);
}

/* proc.0 is the process that failed. If PyTorch refused in another process, proc.0 is the
 * sibling. */
static void take_siblings(struct facts *facts)
{
    static const char *const seen[] = {"f.siblings_bytes"};
    static const char *const around[] = {"proc.0.kfd_vram_bytes", "f.siblings_bytes",
                                         "oom.process_bytes"};
    static const int signs[] = {1, 1, -1};
    double torch_pid = 0;
    double failed_pid = 0;
    if (feature_input(facts, "hook.torch_pid", &torch_pid) &&
        feature_input(facts, "target.failed_pid", &failed_pid) && torch_pid != failed_pid)
        (void)take_sum(facts, "account.siblings_bytes", around, signs, 3);
    else
        (void)take(facts, "account.siblings_bytes", seen, 1);
}

/* --- allocators that report used and reserved memory: PyTorch, CuPy --- */

/* The process's memory by the driver, less PyTorch's reserve: at the start and since. */
static void take_gap(struct facts *facts)
{
    static const char *const gap[] = {"torch.gap_bytes", "torch.gap_growth_bytes"};
    static const char *const said[] = {"oom.process_bytes", "f.held_bytes"};
    static const char *const counted[] = {"proc.0.kfd_vram_bytes", "f.held_bytes"};
    double grown = 0;
    double all = 0;
    if (!feature_input(facts, gap[0], &all)) {
        if (!take_sum(facts, "account.context_bytes", said, minus, 2))
            (void)take_sum(facts, "account.context_bytes", counted, minus, 2);
        return;
    }
    if (!feature_input(facts, gap[1], &grown) || grown <= 0) {
        feature_set(facts, "account.context_bytes", all, gap, 1);
        return;
    }
    grown = fmin(grown, all);
    feature_set(facts, "account.context_bytes", all - grown, gap, 2);
    feature_set(facts, "account.outside_bytes", grown, gap + 1, 1);
}

static double or_zero(const struct facts *facts, const char *name)
{
    double value = 0;
    return feature_input(facts, name, &value) ? value : 0;
}

/* Memory in use before the growth, and the growth since: by the lows of the steps or by the blocks
 * that are kept. */
static const struct growth {
    const char *plateau, *total;
} torch_lows = {"torch.growth.plateau_bytes", "torch.growth.total_bytes"},
  torch_kept = {"torch.kept.before_bytes", "torch.kept.growth_bytes"},
  cupy_lows = {"cupy.growth.plateau_bytes", "cupy.growth.total_bytes"},
  jax_lows = {"jax.growth.plateau_bytes", "jax.growth.total_bytes"};

static bool growth_input(const struct facts *facts, const struct growth *by, double *ret_plateau,
                         double *ret_growth)
{
    bool known = by == &torch_kept ? account_kept_growth(facts, ret_growth)
                                   : feature_input(facts, by->total, ret_growth);
    return known && feature_input(facts, by->plateau, ret_plateau);
}

/* Splits `live`: before the growth, growth since, this step. `elsewhere`: bytes that the plateau
 * includes and `live` does not. */
static void split_live(struct facts *facts, double live, double elsewhere, const char *source,
                       const struct growth *by)
{
    const char *const inputs[] = {source, by->plateau, by->total};
    double plateau = 0;
    double growth = 0;
    if (!growth_input(facts, by, &plateau, &growth)) {
        feature_set(facts, "account.live_bytes", live, inputs, 1);
        return;
    }
    plateau = fmin(fmax(0, plateau - elsewhere), live);
    growth = fmin(fmax(0, growth), live - plateau);
    feature_set(facts, "account.plateau_bytes", plateau, inputs + 1, 1);
    feature_set(facts, "account.growth_bytes", growth, inputs + 1, 2);
    feature_set(facts, "account.step_bytes", live - plateau - growth, inputs, 3);
}

/* Memory in use outside private pools. */
static void take_live(struct facts *facts)
{
    double cupy = 0;
    double kept = 0;
    double allocated = or_zero(facts, "oom.allocated_bytes");
    double private_live = fmax(0, or_zero(facts, "torch.private_pools_bytes") -
                                      or_zero(facts, "torch.private_pools_idle_bytes"));
    const struct growth *by =
        feature_input(facts, "cupy.in_use_bytes", &cupy) && cupy == allocated ? &cupy_lows
        : account_kept_growth(facts, &kept)                                   ? &torch_kept
                                                                              : &torch_lows;
    split_live(facts, fmax(0, allocated - private_live), private_live, "oom.allocated_bytes", by);
}

static void take_idle(struct facts *facts)
{
    static const char *const idle[] = {"f.idle_bytes", "torch.private_pools_idle_bytes"};
    static const char *const active[] = {"torch.active_bytes", "torch.allocated_bytes"};
    static const char *const split[] = {"torch.split_idle_bytes"};
    static const char *const whole[] = {"torch.free_segments_bytes"};
    (void)take_sum(facts, "account.waiting_bytes", active, minus, 2);
    if (take(facts, "account.idle_split_bytes", split, 1) &&
        take(facts, "account.idle_whole_bytes", whole, 1))
        return;
    if (!take_sum(facts, "account.idle_bytes", idle, minus, 2))
        (void)take(facts, "account.idle_bytes", idle, 1);
}

static bool take_allocator(struct facts *facts)
{
    static const char *const private_pools[] = {"torch.private_pools_bytes",
                                                "oom.private_pools_bytes"};
    double held = 0;
    if (!feature_input(facts, "f.held_bytes", &held))
        return false;
    take_gap(facts);
    (void)take(facts, "account.private_bytes", private_pools, 1);
    take_live(facts);
    take_idle(facts);
    return true;
}

/* --- XLA --- */

/* After unwinding, the pool may be half empty again: then the pool's own peak was in use at the refusal. If
 * its largest idle piece is still too small for the request, the pool is as it was at the refusal. */
static bool take_xla(struct facts *facts)
{
    static const char *const pools[] = {"jax.pool_bytes", "jax.limit_bytes"};
    static const char *const driver[] = {"proc.0.kfd_vram_bytes", "jax.pool_bytes"};
    static const char *const peak_name = "jax.in_use_bytes";
    const struct fact *peak = facts_find(facts, peak_name, FACT_PEAK);
    double pool = 0;
    double live = 0;
    double requested = 0;
    double largest_idle = 0;
    size_t which = feature_input(facts, pools[0], &pool) && pool > 0 ? 0 : 1;
    if (peak == NULL || peak->status != FACT_PRESENT ||
        !feature_input(facts, pools[which], &pool) || pool < (double)peak->integer)
        return false;
    bool as_it_was = feature_input(facts, "oom.requested_bytes", &requested) &&
                     feature_input(facts, "jax.largest_free_bytes", &largest_idle) &&
                     largest_idle < requested && feature_input(facts, "f.pool_in_use_bytes", &live) &&
                     live <= (double)peak->integer;
    if (!as_it_was)
        live = (double)peak->integer;
    const char *const inputs[] = {pools[which], as_it_was ? "f.pool_in_use_bytes" : peak_name};
    split_live(facts, live, 0, inputs[1], &jax_lows);
    feature_set(facts, "account.idle_bytes", pool - live, inputs, 2);
    (void)take_sum(facts, "account.context_bytes", driver, minus, 2);
    return true;
}

/* --- programs that allocate from the driver directly --- */

static void take_process(struct facts *facts)
{
    static const char *const ledger[] = {"f.ledger_own_bytes", "ledger.vram.live_bytes"};
    static const char *const beside[] = {"proc.0.kfd_vram_bytes", "account.live_bytes"};
    static const char *const driver[] = {"proc.0.kfd_vram_bytes", "proc.0.drm_vram_bytes"};
    static const char *const pool[] = {"oom.reserved_bytes"};
    static const char *const beside_pool[] = {"proc.0.kfd_vram_bytes", "oom.reserved_bytes"};
    if (take(facts, "account.live_bytes", pool, 1)) {
        (void)take_sum(facts, "account.context_bytes", beside_pool, minus, 2);
        return;
    }
    if (take(facts, "account.live_bytes", ledger, 2))
        (void)take_sum(facts, "account.context_bytes", beside, minus, 2);
    else
        (void)take(facts, "account.live_bytes", driver, 2);
}

/* Sets `part` to the first known input less all other known inputs. */
static void take_rest(struct facts *facts, const char *part, const char *const *inputs,
                      size_t count)
{
    const char *there[sizeof account_parts / sizeof account_parts[0]] = {NULL};
    size_t n = 0;
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        double value = 0;
        if (!feature_input(facts, inputs[i], &value))
            continue;
        sum = n == 0 ? value : sum - value;
        there[n++] = inputs[i];
    }
    feature_set(facts, part, sum, there, n);
}

/* --- the whole --- */

static void derive_remainder(struct facts *facts)
{
    const char *inputs[sizeof account_parts / sizeof account_parts[0]] = {"account.total_bytes"};
    size_t count = 1;
    double value = 0;
    for (size_t i = 0; i + 1 < account_part_count; i++)
        if (feature_input(facts, account_parts[i].fact, &value))
            inputs[count++] = account_parts[i].fact;
    take_rest(facts, "account.remainder_bytes", inputs, count);
    feature_share(facts, "account.remainder_percent", "account.remainder_bytes",
                  "account.total_bytes");
}

/* The account explains a refusal: without a refusal there is none. */
static bool was_refused(const struct facts *facts)
{
    static const char *const names[] = {"oom.seen", "ledger.refused", "msg.hip_out_of_memory",
                                        "msg.xla_oom", "msg.bfc_oom"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (or_zero(facts, names[i]) != 0)
            return true;
    return false;
}

void account_derive(struct facts *facts)
{
    account_derive_host(facts);
    if (!was_refused(facts))
        return;
    if (!take_device(facts))
        return;
    take_others(facts);
    take_siblings(facts);
    if (!take_allocator(facts) && !take_xla(facts))
        take_process(facts);
    derive_remainder(facts);
    account_derive_cause(facts);
}
