/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Judges the bundles of many ranks together: which rank failed first, which ones only followed, which
 * left nothing, and what is different about one of them.
 *
 * Each bundle becomes a small record; the bundle itself is not kept, so that thousands fit. The records
 * are divided into jobs. Within a job, some failures stand for themselves (these ranks caused), and others are
 * explained by another rank's failure (these followed). Telling them apart needs no clock. Clocks
 * only order ranks that caused: exactly on one boot of one machine (CLOCK_MONOTONIC), else as well as the
 * machines' wall clocks are known to agree. Pure.
 */
#ifndef FLEET_FLEET_H
#define FLEET_FLEET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct cJSON;
struct facts;

#define FLEET_UNKNOWN INT64_MIN /* a number or a time that was not recorded */
#define FLEET_RANKS_MAX ((int64_t)1 << 20) /* of one job; a rank above is no rank */
#define FLEET_COMPARED_MAX 64   /* values of a record that are compared with those of others */

enum fleet_role {
    FLEET_CAUSED,    /* a failure of its own */
    FLEET_ELSEWHERE, /* alive, and not in the collective in which others wait */
    FLEET_KILLED,    /* SIGKILL without an explanation: the cause, or the launcher ended the rank */
    FLEET_UNCLEAR,   /* it failed for an unknown reason */
    FLEET_LOST_PEER, /* the process of another rank was gone */
    FLEET_WAITED,    /* for another rank, in a collective, until it gave up */
    FLEET_ENDED,     /* asked to end (SIGTERM, SIGINT, SIGHUP) */
};

/* A value that ranks of a job should have in common. */
struct fleet_value {
    char *name; /* the fact */
    char *text;
};

struct fleet_record {
    char *path;
    char *sentence;
    char program[64], class_name[40], subclass[64], confidence[12], signature[40];
    char launcher[16];
    char job[96];       /* id of the job, its step and restart; "" = none has an id */
    char boot[16];      /* begins the boot id of the machine, "" = unknown */
    int64_t rank, local_rank, world_size, node_rank, pid;
    int64_t signal, exit_code;
    int64_t start_us, fell_us;  /* wall clock; fell: when the failure was seen */
    int64_t fell_uptime_us;     /* the same on CLOCK_MONOTONIC */
    int64_t collective;         /* number of the last collective that it entered, by its own word */
    int64_t clock_error_us;     /* how far the wall clock may be off */
    bool is_aligned;            /* fell_us was brought together with that of another machine by events that both saw */
    bool snapshot;
    bool is_note;               /* no bundle: the record of a rank that was asked to end */
    bool shares_output;         /* stderr is a file that other ranks of the machine may write to */
    enum fleet_role role;
    char reason[160];           /* why that role */
    struct fleet_value values[FLEET_COMPARED_MAX];
    size_t value_count;
};

/* How sure it is that the first rank is the first. */
enum fleet_sure {
    FLEET_SURE_NOT, /* there is none, or several could be it */
    FLEET_SURE_LOW, /* by wall clocks that nobody compared, by a failure that nothing explains, or a rank left nothing */
    FLEET_SURE,
};

/* Ranks of one job that ran at the same time; or one run that is no rank of a job. The indices are into the fleet's records. */
struct fleet_job {
    size_t *members; /* by time: the order of the time line; part of the fleet's order */
    size_t count;
    int64_t world_size;        /* FLEET_UNKNOWN = not known */
    int64_t *missing;          /* ranks without a bundle */
    size_t missing_count;
    int64_t missing_cause;     /* the one of them that may have begun it; FLEET_UNKNOWN = none is named */
    size_t note_count;         /* members that left only a record, because they were asked to end */
    size_t *causes;            /* members that may have begun it, likeliest first */
    size_t cause_count;
    enum fleet_sure sure;
    char why[320];             /* why the first of the causes is the first, or why none is named */
    size_t nodes;              /* boots that were distinguished */
};

/* Failures that look alike, over all jobs. */
struct fleet_group {
    const char *signature; /* of a record; or its class where it has none */
    size_t first;          /* a record of it: the earliest */
    size_t count, nodes;
    int64_t from_us, to_us;
};

/* A value that differs from that of nearly all others. */
struct fleet_outlier {
    size_t record;
    size_t value;              /* index into its values */
    const char *usual;         /* what the others have */
    size_t usual_count, asked; /* so many of so many have it */
};

struct fleet {
    struct fleet_record *records;
    size_t count, capacity;
    size_t *order; /* the members of all jobs */
    struct fleet_job *jobs;
    size_t job_count;
    struct fleet_group *groups; /* largest first */
    size_t group_count;
    struct fleet_outlier *outliers;
    size_t outlier_count;
};

/* record.c: takes what it needs from a bundle's facts and verdict (either may be NULL) and decides on the
 * role. 0 or -ENOMEM. */
int fleet_add(struct fleet *fleet, const char *path, const struct facts *facts, const struct cJSON *verdict);
void fleet_release(struct fleet *fleet);
/* story.c: divides, orders and compares the records; once, after the last fleet_add(). 0 or -ENOMEM. */
int fleet_merge(struct fleet *fleet);

/* clock.c: the time between two records, b less a, and how far that may be wrong: 0 on one boot,
 * FLEET_UNKNOWN if the clocks were not compared. False where a time is not known. */
bool fleet_between(const struct fleet_record *a, const struct fleet_record *b, int64_t *ret_us,
                   int64_t *ret_error_us);

const char *fleet_role_name(enum fleet_role role);
const char *fleet_sure_name(enum fleet_sure sure);
/* fleet_text.c: for a terminal; all foreign text is escaped. `rows`: longest time line of a job. */
void fleet_to_text(const struct fleet *fleet, size_t rows, struct buf *out);
/* fleet_html.c: the same as a page: one file that fetches nothing and runs no script. All foreign text is escaped. */
void fleet_to_html(const struct fleet *fleet, size_t rows, struct buf *out);
/* fleet_json.c: templates/schema/fleet.json. NULL: no memory. */
struct cJSON *fleet_to_json(const struct fleet *fleet);

#endif
