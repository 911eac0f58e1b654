/* SPDX-License-Identifier: Apache-2.0 */
/* Program output, pasted tables and environment: fixtures, worked numbers, recordings. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "diagnose/env_names.h"
#include "diagnose/verdict.h"
#include "fixture_run.h"

static void test_program_output(void **state)
{
    (void)state;
    assert_true(fixture_run_all("m") >= 25);
}

static void test_pasted(void **state)
{
    (void)state;
    assert_true(fixture_run_all("p") >= 12);
}

static void test_any_text(void **state)
{
    (void)state;
    assert_true(fixture_run_all("a") >= 4);
}

/* More GPUs than there are numbers for: the first ones are kept. */
static void test_too_many_gpus(void **state)
{
    static const char agent[] = "Agent 2\n"
                                "  Name:                    gfx942\n"
                                "  Device Type:             GPU\n"
                                "  Memory Properties:       APU\n"
                                "      Segment:             GLOBAL; FLAGS: COARSE GRAINED\n"
                                "      Size:                1024(0x400) KB\n";
    static const char row[] = "| N/A   34C    P0    66W / 400W |      5MiB / 81920MiB |\n";
    enum { TIMES = 1100 };
    char *text = malloc(TIMES * sizeof agent);
    (void)state;
    assert_non_null(text);
    for (int kind = 0; kind < 2; kind++) {
        size_t len = 0;
        for (int i = 0; i < TIMES; i++) {
            const char *piece = kind == 0 ? agent : row;
            memcpy(text + len, piece, strlen(piece));
            len += strlen(piece);
        }
        struct facts *facts = facts_new();
        pasted_to_facts(facts, text, len, "smi");
        assert_non_null(facts_best(facts, "gpu.0.gfx") != NULL
                            ? facts_best(facts, "gpu.0.kfd_bank_bytes")
                            : facts_best(facts, "gpu.0.vram.used_bytes"));
        assert_null(facts_best(facts, "gpu.1099.vram.used_bytes"));
        assert_null(facts_best(facts, "gpu.1099.gfx"));
        facts_free(facts);
    }
    free(text);
}

/* The origin of a text need not be given. */
static void test_no_source(void **state)
{
    static const char oom[] = "HIP out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
                              "capacity of 24.00 GiB of which 1.00 GiB is free.\n"
                              "VRAM usage keeps growing with every request\n";
    static const char smi[] = "GPU[0] : VRAM Total Memory (B): 1024\n";
    static const char env[] = "HSA_ENABLE_SDMA=0\n";
    static const char log[] = "amdgpu: GPU reset begin!\n";
    struct facts *facts = facts_new();
    (void)state;
    any_text_to_facts(facts, oom, sizeof oom - 1, NULL);
    pasted_to_facts(facts, smi, sizeof smi - 1, NULL);
    environment_to_facts(facts, env, sizeof env - 1, NULL);
    kernel_log_to_facts(facts, log, sizeof log - 1, NULL);
    for (size_t i = 0; i < facts_count(facts); i++)
        assert_non_null(facts_at(facts, i)->source);
    assert_true(facts_count(facts) > 6);
    facts_free(facts);
}

/* Names that a collector offers. */
static void test_environment_names(void **state)
{
    (void)state;
    assert_int_equal(env_rule_of("HIP-VISIBLE", 11), ENV_HIDE);
    assert_int_equal(env_rule_of("HIP_VISIBLE_DEVICES", 19), ENV_SHOW);
    assert_int_equal(env_rule_of("HF_HUB_TOKEN_PATH", 17), ENV_NAME_ONLY);
    assert_int_equal(env_rule_of("HIP_MYSECRETVALUE", 17), ENV_SECRET);
}

static void test_environment(void **state)
{
    (void)state;
    assert_true(fixture_run_all("e") >= 1);
}

#define MIB(x) ((int64_t)llround((x)*1048576.0))
#define NONE INT64_MIN

struct worked {
    const char *source;
    const char *r, *t, *f, *a, *u, *l, *p;
    int64_t br, bt, bf, ba, bu;
    int frag;          /* F + U >= R and F < R */
    int64_t other_mib; /* T - F - A - U, to the MiB; NONE = not asked */
};

