/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of SUMMARY.md made by C: the machine, the tables of facts, the missing facts. */
#include "tree_fixture.h"

#include "base/buf.h"
#include "diagnose/fact.h"
#include "diagnose/verdict.h"
#include "report/internal.h"
#include "report/report.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#define GIB (INT64_C(1) << 30)

static int set_up(void **state)
{
    *state = facts_new();
    return 0;
}

static int tear_down(void **state)
{
    facts_free(*state);
    return 0;
}

static void put_vram(struct facts *facts, int gpu, int64_t total, int64_t visible)
{
    static const char *const names[] = {"vram", "vram_visible"};
    for (int i = 0; i < 2; i++) {
        char name[64];
        (void)snprintf(name, sizeof(name), "gpu.%d.%s.total_bytes", gpu, names[i]);
        facts_set_integer(facts, name, FACT_STATIC, i == 0 ? total : visible, "s");
        (void)snprintf(name, sizeof(name), "gpu.%d.%s.used_bytes", gpu, names[i]);
        facts_set_integer(facts, name, FACT_PEAK, GIB / 8, "s");
    }
}

static void assert_says(struct buf *out, const char *words)
{
    if (strstr(buf_str(out), words) == NULL)
        fail_msg("no '%s' in '%.2000s'", words, buf_str(out));
}

static void assert_silent(struct buf *out, const char *words)
{
    if (strstr(buf_str(out), words) != NULL)
        fail_msg("'%s' in '%.2000s'", words, buf_str(out));
}

static void machine_line_counts_gpus_of_a_kind(void **state)
{
    static const char *const targets[] = {"gfx1100", "gfx1100", "gfx1036"};
    struct facts *facts = *state;
    struct buf out = BUF_INIT;
    report_machine_line(facts, &out);
    assert_string_equal(buf_str(&out), "");
    facts_set_integer(facts, "gpu.count", FACT_STATIC, 3, "s");
    for (int gpu = 0; gpu < 3; gpu++) {
        char name[64];
        (void)snprintf(name, sizeof(name), "gpu.%d.gfx", gpu);
        facts_set_text(facts, name, FACT_STATIC, targets[gpu], "s");
        (void)snprintf(name, sizeof(name), "gpu.%d.vram.total_bytes", gpu);
        facts_set_integer(facts, name, FACT_STATIC, gpu < 2 ? 24 * GIB : GIB / 2, "s");
    }
    facts_set_boolean(facts, "gpu.2.is_apu", FACT_STATIC, true, "s");
    facts_set_integer(facts, "host.mem_total_bytes", FACT_STATIC, 64 * GIB, "s");
    facts_set_text(facts, "host.kernel", FACT_STATIC, "6.8.0-60-generic", "s");
    report_machine_line(facts, &out);
    assert_string_equal(buf_str(&out),
                        "2 x gfx1100 (24.00 GiB), gfx1036 (APU, carve-out 512.0 MiB), "
                        "RAM 64.00 GiB; Linux 6.8.0-60-generic");
    buf_release(&out);
}

/* Each name has one row; a value is printed once for all its moments. */
static void table_merges_the_moments(void **state)
{
    static const char *const prefixes[] = {"gpu.", NULL};
    struct facts *facts = *state;
    struct buf out = BUF_INIT;
    facts_set_integer(facts, "gpu.0.gtt.used_bytes", FACT_BASELINE, GIB, "gtt");
    facts_set_integer(facts, "gpu.0.gtt.used_bytes", FACT_PEAK, 4 * GIB, "gtt");
    facts_set_integer(facts, "gpu.0.gtt.used_bytes", FACT_IMPACT, 4 * GIB, "gtt");
    facts_set_integer(facts, "gpu.0.mclk_mhz", FACT_BASELINE, 96, "clock");
    facts_set_integer(facts, "gpu.0.mclk_mhz", FACT_AFTER, 96, "clock");
    facts_set_text(facts, "gpu.0.gfx", FACT_STATIC, "gfx90a", "kfd");
    facts_set_missing(facts, "gpu.0.vbios", FACT_STATIC, FACT_UNREADABLE, "permission denied", "s");
    facts_set_missing(facts, "f.limit_bytes", FACT_STATIC, FACT_ABSENT, "not computed: gpu.count",
                      "s");
    report_fact_table(facts, prefixes, 160, &out);
    assert_says(&out, "| 1.00 GiB before; 4.00 GiB peak, at the failure |  | gtt |");
    assert_says(&out, "| 96 | before, after | clock |");
    assert_says(&out, "| gpu.0.gfx | `gfx90a` |  | kfd |");
    assert_says(&out, "| unreadable: permission denied |");
    assert_silent(&out, "not computed");
    buf_release(&out);
}

