/* SPDX-License-Identifier: Apache-2.0 */
/* One feature a row, with the facts that it is computed from, on both sides of its threshold.
 * tests/unit/tree tests the rules of the tree. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diagnose/fact.h"
#include "diagnose/features.h"
#include "diagnose/tree.h"
#include "shipped_computed.h"

#define GIB(n) (int64_t)((n) * 1073741824.0)
#define FACTS_IN 16

/* A number, or a text. */
struct given {
    const char *name;
    int64_t number;
    const char *text;
};

/* llama.cpp without its report, on one GPU of 140 GiB: 8 layers of 16 heads, 2048 wide: 64 KiB a token. */
#define ENGINE(part, request, before) ENGINE_OF(part, request, before, GIB(140))
#define ENGINE_OF(part, request, before, total)                                                    \
    {"oom.framework", 0, "llama.cpp"}, {"msg.ggml_refused_part", 0, part},                         \
        {"oom.requested_bytes", request, NULL}, {"gpu.count", 1, NULL}, {"models.count", 1, NULL}, \
        {"models.0.tensor_bytes", GIB(9), NULL}, {"models.0.block_count", 8, NULL},                \
        {"models.0.embedding_length", 2048, NULL}, {"models.0.head_count", 16, NULL},              \
        {"models.0.head_count_kv", 16, NULL}, {"gpu.0.vram.total_bytes", total, NULL},             \
        {"gpu.0.vram.used_bytes", before, NULL}
#define TOKENS(n) ((n) * INT64_C(65536))

