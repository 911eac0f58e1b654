/* SPDX-License-Identifier: Apache-2.0 */
/* The time until the GPU is full: only for a steady trend, and not farther ahead than the history allows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "diagnose/fact.h"
#include "diagnose/features.h"
#include "diagnose/tree.h"
#include "shipped_computed.h"

#include <string.h>

#define GIB ((int64_t)1 << 30)

static const struct number {
    const char *name;
    int64_t value;
} usual[] = {
    {"gpu.count", 1},
    {"gpu.0.is_apu", 0},
    {"gpu.0.vram.total_bytes", 24 * GIB},
    {"gpu.0.vram.used_bytes", 18 * GIB},
    {"gpu.0.gtt.total_bytes", 32 * GIB},
    {"gpu.0.gtt.used_bytes", 29 * GIB},
    {"torch.reserved_bytes", 10 * GIB},
    {"torch.allocated_bytes", 8 * GIB},
    {"torch.gap_steady", 1},
    {"torch.gap_slope_bytes_per_s", GIB / 60},
    {"torch.gap_watched_ms", 60000},
    {"torch.growth.steady", 1},
    {"torch.growth.slope_bytes_per_s", GIB / 30},
    {"torch.growth.duration_ms", 60000},
    {"torch.growth.total_bytes", 900},
    {"torch.growth.blocks_count", 7},
};

/* The usual facts with `other` changed, and without the fact `missing`. */
static struct facts *with(struct number other, const char *missing)
{
    struct facts *facts = facts_new();
    for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++) {
        const char *name = usual[i].name;
        if (strcmp(name, missing) == 0)
            continue;
        int64_t value = strcmp(name, other.name) == 0 ? other.value : usual[i].value;
        (void)facts_set_integer(facts, name, FACT_IMPACT, value, "test");
    }
    if (facts_best(facts, other.name) == NULL && other.name[0] != '\0')
        (void)facts_set_integer(facts, other.name, FACT_IMPACT, other.value, "test");
    features_derive(facts, computed);
    return facts;
}

/* "6" or the reason why it is missing; "" = there is no such fact. */
static void expect(struct number other, const char *missing, const char *feature, const char *want)
{
    char text[64] = "";
    struct facts *facts = with(other, missing);
    const struct fact *f = facts_best(facts, feature);
    if (f != NULL && f->status == FACT_PRESENT) {
        fact_format(f, text, sizeof(text));
        assert_string_equal(text, want);
    } else if (f != NULL) {
        assert_non_null(strstr(f->reason, want));
        assert_true(want[0] != '\0');
    } else {
        assert_string_equal(want, "");
    }
    facts_free(facts);
}

static const struct number none = {"", 0};

static void test_forecast(void **state)
{
    (void)state;
    expect(none, "", "f.gap_full_in_min", "6");   /* 6 GiB at 1 GiB a minute */
    expect(none, "", "f.torch_full_in_min", "4"); /* and 2 GiB of PyTorch's cache, at 2 */
    expect((struct number){"gpu.0.vram.used_bytes", 24 * GIB - GIB / 2}, "", "f.gap_full_in_min",
           "0.5");
    expect((struct number){"gpu.0.is_apu", 1}, "", "f.gap_full_in_min", "3"); /* of GTT */
}

static void test_no_forecast(void **state)
{
    (void)state;
    expect((struct number){"torch.gap_steady", 0}, "", "f.gap_full_in_min", "no steady growth");
    expect(none, "torch.gap_steady", "f.gap_full_in_min", "no steady growth");
    expect((struct number){"torch.gap_slope_bytes_per_s", 0}, "", "f.gap_full_in_min",
           "no steady growth");
    expect((struct number){"torch.growth.steady", 0}, "", "f.torch_full_in_min", "no steady");
    expect((struct number){"oom.seen", 1}, "", "f.gap_full_in_min", "had run out already");
    expect((struct number){"ledger.refused", 1}, "", "f.torch_full_in_min", "had run out already");
    expect((struct number){"torch.gap_watched_ms", 19000}, "", "f.gap_full_in_min", "6");
    expect((struct number){"torch.gap_watched_ms", 17000}, "", "f.gap_full_in_min",
           "20 times as far ahead");
    expect(none, "gpu.0.vram.used_bytes", "f.gap_full_in_min", "f.gpu_room_bytes");
    expect(none, "torch.gap_slope_bytes_per_s", "f.gap_full_in_min", "");
    expect(none, "torch.reserved_bytes", "f.gap_full_in_min", ""); /* no PyTorch */
}

static void test_mean_block(void **state)
{
    (void)state;
    expect(none, "", "f.torch_grown_block_bytes", "128 bytes");
    expect((struct number){"torch.growth.blocks_count", 0}, "", "f.torch_grown_block_bytes", "");
    expect((struct number){"torch.growth.total_bytes", -5}, "", "f.torch_grown_block_bytes", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forecast),
        cmocka_unit_test(test_no_forecast),
        cmocka_unit_test(test_mean_block),
    };
    return cmocka_run_group_tests_name("features_torch", tests, read_computed, free_computed);
}