/* Numbers of public reports; the bytes are written out by hand, not taken from the parser. */
static const struct worked cases[] = {
    {"seed 000", "3.99 GiB", "62.54 GiB", "668.07 MiB", "59.55 GiB", "2.08 GiB", NULL, NULL,
     4284229878, 67151813673, 700522168, 63941325619, 2233382994, 0, NONE},
    {"seed 001", "96.00 MiB", "19.98 GiB", "0 bytes", "203.00 KiB", "0 bytes", NULL, NULL,
     100663296, 21453361644, 0, 207872, 0, 0, 20459},
    {"pytorch 138002", "6.64 GiB", "19.92 GiB", "6.22 GiB", "5.34 GiB", "7.10 GiB", NULL, NULL,
     7129645711, 21388937134, 6678674145, 5733781340, 7623566950, 1, NONE},
    {"autotrain 737", "124.00 MiB", "19.94 GiB", "554.47 MiB", "15.87 GiB", "165.29 MiB", NULL,
     NULL, 130023424, 21410411971, 581403935, 17040282747, 173319127, 0, 3447},
    {"TheRock 1054", "16.00 GiB", "15.24 GiB", "15.09 GiB", "0 bytes", "0 bytes", NULL, NULL,
     17179869184, 16363825398, 16202764124, 0, 0, 0, NONE},
    {"TheRock 2118", "2.00 MiB", "255.98 GiB", "244.65 GiB", "1017.01 MiB", "54.99 MiB", "1.05 GiB",
     "17.00 MiB", 2097152, 274856432108, 262690937242, 1066412278, 57661194, 0, NONE},
    {"TheRock 4598", "16.00 GiB", "15.49 GiB", "84.98 GiB", "1.67 GiB", "8.08 GiB", NULL, NULL,
     17179869184, 16632260854, 91246580204, 1793148846, 8675833938, 0, NONE},
    {"TheRock 2396", "76.00 MiB", "287.98 GiB", "0 bytes", "8.51 GiB", "1.99 MiB", NULL, NULL,
     79691776, 309216170476, 0, 9137542922, 2086666, 0, 286175},
    {"pytorch 175431", "2.00 MiB", "287.98 GiB", "203.49 GiB", "68.63 GiB", "14.93 GiB", NULL, NULL,
     2097152, 309216170476, 218495723766, 73690901381, 16030965432, 0, NONE},
    {"InvokeAI", "4.50 GiB", "15.98 GiB", "1.40 GiB", "1.26 GiB", "152.50 MiB", NULL, NULL,
     4831838208, 17158394348, 1503238554, 1352914698, 159907840, 0, 13487},
    {"pytorch 134208", "35.31 GiB", "19.94 GiB", "13.47 GiB", "5.17 GiB", "259.56 MiB", NULL, NULL,
     37913823805, 21410411971, 14463302369, 5551245230, 272168387, 0, NONE},
    {"toolbox 3", "3.31 GiB", "128.00 GiB", "780.24 MiB", "57.70 GiB", "75.82 MiB", NULL, NULL,
     3554085437, 137438953472, 818140938, 61954903245, 79503032, 0, 71131},
    {"vllm-rocm 5", "12.95 GiB", "127.00 GiB", "18.55 GiB", "99.37 GiB", "121.80 MiB", NULL, NULL,
     13904956621, 136365211648, 19917910835, 106697725051, 127716557, 0, NONE},
    {"single-allocation cap", "22.00 GiB", "24.00 GiB", "23.90 GiB", "0 bytes", "0 bytes", NULL,
     NULL, 23622320128, 25769803776, 25662429594, 0, 0, 0, NONE},
};

static int64_t value(const struct facts *f, const char *name)
{
    int64_t v = -1;
    (void)facts_get_integer(f, name, &v);
    return v;
}

static void check_worked(const struct worked *c, const char *text)
{
    struct facts *f = facts_new();
    messages_to_facts(f, text, strlen(text), "stderr");
    int64_t r = value(f, "oom.requested_bytes"), free_bytes = value(f, "oom.free_bytes");
    int64_t t = value(f, "oom.total_bytes"), a = value(f, "oom.allocated_bytes");
    int64_t u = value(f, "oom.reserved_unallocated_bytes");
    if (r != c->br || t != c->bt || free_bytes != c->bf || a != c->ba || u != c->bu)
        fail_msg("%s: R %lld T %lld F %lld A %lld U %lld", c->source, (long long)r, (long long)t,
                 (long long)free_bytes, (long long)a, (long long)u);
    assert_int_equal(c->frag, free_bytes < r && free_bytes + u >= r);
    if (c->other_mib != NONE)
        assert_int_equal(c->other_mib, (t - free_bytes - a - u) >> 20);
    assert_int_equal(c->l != NULL, fixture_fact(f, "oom.allowed_bytes") != NULL);
    assert_int_equal(c->p != NULL, fixture_fact(f, "oom.private_pools_bytes") != NULL);
    facts_free(f);
}

static void test_worked_numbers(void **state)
{
    (void)state;
    char text[1200], extra[80], pools[120];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct worked *c = &cases[i];
        (void)snprintf(extra, sizeof extra, c->l != NULL ? "%s allowed; " : "%s",
                       c->l != NULL ? c->l : "");
        (void)snprintf(pools, sizeof pools,
                       c->p != NULL ? "with %s allocated in private pools (e.g., HIP Graphs), "
                                    : "%s",
                       c->p != NULL ? c->p : "");
        (void)snprintf(
            text, sizeof text,
            "torch.OutOfMemoryError: HIP out of memory. Tried to allocate %s. GPU 0 has a "
            "total capacity of %s of which %s is free. %sOf the allocated memory %s is "
            "allocated by PyTorch, %sand %s is reserved by PyTorch but unallocated. If "
            "reserved but unallocated memory is large try setting 1.00 GiB free",
            c->r, c->t, c->f, extra, c->a, pools, c->u);
        check_worked(c, text);
    }
}

