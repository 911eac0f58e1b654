/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order in which files are shortened if the bundle would exceed the limit of an attachment.
 *
 * The table ranks files by pattern; the lowest rank is cut first. Text loses its middle: the beginning says
 * what was started, the end what happened. Tables keep every Nth line. Other files are left out whole. Each
 * loss is a row of the manifest's "cut".
 */
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/ending.h"
#include "base/fs.h"
#include "bundle/internal.h"

#define CUT_MARKER "[... %llu " BUNDLE_CUT_WORDS ": bundle limit ...]\n"
static const char why_limit[] = "bundle limit";

/* First match decides; '*' also matches '/'. Low rank = cut first. */
static const struct {
    const char *pattern;
    int rank;
} value_order[] = {
    {"SUMMARY.md", 90},  {"verdict.json", 90}, {"facts.json", 85},   {"redaction.json", 85},
    {"report.html", 50}, {"raw/*", 0},         {"*/raw/*", 0},       {"*.raw", 0},
    {"*.bin", 0},        {"*.core", 0},        {"*devcoredump*", 5}, {"*stack*", 15},
    {"*kmsg*", 20},      {"*dmesg*", 20},      {"*journal*", 20},    {"*kernel*", 20},
    {"telemetry/*", 25}, {"*samples*", 25},    {"*.csv", 25},        {"*maps*", 30},
    {"*pip*", 35},       {"*packages*", 35},   {"output*", 40},      {"*/output*", 40},
    {"*stderr*", 40},
};

int cut_rank(const char *path)
{
    for (size_t i = 0; i < sizeof value_order / sizeof value_order[0]; i++) {
        if (fnmatch(value_order[i].pattern, path, FNM_NOESCAPE) == 0)
            return value_order[i].rank;
    }
    return 30;
}

/* Is it a table? Programs can still read a table from which lines were taken. */
static bool is_table(const char *path)
{
    return ends_with(path, ".csv") || ends_with(path, ".tsv") || ends_with(path, ".jsonl");
}

/* Half of a JSON document or of a binary file is worth nothing. */
static bool can_shorten(const struct stage *stage, const char *path)
{
    if (ends_with(path, ".json") || ends_with(path, ".html"))
        return false;
    RC_AUTO_CLOSE int fd = stage_open_file(stage, path);
    char head[4096];
    ssize_t n = fd < 0 ? -1 : fs_pread_full(fd, head, sizeof head, 0);
    return n > 0 && memchr(head, '\0', (size_t)n) == NULL;
}

static int by_value(const void *a, const void *b)
{
    const struct stage_file *const *x = a;
    const struct stage_file *const *y = b;
    if ((*x)->rank != (*y)->rank)
        return (*x)->rank < (*y)->rank ? -1 : 1;
    if ((*x)->packed != (*y)->packed)
        return (*x)->packed > (*y)->packed ? -1 : 1;
    return strcmp((*x)->path, (*y)->path);
}

/* Bytes of text that each round keeps. After the last round whole files are left out, the core file last. */
static const uint64_t round_floor[] = {64 * 1024, 4 * 1024, 0, 0};
#define CUT_ROUNDS (sizeof round_floor / sizeof round_floor[0])
#define CORE_RANK 85
#define SHORTENED_MAX (32.0 * 1024 * 1024) /* the shortened text is made in memory */

/* Cuts one file by about `excess` compressed bytes; returns how many compressed bytes that
 * saves. */
static uint64_t cut_file(const struct stage *stage, struct stage_file *file, uint64_t excess,
                         unsigned round)
{
    uint64_t now = file->plan == PLAN_KEEP ? file->bytes : file->keep;
    uint64_t floor = round_floor[round];
    bool core = file->rank >= CORE_RANK;
    if (file->plan == PLAN_DROP || now == 0 || (core && round + 1 < CUT_ROUNDS))
        return 0;
    bool text = file->plan != PLAN_KEEP || can_shorten(stage, file->path);
    if (text && (floor > 0 || core)) {
        floor = core ? round_floor[1] : floor;
        if (now <= floor)
            return 0;
        double per_byte = (double)file->packed / (double)now;
        double keep = (double)now - (double)excess / per_byte;
        if (keep > SHORTENED_MAX)
            keep = SHORTENED_MAX;
        file->keep = keep < (double)floor ? floor : (uint64_t)keep;
        file->plan = is_table(file->path) ? PLAN_THIN : PLAN_SHORTEN;
    } else {
        file->keep = 0;
        file->plan = PLAN_DROP;
    }
    file->why = why_limit;
    uint64_t left = (uint64_t)((double)file->packed * ((double)file->keep / (double)now));
    uint64_t gain = file->packed - left;
    file->packed = left;
    return gain;
}