/* An exception's text is cut to a sentence or two. */
static void a_long_text_is_whole(void **state)
{
    static const char *const prefixes[] = {"hook.", NULL};
    struct facts *facts = *state;
    struct buf out = BUF_INIT;
    char text[401];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    facts_set_text(facts, "hook.exception_message", FACT_LOG, text, "hook");
    report_fact_table(facts, prefixes, 160, &out);
    assert_says(&out, text);
    buf_release(&out);
}

/* GitHub takes 65,536 characters. */
static void a_summary_fits_an_issue(void **state)
{
    static const char *const tops[] = {"env", "gpu", "host", "proc", "software", "msg"};
    struct facts *facts = *state;
    struct verdict v = {0};
    struct tree *tree = fixture_tree();
    struct buf out = BUF_INIT;
    char *text = fixture_read("templates/summary.md");
    char value[301];
    memset(value, 'v', sizeof(value) - 1);
    value[sizeof(value) - 1] = '\0';
    for (int i = 0; i < 900; i++) {
        char name[64];
        (void)snprintf(name, sizeof(name), "%s.name_%d", tops[i % 6], i);
        facts_set_text(facts, name, FACT_STATIC, value, "s");
    }
    assert_int_equal(diagnose(facts, tree, &v, NULL), 0);
    struct report_input in = {
        .facts = facts, .verdict = &v, .template_text = text, .tool_version = "0"};
    report_summary(&in, &out);
    assert_in_range(out.len, 20000, 60000);
    assert_says(&out, "more in facts.json");
    assert_says(&out, "rocmcrash 0");
    buf_release(&out);
    free(text);
    verdict_release(&v);
    tree_free(tree);
}

/* A fact of no table is still listed; facts that were not computed are only counted. */
static void other_facts_are_shown(void **state)
{
    static const char *const prefixes[] = {"gpu.", NULL};
    struct facts *facts = *state;
    struct buf out = BUF_INIT;
    facts_set_text(facts, "gpu.0.gfx", FACT_STATIC, "gfx90a", "kfd");
    report_other_facts(facts, prefixes, 160, &out);
    assert_string_equal(buf_str(&out), "");
    facts_set_text(facts, "new.thing", FACT_STATIC, "yes", "somewhere");
    facts_set_missing(facts, "new.sum", FACT_STATIC, FACT_ABSENT, "not computed: a (not known)",
                      "s");
    report_other_facts(facts, prefixes, 160, &out);
    assert_says(&out, "| new.thing | `yes` |  | somewhere |");
    assert_says(&out, "1 more is absent");
    assert_silent(&out, "gfx90a");
    buf_release(&out);
}

static void every_collector_has_a_table(void **state)
{
    static const char *const names[] = {"models.0.name",    "proc.0.rss_bytes", "torch.stats.ooms",
                                        "stack.0.function", "job.id",           "hook.note",
                                        "host.kernel"};
    struct facts *facts = *state;
    struct verdict v = {0};
    struct tree *tree = fixture_tree();
    struct buf out = BUF_INIT;
    char *text = fixture_read("templates/summary.md");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        facts_set_text(facts, names[i], FACT_STATIC, "here", "s");
    assert_int_equal(diagnose(facts, tree, &v, NULL), 0);
    struct report_input in = {
        .facts = facts, .verdict = &v, .template_text = text, .tool_version = "0"};
    report_summary(&in, &out);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char cell[80];
        (void)snprintf(cell, sizeof(cell), "| %s | `here` |", names[i]);
        assert_says(&out, cell);
    }
    assert_says(&out, "<summary>Model files</summary>");
    assert_silent(&out, "<summary>Other facts</summary>");
    buf_release(&out);
    free(text);
    verdict_release(&v);
    tree_free(tree);
}

static void missing_is_told_in_words(void **state)
{
    (void)state;
    static char raw[] = "rises beside PyTorch: not known", words[] = "The kernel log: no permission.";
    const struct verdict v = {.missing = {.count = 1, .text = {raw}}, .lacks = {.count = 1, .text = {words}}};
    struct buf out = BUF_INIT;
    report_missing(&v, &out);
    assert_says(&out, "- The kernel log: no permission.\n");
    assert_silent(&out, "rises beside");
    buf_release(&out);
}

