/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watch/match.h"

static uint64_t total(const struct matcher *m)
{
    uint64_t sum = 0;
    for (int kind = 0; kind < MATCH_KINDS; kind++)
        sum += m->count[kind];
    return sum;
}

static struct matcher run(const char *text, size_t len)
{
    struct matcher m;
    matcher_init(&m);
    matcher_feed(&m, text, len);
    return m;
}

/* Each pattern in the middle of other text, cut in two at each place, counts once for its kind. */
static void test_every_pattern_at_every_split(void **state)
{
    (void)state;
    for (size_t i = 0; i < match_pattern_count; i++) {
        char text[256];
        int n = snprintf(text, sizeof text, "xx\n%s and more\n", match_patterns[i].text);
        for (int cut = 0; cut <= n; cut++) {
            struct matcher m;
            matcher_init(&m);
            matcher_feed(&m, text, (size_t)cut);
            matcher_feed(&m, text + cut, (size_t)(n - cut));
            assert_int_equal(m.count[match_patterns[i].kind], 1);
            assert_int_equal(total(&m), 1);
            assert_int_equal(m.first_index[match_patterns[i].kind], i);
        }
    }
}

/* One byte changed, one missing, one too many, a gap between: no match. */
static void test_every_pattern_has_its_negative(void **state)
{
    (void)state;
    for (size_t i = 0; i < match_pattern_count; i++) {
        const char *pattern = match_patterns[i].text;
        size_t len = strlen(pattern);
        for (size_t at = 0; at < len; at++) {
            char text[256];
            memcpy(text, pattern, len);
            text[at] = '\001';
            struct matcher m = run(text, len);
            assert_int_equal(total(&m), 0);
            memmove(text + at, text + at + 1, len - at - 1);
            /* "ab|b" without a b is "ab" with another b: only count what differs. */
            m = run(text, len - 1);
            assert_int_equal(m.count[match_patterns[i].kind], 0);
            matcher_init(&m);
            matcher_feed(&m, pattern, at);
            matcher_gap(&m);
            matcher_feed(&m, pattern + at, len - at);
            assert_int_equal(total(&m), at == 0 ? 1 : 0);
        }
    }
}

/* The automaton falls back to the longest suffix that can still become a match. */
static void test_false_starts(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int oom, fault, hang, error, plain;
    } cases[] = {
        {"HIHIHIP out of memory", 1, 0, 0, 0, 0},
        {"HIP out of HIP out of memory", 1, 0, 0, 0, 0},
        {"CUDA out of memorCUDA out of memory", 1, 0, 0, 0, 0},
        {"HSA_STATUS_ERROR_HSA_STATUS_ERROR_OUT_OF_RESOURCES", 1, 0, 0, 0, 0},
        {"HSA_STATUS_ERROR_MEMORY_HSA_STATUS_ERROR_EXCEPTION", 0, 1, 0, 0, 0},
        {"Memory access fault by Memory access fault by GPU node-1", 0, 1, 0, 0, 0},
        {"HW Exception by GPU node-1 (Agent handle: 0x1) reason :GPU Hang", 0, 0, 1, 0, 0},
        {"hipErrorOutOfhipErrorOutOfMemory", 1, 0, 0, 0, 0},
        {"CUDA error: out of memory\nCUDA error: out of memory", 2, 0, 0, 0, 0},
        {"TraTraceback (most recent call last):\n  AssertionError\n", 0, 0, 0, 0, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct matcher m = run(cases[i].text, strlen(cases[i].text));
        assert_int_equal(m.count[MATCH_OOM], cases[i].oom);
        assert_int_equal(m.count[MATCH_FAULT], cases[i].fault);
        assert_int_equal(m.count[MATCH_HANG], cases[i].hang);
        assert_int_equal(m.count[MATCH_ERROR], cases[i].error);
        assert_int_equal(m.count[MATCH_PLAIN], cases[i].plain);
    }
}

