/* SPDX-License-Identifier: Apache-2.0 */
/* The account adds up to the total, however many parts are known; and its conclusions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "diagnose/account.h"
#include "diagnose/fact.h"
#include "diagnose/features.h"
#include "shipped_computed.h"

#include <stdlib.h>
#include <string.h>

#define GIB ((int64_t)1 << 30)
#define NONE INT64_MIN
#define ROWS_MAX 18

struct row {
    const char *name;
    int64_t value;
};

static struct facts *derived(const struct row *rows)
{
    struct facts *facts = facts_new();
    for (size_t i = 0; i < ROWS_MAX && rows[i].name != NULL; i++)
        (void)facts_set_integer(facts, rows[i].name, FACT_IMPACT, rows[i].value, "test");
    features_derive(facts, computed);
    return facts;
}

static int64_t value_of(const struct facts *facts, const char *name)
{
    const struct fact *f = facts_best(facts, name);
    if (f == NULL || f->status != FACT_PRESENT)
        return NONE;
    return f->type == FACT_REAL ? (int64_t)f->real : f->integer;
}

static void assert_adds_up(const struct facts *facts)
{
    int64_t sum = 0;
    for (size_t i = 0; i < account_part_count; i++)
        if (value_of(facts, account_parts[i].fact) != NONE)
            sum += value_of(facts, account_parts[i].fact);
    assert_int_equal(sum, value_of(facts, "account.total_bytes"));
}

/* An H200 of 140 GiB; another process, a context, a growth of 60 GiB below steps of 20. */
#define TORCH                                                                                      \
    {"oom.seen", 1}, {"oom.total_bytes", 140 * GIB}, {"oom.free_bytes", 2 * GIB},                  \
        {"oom.allocated_bytes", 100 * GIB}, {"oom.reserved_unallocated_bytes", 20 * GIB},          \
        {"oom.requested_bytes", 4 * GIB}, {"others.vram_bytes", 10 * GIB},                         \
        {"torch.gap_bytes", 3 * GIB}, {"torch.gap_growth_bytes", 1 * GIB},                         \
        {"torch.growth.plateau_bytes", 20 * GIB}, {"torch.growth.total_bytes", 60 * GIB}

static void parts_of_pytorch_add_up(void **state)
{
    (void)state;
    static const struct row rows[ROWS_MAX] = {TORCH};
    static const struct row want[] = {
        {"account.others_bytes", 10 * GIB}, {"account.context_bytes", 2 * GIB},
        {"account.outside_bytes", 1 * GIB}, {"account.plateau_bytes", 20 * GIB},
        {"account.growth_bytes", 60 * GIB}, {"account.step_bytes", 20 * GIB},
        {"account.idle_bytes", 20 * GIB},   {"account.free_bytes", 2 * GIB},
        {"account.live_bytes", NONE},       {"account.remainder_bytes", 5 * GIB}};
    struct facts *facts = derived(rows);
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++)
        assert_int_equal(value_of(facts, want[i].name), want[i].value);
    assert_adds_up(facts);
    facts_free(facts);
}

/* CuPy's pool: no figures of the device in its message, so the driver's; growth by the pool's own lows. */
static void parts_of_cupy_add_up(void **state)
{
    (void)state;
    static const struct row rows[ROWS_MAX] = {
        {"oom.seen", 1},
        {"gpu.0.vram.total_bytes", 140 * GIB},
        {"gpu.0.vram.used_bytes", 136 * GIB},
        {"proc.0.kfd_vram_bytes", 133 * GIB},
        {"oom.requested_bytes", 6 * GIB},
        {"oom.reserved_bytes", 130 * GIB},
        {"oom.allocated_bytes", 100 * GIB},
        {"cupy.in_use_bytes", 100 * GIB},
        {"cupy.earlier_peak_bytes", 107 * GIB},
        {"cupy.growth.plateau_bytes", 30 * GIB},
        {"cupy.growth.total_bytes", 50 * GIB},
    };
    static const struct row want[] = {
        {"account.context_bytes", 3 * GIB}, {"account.plateau_bytes", 30 * GIB},
        {"account.growth_bytes", 50 * GIB}, {"account.step_bytes", 20 * GIB},
        {"account.idle_bytes", 30 * GIB},   {"account.free_bytes", 4 * GIB},
        {"account.tax_bytes", 28 * GIB},    {"account.remainder_bytes", 3 * GIB},
        {"account.fitted_before", 1},       {"account.idle_outgrows", 1}};
    struct facts *facts = derived(rows);
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++)
        assert_int_equal(value_of(facts, want[i].name), want[i].value);
    assert_adds_up(facts);
    facts_free(facts);
}

