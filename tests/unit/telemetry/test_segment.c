/* SPDX-License-Identifier: Apache-2.0 */
/* Segments: torn tails, restarts, thinning, and a week within its budget. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "help.h"
#include "telemetry/segment.h"

#define SECOND UINT64_C(1000000000)
#define T0 (UINT64_C(1000) * SECOND)

static size_t one_value(unsigned char *out, uint64_t time_ns, uint16_t flags, uint64_t value)
{
    struct help_value v = {METRIC_GPU_VRAM_USED, 0, VALUE_OK, value};
    return help_record(out, time_ns, flags, &v, 1);
}

static uint64_t dir_bytes(const char *dir, unsigned *ret_files)
{
    RC_AUTO_CLOSEDIR DIR *d = opendir(dir);
    assert_non_null(d);
    uint64_t bytes = 0;
    *ret_files = 0;
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        struct stat st;
        if (e->d_name[0] == '.' || fstatat(dirfd(d), e->d_name, &st, 0) != 0)
            continue;
        assert_true(segment_number(e->d_name) >= 0); /* no temporary file is left */
        bytes += (uint64_t)st.st_size;
        (*ret_files)++;
    }
    return bytes;
}

/* Bytes that were appended in pieces of any size are read back as the same records. */
static void test_append_in_pieces(void **state)
{
    (void)state;
    char dir[256];
    help_make_dir(dir, sizeof dir);
    uint64_t random = help_seed();
    static unsigned char data[1000 * 32];
    size_t len = 0;
    for (uint64_t i = 0; i < 1000; i++)
        len += one_value(data + len, T0 + i * SECOND, 0, i + 1);
    for (size_t at = 0; at < len;) {
        size_t n = help_random(&random) % 100 + 1;
        bool takes_over = help_random(&random) % 20 == 0;
        if (takes_over)
            n += 16 - (at + n) % 16;
        n = n < len - at ? n : len - at;
        assert_int_equal(segment_append(dir, data + at, n), 0);
        if (takes_over)
            segment_close(false); /* another process goes on, also in the middle of a record */
        at += n;
    }
    segment_close(true);
    struct series_set set;
    assert_int_equal(series_load(&set, dir, NULL), 0);
    assert_int_equal(set.record_count, 1000);
    assert_int_equal(set.skipped_bytes, 0);
    const struct series *s = series_find(&set, METRIC_GPU_VRAM_USED, 0);
    assert_int_equal(s->count, 1000);
    assert_true(series_at(s, T0 + 500 * SECOND)->value == 501);
    series_release(&set);
    help_remove(dir);
}

/* Cuts the file at every byte of its last records: all whole records before the cut are read, the rest is skipped, and
 * the records that a restarted writer appends are read. */
static void test_torn_tail(void **state)
{
    (void)state;
    char dir[256];
    char path[300];
    char next[300];
    help_make_dir(dir, sizeof dir);
    (void)snprintf(path, sizeof path, "%s/samples.0000", dir);
    (void)snprintf(next, sizeof next, "%s/samples.0001", dir);
    unsigned char data[20 * 32];
    unsigned char later[32];
    size_t len = 0;
    for (uint64_t i = 0; i < 20; i++)
        len += one_value(data + len, T0 + i, 0, i + 1);
    for (size_t cut = 0; cut <= len; cut++) {
        (void)unlink(path);
        (void)unlink(next);
        assert_int_equal(segment_append(dir, data, len), 0);
        segment_close(false);
        assert_int_equal(truncate(path, (off_t)cut), 0);
        assert_int_equal(segment_append(dir, later, one_value(later, T0 + 100, 0, 77)), 0);
        segment_close(false);
        struct series_set set;
        assert_int_equal(series_load(&set, dir, NULL), 0);
        assert_int_equal(set.record_count, cut / 32 + 1);
        assert_int_equal(set.skipped_bytes, cut % 32);
        const struct series *s = series_find(&set, METRIC_GPU_VRAM_USED, 0);
        assert_true(series_peak(s)->value == 77);
        for (size_t i = 0; i + 1 < s->count; i++)
            assert_true(s->points[i].value == i + 1 && s->points[i].time_ns == T0 + i);
        series_release(&set);
    }
    help_remove(dir);
}

