/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Garbage for every text parser: cut at every byte, mutated, random, repeated. Nothing may crash,
 * read out of bounds (the inputs are exact heap copies, for the sanitizers) or take long.
 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "diagnose/verdict.h"
#include "fixture_run.h"

#define FIXTURES TEST_SOURCE_DIR "/tests/fixtures/messages"

/* A generous limit: sanitizers and a busy machine may take ten times as long; a quadratic parser takes minutes. */
#define BIG_LIMIT_NS UINT64_C(30000000000)

/* The sanitizer and coverage builds run ten times slower. They test fewer positions, different ones
 * in each run; the optimised build tests all. */
#ifdef __OPTIMIZE__
#define SLOWER 1
#else
#define SLOWER 8
#endif

static void parse_copy(char kind, const char *data, size_t len)
{
    char *copy = malloc(len > 0 ? len : 1);
    struct facts *f = facts_new();
    assert_non_null(copy);
    memcpy(copy, data, len);
    fixture_parse(kind, f, copy, len);
    for (size_t i = 0; i < facts_count(f); i++)
        assert_non_null(facts_at(f, i)->source);
    facts_free(f);
    free(copy);
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void cut_and_mutate(const char *name, uint64_t *random)
{
    char path[512];
    size_t len;
    (void)snprintf(path, sizeof path, FIXTURES "/%s", name);
    char *data = fixture_read(path, &len);
    assert_non_null(data);
    size_t step = SLOWER * (len > 1500 ? 3 : 1);
    unsigned turn = 0;
    for (size_t n = next_random(random) % step; n <= len; n += step) {
        parse_copy(name[0], data, n);
        if (turn++ % 4 == 0)
            parse_copy(name[0], data + n, len - n);
    }
    parse_copy(name[0], data, len);
    for (int round = 0; round < 300 / SLOWER; round++) {
        char *bad = malloc(len + 1);
        assert_non_null(bad);
        memcpy(bad, data, len);
        unsigned edits = 1 + (unsigned)(next_random(random) % 8);
        for (unsigned i = 0; i < edits && len > 0; i++)
            bad[next_random(random) % len] = (char)next_random(random);
        /* mostly the parser it was written for, sometimes another one */
        parse_copy(round % 4 == 0 ? "mkpe"[next_random(random) % 4] : name[0], bad, len);
        free(bad);
    }
    free(data);
}

static void test_cut_and_mutated(void **state)
{
    (void)state;
    const char *fixed = getenv("TEST_SEED");
    uint64_t seed = fixed != NULL ? strtoull(fixed, NULL, 10) : clock_wall_ns() | 1;
    uint64_t random = seed;
    print_message("seed %llu (set TEST_SEED to repeat)\n", (unsigned long long)seed);
    DIR *dir = opendir(FIXTURES);
    assert_non_null(dir);
    unsigned files = 0;
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        size_t n = strlen(e->d_name);
        if (n > 4 && strcmp(e->d_name + n - 4, ".txt") == 0) {
            cut_and_mutate(e->d_name, &random);
            files++;
        }
    }
    (void)closedir(dir);
    assert_true(files > 40);
}

/* CPU time of this process, because the machine may be busy. */
static uint64_t cpu_ns(void)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static void timed(const char *what, char kind, const char *data, size_t len)
{
    uint64_t begin = cpu_ns();
    parse_copy(kind, data, len);
    uint64_t took = cpu_ns() - begin;
    if (took > BIG_LIMIT_NS)
        fail_msg("%s as '%c': %llu ms", what, kind, (unsigned long long)(took / 1000000));
    print_message("%-28s %c %6llu ms\n", what, kind, (unsigned long long)(took / 1000000));
}

static void fill(char *data, size_t len, const char *piece)
{
    size_t n = strlen(piece);
    for (size_t i = 0; i < len; i++)
        data[i] = piece[i % n];
}

static void test_big_inputs(void **state)
{
    (void)state;
    static const char *const pieces[] = {
        "Tried to allocate ",
        " total capacity If reserved ",
        "page fault (src_id: ",
        "\n[ 1.0] GCVM_L2_PROTECTION_FAULT_STATUS:0x1",
        "Process 1 has 2 GiB memory in use ",
        "ring * timeout, ",
        "1,234,",
        "card0card1card",
        "[[[[{{{{",
        "ibv_create_cq",
        "C:/",
        "gfx9",
        "a[1",
        "+rocm",
        "A=\n",
        "x y ",
    };
    size_t len = ((size_t)10 << 20) / SLOWER;
    char *data = malloc(len);
    uint64_t random = 88172645463325252u;
    assert_non_null(data);
    for (size_t i = 0; i < len; i += 8) {
        uint64_t r = next_random(&random);
        memcpy(data + i, &r, 8);
    }
    for (const char *k = "mkpe"; *k != '\0'; k++)
        timed("10 MiB random", *k, data, len);
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        size_t n = ((size_t)4 << 20) / SLOWER;
        fill(data, n, pieces[i]);
        for (const char *k = "mkpe"; *k != '\0'; k++)
            timed(pieces[i][0] == '\n' ? pieces[i] + 1 : pieces[i], *k, data, n);
    }
    memset(data, 'x', len);
    for (const char *k = "mkpe"; *k != '\0'; k++)
        timed("one line of 4 MiB", *k, data, ((size_t)4 << 20) / SLOWER);
    memset(data, '\n', len);
    for (const char *k = "mkpe"; *k != '\0'; k++)
        timed("10 MiB of line ends", *k, data, len);
    free(data);
}

static void test_nothing(void **state)
{
    (void)state;
    for (const char *k = "mkpe"; *k != '\0'; k++) {
        struct facts *f = facts_new();
        fixture_parse(*k, f, NULL, 0);
        fixture_parse(*k, f, "", 0);
        assert_int_equal(0, facts_count(f));
        facts_free(f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_cut_and_mutated),
        cmocka_unit_test(test_big_inputs),
    };
    return cmocka_run_group_tests_name("messages_garbage", tests, NULL, NULL);
}
