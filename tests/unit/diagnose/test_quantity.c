/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures of any line, series, wrapped lines and kernel fragments; and that the quantity reader agrees with
 * the parsers of products over the fixtures of messages.
 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/fs.h"
#include "diagnose/fact.h"
#include "diagnose/quantity.h"
#include "diagnose/text_repair.h"
#include "diagnose/verdict.h"

#define GIB 1073741824.0

static void test_roles(void **state)
{
    static const struct {
        const char *line;
        enum quantity_role role;
        double gib;
    } rows[] = {
        {"free: 1.5 GiB", QUANTITY_FREE, 1.5},
        {"1.5 GiB free", QUANTITY_FREE, 1.5},
        {"of which 1.5 GiB is free.", QUANTITY_FREE, 1.5},
        {"free VRAM now 1.5 GB", QUANTITY_FREE, 1.5},
        {"free memory (MB): 1536 MB", QUANTITY_FREE, 1.5},
        {"vram=1.5GB", QUANTITY_USED, 1.5},
        {"gpu_mem_allocated=1.5G", QUANTITY_ALLOCATED, 1.5},
        {"largest free block: 1610612736 bytes", QUANTITY_LARGEST, 1.5},
        {"failed to allocate 1.5 GiB", QUANTITY_ASKED, 1.5},
        {"could not reserve 1536 MiB", QUANTITY_ASKED, 1.5},
        {"peak 1.5GiB", QUANTITY_PEAK, 1.5},
        {"limit is 1,610,612,736 bytes", QUANTITY_LIMIT, 1.5},
        {"reserved in total by the pool: 1.5 GiB", QUANTITY_RESERVED, 1.5},
        {"required_gb: 1.5", QUANTITY_ASKED, 1.5},
        {"usable_mib=1536", QUANTITY_FREE, 1.5},
        {"alloc_mb 1536", QUANTITY_ALLOCATED, 1.5},
        {"1536 MiB  free list is long", QUANTITY_NONE, 1.5},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct quantity q[QUANTITIES_MAX];
        struct text line = {rows[i].line, strlen(rows[i].line)};
        size_t n = quantity_line(line, q);
        if (n != 1 || q[0].role != rows[i].role || q[0].value < (rows[i].gib - 0.01) * GIB ||
            q[0].value > (rows[i].gib + 0.01) * GIB)
            fail_msg("'%s': %zu quantities, role %d, %.3f GiB", rows[i].line, n, n > 0 ? (int)q[0].role : -1,
                     n > 0 ? q[0].value / GIB : 0.0);
    }
}

static void test_no_quantities(void **state)
{
    static const char *const lines[] = {"at 10:00:01 on 2026-01-02", "gfx1100 v1.2.3 0x7f00", "file.py:12:3", "a1 b2_3"};
    struct quantity q[QUANTITIES_MAX];
    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        size_t n = quantity_line((struct text){lines[i], strlen(lines[i])}, q);
        for (size_t k = 0; k < n; k++)
            assert_int_equal(q[k].role, QUANTITY_NONE);
    }
}

static struct facts *read(const char *text)
{
    struct facts *facts = facts_new();
    quantities_to_facts(facts, text, strlen(text), "text");
    return facts;
}

static bool says(const char *text, const char *fact)
{
    struct facts *facts = read(text);
    bool there = facts_best(facts, fact) != NULL;
    facts_free(facts);
    return there;
}

static void test_series(void **state)
{
    (void)state;
    assert_true(says("mem used 1.0 GB\nmem used 1.2 GB\nmem used 1.4 GB\nmem used 1.6 GB\n", "series.grows"));
    assert_false(says("mem used 1.0 GB\nmem used 1.2 GB\nmem used 1.1 GB\nmem used 1.6 GB\n", "series.grows"));
    assert_false(says("mem used 1.00 GB\nmem used 1.01 GB\nmem used 1.02 GB\nmem used 1.03 GB\n", "series.grows"));
    assert_false(says("step 1 of 9\nstep 2 of 9\nstep 3 of 9\nstep 4 of 9\n", "series.grows"));
    assert_true(says("free 9.0 GiB\nfree 8.0 GiB\nfree 7.0 GiB\nfree 6.0 GiB\n", "series.grows"));
    assert_true(says("host rss 1.0 GB\nhost rss 2.0 GB\nhost rss 3.0 GB\nhost rss 4.0 GB\n", "series.host_grows"));
}

