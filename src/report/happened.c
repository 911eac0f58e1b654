/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One sentence about what happened, with the figures: the first line on the terminal and the heading
 * of SUMMARY.md. Every figure is a fact; a clause [[...]] whose fact is absent is left out.
 */
#include "report/report.h"

#include "base/buf.h"
#include "diagnose/fact.h"
#include "diagnose/tree.h"
#include "diagnose/verdict.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct wording {
    const char *subject; /* "class", or "class/subclass"; NULL = any */
    const char *needs;   /* facts that must be present, and not false or 0; NULL = none */
    const char *words;
};

/* The GPU's memory: requested, free and total. The figures of the message come first, then those of
 * the ledger and the driver's counters. Figures of two sources are never mixed. */
static const struct wording memory[] = {
    {NULL, "f.no_gpu oom.requested_bytes",
     "GPU out of memory: {oom.requested_bytes} wanted[[, {oom.free_bytes} free of {oom.total_bytes}]], says the program; "
     "no GPU was found here"},
    {NULL, "oom.requested_bytes oom.allowed_bytes",
     "GPU out of memory: {oom.requested_bytes} wanted[[, {account.room_bytes} left of the "
     "{account.budget_bytes} that this process may use]]"},
    {NULL, "oom.requested_bytes",
     "GPU out of memory: {oom.requested_bytes} wanted[[, {oom.free_bytes} free of "
     "{oom.total_bytes}]]"},
    {"gtt-limit", "f.ledger_request_bytes",
     "GPU out of memory: {f.ledger_request_bytes} wanted[[, {f.gtt_used_bytes} in use of "
     "{f.ttm_limit_bytes}]]"},
    {NULL, "f.ledger_request_bytes f.ledger_free_bytes",
     "GPU out of memory: {f.ledger_request_bytes} wanted, {f.ledger_free_bytes} free of "
     "{f.vram_total_bytes}"},
    {NULL, "f.ledger_request_bytes",
     "GPU out of memory: {f.ledger_request_bytes} wanted[[, {f.vram_used_bytes} in use of "
     "{f.vram_total_bytes}]]"},
    {NULL, "oom.free_bytes", "GPU out of memory[[: {oom.free_bytes} free of {oom.total_bytes}]]"},
    {NULL, NULL, "GPU out of memory"},
};

static const char *const memory_classes[] = {"capacity", "fragmentation", "leak", "gtt-limit",
                                             "held-by-other"};

