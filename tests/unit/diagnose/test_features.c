/* SPDX-License-Identifier: Apache-2.0 */
/* One feature a row, from the facts that it is computed of; its border on both sides. What the rules of
 * the tree make of them is tests/unit/tree. */
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

#define GIB(n) (int64_t)((n) * 1073741824.0)
#define FACTS_IN 8

/* A number, or a text. */
struct given {
    const char *name;
    int64_t number;
    const char *text;
};

static const struct {
    const char *feature;
    const char *want; /* as text; "" = it is not known */
    struct given given[FACTS_IN];
} rows[] = {
    /* An ISA of the same generation runs, one of another does not. */
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
    /* Of two GPUs nobody said which one it was. */
    {"f.is_apu", "1", {{"report.gpu", 0, "Strix Halo 128 GB"}}},
    {"f.is_apu", "0", {{"report.gpu", 0, "RX 7900 XTX 24 GB"}}},
    {"f.is_apu", "", {{"report.gpu", 0, "R9700 eGPU + Strix Halo"}}},
    {"f.is_apu", "", {{"report.gpu", 0, "unknown"}}},
    {"f.is_apu", "0", {{"report.gpu", 0, "Strix Halo"}, {"gpu.0.is_apu", 0, NULL}}},
    /* The user's cap, if it is one; else by version. */
    {"f.alloc_cap_percent", "50", {{"env.GPU_SINGLE_ALLOC_PERCENT", 0, "50"}}},
    {"f.alloc_cap_percent", "", {{"env.GPU_SINGLE_ALLOC_PERCENT", 0, "50%"}}},
    {"f.alloc_cap_percent", "", {{"env.GPU_SINGLE_ALLOC_PERCENT", 0, "0"}}},
    {"f.alloc_cap_percent", "", {{"env.GPU_SINGLE_ALLOC_PERCENT", 0, "101"}}},
    {"f.alloc_cap_percent", "85", {{"software.rocm_version", 0, "6.3.4"}}},
    {"f.alloc_cap_percent", "100", {{"software.rocm_version", 0, "6.4.0"}}},
    /* Without a word of the message: the fullest, wherever it is. */
    {"f.gpu",
     "1",
     {{"gpu.count", 3, NULL},
      {"gpu.0.vram.total_bytes", 100, NULL},
      {"gpu.0.vram.used_bytes", 20, NULL},
      {"gpu.1.vram.total_bytes", 100, NULL},
      {"gpu.1.vram.used_bytes", 90, NULL},
      {"gpu.2.vram.total_bytes", 1000, NULL},
      {"gpu.2.vram.used_bytes", 500, NULL}}},
    /* "Process P has M in use" that is ourselves: together they would not fit. */
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
    /* Half of RAM lies a little below a power of two; a carve-out is exact, and small ones are none. */
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
    /* What a reporter calls an APU's size is its RAM, but for the part that is carved out. */
    {"f.ram_bytes", "137438953472", {{"report.gpu", 0, "Strix Halo 128 GB"}}},
    {"f.ram_bytes", "", {{"report.gpu", 0, "780M, 6 GB carve-out"}}},
    {"f.reported_carveout_bytes", "6442450944", {{"report.gpu", 0, "780M, 6 GB carve-out"}}},
    {"f.ram_bytes", "", {{"report.gpu", 0, "RX 7900 XTX 24 GB"}}},
    {"f.reported_vram_bytes", "25769803776", {{"report.gpu", 0, "RX 7900 XTX 24 GB"}}},
};

static void derived(const struct given *given, const char *feature, char *out, size_t size)
{
    struct facts *facts = facts_new();
    for (size_t i = 0; i < FACTS_IN && given[i].name != NULL; i++) {
        int r = given[i].text != NULL
                    ? facts_set_text(facts, given[i].name, FACT_IMPACT, given[i].text, "test")
                    : facts_set_integer(facts, given[i].name, FACT_IMPACT, given[i].number, "test");
        assert_int_equal(r, 0);
    }
    features_derive(facts);
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
    return cmocka_run_group_tests(tests, NULL, NULL);
}
