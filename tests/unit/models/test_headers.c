/* SPDX-License-Identifier: Apache-2.0 */
/* Headers of model files: whole, cut at every byte, mutated, hostile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "collectors/lib/byte_reader.h"
#include "collectors/lib/gguf.h"
#include "collectors/lib/safetensors.h"
#include "collectors/lib/weights.h"
#include "make_model.h"
#include "sink.h"

static void parse_memory(const void *data, size_t len, struct weights *w)
{
    struct byte_reader r;
    /* A copy of exactly this size, so that the sanitizer sees a read past its end. */
    char *copy = malloc(len != 0 ? len : 1);
    assert_non_null(copy);
    memcpy(copy, data, len);
    *w = (struct weights){0};
    byte_reader_init_memory(&r, copy, len, UINT64_MAX);
    if (len >= 4 && memcmp(data, "GGUF", 4) == 0)
        gguf_read(&r, w);
    else
        safetensors_read(&r, w);
    free(copy);
}

static void parse_file(const struct buf *b, const char *name, struct weights *w)
{
    int fd = memfd_create("model", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, b->data, b->len), b->len);
    weights_read(fd, b->len, name, w);
    (void)close(fd);
}

static void check_field(const struct weights *w, enum weights_field field, uint64_t value)
{
    const uint64_t *got = weights_field(w, field);
    assert_non_null(got);
    assert_int_equal(*got, value);
}

static void check_tiny_gguf(const struct weights *w, unsigned version)
{
    char mix[128];
    assert_string_equal(w->problem, "");
    assert_int_equal(w->format, WEIGHTS_GGUF);
    assert_int_equal(w->version, version);
    assert_string_equal(w->architecture, "llama");
    assert_string_equal(w->name, "Tiny Invented 1M");
    assert_string_equal(w->file_type, "Q4_K_M");
    check_field(w, WEIGHTS_CONTEXT_LENGTH, 4096);
    check_field(w, WEIGHTS_EMBEDDING_LENGTH, 256);
    check_field(w, WEIGHTS_BLOCK_COUNT, 1);
    check_field(w, WEIGHTS_HEAD_COUNT, 8);
    check_field(w, WEIGHTS_HEAD_COUNT_KV, 4);
    check_field(w, WEIGHTS_VOCABULARY, 5);
    check_field(w, WEIGHTS_KEY_LENGTH, 48);
    check_field(w, WEIGHTS_VALUE_LENGTH, 40);
    check_field(w, WEIGHTS_SLIDING_WINDOW, 1024);
    check_field(w, WEIGHTS_LATENT_RANK, 512);
    assert_null(weights_field(w, WEIGHTS_EXPERT_COUNT));
    assert_int_equal(w->tensor_count, 3);
    assert_int_equal(w->elements, 8 + 512 + 256);
    assert_int_equal(w->tensor_bytes, 32 + 288 + 210);
    weights_mix(w, mix, sizeof mix);
    assert_string_equal(mix, "Q4_K 1, Q6_K 1, F32 1");
    assert_false(w->truncated);
}

static void test_gguf_versions(void **state)
{
    (void)state;
    for (unsigned version = 1; version <= 3; version++) {
        for (int big = 0; big < (version == 3 ? 2 : 1); big++) {
            struct buf b = BUF_INIT;
            struct weights w;
            make_gguf(&b, version, big);
            parse_memory(b.data, b.len, &w);
            check_tiny_gguf(&w, version);
            assert_int_equal(w.big_endian, big);
            assert_int_equal(w.needed_bytes, b.len);
            parse_file(&b, "x", &w); /* no name needed */
            check_tiny_gguf(&w, version);
            buf_release(&b);
        }
    }
}

static void test_gguf_every_truncation(void **state)
{
    (void)state;
    struct buf b = BUF_INIT;
    make_gguf(&b, 3, false);
    for (size_t len = 4; len < b.len; len++) {
        struct weights w;
        parse_memory(b.data, len, &w);
        assert_true(w.truncated);
        assert_true(w.problem[0] != '\0');
    }
    buf_release(&b);
}