static void test_garbage_between(void **state)
{
    (void)state;
    char dir[256];
    char path[300];
    uint64_t random = help_seed();
    help_make_dir(dir, sizeof dir);
    (void)snprintf(path, sizeof path, "%s/samples.0000", dir);
    for (int round = 0; round < 200; round++) {
        unsigned char data[4096];
        size_t len = 0;
        for (uint64_t i = 0; i < 100; i++)
            len += one_value(data + len, T0 + i, 0, i);
        for (int k = 0; k < 20; k++)
            data[help_random(&random) % len] = (unsigned char)help_random(&random);
        RC_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        assert_int_equal(fs_write_all(fd, data, len - help_random(&random) % 64), 0);
        struct series_set set;
        assert_int_equal(series_load(&set, dir, NULL), 0);
        assert_true(set.record_count <= 100);
        for (size_t i = 1; i < set.record_count; i++)
            assert_true(set.records[i].time_ns > set.records[i - 1].time_ns);
        series_release(&set);
    }
    help_remove(dir);
}

/* --- thinning --- */

static void test_thin_keeps_extremes_and_marks(void **state)
{
    (void)state;
    enum { N = 20000 };
    unsigned char *data = malloc(N * 40);
    unsigned char *out = malloc(SEGMENT_BYTES);
    uint64_t random = help_seed();
    size_t len = 0;
    uint64_t smallest = UINT64_MAX;
    uint64_t largest = 0;
    uint64_t at_impact = 0;
    for (uint64_t i = 0; i < N; i++) {
        uint64_t value = 1000000 + help_random(&random) % 1000;
        if (i == 7777)
            at_impact = value;
        if (i == 12345)
            value = 9999999; /* one sample high: must survive any thinning */
        if (i == 6789)
            value = 1;
        smallest = value < smallest ? value : smallest;
        largest = value > largest ? value : largest;
        uint16_t flags = i == 0      ? SAMPLE_FULL | SAMPLE_BASELINE
                         : i == 7777 ? SAMPLE_FULL | SAMPLE_IMPACT
                                     : 0;
        len += one_value(data + len, T0 + i * SECOND / 10, flags, value);
    }
    const size_t limit = 16384;
    int64_t thin = segment_thin(data, len, out, limit);
    assert_true(thin > (int64_t)limit / 4 && thin <= (int64_t)limit);
    struct series_set set = {0};
    assert_int_equal(series_add(&set, out, (size_t)thin), 0);
    assert_int_equal(set.skipped_bytes, 0);
    const struct series *s = series_find(&set, METRIC_GPU_VRAM_USED, 0);
    assert_true(series_peak(s)->value == largest);
    assert_true(series_peak(s)->time_ns == T0 + 12345 * SECOND / 10);
    uint64_t seen_smallest = UINT64_MAX;
    for (size_t i = 0; i < s->count; i++)
        seen_smallest = s->points[i].value < seen_smallest ? s->points[i].value : seen_smallest;
    assert_true(seen_smallest == smallest);
    assert_true(series_time_of(&set, SAMPLE_BASELINE) == T0);
    assert_true(series_time_of(&set, SAMPLE_IMPACT) == T0 + 7777 * SECOND / 10);
    assert_int_equal(series_at(s, T0 + 7777 * SECOND / 10)->value, at_impact);
    /* It is thinned again, with itself: the extremes stay. */
    int64_t again = segment_thin(out, (size_t)thin, data, limit / 4);
    series_release(&set);
    assert_true(again > 0 && again <= (int64_t)limit / 4);
    assert_int_equal(series_add(&set, data, (size_t)again), 0);
    s = series_find(&set, METRIC_GPU_VRAM_USED, 0);
    assert_true(series_peak(s)->value == largest);
    assert_true(series_time_of(&set, SAMPLE_IMPACT) == T0 + 7777 * SECOND / 10);
    series_release(&set);
    free(data);
    free(out);
}

