/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the state of PyTorch's caching allocator: segments and blocks of one moment, and the series
 * of its counters. Pure: JSON and CSV as inject/python wrote them (or torch.cuda.memory_snapshot()
 * as JSON) in, figures out. Runs in a collector child.
 */
#ifndef COLLECTORS_LIB_TORCH_SNAPSHOT_H
#define COLLECTORS_LIB_TORCH_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TORCH_CLASSES 5
#define TORCH_SITE_MAX 512
#define TORCH_SITE_FRAMES 3

/* Bytes and blocks in use, by the size of the block. */
struct torch_class {
    const char *name; /* "up to 1 MiB" */
    int64_t bytes, blocks;
};

/* Gives the classes their names. */
void torch_class_names(struct torch_class *classes);

struct torch_snapshot {
    int64_t segments, blocks;
    int64_t reserved_bytes, used_bytes; /* used: active, or waiting for another stream */
    /* Idle in the common pools: available for a request. Private pools (CUDA graphs) are counted
     * separately: their idle memory is not available by design. */
    int64_t idle_bytes, largest_idle_bytes;
    int64_t largest_idle_large_bytes; /* in the pool of blocks above 1 MiB */
    int64_t split_bytes;              /* idle, but in segments that are partly in use */
    int64_t free_segment_bytes;       /* of segments that are wholly idle */
    int64_t private_bytes, private_idle_bytes;
    int64_t expandable_bytes;
    int64_t streams; /* streams that own segments; idle memory of one stream is not given to
                      * another */
    int64_t largest_stream_idle_bytes;
    double fragmentation_percent; /* 100 * (1 - largest idle / idle); 0 = one piece, or none idle */
    struct torch_class classes[TORCH_CLASSES];
    char largest_site[TORCH_SITE_MAX]; /* "train.py:12 step < train.py:80 main"; "" = stacks were not recorded */
    int64_t largest_site_bytes;
    bool cut; /* something was left out when it was written */
};

/* device < 0: all of them. 0, -EINVAL (no such JSON), -ENOMEM. */
int torch_snapshot_read(const char *text, size_t len, int device, struct torch_snapshot *ret);

/* --- memory in use at two moments: what grew --- */

#define TORCH_SITES_MAX 2048
#define TORCH_MARK_SITES 100 /* sites that inject/python writes for a mark, the largest first */

/* In use at one moment, by size of the block and, where stacks are recorded, by call site. */
struct torch_live {
    uint64_t time_ns; /* 0 = not known */
    struct torch_class classes[TORCH_CLASSES];
    struct torch_site {
        char *where; /* "train.py:12 step" */
        int64_t bytes, blocks;
    } *sites;
    size_t site_count;
    int64_t unlisted_bytes; /* a site that is not listed had no more than this */
};

/* Reads it from a snapshot, as torch_snapshot_read(). -ENODATA: blocks were left out of it. */
int torch_live_of_snapshot(const char *text, size_t len, int device, struct torch_live *ret);
/* From the marks (PID.live.csv): `ret` is the last mark not later than `until_ns`, else the first;
 * false: there is no mark, or no memory. */
bool torch_live_of_marks(const char *text, size_t len, int device, uint64_t until_ns,
                         struct torch_live *ret);
/* The times of the first and the last mark of the device. False: there is none. */
bool torch_live_times(const char *text, size_t len, int device, uint64_t *ret_first,
                      uint64_t *ret_last);
void torch_live_release(struct torch_live *live);

struct torch_grown {
    int64_t bytes; /* all classes together; may be negative */
    struct torch_class classes[TORCH_CLASSES];
    char site[TORCH_SITE_MAX]; /* the site that grew most, "" = none grew or stacks were not
                                * recorded */
    int64_t site_bytes, site_blocks;
};

struct torch_grown torch_live_growth(const struct torch_live *before,
                                     const struct torch_live *after);

/* --- the series --- */

struct torch_growth {
    bool valid;
    /* A steady trend: Mann-Kendall over the windows' minima with p < 0.01, and a second half no
     * flatter than half of the whole (a single step is no trend). */
    bool steady;
    int64_t samples, windows;
    double slope_per_s; /* Theil-Sen over the windows' minima */
    double rising_share;
    int64_t total;
    int64_t duration_ms;
    int64_t plateau;        /* the first minimum: what was in use before it grew */
    int64_t plateau_blocks; /* blocks in use then; -1 = not counted by this PyTorch */
    /* From the first to the last minimum; -1 = not counted by this PyTorch. */
    int64_t small_pool; /* of the total: in blocks up to 1 MiB */
    int64_t blocks;
    int64_t allocated, freed; /* bytes, in that time */
};

/* -1 = this build of PyTorch does not count it. */
struct torch_point {
    uint64_t time_ns;
    int64_t allocated, reserved, allocated_peak, reserved_peak, allocated_total, freed_total;
    int64_t took_us;
    int64_t small_pool, blocks; /* in use: bytes in blocks up to 1 MiB, number of blocks */
};

struct torch_series {
    struct torch_point *points; /* of one device, in order of time */
    size_t count;
    int64_t slowest_us; /* of any device */
};

/* Rows of PID.torch.csv; others are skipped. device < 0: the sum of all devices. 0 or -ENOMEM. */
int torch_series_read(const char *text, size_t len, int device, struct torch_series *ret);
void torch_series_release(struct torch_series *series);
/* Growth of the allocated bytes. A step moves between a low and a high mark; a leak raises the low
 * mark. */
struct torch_growth torch_series_growth(const struct torch_series *series);
/* The same with windows of at least `per_window` points (1: points that are minima already). */
struct torch_growth torch_series_trend(const struct torch_series *series, size_t per_window);

/* Bytes; -1 = not known. */
struct torch_demand {
    int64_t steps;        /* ends of steps seen: memory in use fell by a twentieth of its highest */
    int64_t earlier_peak; /* the peak before the last such end */
    int64_t half_peak;    /* the peak in the first half of the run, by bytes handed out */
    int64_t late_peak;    /* the peak in its first three quarters */
    int64_t usual;        /* nine of ten samples had at most this in use; -1: too few */
    int64_t usual_rise;   /* by how much more that rises over the run, 0: it does not; -1: too few */
    int64_t spread_rise;  /* by how much more the samples differ among each other in the last third of the run than in the
                           * first, beside the trend of each; 0: no more; -1: too few */
};

struct torch_demand torch_series_demand(const struct torch_series *series);

#endif
