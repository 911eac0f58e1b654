/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger of the library in the target (record/ledger.h), from the run directory's copy:
 * refusals and their reason, memory held at that moment, a size that only grew, the buffer of a
 * faulting address. It is enough for a verdict if the program printed no message.
 */
#include "collectors/ledger_json.h"
#include "collectors/ledger_view.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/names.h"
#include "collect/collector.h"
#include "diagnose/verdict.h"
#include "telemetry/machine.h"

#define SOURCE "ledger"
#define TEXT_MAX ((size_t)1 << 20)
#define KMSG_MAX ((size_t)4 << 20)

struct reading {
    const struct collect_ctx *ctx;
    struct collect_out *out;
    const struct ledger *ledger;
    const struct ledger_process *process;
    struct ledger_view view;
    struct ledger_failure failure;
    int gpu_index[LEDGER_GPUS];
};

static void put_integer(const struct reading *r, const char *name, enum fact_when when, uint64_t value,
                        const char *source)
{
    if (value <= INT64_MAX)
        collect_integer(r->out, name, when, (int64_t)value, source);
}

/* --- which GPU of the run --- */

static int index_of(const struct machine *machine, uint32_t kfd_gpu_id, uint32_t render_minor)
{
    for (uint32_t i = 0; i < machine->count; i++) {
        const struct gpu_info *gpu = &machine->gpus[i];
        if (kfd_gpu_id != 0 && (gpu->have & GPU_HAVE_KFD_GPU_ID) != 0 &&
            gpu->kfd_gpu_id == kfd_gpu_id)
            return (int)i;
        if (kfd_gpu_id == 0 && render_minor != 0 && (gpu->have & GPU_HAVE_RENDER_MINOR) != 0 &&
            gpu->render_minor == render_minor)
            return (int)i;
    }
    return -1;
}

static void find_gpus(struct reading *r)
{
    static struct machine machine;
    machine_scan_of_run(&machine, r->ctx->run_dir);
    for (unsigned i = 0; i < LEDGER_GPUS; i++) {
        const struct ledger_gpu *gpu = &r->ledger->gpus[i];
        r->gpu_index[i] = -1;
        if (LEDGER_STATE(gpu->state) != LEDGER_USED)
            continue;
        uint32_t same = gpu->same_as;
        r->gpu_index[i] = index_of(&machine, gpu->kfd_gpu_id, gpu->render_minor);
        if (r->gpu_index[i] < 0 && same > 0 && same <= LEDGER_GPUS)
            r->gpu_index[i] = index_of(&machine, r->ledger->gpus[same - 1].kfd_gpu_id,
                                       r->ledger->gpus[same - 1].render_minor);
    }
}

/* --- memory held --- */

static const char *view_source(const struct reading *r)
{
    return r->view.at_ns == LEDGER_AT_END ? SOURCE ": live set at the end"
                                          : SOURCE ": live set at the refusal";
}

static void put_live_of_gpus(const struct reading *r)
{
    for (unsigned gpu = 0; gpu < LEDGER_GPUS; gpu++) {
        char name[64];
        int64_t bytes = ledger_view_bytes(&r->view, LEDGER_VRAM, (int)gpu);
        if (r->gpu_index[gpu] < 0 || bytes == 0)
            continue;
        (void)snprintf(name, sizeof name, "gpu.%d.ledger_vram_bytes", r->gpu_index[gpu]);
        collect_integer(r->out, name, FACT_IMPACT, bytes, view_source(r));
    }
}

/* The ledger also notes who opened a model file. On a machine without KFD it holds nothing else. */
static bool has_gpu(const struct reading *r)
{
    for (unsigned i = 0; i < LEDGER_GPUS; i++)
        if (LEDGER_STATE(r->ledger->gpus[i].state) == LEDGER_USED)
            return true;
    return false;
}

static void put_held(const struct reading *r)
{
    if (!has_gpu(r)) {
        collect_missing(r->out, "ledger.vram.live_bytes", FACT_IMPACT, FACT_ABSENT,
                        "no process with the library opened an amdgpu GPU", SOURCE);
        return;
    }
    for (unsigned kind = 0; kind < LEDGER_KINDS; kind++) {
        char name[64];
        int64_t live = ledger_view_bytes(&r->view, (enum ledger_kind)kind, -1);
        int64_t peak = ledger_view_peak(&r->view, (enum ledger_kind)kind);
        bool always = kind == LEDGER_VRAM || kind == LEDGER_GTT || kind == LEDGER_USERPTR;
        if (!always && live == 0 && peak <= 0)
            continue;
        (void)snprintf(name, sizeof name, "ledger.%s.live_bytes", ledger_kind_name(kind));
        if (r->view.is_exact)
            collect_integer(r->out, name, FACT_IMPACT, live, view_source(r));
        else
            collect_missing(r->out, name, FACT_IMPACT, FACT_BLIND,
                            "more was allocated and freed since than the ledger remembers", SOURCE);
        if (peak >= 0)
            collect_integer(r->out, name, FACT_PEAK, peak, SOURCE ": account of the process");
    }
    put_live_of_gpus(r);
}

