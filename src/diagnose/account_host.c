/* SPDX-License-Identifier: Apache-2.0 */
/* Accounts of memory that is not the GPU's own: the host's RAM, if it was refused or the OOM
 * killer acted, and the RAM that an APU's GPU may use (GTT). The parts add up to the total. */
#include "diagnose/account.h"

#include "diagnose/fact.h"
#include "diagnose/features_internal.h"

#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static const struct account_part host_parts[] = {
    {"account.host.own_bytes", "this process", 'U'},
    {"account.host.others_bytes", "in use before the start: other processes and the kernel", 'o'},
    {"account.host.free_bytes", "available", '.'},
    {"account.host.remainder_bytes", "not accounted for: other processes and the kernel", '?'},
};

static const struct account_part gtt_parts[] = {
    {"account.gtt.own_bytes", "this process", 'U'},
    {"account.gtt.free_bytes", "free", '.'},
    {"account.gtt.remainder_bytes", "not accounted for: other processes and the driver", '?'},
};

const struct account account_of_host = {"host", "RAM at the failure", "account.host.total_bytes",
                                        host_parts, COUNT(host_parts)};
const struct account account_of_gtt = {"gtt", "RAM that the GPU may use (GTT) at the refusal",
                                       "account.gtt.total_bytes", gtt_parts, COUNT(gtt_parts)};

static bool is_set(const struct facts *facts, const char *name)
{
    double value = 0;
    return feature_input(facts, name, &value) && value != 0;
}

static void take_fact(struct facts *facts, const char *part, const char *name)
{
    double value = 0;
    if (feature_input(facts, name, &value))
        feature_set(facts, part, value, &name, 1);
}

/* The total less the known parts. */
static void take_remainder(struct facts *facts, const struct account *a)
{
    const char *inputs[8] = {a->total};
    size_t count = 1;
    double rest = 0;
    double value = 0;
    if (!feature_input(facts, a->total, &rest))
        return;
    for (size_t i = 0; i + 1 < a->count; i++) {
        if (!feature_input(facts, a->parts[i].fact, &value))
            continue;
        rest -= value;
        inputs[count++] = a->parts[i].fact;
    }
    if (count > 1)
        feature_set(facts, a->parts[a->count - 1].fact, rest, inputs, count);
}

static bool host_was_refused(const struct facts *facts)
{
    static const char *const names[] = {
        "msg.cpu_alloc_failed", "msg.bad_alloc",     "msg.shm_bus_error",    "msg.pinned_failed",
        "kmsg.oom_kill_pid",    "f.sigkill_by_oom",  "kmsg.mem_info_dump",   "msg.pin_memory_error",
        "ledger.refused",       "msg.pin_memory_raised", "msg.hip_out_of_memory"};
    for (size_t i = 0; i < COUNT(names); i++)
        if (is_set(facts, names[i]))
            return true;
    const char *raised = NULL;
    if (feature_text(facts, "hook.exception_type", &raised) &&
        (strcmp(raised, "MemoryError") == 0 || strstr(raised, "_ArrayMemoryError") != NULL))
        return true;
    const struct fact *pinned = facts_best(facts, "msg.pinned_failed");
    return pinned != NULL && pinned->status == FACT_PRESENT;
}

/* An exception frees the program's memory before we can read the counters. Then its peak and the
 * memory available before its start describe the refusal, not the counters at its end. */
static bool is_unwound(const struct facts *facts)
{
    double now = 0;
    double peak = 0;
    double left = 0;
    return feature_input(facts, "proc.0.rss_bytes", &now) &&
           feature_input(facts, "proc.0.rss_peak_bytes", &peak) && now < 0.5 * peak &&
           feature_input(facts, "f.ram_left_bytes", &left);
}

static void derive_host(struct facts *facts)
{
    bool unwound = is_unwound(facts);
    take_fact(facts, "account.host.total_bytes", "host.mem_total_bytes");
    take_fact(facts, "account.host.own_bytes", unwound ? "proc.0.rss_peak_bytes" : "proc.0.rss_bytes");
    if (unwound)
        take_fact(facts, "account.host.others_bytes", "f.ram_before_bytes");
    take_fact(facts, "account.host.free_bytes",
              unwound ? "f.ram_left_bytes" : "host.mem_available_bytes");
    take_remainder(facts, &account_of_host);
}

/* KFD counts the memory of an APU's process as VRAM, though it lies in GTT (since Linux 6.10). */
static void derive_gtt(struct facts *facts)
{
    static const char *const own[] = {"ledger.gtt.live_bytes", "proc.0.drm_gtt_bytes",
                                      "ledger.vram.live_bytes", "proc.0.kfd_vram_bytes"};
    static const char *const counters[] = {"f.gtt_total_bytes", "f.gtt_used_bytes"};
    double used = 0;
    double total = 0;
    double most = -1;
    const char *from = NULL;
    if (!is_set(facts, "f.is_apu") || !feature_input(facts, counters[0], &total) ||
        !feature_input(facts, counters[1], &used))
        return;
    feature_set(facts, "account.gtt.total_bytes", total, counters, 1);
    feature_set(facts, "account.gtt.free_bytes", total > used ? total - used : 0, counters, 2);
    for (size_t i = 0; i < COUNT(own); i++) {
        double value = 0;
        if (feature_input(facts, own[i], &value) && value > most && value <= used) {
            most = value;
            from = own[i];
        }
    }
    if (from != NULL)
        feature_set(facts, "account.gtt.own_bytes", most, &from, 1);
    take_remainder(facts, &account_of_gtt);
}

void account_derive_host(struct facts *facts)
{
    if (is_set(facts, "kmsg.oom_kill_memcg")) /* the machine had RAM: the limit was the group's */
        return;
    if (host_was_refused(facts) || is_set(facts, "oom.seen") || is_set(facts, "msg.xla_oom") ||
        is_set(facts, "msg.bfc_oom")) {
        derive_host(facts);
        derive_gtt(facts);
    }
}