/* The first row that fits is used. */
static const struct wording wordings[] = {
    {"unknown/nothing failed", NULL, "The program ended well: nothing failed"},
    {"unknown", "snap.life snap.deadlock", "{snap.life}, in a deadlock[[ at {f.stands_at}]]"},
    {"unknown", "snap.life snap.blocked", "{snap.life}; one of its threads {snap.blocked}[[, at {f.stands_at}]]"},
    {"unknown", "snap.life snap.self_wait f.stands_at",
     "{snap.life}, at {f.stands_at}; only a signal could make it continue"},
    {"unknown", "snap.life snap.self_wait",
     "{snap.life}; only a signal could make it continue"},
    {"unknown", "run.snapshot snap.main_does",
     "{snap.life}[[, using {snap.cpu_percent} of a CPU]]; its main thread {snap.main_does}[[, at {f.stands_at}]]"},
    {"unknown", "snap.life snap.main_does", "{snap.life}; its main thread {snap.main_does}[[, at {f.stands_at}]]"},
    {"unknown", "snap.life", "{snap.life}"},
    {"collective", "snap.life", "{snap.life}, in a collective operation"},
    {"unknown/killed by SIGKILL", "run.ended_with_supervisor", "SIGKILL ended rocmcrash, and the program ended with it"},
    {"unknown/killed by SIGKILL", NULL, "SIGKILL ended the program"},
    {"unknown/ended by SIGQUIT", NULL, "SIGQUIT ended the program"},
    {"unknown/no failure shown", NULL, "The text shows no failure"},
    {"page-fault", "ledger.fault.address", "GPU memory access fault at {ledger.fault.address}"},
    {"page-fault", "msg.memory_access_fault_address",
     "GPU memory access fault at {msg.memory_access_fault_address}"},
    {"page-fault", "kmsg.page_fault_address",
     "GPU memory access fault at {kmsg.page_fault_address}"},
    {"page-fault/hardware exception", NULL, "The GPU raised a hardware exception"},
    {"page-fault", NULL, "GPU memory access fault"},
    {"gpu-hang", "kmsg.ring_timeout",
     "The GPU stopped answering: ring {kmsg.ring_timeout} timed out"},
    {"gpu-hang", NULL, "The GPU stopped answering"},
    {"sdma", NULL, "A copy between host and GPU failed (SDMA copy engine)"},
    {"hw-ras/corrected errors", NULL, "The GPU's hardware reported errors that it corrected"},
    {"hw-ras", NULL, "The GPU's hardware reported an error"},
    {"host-oom/Windows commit limit", NULL, "Out of host memory: the commit limit of Windows"},
    {"host-oom", "kmsg.oom_kill_memcg",
     "Out of host memory: the cgroup's limit was reached[[ ({kmsg.oom_memcg_usage_bytes} used of "
     "{kmsg.oom_memcg_limit_bytes})]]"},
    {"host-oom", "kmsg.oom_kill_comm",
     "Out of host memory: the kernel killed {kmsg.oom_kill_comm}"},
    {"host-oom/allocation failed", NULL, "The program did not get host memory"},
    {"host-oom/killed, by the output", NULL, "Out of host memory, by the output: a process was killed"},
    {"host-oom/killed worker", NULL, "SIGKILL ended a worker process"},
    {"host-oom", NULL, "Out of host memory"},
    {"no-device", NULL, "No usable GPU"},
    {"arch-mismatch/small BAR", NULL, "The CPU cannot reach all of the GPU's memory: small BAR"},
    {"arch-mismatch/wrong HSA_OVERRIDE_GFX_VERSION", NULL,
     "Code for another GPU was run: HSA_OVERRIDE_GFX_VERSION[[={env.HSA_OVERRIDE_GFX_VERSION}]]"
     "[[ on {f.gfx}]]"},
    {"arch-mismatch/CPU instruction", NULL, "The program has instructions that this CPU lacks"},
    {"arch-mismatch", NULL, "The program has no code for this GPU[[, {f.gfx}]]"},
    {"version-mismatch/accounting bug", NULL,
     "The runtime's memory figures are wrong[[: {oom.free_bytes} free of {oom.total_bytes}]]"},
    {"version-mismatch/ROCm build on an NVIDIA machine", NULL,
     "A ROCm build runs on an NVIDIA machine"},
    {"version-mismatch/library workspace, not VRAM", NULL,
     "A BLAS library got no workspace although GPU memory was free[[: {f.sysfs_free_bytes}]]"},
    {"version-mismatch/MES firmware", NULL, "The GPU's firmware and the driver do not fit together"},
    {"version-mismatch", NULL, "Software versions do not fit together"},
    {"resource-limit/file descriptors", "f.fds_used_up_count",
     "Out of file descriptors: {f.fds_used_up_count} open of {proc.0.fds_limit}"},
    {"resource-limit/file descriptors", NULL,
     "Out of file descriptors[[: this process may open {proc.0.fds_limit}]]"},
    {"resource-limit/mappings", NULL,
     "Out of memory mappings[[: {f.maps_count} of {host.max_map_count}]]"},
    {"resource-limit/address space", NULL,
     "Out of address space: {proc.0.address_space_peak_bytes} used of the limit "
     "{proc.0.address_space_limit_bytes}"},
    {"resource-limit/data of the process", NULL,
     "Host memory was refused by the process's data limit (RLIMIT_DATA)[[, {proc.0.data_limit_bytes}]]"},
    {"resource-limit/threads or processes", NULL, "No more threads or processes may be started"},
    {"resource-limit/shared memory", NULL, "Out of shared memory between processes"},
    {"resource-limit/pinned host memory", NULL,
     "Pinned host memory was refused[[: {ledger.refused.size_bytes} wanted, "
     "{ledger.refused.live_bytes} held]]"},
    {"resource-limit/locked memory", NULL, "Locked host memory was refused"},
    {"resource-limit/single-allocation cap", "oom.requested_bytes",
     "One allocation was too large: {oom.requested_bytes} wanted at once[[ of "
     "{oom.total_bytes}]]"},
    {"resource-limit/single-allocation cap", NULL,
     "One allocation was too large[[: {ledger.hip.size_bytes} wanted at once of "
     "{f.vram_total_bytes}]]"},
    {"resource-limit/largest Vulkan buffer", NULL,
     "One buffer was too large for Vulkan[[: {oom.requested_bytes} wanted]]"},
    {"resource-limit/disk space", NULL, "Out of disk space"},
    {"unknown/time limit", NULL, "A time limit ended the program"},
    {"resource-limit/scratch or queue resources", NULL, "The GPU's queue or scratch memory failed"},
    {"resource-limit", NULL, "A resource limit was reached"},
    {"collective", NULL, "Communication between ranks failed"},
    {"app-bug", "msg.device_assert_text", "An assertion in a GPU kernel failed: {msg.device_assert_text}"},
    {"app-bug", "msg.device_assert", "An assertion in a GPU kernel failed"},
    {"app-bug/absurd size", "oom.requested_bytes",
     "An absurd size was requested: {oom.requested_bytes}[[ on a GPU of {oom.total_bytes}]]"},
};