/* --- refusals --- */

static void put_limits(const struct reading *r, const struct ledger_refusal *refusal)
{
    if (refusal->fds_limit != 0) {
        put_integer(r, "ledger.refused.fds_count", FACT_IMPACT, refusal->fds, SOURCE ": at the refusal");
        put_integer(r, "ledger.refused.fds_limit", FACT_IMPACT, refusal->fds_limit,
                    SOURCE ": at the refusal");
    }
    if (refusal->mappings_limit != 0) {
        put_integer(r, "ledger.refused.maps_count", FACT_IMPACT, refusal->mappings,
                    SOURCE ": at the refusal");
        put_integer(r, "ledger.refused.maps_limit", FACT_IMPACT, refusal->mappings_limit,
                    SOURCE ": at the refusal");
    }
}

static void put_refusal(const struct reading *r, const struct ledger_refusal *refusal)
{
    static const char *const operations[] = {"alloc", "map", "import", "mmap"};
    static const char source[] = SOURCE ": the refused ioctl";
    const char *name = name_of_error(refusal->error);
    char flags[16];
    put_integer(r, "ledger.refused.size_bytes", FACT_IMPACT, refusal->size, source);
    put_integer(r, "ledger.refused.errno", FACT_IMPACT, refusal->error, source);
    collect_text(r->out, "ledger.refused.errno_name", FACT_IMPACT, name != NULL ? name : "?",
                 source);
    collect_text(r->out, "ledger.refused.kind", FACT_IMPACT, ledger_kind_name(refusal->kind),
                 source);
    (void)snprintf(flags, sizeof flags, "0x%08" PRIx32, refusal->flags);
    collect_text(r->out, "ledger.refused.flags", FACT_IMPACT, flags, source);
    collect_text(r->out, "ledger.refused.operation", FACT_IMPACT,
                 refusal->operation < 4 ? operations[refusal->operation] : "unknown", source);
    put_integer(r, "ledger.refused.tries_count", FACT_IMPACT, r->failure.tries, source);
    collect_integer(r->out, "ledger.refused.live_bytes", FACT_IMPACT, refusal->live,
                    SOURCE ": of that kind, this process, then");
    collect_integer(r->out, "ledger.refused.gpu_live_bytes", FACT_IMPACT, refusal->gpu_live,
                    SOURCE ": of that kind, all processes of the tree, then");
    if (refusal->gpu < LEDGER_GPUS && r->gpu_index[refusal->gpu] >= 0)
        collect_integer(r->out, "ledger.refused.gpu", FACT_IMPACT, r->gpu_index[refusal->gpu],
                        source);
    put_limits(r, refusal);
}

static void put_hip_refusal(const struct reading *r, const struct ledger_hip_refusal *hip)
{
    static const char source[] = SOURCE ": the HIP function that failed";
    char function[sizeof hip->function + 1];
    memcpy(function, hip->function, sizeof hip->function);
    function[sizeof hip->function] = '\0';
    collect_text(r->out, "ledger.hip.function", FACT_IMPACT, function, source);
    put_integer(r, "ledger.hip.size_bytes", FACT_IMPACT, hip->size, source);
    collect_integer(r->out, "ledger.hip.error", FACT_IMPACT, hip->error, source);
    collect_integer(r->out, "ledger.hip.device", FACT_IMPACT, hip->device, source);
    /* No ioctl was refused meanwhile: HIP itself refused. */
    collect_boolean(r->out, "ledger.hip.inside", FACT_IMPACT, hip->kernel_refusals == 0, source);
}

static void put_failure(const struct reading *r)
{
    const struct ledger_failure *f = &r->failure;
    bool refused = f->refusal != NULL || f->hip != NULL;
    collect_boolean(r->out, "ledger.refused", FACT_IMPACT, refused && !f->coped,
                    !refused   ? SOURCE ": nothing was refused"
                    : f->coped ? SOURCE ": refused, and at least a quarter of it allocated later"
                               : SOURCE ": refused for good");
    put_integer(r, "ledger.refusals_count", FACT_IMPACT, r->process->refusals, SOURCE);
    put_integer(r, "ledger.hip_refusals_count", FACT_IMPACT, r->process->hip_refusals, SOURCE);
    if (!refused)
        return;
    collect_boolean(r->out, "ledger.refused.coped", FACT_IMPACT, f->coped,
                    SOURCE ": at least a quarter of it was allocated later");
    if (r->ctx->end_mono_ns > f->at_ns)
        put_integer(r, "ledger.refused.age_ms", FACT_IMPACT, (r->ctx->end_mono_ns - f->at_ns) / 1000000u,
                    SOURCE ": before the end");
    if (f->refusal != NULL)
        put_refusal(r, f->refusal);
    if (f->hip != NULL)
        put_hip_refusal(r, f->hip);
}

