/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the samples of a run: one series per metric and instance, with validity. For the finisher
 * and the verbs that read bundles; allocates.
 *
 * Records on disk hold only changed values. A series holds the changes and gives the value at a
 * time t. Torn records and gaps are skipped and counted.
 */
#ifndef TELEMETRY_SERIES_H
#define TELEMETRY_SERIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "telemetry/metric.h"

struct buf;
struct facts;
struct rc_err;

struct series_point {
    uint64_t time_ns;
    uint64_t value;
    uint8_t status; /* enum value_status */
};

struct series {
    uint16_t metric;
    uint32_t instance;
    size_t count;
    size_t capacity;
    struct series_point *points; /* times go up */
};

/* A record as a whole: the rows of telemetry.csv, and where baseline, impact and after are. */
struct series_record {
    uint64_t time_ns;
    uint16_t flags; /* enum sample_flags */
};

struct series_set {
    size_t count;
    size_t capacity;
    struct series *series; /* sorted by scope, instance, metric */
    size_t record_count;
    size_t record_capacity;
    struct series_record *records;
    uint64_t skipped_bytes; /* that were no record */
    int unread; /* 0, or -errno of the first segment that could not be read */
    uint32_t segments;
    uint64_t first_ns, last_ns;
};

/* All segments of a run directory. A directory without any gives an empty set. 0 or -errno. */
int series_load(struct series_set *ret, const char *run_dir, struct rc_err *err);
/* Adds raw records from memory, later than those already there. 0 or -ENOMEM. */
int series_add(struct series_set *set, const void *data, size_t len);
void series_release(struct series_set *set);

/* NULL = never sampled. */
const struct series *series_find(const struct series_set *set, enum metric m, uint32_t instance);
/* The last point at or before time_ns; NULL when nothing was known yet. */
const struct series_point *series_at(const struct series *s, uint64_t time_ns);
/* Largest VALUE_OK value; NULL when there is none. */
const struct series_point *series_peak(const struct series *s);
const struct series_point *series_peak_until(const struct series *s, uint64_t end_ns);
const struct series_point *series_lowest_until(const struct series *s, uint64_t end_ns);
/* Time of the first BASELINE, the last IMPACT, the last AFTER record (one flag); 0 = none. */
uint64_t series_time_of(const struct series_set *set, enum sample_flags flag);

/* "gpu.0.vram.used_bytes", "proc.4711.rss_bytes", "host.mem_total_bytes" as in templates/facts.tsv.
 * `proc` replaces the pid when not NULL. False = no such metric. */
bool series_name(char *out, size_t size, enum metric m, uint32_t instance, const char *proc);

#define SERIES_CSV_PROCESSES_MAX 128

/*
 * telemetry.csv: time_s (since zero_ns), flags, then a column per series that has values. An empty
 * cell is a missing value. The SERIES_CSV_PROCESSES_MAX processes that held most memory at any time
 * have columns, and so has keep_pid (0 = none). Too many rows (more than max_rows, or more than the
 * buffer holds with that many columns) are thinned evenly; flagged rows are kept. Returns how many
 * processes have no columns, or -ENOMEM.
 */
int series_to_csv(const struct series_set *set, uint64_t zero_ns, size_t max_rows,
                  uint32_t keep_pid, struct buf *out);

/*
 * n points for a sparkline: the largest value in each of n equal parts of from_ns to to_ns, NAN where
 * nothing is known. Returns how many are not NAN.
 */
size_t series_downsample(const struct series_set *set, enum metric m, uint32_t instance,
                         uint64_t from_ns, uint64_t to_ns, double *out, size_t n);

/* --- series_facts.c --- */

struct series_facts_options {
    uint32_t failed_pid;  /* proc.0.*; 0 = unknown */
    uint64_t impact_ns;   /* when the target failed; 0 = the IMPACT record, else the last one */
    uint64_t end_ns;      /* the target's end; later samples do not count for PEAK. 0 = unknown */
    bool ended_by_exit;   /* not by a signal: it may have freed its memory before its exit is seen,
                             so counters read at its last message stand for the failure */
};

/* BASELINE, PEAK, IMPACT, AFTER facts of every GPU, the host and the failed process; others.*;
 * f.growth.* of the GPU whose VRAM grew most. 0 or -ENOMEM. */
int series_to_facts(struct facts *facts, const struct series_set *set,
                    const struct series_facts_options *options);

/* --- series_growth.c --- */

struct growth {
    bool valid;
    uint32_t gpu;
    size_t windows;       /* windows whose minimum is known */
    double slope_per_s;   /* Theil-Sen over the minima: bytes a second */
    double rising_share;  /* of the steps from minimum to minimum, 0..1 */
    int64_t total;        /* last minimum - first minimum */
    double window_s;
};

/* The growth of the GPU that grew most between from_ns and to_ns. */
struct growth series_growth(const struct series_set *set, uint64_t from_ns, uint64_t to_ns);

#endif