static void without_history_it_adds_up_too(void **state)
{
    (void)state;
    static const struct row rows[ROWS_MAX] = {
        {"oom.seen", 1},
        {"oom.total_bytes", 140 * GIB},
        {"oom.free_bytes", 2 * GIB},
        {"oom.allocated_bytes", 100 * GIB},
        {"oom.reserved_unallocated_bytes", 20 * GIB},
    };
    struct facts *facts = derived(rows);
    assert_int_equal(value_of(facts, "account.live_bytes"), 100 * GIB);
    assert_int_equal(value_of(facts, "account.remainder_bytes"), 18 * GIB);
    assert_int_equal(value_of(facts, "account.others_bytes"), NONE); /* not measured, so not 0 */
    assert_adds_up(facts);
    facts_free(facts);
}

static void assert_account_adds_up(const struct facts *facts, const struct account *a)
{
    int64_t sum = 0;
    for (size_t i = 0; i < a->count; i++)
        if (value_of(facts, a->parts[i].fact) != NONE)
            sum += value_of(facts, a->parts[i].fact);
    assert_int_equal(sum, value_of(facts, a->total));
}

/* The counters after a MemoryError are not those of the refusal. */
static void parts_of_ram_add_up(void **state)
{
    (void)state;
    static const int64_t at_the_end[] = {20 * GIB, 1 * GIB};
    static const int64_t own[] = {20 * GIB, 24 * GIB};
    static const int64_t free_bytes[] = {100 * GIB, 98 * GIB};
    for (size_t i = 0; i < 2; i++) {
        struct facts *facts = facts_new();
        (void)facts_set_integer(facts, "msg.cpu_alloc_failed", FACT_LOG, 1, "test");
        (void)facts_set_integer(facts, "host.mem_total_bytes", FACT_STATIC, 128 * GIB, "test");
        (void)facts_set_integer(facts, "host.mem_available_bytes", FACT_BASELINE, 122 * GIB, "test");
        (void)facts_set_integer(facts, "host.mem_available_bytes", FACT_IMPACT, 100 * GIB, "test");
        (void)facts_set_integer(facts, "proc.0.rss_bytes", FACT_IMPACT, at_the_end[i], "test");
        (void)facts_set_integer(facts, "proc.0.rss_peak_bytes", FACT_IMPACT, 24 * GIB, "test");
        features_derive(facts, computed);
        assert_int_equal(value_of(facts, "account.host.own_bytes"), own[i]);
        assert_int_equal(value_of(facts, "account.host.free_bytes"), free_bytes[i]);
        assert_int_equal(value_of(facts, "account.host.others_bytes"), i == 0 ? NONE : 6 * GIB);
        assert_account_adds_up(facts, &account_of_host);
        facts_free(facts);
    }
    struct facts *group = facts_new(); /* a group's limit: the machine's RAM was not short */
    (void)facts_set_integer(group, "kmsg.oom_kill_pid", FACT_LOG, 7, "test");
    (void)facts_set_boolean(group, "kmsg.oom_kill_memcg", FACT_LOG, true, "test");
    (void)facts_set_integer(group, "host.mem_total_bytes", FACT_STATIC, 128 * GIB, "test");
    features_derive(group, computed);
    assert_int_equal(value_of(group, "account.host.total_bytes"), NONE);
    facts_free(group);
    struct facts *none = facts_new();
    (void)facts_set_integer(none, "host.mem_total_bytes", FACT_STATIC, 128 * GIB, "test");
    features_derive(none, computed);
    assert_int_equal(value_of(none, "account.host.total_bytes"), NONE); /* nothing was refused */
    facts_free(none);
}

