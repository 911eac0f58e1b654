/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The differences between two bundles, the likely causes first. Pure: facts and texts in, a list
 * out.
 *
 * The order is data (templates/diff.json): groups of facts by pattern, each with the reason for its
 * place. It also names facts that only change from run to run (pids, times, addresses).
 */
#ifndef DIAGNOSE_DIFF_H
#define DIAGNOSE_DIFF_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

#define RENAMED_SHOWN 6

struct cJSON;
struct diff_rules;
struct facts;
struct rc_err;

struct diff_item {
    const char *group, *title, *why; /* live as long as the rules */
    char *name;                      /* of the fact */
    char *a, *b;                     /* values in words; "(not set)", "(not known)" */
    bool both_known;
    size_t rank; /* of the group; smaller comes first */
};

struct diff_result {
    size_t count;
    size_t different;        /* items[0 .. different - 1] differ; of the others only one side is
                              * known */
    struct diff_item *items; /* likely causes first */
    size_t capacity;
    size_t compared; /* facts of either side that belong to a group */
    size_t ignored;  /* facts that differ only as any two runs do */
    size_t renamed;  /* facts that agree but for pseudonyms, which each bundle numbers on its own */
    struct buf renamed_names; /* "run.program, run.argument.0": the first of them */
    bool outcome_differs;
};

struct diff_side {
    const struct facts *facts;
    const char *class_name; /* of the verdict, "" = none */
};

struct diff_rules *diff_rules_parse(const char *json, size_t len, const char *file,
                                    struct rc_err *err);
void diff_rules_free(struct diff_rules *);

/* 0 or -errno; `ret` is to be released in both cases. */
int diff_compare(const struct diff_side *a, const struct diff_side *b,
                 const struct diff_rules *rules, struct diff_result *ret, struct rc_err *err);
void diff_release(struct diff_result *);
/* items[from .. to - 1] as [{"rank", "group", "name", "a", "b", "why"}]. Caller deletes it. */
struct cJSON *diff_to_json(const struct diff_result *, size_t from, size_t to);

/*
 * diff_curve.c: the columns of a telemetry.csv as facts curve.<column>.{peak_bytes,
 * time_to_peak_ms, growth_bytes_per_s}, for every GPU's memory in use. 0 or -ENOMEM; a text that is
 * no table gives no facts.
 */
int diff_curve_facts(struct facts *facts, const char *csv, size_t len);

#endif