static const struct {
    const char *feature;
    const char *want; /* as text; "" = it is not known */
    struct given given[FACTS_IN];
} rows[] = {
    /* Code for an ISA of the same generation runs, code for another generation does not. */
    {"f.override_gfx", "gfx1100", {{"env.HSA_OVERRIDE_GFX_VERSION", 0, "11.0.0"}}},
    {"f.override_gfx", "", {{"env.HSA_OVERRIDE_GFX_VERSION", 0, "11.0"}}},
    {"f.override_gfx", "", {{"env.HSA_OVERRIDE_GFX_VERSION", 0, "11.0.16"}}},
    {"f.override_differs",
     "1",
     {{"env.HSA_OVERRIDE_GFX_VERSION", 0, "11.0.0"}, {"gpu.0.gfx", 0, "gfx1103"}}},
    {"f.override_differs",
     "0",
     {{"env.HSA_OVERRIDE_GFX_VERSION", 0, "11.0.3"}, {"gpu.0.gfx", 0, "gfx1103"}}},
    {"f.override_generation_differs",
     "0",
     {{"env.HSA_OVERRIDE_GFX_VERSION", 0, "11.0.0"}, {"gpu.0.gfx", 0, "gfx1103"}}},
    {"f.override_generation_differs",
     "1",
     {{"env.HSA_OVERRIDE_GFX_VERSION", 0, "10.3.0"}, {"gpu.0.gfx", 0, "gfx1103"}}},
    {"f.override_differs", "", {{"env.HSA_OVERRIDE_GFX_VERSION", 0, "10.3.0"}}},
    /* There are two GPUs, and it is not known which one it was. */
    {"f.is_apu", "1", {{"report.gpu", 0, "Strix Halo 128 GB"}}},
    {"f.is_apu", "0", {{"report.gpu", 0, "RX 7900 XTX 24 GB"}}},
    {"f.is_apu", "", {{"report.gpu", 0, "R9700 eGPU + Strix Halo"}}},
    {"f.is_apu", "", {{"report.gpu", 0, "unknown"}}},
    {"f.is_apu", "1", {{"report.gpu", 0, "AMD, not told"}, {"report.apu_named", 1, NULL}}},
    {"f.is_apu", "", {{"report.gpu", 0, "AMD, not told"}}},
    {"f.is_apu", "0", {{"report.gpu", 0, "RX 7600"}, {"report.apu_named", 1, NULL}}},
    {"f.is_apu", "", {{"report.apu_named", 1, NULL}, {"report.card_named", 2, NULL}}},
    {"f.is_apu", "", {{"report.apu_named", 1, NULL}, {"msg.gfx", 0, "gfx1100"}}},
    /* The counter was read near the refusal, when memory had been freed or not all of it was taken. */
    {"f.vram_used_bytes", "950", {{"gpu.0.vram.used_bytes", 608, NULL}, {"ledger.refused", 1, NULL}, {"ledger.refused.kind", 0, "vram"}, {"ledger.refused.gpu", 0, NULL}, {"ledger.refused.gpu_live_bytes", 950, NULL}}},
    {"f.vram_used_bytes", "980", {{"gpu.0.vram.used_bytes", 980, NULL}, {"ledger.refused", 1, NULL}, {"ledger.refused.kind", 0, "vram"}, {"ledger.refused.gpu", 0, NULL}, {"ledger.refused.gpu_live_bytes", 950, NULL}}},
    {"f.vram_used_bytes", "608", {{"gpu.0.vram.used_bytes", 608, NULL}, {"ledger.refused", 0, NULL}, {"ledger.refused.kind", 0, "vram"}, {"ledger.refused.gpu", 0, NULL}, {"ledger.refused.gpu_live_bytes", 950, NULL}}},
    {"f.vram_used_bytes", "608", {{"gpu.0.vram.used_bytes", 608, NULL}, {"ledger.refused", 1, NULL}, {"ledger.refused.kind", 0, "gtt"}, {"ledger.refused.gpu", 0, NULL}, {"ledger.refused.gpu_live_bytes", 950, NULL}}},
    /* An APU's carve-out of 512 cannot hold 950: they are in the GTT, whatever the counter said a moment later. */
#define REFUSED_AT(live)                                                                           \
    {"ledger.refused", 1, NULL}, {"ledger.refused.gpu", 0, NULL}, {"ledger.refused.gpu_live_bytes", live, NULL}
    {"f.gtt_used_bytes", "950", {{"gpu.0.gtt.used_bytes", 0, NULL}, {"ledger.refused.kind", 0, "vram"}, {"gpu.0.is_apu", 1, NULL}, {"gpu.0.vram.total_bytes", 512, NULL}, REFUSED_AT(950)}},
    {"f.vram_used_bytes", "32", {{"gpu.0.vram.used_bytes", 32, NULL}, {"ledger.refused.kind", 0, "vram"}, {"gpu.0.vram.total_bytes", 512, NULL}, REFUSED_AT(950)}},
    {"f.gtt_used_bytes", "980", {{"gpu.0.gtt.used_bytes", 980, NULL}, {"ledger.refused.kind", 0, "vram"}, {"gpu.0.is_apu", 1, NULL}, {"gpu.0.vram.total_bytes", 512, NULL}, REFUSED_AT(950)}},
    {"f.gtt_used_bytes", "0", {{"gpu.0.gtt.used_bytes", 0, NULL}, {"ledger.refused.kind", 0, "vram"}, {"gpu.0.is_apu", 1, NULL}, {"gpu.0.vram.total_bytes", 4096, NULL}, REFUSED_AT(950)}},
    {"f.gtt_used_bytes", "0", {{"gpu.0.gtt.used_bytes", 0, NULL}, {"ledger.refused.kind", 0, "vram"}, {"gpu.0.is_apu", 0, NULL}, {"gpu.0.vram.total_bytes", 512, NULL}, REFUSED_AT(950)}},
    {"f.gtt_used_bytes", "950", {{"gpu.0.gtt.used_bytes", 0, NULL}, {"ledger.refused.kind", 0, "gtt"}, {"gpu.0.is_apu", 0, NULL}, {"gpu.0.vram.total_bytes", 4096, NULL}, REFUSED_AT(950)}},
    {"f.is_apu", "1", {{"msg.gfx", 0, "gfx1103"}}},
    {"f.is_apu", "1", {{"oom.total_bytes", 512 << 20, NULL}}},
    {"f.is_apu", "", {{"oom.total_bytes", (1 << 30) + 1, NULL}}},
    {"f.is_apu", "", {{"oom.total_bytes", 512 << 20, NULL}, {"msg.gfx", 0, "gfx803"}}},
    {"f.is_apu", "", {{"msg.gfx", 0, "gfx1103"}, {"msg.gfx_several", 1, NULL}}},
    {"f.is_apu", "", {{"msg.gfx", 0, "gfx1100"}}},
    {"f.is_apu", "0", {{"msg.gfx", 0, "gfx1103"}, {"report.gpu", 0, "RX 7900 XTX"}}},
    {"f.is_apu", "1", {{"kmsg.vram_ready_bytes", 512.0 * 0x1p20, NULL}}},
    {"f.is_apu", "", {{"kmsg.vram_ready_bytes", 512.0 * 0x1p20, NULL}, {"msg.gfx", 0, "gfx1100"}}},
    {"f.is_apu", "", {{"kmsg.vram_ready_bytes", 512.0 * 0x1p20, NULL}, {"oom.total_bytes", 15.98 * 0x1p30, NULL}}},
    {"f.is_apu", "1", {{"kmsg.vram_ready_bytes", 512.0 * 0x1p20, NULL}, {"oom.total_bytes", 15.5 * 0x1p30, NULL},
                       {"kmsg.gtt_ready_bytes", 15.5 * 0x1p30, NULL}}},
    {"f.is_apu", "1", {{"gpu.0.vram.total_bytes", 0x1p30, NULL}}},
    {"f.is_apu", "", {{"gpu.0.vram.total_bytes", 0x1p31, NULL}}},
    {"f.is_apu", "0", {{"report.gpu", 0, "Strix Halo"}, {"gpu.0.is_apu", 0, NULL}}},
    /* The memory that programs can get is an estimate. The memory that this program held is certain. */
#define LEDGER(held)                                                                               \
    {"ledger.pid", 7, NULL}, {"gpu.count", 1, NULL}, {"gpu.0.vram.total_bytes", GIB(16), NULL},    \
        {"ledger.vram.live_bytes", held, NULL}, {"ledger.hip.size_bytes", 1048576, NULL}
    {"f.ledger_room_bytes", "17008070492", {LEDGER(GIB(8))}},
    {"f.ledger_room_bytes", "17072917053", {LEDGER(INT64_C(17072917053))}},
    /* People read the driver's figure where it is less than the need, else the estimate. */
    {"f.ledger_usable_bytes", "17129537536", {LEDGER(INT64_C(17129537536)), {"gpu.0.drm.vram_usable_bytes", INT64_C(17129537536), NULL}}},
    {"f.ledger_usable_bytes", "", {LEDGER(INT64_C(17072917053)), {"gpu.0.drm.vram_usable_bytes", INT64_C(17129537536), NULL}}},
    {"f.ledger_estimated_bytes", "17072917053", {LEDGER(INT64_C(17072917053)), {"gpu.0.drm.vram_usable_bytes", INT64_C(17129537536), NULL}}},
    {"f.ledger_estimated_bytes", "", {LEDGER(INT64_C(17129537536)), {"gpu.0.drm.vram_usable_bytes", INT64_C(17129537536), NULL}}},
    /* The user's cap, if it is valid; else the version's. */
    {"f.alloc_cap_percent", "50", {{"env.GPU_SINGLE_ALLOC_PERCENT", 0, "50"}}},
    {"f.alloc_cap_percent", "", {{"env.GPU_SINGLE_ALLOC_PERCENT", 0, "50%"}}},
    {"f.alloc_cap_percent", "", {{"env.GPU_SINGLE_ALLOC_PERCENT", 0, "0"}}},
    {"f.alloc_cap_percent", "", {{"env.GPU_SINGLE_ALLOC_PERCENT", 0, "101"}}},
    {"f.alloc_cap_percent", "85", {{"software.rocm_version", 0, "6.3.4"}}},
    {"f.alloc_cap_percent", "100", {{"software.rocm_version", 0, "6.4.0"}}},
    /* The allocator's options count only in a variable that this PyTorch reads. */
    {"f.alloc.conf", "a:1", {{"env.PYTORCH_ALLOC_CONF", 0, "a:1"}, {"env.PYTORCH_HIP_ALLOC_CONF", 0, "b:1"}}},
    {"f.alloc.conf", "a:1", {{"env.PYTORCH_ALLOC_CONF", 0, "a:1"}, {"env.PYTORCH_HIP_ALLOC_CONF", 0, "b:1"}, {"software.torch_version", 0, "2.9.0"}}},
    {"f.alloc.conf", "b:1", {{"env.PYTORCH_ALLOC_CONF", 0, "a:1"}, {"env.PYTORCH_HIP_ALLOC_CONF", 0, "b:1"}, {"software.torch_version", 0, "2.8.0"}}},
    {"f.alloc.conf", "c:1", {{"env.PYTORCH_CUDA_ALLOC_CONF", 0, "c:1"}, {"env.PYTORCH_HIP_ALLOC_CONF", 0, "b:1"}, {"software.torch_version", 0, "2.8.0"}}},
    {"f.alloc.conf", "b:1", {{"env.PYTORCH_CUDA_ALLOC_CONF", 0, "c:1"}, {"env.PYTORCH_HIP_ALLOC_CONF", 0, "b:1"}, {"software.torch_version", 0, "2.6.0"}}},
    {"f.alloc.conf", "c:1", {{"env.PYTORCH_CUDA_ALLOC_CONF", 0, "c:1"}, {"software.torch_version", 0, "2.6.0"}, {"f.vendor", 0, "nvidia"}}},
    {"f.alloc.conf", "", {{"env.PYTORCH_HIP_ALLOC_CONF", 0, "b:1"}, {"software.torch_version", 0, "2.12.0"}, {"f.vendor", 0, "nvidia"}}},
    {"f.alloc.conf", "", {{"software.torch_version", 0, "2.12.0"}}},
    /* Without a device in the message: the fullest GPU. */
    {"f.gpu",
     "1",
     {{"gpu.count", 3, NULL},
      {"gpu.0.vram.total_bytes", 100, NULL},
      {"gpu.0.vram.used_bytes", 20, NULL},
      {"gpu.1.vram.total_bytes", 100, NULL},
      {"gpu.1.vram.used_bytes", 90, NULL},
      {"gpu.2.vram.total_bytes", 1000, NULL},
      {"gpu.2.vram.used_bytes", 500, NULL}}},
    /* A difference of rounded figures is as rough as they are. */
    {"f.shortfall_about_bytes", "272629760", {{"oom.requested_bytes", 1696512737, NULL}, {"oom.free_bytes", 987758592, NULL}, {"f.idle_bytes", 432013312, NULL}}},
    {"f.shortfall_about_bytes", "1395864371", {{"oom.requested_bytes", GIB(2), NULL}, {"oom.free_bytes", 700000000, NULL}, {"f.idle_bytes", 1000000, NULL}}},
    {"f.shortfall_about_bytes", "5242880", {{"oom.requested_bytes", 10485760, NULL}, {"oom.free_bytes", 5242880, NULL}, {"f.idle_bytes", 0, NULL}}},
    {"f.shortfall_about_bytes", "", {{"oom.requested_bytes", 10, NULL}, {"oom.free_bytes", 20, NULL}, {"f.idle_bytes", 0, NULL}}},
    /* No GPU, unless somebody speaks of one: an open file, the ledger, the kernel log; or it is no run of ours. */
    {"f.no_gpu", "1", {{"run.program", 0, "a"}, {"gpu.present", 0, NULL}, {"proc.0.uses_gpu", 0, NULL}}},
    {"f.no_gpu", "", {{"run.program", 0, "a"}, {"gpu.present", 1, NULL}, {"proc.0.uses_gpu", 0, NULL}}},
    {"f.no_gpu", "", {{"run.program", 0, "a"}, {"gpu.present", 0, NULL}, {"proc.0.uses_gpu", 1, NULL}}},
    {"f.no_gpu", "", {{"run.program", 0, "a"}, {"gpu.present", 0, NULL}}},
    {"f.no_gpu", "", {{"run.program", 0, "a"}, {"gpu.present", 0, NULL}, {"proc.0.uses_gpu", 0, NULL}, {"ledger.refused", 1, NULL}}},
    {"f.no_gpu", "", {{"run.program", 0, "a"}, {"gpu.present", 0, NULL}, {"proc.0.uses_gpu", 0, NULL}, {"kmsg.first_bad", 0, "gpu-hang"}}},
    {"f.no_gpu", "", {{"gpu.present", 0, NULL}, {"proc.0.uses_gpu", 0, NULL}}},
    {"f.no_gpu", "", {{"run.program", 0, "a"}, {"gpu.present", 0, NULL}, {"proc.0.uses_gpu", 0, NULL}, {"torch.reserved_bytes", 5, NULL}}},
    /* The OOM killer's line names the process that died of SIGKILL; or it was another signal, or another process. */
    {"f.sigkill_by_oom",
     "1",
     {{"target.failed_signal", 9, NULL},
      {"target.failed_pid", 4711, NULL},
      {"kmsg.oom_kill_pid", 4711, NULL}}},
    {"f.sigkill_by_oom",
     "0",
     {{"target.failed_signal", 9, NULL},
      {"target.failed_pid", 4711, NULL},
      {"kmsg.oom_kill_pid", 99, NULL}}},
    {"f.sigkill_by_oom",
     "",
     {{"target.failed_signal", 11, NULL},
      {"target.failed_pid", 4711, NULL},
      {"kmsg.oom_kill_pid", 4711, NULL}}},
    /* "Process P has M in use" means this process: both together would not fit. */
    {"f.holder_is_self",
     "1",
     {{"oom.holder_bytes", GIB(20), NULL},
      {"oom.total_bytes", GIB(24), NULL},
      {"oom.allocated_bytes", GIB(18), NULL},
      {"oom.reserved_unallocated_bytes", GIB(1), NULL}}},
    {"f.holder_is_self",
     "0",
     {{"oom.holder_bytes", GIB(10), NULL},
      {"oom.total_bytes", GIB(24), NULL},
      {"oom.allocated_bytes", GIB(12), NULL},
      {"oom.reserved_unallocated_bytes", GIB(1), NULL}}},
    {"f.eps_bytes", "268435456", {{"oom.total_bytes", GIB(16), NULL}}},
    {"f.eps_bytes", "687194767", {{"oom.total_bytes", GIB(64), NULL}}},
    {"f.eps_bytes", "268435456", {{"report.gpu", 0, "x"}}},
    /* Half of RAM lies a little below a power of two. A carve-out is exact. A small one does not count. */
    {"f.budget_looks_like_half_ram", "1", {{"oom.total_bytes", GIB(62.5), NULL}}},
    {"f.budget_looks_like_half_ram", "1", {{"oom.total_bytes", GIB(15.49), NULL}}},
    {"f.budget_looks_like_half_ram", "0", {{"oom.total_bytes", GIB(16), NULL}}},
    {"f.budget_looks_like_half_ram", "0", {{"oom.total_bytes", GIB(3.9), NULL}}},
    {"f.budget_is_half_ram",
     "1",
     {{"oom.total_bytes", GIB(45), NULL}, {"host.mem_total_bytes", GIB(100), NULL}}},
    {"f.budget_is_half_ram",
     "0",
     {{"oom.total_bytes", GIB(44), NULL}, {"host.mem_total_bytes", GIB(100), NULL}}},
    {"f.budget_is_half_ram",
     "0",
     {{"oom.total_bytes", GIB(56), NULL}, {"host.mem_total_bytes", GIB(100), NULL}}},
    /* The size that a reporter gives for an APU is its RAM without the carve-out. */
    {"f.ram_bytes", "137438953472", {{"report.gpu", 0, "Strix Halo 128 GB"}}},
    {"f.ram_bytes", "", {{"report.gpu", 0, "780M, 6 GB carve-out"}}},
    {"f.ram_bytes", "", {{"report.gpu", 0, "RX 7900 XTX 24 GB"}}},
    {"f.reported_vram_bytes", "25769803776", {{"report.gpu", 0, "RX 7900 XTX 24 GB"}}},
    /* An engine that printed no report of its memory: by the model's header. 0.75 GiB is the
     * runtime's own, 32 KiB a token are scores, a tenth is for buffers: (140 - 9 - 0.75) / 1.1 GiB
     * / 96 KiB. */
    {"f.engine_fits_context_count", "1293312", {ENGINE("KV cache", TOKENS(3145728), 0)}},
    {"f.engine_asked_context_count", "3145728", {ENGINE("KV cache", TOKENS(3145728), 0)}},
    {"f.engine_room_bytes", "150323855360", {ENGINE("KV cache", TOKENS(3145728), 0)}},
    /* not all layers for a possible context: some are on another device */
    {"f.engine_part", "", {ENGINE("KV cache", TOKENS(3145728) + 65536, 0)}},
    {"f.engine_part", "", {ENGINE("compute buffer", GIB(141), 0)}},
    /* the line that names the part was lost */
    {"f.engine_part", "KV cache", {ENGINE("", TOKENS(3145728), 0)}},
    {"f.engine_part", "weights", {ENGINE("", GIB(9) * 81 / 100 + 1, 0)}},
    {"f.engine_part", "", {ENGINE("", GIB(9) * 79 / 100 + 1, 0)}},
    {"f.engine_part", "", {ENGINE("", GIB(9) * 102 / 100 + 1, 0)}},
    /* 1 GiB a layer, and a tenth */
    {"f.engine_fits_layers_count", "", {ENGINE("weights", GIB(141), 0)}},
    {"f.engine_fits_layers_count", "6", {ENGINE_OF("weights", GIB(9), 0, GIB(7.5))}},
    {"f.engine_layers_count", "8", {ENGINE_OF("weights", GIB(9), 0, GIB(7.5))}},
    {"f.engine_device_bytes", "150323855360", {ENGINE("weights", GIB(141), 0)}},
    /* the report, where there is one, counts */
    {"f.engine_weights_bytes",
     "8589934592",
     {ENGINE("KV cache", TOKENS(3145728), 0),
      {"msg.ggml_devices_count", 1, NULL},
      {"msg.ggml_model_buffer_bytes", GIB(8), NULL}}},
    /* heads of a width of their own; a window; one vector for K and V */
    {"f.engine_asked_context_count",
     "2097152",
     {ENGINE("KV cache", TOKENS(3145728), 0),
      {"models.0.key_length", 192, NULL},
      {"models.0.value_length", 192, NULL}}},
    {"f.engine_part",
     "",
     {ENGINE("KV cache", TOKENS(3145728), 0), {"models.0.sliding_window", 4096, NULL}}},
    {"f.engine_asked_context_count",
     "3145728",
     {ENGINE("KV cache", TOKENS(3145728), 0), {"models.0.sliding_window", 0, NULL}}},
    {"f.engine_part",
     "",
     {ENGINE("KV cache", TOKENS(3145728), 0), {"models.0.latent_rank", 512, NULL}}},
};