int cut_plan(struct stage *stage, uint64_t excess)
{
    RC_AUTO_FREE struct stage_file **order = malloc((stage->count + 1) * sizeof *order);
    if (order == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < stage->count; i++) {
        order[i] = &stage->files[i];
        if (order[i]->packed == 0) /* small: the compressor had not put it out yet */
            order[i]->packed = order[i]->bytes / 100 + 1;
    }
    qsort(order, stage->count, sizeof *order, by_value);
    bool any = false;
    for (unsigned round = 0; round < CUT_ROUNDS; round++) {
        for (size_t i = 0; i < stage->count && excess > 0; i++) {
            uint64_t gain = cut_file(stage, order[i], excess, round);
            any = any || gain > 0;
            excess -= gain < excess ? gain : excess;
        }
    }
    return any ? 0 : -EFBIG;
}

/* Beginning and end, on whole lines where lines are shorter than 64 KiB. */
static int shorten(int fd, uint64_t size, uint64_t keep, struct buf *out, uint64_t *ret_lost)
{
    size_t head = (size_t)(keep / 4);
    size_t tail = (size_t)(keep - head);
    RC_AUTO_FREE char *data = malloc(tail > head ? tail : head + 1);
    if (data == NULL)
        return -ENOMEM;
    ssize_t n = fs_pread_full(fd, data, head, 0);
    if (n < 0)
        return (int)n;
    size_t used = (size_t)n;
    const char *line = memrchr(data, '\n', used);
    if (line != NULL)
        used = (size_t)(line + 1 - data);
    buf_append(out, data, used);
    if (line == NULL && used > 0)
        buf_putc(out, '\n');
    n = fs_pread_full(fd, data, tail, (off_t)(size - tail));
    if (n < 0)
        return (int)n;
    line = memchr(data, '\n', (size_t)n);
    size_t skip = line != NULL && line + 1 < data + n ? (size_t)(line + 1 - data) : 0;
    size_t end = (size_t)n - skip;
    *ret_lost = size - used - end;
    buf_printf(out, CUT_MARKER, (unsigned long long)*ret_lost);
    buf_append(out, data + skip, end);
    return buf_failed(out) ? -ENOMEM : 0;
}

/* The heading, then every Nth line. */
static int thin(int fd, uint64_t size, uint64_t keep, struct buf *out, uint64_t *ret_lost)
{
    uint64_t stride = keep > 0 ? size / keep + 1 : size;
    uint64_t line = 0;
    char data[64 * 1024];
    for (uint64_t at = 0; at < size;) {
        size_t want = size - at < sizeof data ? (size_t)(size - at) : sizeof data;
        ssize_t n = fs_pread_full(fd, data, want, (off_t)at);
        if (n < 0)
            return (int)n;
        if (n == 0)
            break;
        at += (uint64_t)n;
        for (const char *p = data, *end = data + n; p < end;) {
            const char *newline = memchr(p, '\n', (size_t)(end - p));
            const char *next = newline != NULL ? newline + 1 : end;
            if (line % stride == 0)
                buf_append(out, p, (size_t)(next - p));
            line += newline != NULL;
            p = next;
        }
    }
    *ret_lost = size - out->len;
    return buf_failed(out) ? -ENOMEM : 0;
}

int cut_content(const struct stage *stage, const struct stage_file *file, struct buf *out,
                uint64_t *ret_lost)
{
    RC_AUTO_CLOSE int fd = stage_open_file(stage, file->path);
    if (fd < 0)
        return fd;
    if (file->plan == PLAN_THIN)
        return thin(fd, file->bytes, file->keep, out, ret_lost);
    return shorten(fd, file->bytes, file->keep, out, ret_lost);
}