static void test_thin_keeps_status_changes(void **state)
{
    (void)state;
    unsigned char data[64 * 1024];
    unsigned char out[64 * 1024];
    size_t len = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        struct help_value v = {METRIC_GPU_BUSY, 3, i < 500 ? VALUE_OK : VALUE_STALLED, 7};
        len += help_record(data + len, T0 + i * SECOND, 0, &v, 1);
    }
    int64_t thin = segment_thin(data, len, out, 4096);
    assert_true(thin > 0);
    struct series_set set = {0};
    assert_int_equal(series_add(&set, out, (size_t)thin), 0);
    const struct series *s = series_find(&set, METRIC_GPU_BUSY, 3);
    assert_int_equal(s->count, 2); /* repeated values cost nothing */
    assert_int_equal(s->points[1].status, VALUE_STALLED);
    series_release(&set);
}

/* A program that catches every refusal: an IMPACT record a second. The result still fits, with the baseline and with
 * the first and the last IMPACT record whole. */
static void test_thin_many_impacts(void **state)
{
    (void)state;
    enum { N = 1500, VALUES = 16 };
    unsigned char *data = malloc(N * (VALUES + 1) * 16);
    unsigned char *out = malloc(SEGMENT_BYTES);
    size_t len = 0;
    for (uint64_t i = 0; i < N; i++) {
        struct help_value v[VALUES];
        for (uint32_t k = 0; k < VALUES; k++)
            v[k] = (struct help_value){METRIC_GPU_VRAM_USED, k, VALUE_OK, i * 1000 + k};
        uint16_t flags = SAMPLE_FULL | (i == 0 ? SAMPLE_BASELINE : SAMPLE_IMPACT);
        len += help_record(data + len, T0 + i * SECOND, flags, v, VALUES);
    }
    int64_t thin = segment_thin(data, len, out, 65536);
    assert_true(thin > 0 && thin <= 65536);
    struct series_set set = {0};
    assert_int_equal(series_add(&set, out, (size_t)thin), 0);
    assert_true(series_time_of(&set, SAMPLE_BASELINE) == T0);
    assert_true(series_time_of(&set, SAMPLE_IMPACT) == T0 + (N - 1) * SECOND);
    assert_int_equal(set.records[1].flags, SAMPLE_FULL | SAMPLE_IMPACT);
    assert_true(series_at(series_find(&set, METRIC_GPU_VRAM_USED, 9), UINT64_MAX)->value ==
                (N - 1) * 1000 + 9);
    assert_true(set.record_count > 50); /* the middle is thinned, not lost */
    series_release(&set);
    free(data);
    free(out);
}

/* The compactor died between the rename and the removal of the second file. */
static void test_interrupted_thinning(void **state)
{
    (void)state;
    char dir[256];
    help_make_dir(dir, sizeof dir);
    static unsigned char data[2000 * 32];
    static unsigned char out[SEGMENT_BYTES];
    size_t len = 0;
    for (uint64_t i = 0; i < 2000; i++)
        len += one_value(data + len, T0 + i * SECOND, 0, i + 1);
    int64_t thin = segment_thin(data, len, out, 8192);
    assert_true(thin > 0);
    int fd = open(dir, O_RDONLY | O_DIRECTORY);
    assert_int_equal(fs_write_file_at(fd, "samples.0000", out, (size_t)thin, false), 0);
    assert_int_equal(fs_write_file_at(fd, "samples.0001", data + len / 2, len / 2, false), 0);
    (void)close(fd);
    struct series_set set;
    assert_int_equal(series_load(&set, dir, NULL), 0);
    for (size_t i = 1; i < set.record_count; i++)
        assert_true(set.records[i].time_ns > set.records[i - 1].time_ns);
    assert_true(series_peak(series_find(&set, METRIC_GPU_VRAM_USED, 0))->value == 2000);
    series_release(&set);
    help_remove(dir);
}

/* --- a week --- */