/* The series is demand, growth with a clock, or growth with nothing beside it. */
static void test_followed(void **state)
{
    static const char size[] = "bs=2: used 1 GB\nbs=3: used 2 GB\nbs=4: used 3 GB\nbs=5: used 4 GB\n";
    static const char clock[] = "epoch 2: used 1 GB\nepoch 3: used 2 GB\nepoch 4: used 3 GB\nepoch 5: used 4 GB\n";
    static const char none[] = "used 1 GB\nused 2 GB\nused 3 GB\nused 4 GB\n";
    static const char between[] = "$ run --cells 10\nused 1 GB\n$ run --cells 20\nused 2 GB\n$ run --cells 30\nused 3 GB\n"
                                  "$ run --cells 40\nused 4 GB\n";
    (void)state;
    assert_true(says(size, "series.follows_size") && !says(size, "series.grows") && !says(size, "series.clock"));
    assert_true(says(clock, "series.clock") && says(clock, "series.grows") && !says(clock, "series.follows_size"));
    assert_true(says(none, "series.grows") && !says(none, "series.clock") && !says(none, "series.follows_size"));
    assert_true(says(between, "series.follows_size") && !says(between, "series.grows"));
    assert_true(says("np=2: rss 1 GB\nnp=3: rss 2 GB\nnp=4: rss 3 GB\nnp=5: rss 4 GB\n", "series.host_follows_size"));
    assert_true(says("bs 1: free 40 GB\nbs 2: free 20 GB\nbs 3: free 9 GB\nbs 4: free 1 GB\n", "series.follows_size"));
    assert_true(says("time,gpu_mem_mb\n08:00,1024\n09:00,2048\n10:00,3072\n11:00,4096\n", "series.clock"));
    assert_false(says(size, "series.largest_fails"));
    assert_true(says("bs=2: used 1 GB\nbs=3: used 2 GB\nbs=4: used 3 GB\nbs=5: used 4 GB\nbs=6: crash, oom\n",
                     "series.largest_fails"));
}