/* KFD counts the GTT of an APU's process as VRAM. */
static void parts_of_gtt_add_up(void **state)
{
    (void)state;
    struct facts *facts = facts_new();
    (void)facts_set_boolean(facts, "ledger.refused", FACT_IMPACT, true, "test");
    (void)facts_set_boolean(facts, "gpu.0.is_apu", FACT_STATIC, true, "test");
    (void)facts_set_integer(facts, "gpu.count", FACT_STATIC, 1, "test");
    (void)facts_set_integer(facts, "gpu.0.gtt.total_bytes", FACT_IMPACT, 62 * GIB, "test");
    (void)facts_set_integer(facts, "gpu.0.gtt.used_bytes", FACT_IMPACT, 60 * GIB, "test");
    (void)facts_set_integer(facts, "ledger.gtt.live_bytes", FACT_IMPACT, 32768, "test");
    (void)facts_set_integer(facts, "proc.0.kfd_vram_bytes", FACT_IMPACT, 59 * GIB, "test");
    features_derive(facts, computed);
    assert_int_equal(value_of(facts, "account.gtt.own_bytes"), 59 * GIB);
    assert_int_equal(value_of(facts, "account.gtt.free_bytes"), 2 * GIB);
    assert_int_equal(value_of(facts, "account.gtt.remainder_bytes"), 1 * GIB);
    assert_account_adds_up(facts, &account_of_gtt);
    facts_free(facts);
}

/* XLA frees memory while the exception unwinds: its peak counts. */
static void the_peak_of_xla_counts(void **state)
{
    (void)state;
    struct facts *facts = facts_new();
    (void)facts_set_boolean(facts, "msg.xla_oom", FACT_LOG, true, "test");
    (void)facts_set_integer(facts, "gpu.0.vram.total_bytes", FACT_STATIC, 140 * GIB, "test");
    (void)facts_set_integer(facts, "gpu.0.vram.used_bytes", FACT_IMPACT, 110 * GIB, "test");
    (void)facts_set_integer(facts, "jax.pool_bytes", FACT_IMPACT, 105 * GIB, "test");
    (void)facts_set_integer(facts, "jax.in_use_bytes", FACT_IMPACT, 1 * GIB, "test");
    (void)facts_set_integer(facts, "jax.in_use_bytes", FACT_PEAK, 90 * GIB, "test");
    features_derive(facts, computed);
    assert_int_equal(value_of(facts, "account.live_bytes"), 90 * GIB);
    assert_int_equal(value_of(facts, "account.idle_bytes"), 15 * GIB);
    assert_int_equal(value_of(facts, "account.free_bytes"), 30 * GIB);
    facts_free(facts);

    /* Small arrays are in every piece: enough is idle, but no piece is large enough. */
    for (int fits = 0; fits < 2; fits++) {
        facts = facts_new();
        (void)facts_set_boolean(facts, "msg.xla_oom", FACT_LOG, true, "test");
        (void)facts_set_integer(facts, "oom.requested_bytes", FACT_LOG, 16 * GIB, "test");
        (void)facts_set_integer(facts, "gpu.0.vram.total_bytes", FACT_STATIC, 140 * GIB, "test");
        (void)facts_set_integer(facts, "gpu.0.vram.used_bytes", FACT_IMPACT, 110 * GIB, "test");
        (void)facts_set_integer(facts, "jax.pool_bytes", FACT_IMPACT, 105 * GIB, "test");
        (void)facts_set_integer(facts, "jax.largest_free_bytes", FACT_IMPACT, (fits ? 20 : 9) * GIB, "test");
        (void)facts_set_integer(facts, "jax.in_use_bytes", FACT_IMPACT, 8 * GIB, "test");
        (void)facts_set_integer(facts, "jax.in_use_bytes", FACT_PEAK, 96 * GIB, "test");
        features_derive(facts, computed);
        assert_int_equal(value_of(facts, "account.live_bytes"), (fits ? 96 : 8) * GIB);
        assert_int_equal(value_of(facts, "account.idle_bytes"), (fits ? 9 : 97) * GIB);
        facts_free(facts);
    }

    /* The driver's counter at the end, after the pool was freed, is not the counter of the refusal. */
    facts = facts_new();
    (void)facts_set_boolean(facts, "msg.xla_oom", FACT_LOG, true, "test");
    (void)facts_set_integer(facts, "gpu.0.vram.total_bytes", FACT_STATIC, 140 * GIB, "test");
    (void)facts_set_integer(facts, "gpu.0.vram.used_bytes", FACT_PEAK, 106 * GIB, "test");
    (void)facts_set_integer(facts, "gpu.0.vram.used_bytes", FACT_IMPACT, 1 * GIB, "test");
    (void)facts_set_integer(facts, "jax.pool_bytes", FACT_IMPACT, 105 * GIB, "test");
    (void)facts_set_integer(facts, "jax.in_use_bytes", FACT_PEAK, 104 * GIB, "test");
    features_derive(facts, computed);
    assert_int_equal(value_of(facts, "account.free_bytes"), 34 * GIB);
    assert_int_equal(value_of(facts, "account.remainder_bytes"), 1 * GIB);
    assert_adds_up(facts);
    facts_free(facts);
}