/* How the program ended: for an unknown class, and for classes that have no sentence. */
static const struct wording endings[] = {
    {NULL, "target.failed_is_child target.failed_comm target.failed_signal_name",
     "Process {target.failed_comm} died of SIG{target.failed_signal_name}[[ at address {target.fault_says}]][[, in {stack.place}]]"},
    {NULL, "target.failed_signal_name",
     "The program died of SIG{target.failed_signal_name}[[ at address {target.fault_says}]][[, in {stack.place}]]"},
    {NULL, "target.signal_name", "The program died of SIG{target.signal_name}"},
    {NULL, "hook.exception_type", "The program failed with {hook.exception_type}"},
    {NULL, NULL, "[[The program ended with exit code {target.exit_code}]]"},
};

static bool is_set(const struct facts *facts, const char *name)
{
    const struct fact *f = facts_best(facts, name);
    if (f == NULL || f->status != FACT_PRESENT)
        return false;
    return f->type == FACT_TEXT   ? f->text != NULL && f->text[0] != '\0'
           : f->type == FACT_REAL ? f->real > 0
                                  : f->integer != 0;
}

static bool all_set(const struct facts *facts, const char *names)
{
    char name[64];
    for (size_t len; names != NULL && *names != '\0'; names += len + strspn(names + len, " ")) {
        len = strcspn(names, " ");
        (void)snprintf(name, sizeof(name), "%.*s", (int)len, names);
        if (!is_set(facts, name))
            return false;
    }
    return true;
}

static bool fits_subject(const char *subject, const struct verdict *v)
{
    if (subject == NULL)
        return true;
    size_t len = strlen(v->class_name);
    if (strncmp(subject, v->class_name, len) != 0)
        return false;
    return subject[len] == '\0' || (subject[len] == '/' && v->subclass != NULL &&
                                    strcmp(subject + len + 1, v->subclass) == 0);
}

static const char *choose(const struct wording *rows, size_t count, const struct facts *facts,
                          const struct verdict *v)
{
    for (size_t i = 0; i < count; i++) {
        if (fits_subject(rows[i].subject, v) && all_set(facts, rows[i].needs))
            return rows[i].words;
    }
    return NULL;
}

#define CHOOSE(rows, facts, v) choose(rows, sizeof(rows) / sizeof((rows)[0]), facts, v)

static bool is_unknown(const struct verdict *v)
{
    return strcmp(v->class_name, "unknown") == 0;
}

static bool is_about_memory(const struct facts *facts, const struct verdict *v)
{
    for (size_t i = 0; i < sizeof(memory_classes) / sizeof(memory_classes[0]); i++) {
        if (strcmp(v->class_name, memory_classes[i]) == 0)
            return true;
    }
    bool is_refused = is_set(facts, "oom.requested_bytes") || is_set(facts, "oom.seen");
    return is_unknown(v) && is_refused &&
           !is_set(facts, "msg.exception_after_oom");
}

/* Adds "(gtt-limit, high confidence)", or the statement that the cause is not known. */
static void add_class(const struct verdict *v, struct buf *out)
{
    if (!is_unknown(v))
        buf_printf(out, " (%s, %s confidence)", v->class_name, v->confidence);
    else if (v->subclass != NULL && strcmp(v->subclass, "killed by SIGKILL") == 0)
        buf_puts(out, "; who sent it is not known");
    else if (v->subclass == NULL ||
             (strcmp(v->subclass, "nothing failed") != 0 && strcmp(v->subclass, "ended by SIGQUIT") != 0 && strcmp(v->subclass, "no failure shown") != 0 &&
              strncmp(v->subclass, "seen alive", 10) != 0))
        buf_puts(out, "; the cause is unknown");
}

void report_happened(const struct facts *facts, const struct verdict *v, struct buf *out)
{
    const char *words = CHOOSE(wordings, facts, v);
    if (words == NULL)
        words = is_about_memory(facts, v) ? CHOOSE(memory, facts, v) : CHOOSE(endings, facts, v);
    char *text = template_fill(words, facts, false);
    buf_puts(out, text != NULL && text[0] != '\0' ? text : "The program failed");
    free(text);
    add_class(v, out);
}