/* The words beside the numbers, and how the numbers go on, tell a size from a clock. */
static void test_axis(void **state)
{
    static const struct {
        const char *text, *fact;
    } rows[] = {
        {"8 hidden layers: used 4 GB\n10 hidden layers: used 5 GB\n12 hidden layers: used 6 GB\n14 hidden layers: used 8 GB\n", "series.follows_size"},
        {"tp=8 bs=5 used 9 GB\ntp=8 bs=6 used 10 GB\ntp=8 bs=9 used 12 GB\ntp=8 bs=10 used 14 GB\n", "series.follows_size"},
        {"bs 16k: used 3 GB\nbs 24k: used 4 GB\nbs 40k: used 5 GB\nbs 44k: used 6 GB\n", "series.follows_size"},
        {"level=1 iter=10 bs=16 used 3 GB\nlevel=1 iter=20 bs=16 used 4 GB\nlevel=1 iter=30 bs=16 used 5 GB\nlevel=1 iter=40 bs=16 used 6 GB\n",
         "series.clock"},
        {"| layers | VRAM |\n| 10 | 4 GB |\n| 20 | 6 GB |\n| 30 | 8 GB |\n| 40 | 9 GB |\n", "series.follows_size"},
        /* a size that falls while memory grows is not followed; a counter does not repeat */
        {"bs 512 step 1 used 3 GB\nbs 256 step 2 used 4 GB\nbs 1024 step 3 used 5 GB\nbs 64 step 4 used 7 GB\n", "series.clock"},
        {"step 5 used 3 GB\nstep 5 used 4 GB\nstep 5 used 5 GB\nstep 5 used 6 GB\n", "series.grows"},
        /* two blanks, or a bar, part the fields of a line; a line with a figure is no header of a table */
        {"step 2: loss 0.9123  allocated 1.00 GiB\nstep 3: loss 0.9012  allocated 2.00 GiB\nstep 4: loss 0.8903  allocated 3.00 GiB\n"
         "step 5: loss 0.8801  allocated 4.00 GiB\n", "series.clock"},
        {"epoch 1 step 2 | loss 0.91 | mem 1.00 GiB\nepoch 1 step 3 | loss 0.90 | mem 2.00 GiB\nepoch 1 step 4 | loss 0.89 | mem 3.00 GiB\n"
         "epoch 1 step 5 | loss 0.88 | mem 4.00 GiB\n", "series.clock"},
        {"bs 2  loss 0.91\tpeak 1.00 GiB\nbs 3  loss 0.90\tpeak 2.00 GiB\nbs 4  loss 0.89\tpeak 3.00 GiB\nbs 5  loss 0.88\tpeak 4.00 GiB\n",
         "series.follows_size"},
        {"| layers | GPU 0 VRAM (GiB) |\n| 10 | 4 |\n| 20 | 6 |\n| 30 | 8 |\n| 40 | 9 |\n", "series.follows_size"},
        /* an amount of work is a size unless a counter goes with it */
        {"1000 tokens used 3 GB\n3000 tokens used 4 GB\n4000 tokens used 5 GB\n5000 tokens used 6 GB\n", "series.follows_size"},
        {"step 1 tokens 1000 used 3 GB\nstep 2 tokens 3000 used 4 GB\nstep 3 tokens 4000 used 5 GB\nstep 4 tokens 5000 used 6 GB\n", "series.clock"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (!says(rows[i].text, rows[i].fact) || (strcmp(rows[i].fact, "series.follows_size") == 0) == says(rows[i].text, "series.grows"))
            fail_msg("'%s' does not give %s", rows[i].text, rows[i].fact);
}

static void test_refusal_of_an_unknown_program(void **state)
{
    struct facts *facts = read("fatal: could not allocate 3.0 GiB on device 0 (free 1.0 GiB, total 16.0 GiB)\n");
    int64_t value = 0;
    (void)state;
    assert_true(facts_get_integer(facts, "oom.requested_bytes", &value) && value == (int64_t)(3 * GIB));
    assert_true(facts_get_integer(facts, "oom.free_bytes", &value) && value == (int64_t)GIB);
    assert_true(facts_get_integer(facts, "oom.total_bytes", &value) && value == (int64_t)(16 * GIB));
    facts_free(facts);
    assert_false(says("allocated 3.0 GiB on device 0 (free 1.0 GiB)\n", "oom.requested_bytes"));
    assert_false(says("could not allocate 3.0 GiB of pinned host memory, RAM is short\n", "oom.requested_bytes"));
}

/* If a product's parser and the quantity reader both read a figure of one line, they agree. */
static void test_agreement(void **state)
{
    static const char *const names[][2] = {{"oom.requested_bytes", "quantity.asked_bytes"},
                                           {"oom.free_bytes", "quantity.free_bytes"},
                                           {"oom.total_bytes", "quantity.total_bytes"}};
    char folder[512];
    unsigned compared = 0, differ = 0;
    (void)state;
    (void)snprintf(folder, sizeof folder, "%s/tests/fixtures/messages", TEST_SOURCE_DIR);
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        char path[800];
        char *text = NULL;
        size_t len = strlen(e->d_name);
        if (len < 5 || strcmp(e->d_name + len - 4, ".txt") != 0)
            continue;
        (void)snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        ssize_t n = fs_read_all(path, (size_t)1 << 20, &text);
        assert_true(n >= 0);
        struct facts *product = facts_new(), *general = facts_new();
        messages_to_facts(product, text, (size_t)n, "text");
        quantities_to_facts(general, text, (size_t)n, "text");
        for (size_t i = 0; i < 3; i++) {
            const struct fact *a = facts_find(product, names[i][0], FACT_LOG), *b = facts_find(general, names[i][1], FACT_LOG);
            if (a == NULL || b == NULL || strcmp(a->source, b->source) != 0)
                continue;
            if (strncmp(e->d_name, "m_edges_", 8) == 0)
                continue; /* several messages within a few lines */
            compared++;
            double ratio = b->integer != 0 ? (double)a->integer / (double)b->integer : a->integer == 0;
            if (ratio < 0.95 || ratio > 1.05) { /* MB of 10^6 or of 2^20 */
                print_error("%s: %s %lld, %s %lld\n", e->d_name, names[i][0], (long long)a->integer, names[i][1],
                            (long long)b->integer);
                differ++;
            }
        }
        facts_free(product);
        facts_free(general);
        free(text);
    }
    (void)closedir(dir);
    print_message("%u figures read by both, %u differ\n", compared, differ);
    assert_true(compared >= 20);
    assert_int_equal(differ, 0);
}

static void test_unwrap(void **state)
{
    static const char wrapped[] =
        "ValueError: Free memory on device cuda:0 (3.10/31.98 GiB) on startup is\n"
        "less than desired GPU memory utilization (0.9, 28.78 GiB).\nnext\n";
    size_t len = 0;
    (void)state;
    char *text = text_unwrap(wrapped, sizeof wrapped - 1, &len);
    assert_non_null(text);
    assert_non_null(strstr(text, "on startup is less than desired"));
    assert_non_null(strstr(text, "GiB).\n\nnext\n"));
    assert_int_equal(len, strlen(text));
    free(text);
    assert_null(text_unwrap("short\nlines\n", 12, &len));
    assert_null(text_unwrap("", 0, &len));
}

static const char *event_of(const char *line, char *out, size_t size)
{
    struct facts *facts = facts_new();
    kernel_log_to_facts(facts, line, strlen(line), "kernel log");
    (void)snprintf(out, size, "%s", "");
    for (size_t i = 0; i < facts_count(facts) && out[0] == '\0'; i++)
        if (strncmp(facts_at(facts, i)->name, "event.", 6) == 0)
            (void)snprintf(out, size, "%s", facts_at(facts, i)->name);
    facts_free(facts);
    return out;
}

static void test_kernel_events(void **state)
{
    static const char *const rows[][2] = {
        {"amdgpu 0000:83:00.0: amdgpu: Ring vcn_unified_0 reset succeeded", "event.hang"},
        {"amdgpu: process pid 4711 DQM update queue failed. ret -62", "event.hang"},
        {"amdgpu: HIQ MQD's queue_doorbell_id0 is not 0, queue preemption time out", "event.hang"},
        {"[drm] sdma_v5_2: IB test timed out on sdma0", "event.sdma"},
        {"amdgpu: No more SDMA queue to allocate", "event.sdma_queue_refused"},
        {"kfd kfd: amdgpu: failed to create queue, -12", "event.queue_refused"},
        {"memory.events: low 0 high 0 max 0 oom 0 oom_kill 0", ""},
        {"[  412.3] [   5123]  1001  5123  2097152   523190   9437184    81920           0 blender", "event.host_oom"},
        {"TOTAL_UNCORRECTABLE_COUNT: 0", ""},
        {"GPU 0: uncorrectable ECC errors: 0, correctable: 2", ""},
        {"amdgpu: unknown parameter 'vramlimt' ignored", "event.parameter"},
        {"amdgpu 0000:03:00.0: amdgpu: RAS: optional ras ta ucode is not available", ""},
        {"amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 uses VM inv eng 0 on hub 0", ""},
        {"[drm] amdgpu: 16368M of VRAM memory ready", ""},
        {"amdgpu: SW scheduler is used", ""},
        {"the ring is round and the queue is long", ""},
    };
    char name[80];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(event_of(rows[i][0], name, sizeof name), rows[i][1]) != 0)
            fail_msg("'%s' gives '%s', not '%s'", rows[i][0], name, rows[i][1]);
}

static void test_garbage(void **state)
{
    static char text[4096];
    uint32_t random = 7;
    (void)state;
    for (int round = 0; round < 300; round++) {
        size_t len = 0;
        for (size_t i = 0; i < sizeof text; i++) {
            random = random * 1664525u + 1013904223u;
            text[i] = round % 2 == 0 ? (char)(random >> 24) : "free 9/1.,GiB:[]-% \nkfd\0"[(random >> 24) % 23];
        }
        struct facts *facts = facts_new();
        quantities_to_facts(facts, text, sizeof text, "x");
        kernel_log_to_facts(facts, text, sizeof text, "x");
        free(text_unwrap(text, sizeof text, &len));
        facts_free(facts);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_roles),     cmocka_unit_test(test_no_quantities),
        cmocka_unit_test(test_series),    cmocka_unit_test(test_followed), cmocka_unit_test(test_axis),
        cmocka_unit_test(test_refusal_of_an_unknown_program),
        cmocka_unit_test(test_agreement), cmocka_unit_test(test_unwrap),
        cmocka_unit_test(test_kernel_events), cmocka_unit_test(test_garbage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