static void test_safetensors_whole(void **state)
{
    (void)state;
    struct buf b = BUF_INIT;
    struct weights w;
    char mix[128];
    make_safetensors(&b, small_safetensors_json, SMALL_SAFETENSORS_DATA);
    parse_memory(b.data, b.len, &w);
    for (int i = 0; i < 2; i++) {
        assert_string_equal(w.problem, "");
        assert_int_equal(w.format, WEIGHTS_SAFETENSORS);
        assert_string_equal(w.metadata_format, "pt");
        assert_int_equal(w.tensor_count, 3);
        assert_int_equal(w.elements, 32 + 1 + 14);
        assert_int_equal(w.tensor_bytes, 96);
        assert_int_equal(w.needed_bytes, b.len);
        weights_mix(&w, mix, sizeof mix);
        assert_string_equal(mix, "BF16 1, F16 1, F32 1");
        parse_file(&b, "blob-without-suffix", &w);
    }
    buf_release(&b);
}

static void test_safetensors_every_truncation(void **state)
{
    (void)state;
    struct buf b = BUF_INIT;
    make_safetensors(&b, small_safetensors_json, SMALL_SAFETENSORS_DATA);
    for (size_t len = 0; len < b.len; len++) {
        struct weights w;
        parse_memory(b.data, len, &w);
        assert_true(w.truncated);
        assert_true(w.problem[0] != '\0');
    }
    buf_release(&b);
}

/* Parsing a mutant must end and stay inside the buffer (the sanitizer checks that). */
static void mutate(const struct buf *b, unsigned rounds)
{
    uint64_t seed = 0x9e3779b97f4a7c15u;
    unsigned broken = 0;
    for (unsigned i = 0; i < rounds; i++) {
        char *copy = malloc(b->len);
        assert_non_null(copy);
        memcpy(copy, b->data, b->len);
        for (int k = 0; k < 1 + (int)(i % 4); k++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            copy[4 + (seed >> 33) % (b->len - 4)] = (char)(seed >> 20);
        }
        struct weights w;
        parse_memory(copy, b->len, &w);
        broken += w.problem[0] != '\0';
        assert_true(w.type_count <= WEIGHTS_TYPES_MAX);
        assert_true(strlen(w.architecture) < sizeof w.architecture);
        free(copy);
    }
    assert_true(broken > rounds / 20); /* enough mutants got past the first checks */
}

static void test_mutants(void **state)
{
    (void)state;
    struct buf b = BUF_INIT;
    make_gguf(&b, 3, false);
    mutate(&b, 20000);
    buf_release(&b);
    make_safetensors(&b, small_safetensors_json, SMALL_SAFETENSORS_DATA);
    mutate(&b, 20000);
    buf_release(&b);
}

static void expect_gguf_problem(struct buf *b, const char *part)
{
    struct weights w;
    parse_memory(b->data, b->len, &w);
    if (strstr(w.problem, part) == NULL)
        fail_msg("problem is '%s', not '%s'", w.problem, part);
    buf_release(b);
}