/* Normal output that looks similar, and warnings of real programs that run well. */
static void test_harmless_neighbours(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "warning: failed to mlock 123-byte buffer (after previously locking 0 bytes): Cannot "
        "allocate memory\nTry increasing RLIMIT_MEMLOCK ('ulimit -l' as root).\n",
        "ggml_cuda_host_malloc: failed to allocate 128.00 MiB of pinned memory: invalid argument\n",
        "RESOURCE_EXHAUSTED: Shared memory size limit exceeded: requested 70000, available: "
        "65536\n",
        "OutOfResources: out of resource: shared memory, Required: 70000, Hardware limit: 65536\n",
        "NCCL WARN Missing \"iommu=pt\" from kernel command line\n",
        "epoch 3 loss 0.1 memory 12.1 GiB, 0 faults, 0 errors\n",
        "hip out of memory, said nobody\n",
        "Segmentation model loaded; fault tolerant training on\n",
        "Warning [IsEnoughWorkspace] workspace required: 1, provided ptr: 0 size: 0\n",
        "terminated, called back\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        struct matcher m = run(lines[i], strlen(lines[i]));
        if (total(&m) != 0)
            fail_msg("matched: %s", lines[i]);
    }
}

/* Real messages: each counts once. */
static void test_real_messages_count_once(void **state)
{
    (void)state;
    static const struct {
        enum match_kind kind;
        const char *text;
    } cases[] = {
        {MATCH_OOM,
         "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 20.00 GiB. GPU 0 "
         "has a total capacity of 23.98 GiB of which 3.50 GiB is free. Of the allocated "
         "memory 19.5 GiB is allocated by PyTorch, and 512.00 MiB is reserved by PyTorch "
         "but unallocated.\n"},
        {MATCH_OOM, "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 9000.00 MiB on device "
                    "0: cudaMalloc failed: out of memory\n"},
        {MATCH_OOM,
         ":0:rocdevice.cpp :2995: 1 us: [pid:1 tid:0x1] Callback: Queue 0x1 Aborting with "
         "error : HSA_STATUS_ERROR_OUT_OF_RESOURCES: The runtime failed to allocate the "
         "necessary resources. Code: 0x1008 Available Free mem : 0 MB\n"},
        {MATCH_FAULT, "Memory access fault by GPU node-1 (Agent handle: 0x55d) on address "
                      "0x7f0000000000. Reason: Page not present or supervisor privilege.\n"},
        {MATCH_HANG, "HW Exception by GPU node-1 (Agent handle: 0x55d) reason :GPU Hang\n"},
        {MATCH_OOM, "ggml_vulkan: vk::Device::allocateMemory: ErrorOutOfDeviceMemory\n"},
        {MATCH_OOM, "ERROR: LoadError: Out of GPU memory trying to allocate 8.000 GiB\n"},
        {MATCH_HANG, "vk::Queue::submit: ErrorDeviceLost\n"},
        {MATCH_ERROR, "thread 'main' panicked at src/main.rs:4:5:\n"},
        {MATCH_PLAIN, "Traceback (most recent call last):\n  File \"x.py\", line 1\n"},
        {MATCH_ERROR, "terminate called after throwing an instance of 'std::runtime_error'\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct matcher m = run(cases[i].text, strlen(cases[i].text));
        assert_int_equal(m.count[cases[i].kind], 1);
        if (total(&m) != 1)
            fail_msg("matched more than once: %s", cases[i].text);
    }
}

/* A progress bar that never ends its line: 100 MB are searched and give one match. Only the struct is used as memory.
 * */
static void test_endless_line_and_all_bytes(void **state)
{
    (void)state;
    static unsigned char chunk[1 << 20];
    for (size_t i = 0; i < sizeof chunk; i++)
        chunk[i] = (unsigned char)(i * 131 % 256 == '\n' ? 0 : i * 131 % 256);
    struct matcher m;
    matcher_init(&m);
    for (int i = 0; i < 100; i++)
        matcher_feed(&m, chunk, sizeof chunk);
    assert_int_equal(total(&m), 0);
    matcher_feed(&m, "HIP out of memory", 17);
    assert_int_equal(total(&m), 1);
}

static void test_table_fits(void **state)
{
    (void)state;
    /* If one pattern contained another, a message would count twice. */
    for (size_t i = 0; i < match_pattern_count; i++) {
        for (size_t k = 0; k < match_pattern_count; k++) {
            if (i != k)
                assert_null(strstr(match_patterns[i].text, match_patterns[k].text));
        }
    }
    assert_string_equal(match_kind_name(MATCH_HANG), "hang");
    assert_string_equal(match_kind_name(MATCH_KINDS), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_pattern_at_every_split),
        cmocka_unit_test(test_every_pattern_has_its_negative),
        cmocka_unit_test(test_false_starts),
        cmocka_unit_test(test_harmless_neighbours),
        cmocka_unit_test(test_real_messages_count_once),
        cmocka_unit_test(test_endless_line_and_all_bytes),
        cmocka_unit_test(test_table_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