/* One second of the sampler's records for `gpus` busy GPUs and some processes. */
static size_t second_of_run(unsigned char *out, uint64_t second, unsigned gpus, uint64_t *random)
{
    size_t len = 0;
    uint64_t base = T0 + second * SECOND;
    for (uint64_t tick = 0; tick < 10; tick++) {
        struct help_value v[64];
        size_t n = 0;
        for (uint32_t g = 0; g < gpus; g++) {
            uint64_t used = (second + tick) * 1000 + help_random(random) % 100000;
            v[n++] = (struct help_value){METRIC_GPU_VRAM_USED, g, VALUE_OK, used};
            v[n++] = (struct help_value){METRIC_GPU_VIS_USED, g, VALUE_OK, used};
            v[n++] = (struct help_value){METRIC_GPU_GTT_USED, g, VALUE_OK, used / 2};
        }
        for (uint32_t p = 0; tick == 0 && p < 8; p++)
            v[n++] = (struct help_value){METRIC_PROC_RSS, 100 + p, VALUE_OK,
                                         help_random(random)};
        uint16_t flags = second == 0 && tick == 0 ? SAMPLE_FULL | SAMPLE_BASELINE : 0;
        len += help_record(out + len, base + tick * SECOND / 10, flags, v, n);
    }
    return len;
}

static void run_simulated(uint64_t seconds, unsigned gpus, const char *what)
{
    char dir[256];
    help_make_dir(dir, sizeof dir);
    segment_set_durable(false);
    uint64_t random = help_seed();
    static unsigned char data[65536];
    uint64_t written = 0;
    uint64_t most = 0;
    unsigned files = 0;
    uint64_t start = clock_mono_ns();
    for (uint64_t second = 0; second < seconds; second++) {
        size_t len = second_of_run(data, second, gpus, &random);
        written += len;
        assert_int_equal(segment_append(dir, data, len), 0);
        if (second % (seconds / 64) == 0) {
            uint64_t now = dir_bytes(dir, &files);
            most = now > most ? now : most;
        }
    }
    uint64_t spent = clock_mono_ns() - start;
    segment_close(false);
    segment_set_durable(true);
    struct series_set set;
    assert_int_equal(series_load(&set, dir, NULL), 0);
    uint64_t left = dir_bytes(dir, &files);
    (void)printf("  %s: %.1f MB written, at most %.2f MB on disk, %.2f MB in %u files at the end, "
                 "%zu records, %.1f us a second of run\n",
                 what, (double)written / 1e6, (double)most / 1e6, (double)left / 1e6, files,
                 set.record_count, (double)spent / 1e3 / (double)seconds);
    assert_true(most < 16000000 && left < 16000000);
    assert_true(written < 16000000 || files == SEGMENTS_MAX);
    assert_true(series_time_of(&set, SAMPLE_BASELINE) == T0);
    assert_int_equal(set.skipped_bytes, 0);
    /* The last ten minutes are complete; no gap is longer than a twentieth of its age. */
    size_t recent = 0;
    uint64_t end = T0 + seconds * SECOND;
    uint64_t widest = 0;
    for (size_t i = 1; i < set.record_count; i++) {
        uint64_t gap = set.records[i].time_ns - set.records[i - 1].time_ns;
        uint64_t age = end - set.records[i].time_ns + SECOND;
        recent += set.records[i].time_ns >= end - 100 * SECOND;
        assert_true(gap * 20 <= age || gap <= SECOND);
        widest = gap > widest ? gap : widest;
    }
    assert_int_equal(recent, 1000);
    (void)printf("  widest gap %.1f s\n", (double)widest / 1e9);
    series_release(&set);
    help_remove(dir);
}

/* The sanitizer and coverage builds do not simulate a whole week. */
#ifdef __OPTIMIZE__
#define SLOWER 1
#else
#define SLOWER 8
#endif

static void test_week(void **state)
{
    (void)state;
    run_simulated(7 * 86400 / SLOWER, 1, SLOWER == 1 ? "a week of 1 busy GPU" : "21 h of 1 GPU");
    run_simulated(43200 / SLOWER, 8, SLOWER == 1 ? "half a day of 8 GPUs" : "90 min of 8 GPUs");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_append_in_pieces),
        cmocka_unit_test(test_torn_tail),
        cmocka_unit_test(test_garbage_between),
        cmocka_unit_test(test_thin_keeps_extremes_and_marks),
        cmocka_unit_test(test_thin_keeps_status_changes),
        cmocka_unit_test(test_thin_many_impacts),
        cmocka_unit_test(test_interrupted_thinning),
        cmocka_unit_test(test_week),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