/* --- a size that only grew --- */

static void put_growth(const struct reading *r)
{
    struct ledger_growth growth;
    ledger_find_growth(&r->view, &growth);
    if (growth.bytes == 0 || !r->view.is_exact)
        return;
    static const char source[] = SOURCE ": live buffers of one size";
    put_integer(r, "ledger.growth.size_bytes", FACT_IMPACT, growth.bytes, source);
    put_integer(r, "ledger.growth.live_count", FACT_IMPACT, growth.live_count, source);
    put_integer(r, "ledger.growth.live_bytes", FACT_IMPACT, growth.live_bytes, source);
    put_integer(r, "ledger.growth.allocations_count", FACT_IMPACT, growth.allocations, source);
    put_integer(r, "ledger.growth.frees_count", FACT_IMPACT, growth.frees, source);
    put_integer(r, "ledger.growth.interleaved_percent", FACT_IMPACT, growth.interleaved_percent,
                SOURCE ": of its buffers, before which others were given back");
    collect_text(r->out, "ledger.growth.kind", FACT_IMPACT, ledger_kind_name(growth.kind), source);
}

/* --- the buffer of a GPU fault --- */

static void put_rising(const struct reading *r)
{
    struct ledger_rising rising;
    const char *source = view_source(r);
    ledger_find_rising(&r->view, LEDGER_VRAM, &rising);
    if (rising.count == 0 || !r->view.is_exact)
        return;
    put_integer(r, "ledger.rising.count", FACT_IMPACT, rising.count, source);
    put_integer(r, "ledger.rising.sizes_count", FACT_IMPACT, rising.sizes, source);
    put_integer(r, "ledger.rising.live_bytes", FACT_IMPACT, rising.bytes, source);
    put_integer(r, "ledger.rising.largest_bytes", FACT_IMPACT, rising.largest, source);
}

static void read_into(struct facts *facts, const char *run_dir, const char *name, size_t max,
                      void (*parse)(struct facts *, const char *, size_t, const char *))
{
    char path[FS_PATH_MAX];
    RC_AUTO_FREE char *text = NULL;
    if (snprintf(path, sizeof path, "%s/%s", run_dir, name) >= (int)sizeof path)
        return;
    (void)fs_read_all(path, max, &text);
    if (text != NULL)
        parse(facts, text, strlen(text), name);
}

static bool fault_address(const struct reading *r, uint64_t *ret)
{
    static const char *const outputs[] = {"output.head", "output.0", "output.1"};
    static const char *const names[] = {"msg.memory_access_fault_address",
                                        "kmsg.page_fault_address"};
    struct facts *facts = facts_new();
    bool found = false;
    if (facts == NULL)
        return false;
    for (size_t i = 0; i < 3; i++)
        read_into(facts, r->ctx->run_dir, outputs[i], TEXT_MAX, messages_to_facts);
    read_into(facts, r->ctx->run_dir, "kmsg", KMSG_MAX, kernel_log_to_facts);
    for (size_t i = 0; i < 2 && !found; i++) {
        const char *text = NULL;
        char *end = NULL;
        if (!facts_get_text(facts, names[i], &text))
            continue;
        if (strstr(text, "nil") != NULL) {
            *ret = 0;
            found = true;
            continue;
        }
        *ret = strtoull(text, &end, 16);
        found = end != text;
    }
    facts_free(facts);
    return found;
}