static void ledger_sentences(void **state)
{
    struct facts *facts = *state;
    struct buf out = BUF_INIT;
    facts_set_integer(facts, "ledger.growth.size_bytes", FACT_STATIC, GIB / 8, "ledger");
    facts_set_text(facts, "ledger.growth.kind", FACT_STATIC, "VRAM", "ledger");
    facts_set_integer(facts, "ledger.growth.live_count", FACT_STATIC, 96, "ledger");
    facts_set_integer(facts, "ledger.growth.live_bytes", FACT_STATIC, 12 * GIB, "ledger");
    facts_set_integer(facts, "ledger.growth.allocations_count", FACT_STATIC, 100, "ledger");
    facts_set_integer(facts, "ledger.growth.frees_count", FACT_STATIC, 4, "ledger");
    facts_set_text(facts, "ledger.fault.place", FACT_STATIC, "freed", "ledger");
    facts_set_text(facts, "ledger.fault.address", FACT_STATIC, "0x7f00", "ledger");
    facts_set_integer(facts, "ledger.fault.offset_bytes", FACT_STATIC, 4096, "ledger");
    facts_set_integer(facts, "ledger.fault.buffer_bytes", FACT_STATIC, GIB, "ledger");
    facts_set_text(facts, "ledger.fault.buffer_start", FACT_STATIC, "0x6f00", "ledger");
    report_ledger(facts, &out);
    assert_says(&out, "- 96 live buffers of 128.0 MiB (VRAM) make up 12.00 GiB; of that size 100 "
                      "were allocated and 4 freed\n");
    assert_says(&out, "lies 4.0 KiB into a buffer of 1.00 GiB at 0x6f00 that was freed\n");
    facts_set_integer(facts, "ledger.fault.freed_ms", FACT_STATIC, 1500, "ledger");
    buf_release(&out);
    report_ledger(facts, &out);
    assert_says(&out, "that was freed 1.5 s before the end\n");
    buf_release(&out);
}

/* JAX is shown if the program uses it, not if it is only installed. */
static void machine_line_of_nvidia_and_jax(void **state)
{
    struct facts *facts = *state;
    struct buf out = BUF_INIT;
    facts_set_integer(facts, "gpu.count", FACT_STATIC, 1, "s");
    facts_set_text(facts, "gpu.0.driver", FACT_STATIC, "nvidia", "s");
    facts_set_text(facts, "gpu.0.name", FACT_STATIC, "NVIDIA H200", "s");
    facts_set_text(facts, "gpu.0.driver_version", FACT_STATIC, "580.159.04", "s");
    facts_set_text(facts, "software.jax_version", FACT_STATIC, "0.11.2", "s");
    report_machine_line(facts, &out);
    assert_string_equal(buf_str(&out), "NVIDIA H200; NVIDIA driver 580.159.04");
    buf_release(&out);
    buf_init(&out, 0);
    facts_set_text(facts, "jax.platforms", FACT_STATIC, "cuda,cpu", "s");
    report_machine_line(facts, &out);
    assert_string_equal(buf_str(&out), "NVIDIA H200; NVIDIA driver 580.159.04; JAX 0.11.2");
    buf_release(&out);
}

/* Large BAR: all of VRAM is visible, and its row would be printed twice. */
static void visible_vram_is_a_row_only_where_it_is_smaller(void **state)
{
    struct facts *facts = *state;
    struct buf out = BUF_INIT;
    put_vram(facts, 0, 16 * GIB, 16 * GIB);
    put_vram(facts, 1, 16 * GIB, GIB / 4);
    report_memory_table(facts, &out);
    assert_says(&out, "| GPU 0 VRAM | 16.00 GiB | – | 128.0 MiB | – | – | s |");
    assert_silent(&out, "GPU 0 VRAM visible to the CPU");
    assert_says(&out, "| GPU 1 VRAM visible to the CPU | 256.0 MiB |");
    buf_release(&out);
}