static void no_refusal_no_account(void **state)
{
    (void)state;
    static const struct row rows[ROWS_MAX] = {{"gpu.0.vram.total_bytes", 140 * GIB},
                                              {"gpu.0.vram.used_bytes", 12 * GIB},
                                              {"torch.inactive_bytes", 3 * GIB}};
    struct facts *facts = derived(rows);
    assert_int_equal(value_of(facts, "account.total_bytes"), NONE);
    facts_free(facts);
}

/* 18 GiB were idle beyond the request. The gain without them depends on the growth of demand. */
static void what_idle_memory_cost(void **state)
{
    (void)state;
    static const struct {
        struct row history[2];
        int64_t outgrows, gain;
    } cases[] = {
        /* half of the growth in the second half of the run, 60 GiB in all */
        {{{"torch.half_run_peak_bytes", 80 * GIB}, {"torch.growth.rising_share_percent", 100}}, 0, 30},
        /* demand hardly grew */
        {{{"torch.half_run_peak_bytes", 103 * GIB}, {"torch.growth.rising_share_percent", 20}}, 1, 900},
        /* as much had been in use before */
        {{{"torch.half_run_peak_bytes", 106 * GIB}, {"torch.growth.rising_share_percent", 20}}, 1, NONE},
        /* not known */
        {{{"torch.growth.rising_share_percent", 20}}, NONE, NONE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct row rows[ROWS_MAX] = {TORCH, cases[i].history[0], cases[i].history[1]};
        struct facts *facts = derived(rows);
        assert_int_equal(value_of(facts, "account.tax_bytes"), 18 * GIB);
        assert_int_equal(value_of(facts, "account.idle_outgrows"), cases[i].outgrows);
        if (cases[i].gain == 30) /* 18 of 60 by the lows, of 48 by the halves: the larger growth */
            assert_in_range(value_of(facts, "account.gain_percent"), 29, 31);
        else
            assert_int_equal(value_of(facts, "account.gain_percent"), cases[i].gain);
        facts_free(facts);
    }
}

/* The first half of the run raised demand by more than the last quarter: it may have reached its bound. */
static void demand_without_a_bound(void **state)
{
    (void)state;
    static const struct {
        int64_t faster, late, gain;
    } cases[] = {{11, 102 * GIB, 225},  /* 18 of 4 * 2 */
                 {12, 102 * GIB, 37},   /* 18 of 2 * 24 */
                 {12, 89 * GIB, 30}};   /* 18 of 4 * 15, which is more */
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct row rows[ROWS_MAX] = {TORCH,
                                     {"torch.kept.marks_count", 6},
                                     {"torch.kept.before_bytes", 30 * GIB},
                                     {"torch.kept.growth_bytes", 0},
                                     {"torch.kept.faster_percent", cases[i].faster},
                                     {"torch.half_run_peak_bytes", 80 * GIB},
                                     {"torch.late_run_peak_bytes", cases[i].late}};
        struct facts *facts = derived(rows);
        assert_int_equal(value_of(facts, "account.gain_percent"), cases[i].gain);
        facts_free(facts);
    }
}