static void put_fault(const struct reading *r)
{
    static const char *const places[] = {"elsewhere", "near null", "live", "freed", "past end"};
    struct ledger_fault fault;
    uint64_t address = 0;
    char text[32];
    if (!fault_address(r, &address))
        return;
    ledger_place_fault(&r->view, address, &fault);
    (void)snprintf(text, sizeof text, "0x%" PRIx64, address);
    collect_text(r->out, "ledger.fault.address", FACT_IMPACT, text, "the fault's message");
    collect_text(r->out, "ledger.fault.place", FACT_IMPACT, places[fault.place],
                 SOURCE ": the address among the buffers");
    if (fault.range == NULL)
        return;
    (void)snprintf(text, sizeof text, "0x%" PRIx64, fault.range->address);
    collect_text(r->out, "ledger.fault.buffer_start", FACT_IMPACT, text, SOURCE);
    put_integer(r, "ledger.fault.buffer_bytes", FACT_IMPACT, fault.range->bytes, SOURCE);
    put_integer(r, "ledger.fault.offset_bytes", FACT_IMPACT, fault.offset,
                fault.place == PLACE_PAST_END ? SOURCE ": past its end" : SOURCE ": into it");
    collect_text(r->out, "ledger.fault.buffer_kind", FACT_IMPACT,
                 ledger_kind_name(fault.range->kind), SOURCE);
    if (fault.range->freed_ns != 0 && r->ctx->end_mono_ns > fault.range->freed_ns)
        put_integer(r, "ledger.fault.freed_ms", FACT_IMPACT,
                    (r->ctx->end_mono_ns - fault.range->freed_ns) / 1000000u, SOURCE ": before the end");
}

/* --- the collector --- */

static enum collect_status write_json(const struct reading *r)
{
    cJSON *json = ledger_to_json(r->ledger, &r->view, r->gpu_index);
    char *text = cJSON_Print(json);
    cJSON_Delete(json);
    if (text == NULL)
        return collect_reason(r->out, COLLECT_PARTIAL, "no memory for ledger.json");
    int code = collect_write(r->out, "ledger.json", text, strlen(text));
    free(text);
    if (code < 0)
        return collect_reason(r->out, COLLECT_PARTIAL, "ledger.json: %s", strerror(-code));
    if (!r->view.is_exact)
        return collect_reason(r->out, COLLECT_PARTIAL,
                              "more happened after the failure than the ledger remembers");
    return COLLECT_OK;
}

static enum collect_status read_ledger(struct reading *r)
{
    uint32_t slot = ledger_find_process(r->ledger, r->ctx->failed_pid);
    put_integer(r, "ledger.attached_count", FACT_STATIC, r->ledger->attached, SOURCE);
    if (slot == LEDGER_NO_PROCESS)
        return r->ledger->attached == 0
                   ? collect_reason(r->out, COLLECT_SKIPPED, "the library was in no process")
                   : collect_reason(r->out, COLLECT_SKIPPED,
                                    "no process allocated GPU memory or was refused it");
    r->process = &r->ledger->processes[slot];
    collect_integer(r->out, "ledger.pid", FACT_STATIC, r->process->pid, SOURCE);
    find_gpus(r);
    ledger_find_failure(r->ledger, slot, &r->failure);
    uint64_t at_ns = r->failure.coped ? LEDGER_AT_END : r->failure.at_ns;
    if (ledger_view_make(&r->view, r->ledger, slot, at_ns) < 0)
        return collect_reason(r->out, COLLECT_FAILED, "out of memory");
    put_failure(r);
    put_held(r);
    put_growth(r);
    put_rising(r);
    put_fault(r);
    enum collect_status status = write_json(r);
    ledger_view_release(&r->view);
    return status;
}

static enum collect_status no_ledger(const struct collect_ctx *ctx, struct collect_out *out)
{
    if (ctx->ledger_error == NULL || ctx->ledger_error[0] == '\0')
        return collect_reason(out, COLLECT_SKIPPED, "nothing was noted in the ledger");
    return collect_reason(out, COLLECT_SKIPPED, "this run kept no ledger: %s", ctx->ledger_error);
}

static enum collect_status run(const struct collect_ctx *ctx, struct collect_out *out)
{
    char path[FS_PATH_MAX];
    struct rc_err err = {""};
    struct reading reading = {.ctx = ctx, .out = out};
    if (ctx->run_dir[0] == '\0' ||
        snprintf(path, sizeof path, "%s/ledger", ctx->run_dir) >= (int)sizeof path)
        return collect_reason(out, COLLECT_SKIPPED, "no run directory");
    RC_AUTO_CLOSE int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT ? no_ledger(ctx, out)
                               : collect_reason(out, COLLECT_FAILED, "ledger: %s", strerror(errno));
    reading.ledger = ledger_open(fd, &err);
    if (reading.ledger == NULL)
        return collect_reason(out, COLLECT_FAILED, "%s", err.msg);
    const char *damage = ledger_damage(reading.ledger);
    enum collect_status status = damage == NULL ? read_ledger(&reading)
                                                : collect_reason(out, COLLECT_FAILED, "damaged by the program, and not used: %s", damage);
    ledger_close(reading.ledger);
    return status;
}

const struct collector collector_ledger = {
    .name = "ledger",
    .describe = "GPU allocations: live set, peaks and refusals from the library in the target",
    .phase = COLLECT_QUICK,
    .needs_run = true,
    .deadline_ms = 2000,
    .max_bytes = 4u << 20,
    .run = run,
};