static void test_gguf_hostile(void **state)
{
    (void)state;
    struct buf b = BUF_INIT;
    struct gguf_writer w = {.out = &b, .version = 3};
    gguf_begin(&w, UINT64_MAX, 0);
    expect_gguf_problem(&b, "more than a million");
    gguf_begin(&w, 0, UINT64_MAX);
    expect_gguf_problem(&b, "more than a million");
    gguf_begin(&w, 0, 1); /* a key of 2^64-1 bytes */
    gguf_uint(&w, UINT64_MAX, 8);
    expect_gguf_problem(&b, "past the end");
    gguf_begin(&w, 0, 1); /* an array of 2^63 u64: the product wraps to 0 */
    gguf_text(&w, "k");
    gguf_uint(&w, 9, 4);
    gguf_uint(&w, 10, 4);
    gguf_uint(&w, UINT64_C(1) << 61, 8);
    expect_gguf_problem(&b, "past the end");
    gguf_begin(&w, 0, 1); /* endlessly nested arrays */
    gguf_text(&w, "k");
    gguf_uint(&w, 9, 4);
    for (int i = 0; i < 100; i++) {
        gguf_uint(&w, 9, 4);
        gguf_uint(&w, 1, 8);
    }
    expect_gguf_problem(&b, "too deep");
    gguf_begin(&w, 0, 1);
    gguf_text(&w, "k");
    gguf_uint(&w, 77, 4);
    expect_gguf_problem(&b, "unknown value type");
    gguf_begin(&w, 0, 1);
    gguf_pair_u32(&w, "general.alignment", 0);
    expect_gguf_problem(&b, "power of two");
    gguf_begin(&w, 1, 0); /* 2^64-1 x 2^64-1 elements at offset 2^64-1 */
    gguf_tensor_info(&w, "t", UINT64_MAX, UINT64_MAX, 0, UINT64_MAX);
    expect_gguf_problem(&b, "the header needs 18446744073709551615 bytes");
    gguf_begin(&w, 1, 0);
    gguf_text(&w, "t");
    gguf_uint(&w, 4000000000u, 4);
    expect_gguf_problem(&b, "8 dimensions");
    w.version = 9;
    gguf_begin(&w, 0, 0);
    expect_gguf_problem(&b, "not 1, 2 or 3");
}

static void test_gguf_many_types_and_odd_text(void **state)
{
    (void)state;
    struct buf b = BUF_INIT;
    struct weights parsed;
    struct gguf_writer w = {.out = &b, .version = 3};
    gguf_begin(&w, 100, 1);
    gguf_pair_text(&w, "general.name",
                   "a\x01"
                   "b\xff"
                   "c\x1b[2J\xc3\xa9");
    for (uint32_t i = 0; i < 100; i++)
        gguf_tensor_info(&w, "t", 0, 0, 1000 + i, 0);
    parse_memory(b.data, b.len, &parsed);
    assert_string_equal(parsed.name, "a?b?c?[2J\xc3\xa9");
    assert_int_equal(parsed.type_count, WEIGHTS_TYPES_MAX);
    assert_int_equal(parsed.tensor_count, 100);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < parsed.type_count; i++)
        sum += parsed.types[i].tensors;
    assert_int_equal(sum, 100);
    buf_release(&b);
}

static void test_safetensors_hostile(void **state)
{
    (void)state;
    static const struct {
        const char *json, *problem;
    } cases[] = {
        {"{}", ""},
        {"{}x", "something follows"},
        {"[]", "not the JSON"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,0]}}", "impossible offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", "impossible offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,0]}}",
         "number was expected"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[99999999999999999999999],\"data_offsets\":[0,0]}}",
         ""},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,18446744073709551615]}}",
         "the header needs 18446744073709551615"},
        {"{\"a\":{\"x\":{\"y\":[1,true,null,\"}\"]},\"dtype\":\"F32\",\"shape\":[1],"
         "\"data_offsets\":[0,0]}}",
         ""},
        {"{\"a\":{\"x\":[}}}", "unbalanced"},
        {"{\"a\":{\"x\":@}}", "not the JSON"},
        {"{\"a", "ends within a string"},
        {"{\"a\\\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,0]}}", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct buf b = BUF_INIT;
        struct weights w;
        make_safetensors(&b, cases[i].json, 0);
        parse_memory(b.data, b.len, &w);
        bool match = cases[i].problem[0] == '\0' ? w.problem[0] == '\0'
                                                 : strstr(w.problem, cases[i].problem) != NULL;
        if (!match)
            fail_msg("%s: '%s', not '%s'", cases[i].json, w.problem, cases[i].problem);
        buf_release(&b);
    }
}

static void test_safetensors_deep_and_long(void **state)
{
    (void)state;
    struct buf json = BUF_INIT;
    struct buf b = BUF_INIT;
    struct weights w;
    buf_puts(&json, "{\"a\":{\"x\":");
    for (int i = 0; i < 1000000; i++)
        buf_putc(&json, '[');
    make_safetensors(&b, buf_str(&json), 0);
    parse_memory(b.data, b.len, &w);
    assert_non_null(strstr(w.problem, "nested too deep"));
    buf_release(&b);
    struct gguf_writer writer = {.out = &b};
    gguf_uint(&writer, UINT64_MAX, 8);
    buf_puts(&b, "{}");
    parse_memory(b.data, b.len, &w);
    assert_non_null(strstr(w.problem, "longer than 100 MB"));
    buf_release(&b);
    buf_release(&json);
}