/* The last quarter hardly raised the highest peak, but what is usually in use rose: the peak came by chance. */
static void demand_that_rises_below_its_peaks(void **state)
{
    (void)state;
    static const struct {
        int64_t half, replaced, rise, gain;
    } cases[] = {{80, 0, 36, 50},    /* 18 of 36 */
                 {80, 0, 1, 450},    /* 18 of 4 * 1, by the last quarter */
                 {80, 49, 36, 50},   /* what outlives steps stays, mostly */
                 {80, 50, 36, 450},  /* it is replaced: the rise has a bound */
                 {80, 0, 60, 37},    /* no more than the peaks rose: 18 of 2 * 24 */
                 {104, 0, 36, 450}}; /* no higher peak since: what is usual varies, too */
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct row rows[ROWS_MAX] = {TORCH,
                                     {"torch.growth.rising_share_percent", 20},
                                     {"torch.half_run_peak_bytes", cases[i].half * GIB},
                                     {"torch.late_run_peak_bytes", 103 * GIB},
                                     {"torch.kept.replaced_percent", cases[i].replaced},
                                     {"torch.usual_rise_bytes", cases[i].rise * GIB}};
        struct facts *facts = derived(rows);
        assert_int_equal(value_of(facts, "account.gain_percent"), cases[i].gain);
        assert_int_equal(value_of(facts, "account.idle_outgrows"), cases[i].gain >= 100);
        facts_free(facts);
    }
}

/* A load hands out each byte once, and its samples rise. Those of a run that has worked since count, and those of a load that was
 * smaller than the 104 GiB that are wanted now. */