/* f.gpu alone may be a guess: the fullest GPU. */
static void the_gpu_without_memory_is_marked(void **state)
{
    struct facts *facts = *state;
    struct buf out = BUF_INIT;
    put_vram(facts, 0, 16 * GIB, 16 * GIB);
    put_vram(facts, 1, 16 * GIB, GIB / 4);
    facts_set_integer(facts, "gpu.count", FACT_STATIC, 2, "s");
    facts_set_integer(facts, "f.gpu", FACT_IMPACT, 1, "s");
    report_memory_table(facts, &out);
    assert_silent(&out, "refused");
    buf_release(&out);
    facts_set_integer(facts, "oom.device", FACT_LOG, 1, "s");
    report_memory_table(facts, &out);
    assert_says(&out, "| GPU 0 VRAM |");
    assert_says(&out, "| GPU 1, where memory was refused: VRAM |");
    assert_says(&out, "| GPU 1 VRAM visible to the CPU |");
    buf_release(&out);
}

/* KFD, DRM and the ledger count the same memory: one row where they agree. */
static void counters_that_agree_share_a_row(void **state)
{
    struct facts *facts = *state;
    struct buf out = BUF_INIT;
    facts_set_integer(facts, "proc.0.kfd_vram_bytes", FACT_IMPACT, 8 * GIB, "kfd");
    facts_set_integer(facts, "proc.0.drm_vram_bytes", FACT_IMPACT, 6 * GIB, "drm");
    facts_set_integer(facts, "ledger.vram.live_bytes", FACT_IMPACT, 8 * GIB, "ledger");
    facts_set_integer(facts, "ledger.gtt.live_bytes", FACT_IMPACT, GIB, "ledger");
    report_memory_table(facts, &out);
    assert_says(&out,
                "| failed process, VRAM by KFD, the ledger | – | – | – | 8.00 GiB | – | kfd |");
    assert_says(&out, "| failed process, VRAM by DRM | – | – | – | 6.00 GiB | – | drm |");
    assert_says(&out, "| failed process, GTT by the ledger |");
    assert_silent(&out, "GTT by DRM");
    buf_release(&out);
}

/* A figure above the total of VRAM is explained. */
static void kfd_counts_an_apus_gtt_as_vram(void **state)
{
    struct facts *facts = *state;
    struct buf out = BUF_INIT;
    facts_set_integer(facts, "proc.0.kfd_vram_bytes", FACT_IMPACT, 8 * GIB, "kfd");
    facts_set_integer(facts, "f.vram_total_bytes", FACT_IMPACT, GIB, "driver");
    report_memory_table(facts, &out);
    assert_says(&out, "| failed process, VRAM by KFD |");
    buf_release(&out);
    facts_set_boolean(facts, "f.is_apu", FACT_IMPACT, true, "driver");
    report_memory_table(facts, &out);
    assert_says(&out, "| failed process, VRAM by KFD, which counts GTT as VRAM on an APU |");
    buf_release(&out);
}

static void a_flat_line_is_not_drawn(void **state)
{
    (void)state;
    uint64_t low[] = {0, 1, 5};
    uint64_t full[] = {900, UINT64_MAX, 901};
    uint64_t high[] = {0, 600, 1000};
    struct report_series series[] = {
        {.label = "flat", .total_bytes = 1000, .count = 3, .values = low, .duration_ms = 1000},
        {.label = "flat too", .total_bytes = 1000, .count = 3, .values = full, .duration_ms = 1000},
        {.label = "steep", .total_bytes = 1000, .count = 3, .values = high, .duration_ms = 1000}};
    struct report_input in = {.series = series, .series_count = 3};
    struct buf out = BUF_INIT;
    report_sparklines(&in, &out);
    assert_silent(&out, "flat");
    assert_says(&out, "steep");
    buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(machine_line_counts_gpus_of_a_kind, set_up, tear_down),
        cmocka_unit_test_setup_teardown(machine_line_of_nvidia_and_jax, set_up, tear_down),
        cmocka_unit_test_setup_teardown(table_merges_the_moments, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_facts_are_shown, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_collector_has_a_table, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_long_text_is_whole, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_summary_fits_an_issue, set_up, tear_down),
        cmocka_unit_test(missing_is_told_in_words),
        cmocka_unit_test_setup_teardown(ledger_sentences, set_up, tear_down),
        cmocka_unit_test_setup_teardown(visible_vram_is_a_row_only_where_it_is_smaller, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_gpu_without_memory_is_marked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(counters_that_agree_share_a_row, set_up, tear_down),
        cmocka_unit_test_setup_teardown(kfd_counts_an_apus_gtt_as_vram, set_up, tear_down),
        cmocka_unit_test(a_flat_line_is_not_drawn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