/* Reserved 220 to 14060 MiB while 66 to 306 MiB are allocated: the last message is the state. */
static void test_growing_reserve(void **state)
{
    (void)state;
    static const int reserved[] = {220, 2980, 5760, 8520, 11300, 14060};
    char text[2400] = "";
    size_t len = 0;
    for (size_t i = 0; i < 6; i++)
        len += (size_t)snprintf(text + len, sizeof text - len,
                                "HIP out of memory. Tried to allocate 20.00 MiB (GPU 0; 15.98 GiB "
                                "total capacity; %d.00 MiB already allocated; 0 bytes free; %d.00 "
                                "MiB reserved in total by PyTorch)\n",
                                66 + (int)i * 48, reserved[i]);
    struct facts *f = facts_new();
    messages_to_facts(f, text, len, "stderr");
    assert_int_equal(6, value(f, "oom.count"));
    assert_int_equal(MIB(14060), value(f, "oom.reserved_bytes"));
    assert_int_equal(MIB(14060 - 306), value(f, "oom.reserved_unallocated_bytes"));
    assert_int_equal(MIB(220), value(f, "oom.first.reserved_bytes"));
    facts_free(f);
}

/* It was printed with two decimals of its unit: it may be wrong by half of the last digit. */
static void near_enough(const char *run, const char *what, int64_t said, double truth)
{
    double unit = truth >= 0x1p30 ? 0x1p30 : truth >= 0x1p20 ? 0x1p20 : truth >= 1024 ? 1024 : 1;
    if (fabs((double)said - truth) > 0.00501 * unit)
        fail_msg("%s: %s said %lld, true %.0f", run, what, (long long)said, truth);
}

static double number(const cJSON *o, const char *key)
{
    const cJSON *item = cJSON_GetObjectItem(o, key);
    if (!cJSON_IsNumber(item))
        fail_msg("no %s", key);
    return item->valuedouble;
}

static void check_recording(const char *run)
{
    char path[512];
    size_t len, json_len;
    (void)snprintf(path, sizeof path, TEST_RECORDED_DIR "/recordings/%s/stderr", run);
    char *text = fixture_read(path, &len);
    (void)snprintf(path, sizeof path, TEST_RECORDED_DIR "/recordings/%s/oom.json", run);
    char *json_text = fixture_read(path, &json_len);
    struct facts *f = facts_new();
    assert_non_null(text);
    messages_to_facts(f, text, len, "stderr");
    if (json_text == NULL) {
        assert_null(fixture_fact(f, "oom.requested_bytes"));
    } else {
        cJSON *json = cJSON_Parse(json_text);
        const cJSON *stats = cJSON_GetObjectItem(json, "stats");
        double allocated = number(stats, "allocated_bytes.all.current");
        near_enough(run, "R", value(f, "oom.requested_bytes"), number(json, "requested"));
        near_enough(run, "T", value(f, "oom.total_bytes"), number(json, "device_total_allowed"));
        near_enough(run, "A", value(f, "oom.allocated_bytes"), allocated);
        near_enough(run, "U", value(f, "oom.reserved_unallocated_bytes"),
                    number(stats, "reserved_bytes.all.current") - allocated);
        near_enough(run, "F", value(f, "oom.free_bytes"), number(json, "device_free"));
        assert_int_equal((int)number(json, "device"), value(f, "oom.device"));
        cJSON_Delete(json);
    }
    facts_free(f);
    free(text);
    free(json_text);
}

static void test_recordings(void **state)
{
    (void)state;
    static const char *const runs[] = {"capacity", "capacity_act", "fragmentation", "frag_churn",
                                       "leak",     "leak_swap",    "held",          "fault",
                                       "ok",       "segv"};
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++)
        check_recording(runs[i]);
}

static void test_line_numbers_past_the_bound(void **state)
{
    (void)state;
    static const char message[] =
        "\nMemory access fault by GPU node-1 (Agent handle: 0x1) on address "
        "0x2000. Reason: Unknown.\n";
    size_t size = (size_t)9 << 20;
    char *text = malloc(size);
    assert_non_null(text);
    memset(text, 'x', size);
    for (size_t i = 99; i < size; i += 100)
        text[i] = '\n';
    memcpy(text + size - sizeof message + 1, message, sizeof message - 1);
    unsigned line = 1;
    for (size_t i = 0; i < size - sizeof message + 2; i++)
        line += text[i] == '\n';
    struct facts *f = facts_new();
    messages_to_facts(f, text, size, NULL);
    char expected[64];
    (void)snprintf(expected, sizeof expected, "text line %u", line);
    assert_string_equal(expected, facts_find(f, "msg.memory_access_fault", FACT_LOG)->source);
    facts_free(f);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_program_output),
        cmocka_unit_test(test_pasted),
        cmocka_unit_test(test_any_text),
        cmocka_unit_test(test_too_many_gpus),
        cmocka_unit_test(test_no_source),
        cmocka_unit_test(test_environment_names),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_worked_numbers),
        cmocka_unit_test(test_growing_reserve),
        cmocka_unit_test(test_recordings),
        cmocka_unit_test(test_line_numbers_past_the_bound),
    };
    return cmocka_run_group_tests_name("messages", tests, NULL, NULL);
}