static void a_load_is_no_growth(void **state)
{
    (void)state;
    static const struct {
        int64_t handed_out, peak, outgrows;
    } cases[] = {{120 * GIB, 120 * GIB, 1}, {140 * GIB, 120 * GIB, 0}, {80 * GIB, 80 * GIB, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct row rows[ROWS_MAX] = {TORCH,
                                     {"torch.half_run_peak_bytes", 50 * GIB},
                                     {"torch.late_run_peak_bytes", 75 * GIB},
                                     {"torch.allocated_total_bytes", cases[i].handed_out},
                                     {"torch.allocated_peak_bytes", cases[i].peak}};
        struct facts *facts = derived(rows);
        assert_int_equal(value_of(facts, "account.idle_outgrows"), cases[i].outgrows);
        facts_free(facts);
    }
}

static void too_little_for_any_allocator(void **state)
{
    (void)state;
    struct row rows[ROWS_MAX] = {TORCH};
    rows[5].value = 23 * GIB;
    struct facts *facts = derived(rows);
    assert_int_equal(value_of(facts, "account.tax_bytes"), -1 * GIB);
    assert_int_equal(value_of(facts, "account.idle_outgrows"), 0);
    facts_free(facts);
}

/* By the kept blocks, not by the lows; and at most the rise of memory in use. */
static void what_is_kept_grew(void **state)
{
    (void)state;
    static const struct {
        int64_t steady, half, growth;
    } cases[] = {{1, 80 * GIB, 48 * GIB}, {1, 60 * GIB, 50 * GIB}, {1, 104 * GIB, 0}, {0, 60 * GIB, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct row rows[ROWS_MAX] = {TORCH,
                                     {"torch.kept.marks_count", 6},
                                     {"torch.kept.before_bytes", 30 * GIB},
                                     {"torch.kept.growth_bytes", 50 * GIB},
                                     {"torch.kept.steady", cases[i].steady},
                                     {"torch.half_run_peak_bytes", cases[i].half}};
        struct facts *facts = derived(rows);
        assert_int_equal(value_of(facts, "account.plateau_bytes"), 30 * GIB);
        assert_int_equal(value_of(facts, "account.growth_bytes"), cases[i].growth);
        assert_adds_up(facts);
        facts_free(facts);
    }
}

/* Another process of the command holds most: proc.0 is the one that failed, PyTorch may have refused in
 * the other one. */
static void siblings_are_a_part(void **state)
{
    (void)state;
    static const struct {
        int64_t torch_pid, own, siblings, part;
    } cases[] = {{7, 5 * GIB, 90 * GIB, 90 * GIB}, {8, 90 * GIB, 5 * GIB, 91 * GIB}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct row rows[ROWS_MAX] = {{"oom.seen", 1},
                                     {"oom.total_bytes", 140 * GIB},
                                     {"oom.free_bytes", 40 * GIB},
                                     {"oom.allocated_bytes", 3 * GIB},
                                     {"oom.reserved_unallocated_bytes", 1 * GIB},
                                     {"oom.requested_bytes", 50 * GIB},
                                     {"oom.process_bytes", 4 * GIB},
                                     {"gpu.count", 1},
                                     {"gpu.0.vram.total_bytes", 140 * GIB},
                                     {"target.failed_pid", 7},
                                     {"hook.torch_pid", cases[i].torch_pid},
                                     {"proc.0.kfd_vram_bytes", cases[i].own},
                                     {"siblings.vram_bytes", cases[i].siblings}};
        struct facts *facts = derived(rows);
        assert_int_equal(value_of(facts, "account.siblings_bytes"), cases[i].part);
        assert_adds_up(facts);
        facts_free(facts);
    }
}

/* 2 of 4 GiB were missing; demand grew by 24, or by 8, or by kept memory. */
static void others_who_make_it_fail(void **state)
{
    (void)state;
    static const struct {
        int64_t others, came, half, kept, outweigh;
    } cases[] = {
        {30 * GIB, 0, 92 * GIB, 0, 1},         /* 28 without them, more than 24 */
        {20 * GIB, 0, 92 * GIB, 0, 0},         /* 18 without them */
        {20 * GIB, 20 * GIB, 92 * GIB, 0, 1},  /* they appeared: more than the 12 by which demand rose */
        {20 * GIB, 10 * GIB, 92 * GIB, 0, 0},  /* most of it existed before */
        {30 * GIB, 0, 92 * GIB, 24 * GIB, 0},  /* kept memory fills their share, too */
        {1 * GIB, 1 * GIB, 104 * GIB, 0, 0},   /* the request does not fit without them */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct row rows[ROWS_MAX] = {{"oom.seen", 1},
                                     {"oom.total_bytes", 140 * GIB},
                                     {"oom.free_bytes", 2 * GIB},
                                     {"oom.allocated_bytes", 100 * GIB},
                                     {"oom.reserved_unallocated_bytes", 4 * GIB},
                                     {"oom.requested_bytes", 4 * GIB},
                                     {"torch.steps_count", 9},
                                     {"torch.kept.marks_count", 6},
                                     {"torch.kept.before_bytes", 30 * GIB},
                                     {"torch.kept.growth_bytes", cases[i].kept},
                                     {"torch.kept.steady", 1},
                                     {"torch.half_run_peak_bytes", cases[i].half},
                                     {"others.vram_bytes", cases[i].others}};
        struct facts *facts = facts_new();
        (void)facts_set_integer(facts, "others.vram_bytes", FACT_BASELINE,
                                cases[i].others - cases[i].came, "test");
        for (size_t k = 0; k < ROWS_MAX && rows[k].name != NULL; k++)
            (void)facts_set_integer(facts, rows[k].name, FACT_IMPACT, rows[k].value, "test");
        features_derive(facts, computed);
        assert_int_equal(value_of(facts, "account.others_outweigh"), cases[i].outweigh);
        facts_free(facts);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_of_pytorch_add_up),
        cmocka_unit_test(parts_of_cupy_add_up),
        cmocka_unit_test(without_history_it_adds_up_too),
        cmocka_unit_test(the_peak_of_xla_counts),
        cmocka_unit_test(parts_of_ram_add_up),
        cmocka_unit_test(parts_of_gtt_add_up),
        cmocka_unit_test(no_refusal_no_account),
        cmocka_unit_test(what_idle_memory_cost),
        cmocka_unit_test(demand_without_a_bound),
        cmocka_unit_test(demand_that_rises_below_its_peaks),
        cmocka_unit_test(a_load_is_no_growth),
        cmocka_unit_test(too_little_for_any_allocator),
        cmocka_unit_test(what_is_kept_grew),
        cmocka_unit_test(others_who_make_it_fail),
        cmocka_unit_test(siblings_are_a_part),
    };
    return cmocka_run_group_tests(tests, read_computed, free_computed);
}