static void derived(const struct given *given, const char *feature, char *out, size_t size)
{
    struct facts *facts = facts_new();
    for (size_t i = 0; i < FACTS_IN && given[i].name != NULL; i++) {
        /* a counter's reading is also used for the one before the start */
        if (given[i].text == NULL && strcmp(given[i].name, "gpu.0.vram.used_bytes") == 0)
            (void)facts_set_integer(facts, given[i].name, FACT_BASELINE, given[i].number, "test");
        int r = given[i].text != NULL
                    ? facts_set_text(facts, given[i].name, FACT_IMPACT, given[i].text, "test")
                    : facts_set_integer(facts, given[i].name, FACT_IMPACT, given[i].number, "test");
        assert_int_equal(r, 0);
    }
    features_derive(facts, computed);
    const struct fact *f = facts_best(facts, feature);
    const char *text = "";
    int64_t number = 0;
    out[0] = '\0';
    if (f != NULL && f->status == FACT_PRESENT && facts_get_text(facts, feature, &text))
        (void)snprintf(out, size, "%s", text);
    else if (f != NULL && f->status == FACT_PRESENT && facts_get_integer(facts, feature, &number))
        (void)snprintf(out, size, "%lld", (long long)number);
    else if (f != NULL && f->status == FACT_PRESENT)
        (void)snprintf(out, size, "another type");
    facts_free(facts);
}

static void test_each_feature(void **state)
{
    (void)state;
    size_t failures = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char got[128];
        derived(rows[i].given, rows[i].feature, got, sizeof got);
        if (strcmp(got, rows[i].want) != 0) {
            print_error("row %zu, %s: '%s', not '%s'\n", i, rows[i].feature, got, rows[i].want);
            failures++;
        }
    }
    assert_int_equal(failures, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_feature)};
    return cmocka_run_group_tests(tests, read_computed, free_computed);
}
