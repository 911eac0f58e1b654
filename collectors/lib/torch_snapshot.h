/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PyTorch's caching allocator read back: segments and blocks of one moment, and the series of its
 * counters. Pure: JSON and CSV as inject/python wrote them (or torch.cuda.memory_snapshot() as
 * JSON) in, figures out. Runs in a collector child.
 */
#ifndef COLLECTORS_LIB_TORCH_SNAPSHOT_H
#define COLLECTORS_LIB_TORCH_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TORCH_CLASSES 5
#define TORCH_SITE_MAX 256

/* Bytes and blocks in use, by the size of the block. */
struct torch_class {
    const char *name; /* "up to 1 MiB" */
    int64_t bytes, blocks;
};

struct torch_snapshot {
    int64_t segments, blocks;
    int64_t reserved_bytes, used_bytes; /* used: active, or waiting for another stream */
    /* Idle in the common pools: what a request could have been given. Private pools (CUDA graphs)
     * are idle for others by design and stand for themselves. */
    int64_t idle_bytes, largest_idle_bytes;
    int64_t largest_idle_large_bytes; /* in the pool of blocks above 1 MiB */
    int64_t split_bytes;              /* idle, but in segments that are partly in use */
    int64_t free_segment_bytes;       /* of segments that are wholly idle */
    int64_t private_bytes, private_idle_bytes;
    int64_t expandable_bytes;
    int64_t streams; /* that own segments; idle memory of one is not given to another */
    int64_t largest_stream_idle_bytes;
    double fragmentation_percent; /* 100 * (1 - largest idle / idle); 0 = one piece, or none idle */
    struct torch_class classes[TORCH_CLASSES];
    char largest_site[TORCH_SITE_MAX]; /* "train.py:12 step"; "" = stacks were not recorded */
    int64_t largest_site_bytes;
    bool cut; /* something was left out when it was written */
};

/* device < 0: all of them. 0, -EINVAL (no such JSON), -ENOMEM. */
int torch_snapshot_read(const char *text, size_t len, int device, struct torch_snapshot *ret);

/* --- the series --- */

struct torch_growth {
    bool valid;
    int64_t samples, windows;
    double slope_per_s; /* Theil-Sen over the windows' minima */
    double rising_share;
    int64_t total;
    int64_t duration_ms;
};

struct torch_point {
    uint64_t time_ns;
    int64_t allocated, reserved, allocated_total, freed_total;
    int64_t took_us;
};

struct torch_series {
    struct torch_point *points; /* of one device, in order of time */
    size_t count;
    int64_t slowest_us; /* of any device */
};

/* Rows of PID.torch.csv; others are skipped. 0 or -ENOMEM. */
int torch_series_read(const char *text, size_t len, int device, struct torch_series *ret);
void torch_series_release(struct torch_series *series);
/* Of the allocated bytes: a step moves between a low and a high mark, a leak raises the low one. */
struct torch_growth torch_series_growth(const struct torch_series *series);

#endif