/* 200,000 tensors in 20 MB of header: parsed fast, in constant memory. */
static void test_safetensors_large_header(void **state)
{
    (void)state;
    struct buf json = BUF_INIT;
    struct buf b = BUF_INIT;
    struct weights w;
    buf_putc(&json, '{');
    for (int i = 0; i < 200000; i++)
        buf_printf(&json,
                   "%s\"model.layers.%d.experts.weight\":{\"dtype\":\"F8_E4M3\",\"shape\":[1],"
                   "\"data_offsets\":[%d,%d]}",
                   i ? "," : "", i, i, i + 1);
    buf_putc(&json, '}');
    make_safetensors(&b, buf_str(&json), 200000);
    parse_file(&b, "m.safetensors", &w);
    assert_string_equal(w.problem, "");
    assert_int_equal(w.tensor_count, 200000);
    assert_int_equal(w.type_count, 1);
    assert_string_equal(w.types[0].name, "F8_E4M3");
    buf_release(&b);
    buf_release(&json);
}

static void test_other_formats(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t len;
        const char *name;
        enum weights_format format;
        bool truncated;
    } cases[] = {
        {"PK\003\004 rest", 9, "m.pt", WEIGHTS_ZIP, true},
        {"PK\003\004 PK\005\006 0123456789abcdefgh", 27, "m.pt", WEIGHTS_ZIP, false},
        {"\x80\x02}q", 4, "m.pth", WEIGHTS_PICKLE, false},
        {"lmgg....", 8, "m.bin", WEIGHTS_GGML, false},
        {"tjgg....", 8, "m.bin", WEIGHTS_GGML, false},
        {"\x08\x07", 2, "m.onnx", WEIGHTS_ONNX, false},
        {"hello world", 11, "m.bin", WEIGHTS_UNKNOWN, false},
        {"", 0, "m.bin", WEIGHTS_UNKNOWN, false},
        {"", 0, "m.safetensors", WEIGHTS_SAFETENSORS, true},
        {"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", 57, "m.safetensors",
         WEIGHTS_SAFETENSORS, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct buf b = BUF_INIT;
        struct weights w;
        buf_append(&b, cases[i].bytes, cases[i].len);
        int fd = memfd_create("m", MFD_CLOEXEC);
        assert_int_equal(write(fd, buf_str(&b), b.len), b.len);
        weights_read(fd, b.len, cases[i].name, &w);
        assert_int_equal(w.format, cases[i].format);
        assert_int_equal(w.truncated, cases[i].truncated);
        (void)close(fd);
        buf_release(&b);
    }
}

/* The file shrinks between fstat and reading. */
static void test_file_shorter_than_said(void **state)
{
    (void)state;
    struct buf b = BUF_INIT;
    struct weights w;
    make_gguf(&b, 3, false);
    int fd = memfd_create("m", MFD_CLOEXEC);
    assert_int_equal(write(fd, b.data, 100), 100);
    weights_read(fd, b.len, "m.gguf", &w);
    assert_true(w.truncated);
    (void)close(fd);
    buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gguf_versions),
        cmocka_unit_test(test_gguf_every_truncation),
        cmocka_unit_test(test_safetensors_whole),
        cmocka_unit_test(test_safetensors_every_truncation),
        cmocka_unit_test(test_mutants),
        cmocka_unit_test(test_gguf_hostile),
        cmocka_unit_test(test_gguf_many_types_and_odd_text),
        cmocka_unit_test(test_safetensors_hostile),
        cmocka_unit_test(test_safetensors_deep_and_long),
        cmocka_unit_test(test_safetensors_large_header),
        cmocka_unit_test(test_other_formats),
        cmocka_unit_test(test_file_shorter_than_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
