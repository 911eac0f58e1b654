/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts: named values with their origin, and the store that holds them.
 *
 * A fact has a dotted name with its unit at the end (gpu.0.vram.used_bytes), a value, where it came
 * from, when it was true, and a status. Absent is never 0: a fact that could not be read is kept
 * with its status and the reason. The vocabulary is listed in templates/facts.tsv.
 *
 * Pure: bytes in, bytes out; never reads a machine. Strings are copied into the store.
 */
#ifndef DIAGNOSE_FACT_H
#define DIAGNOSE_FACT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct cJSON;
struct rc_err;

enum fact_status {
    FACT_PRESENT,
    FACT_ABSENT,     /* does not exist here; reason says why */
    FACT_UNREADABLE, /* exists, but could not be read; reason says why */
    FACT_BLIND,      /* read, but known not to count this on this kernel or hardware */
};

enum fact_when {
    FACT_STATIC,   /* does not change during a run */
    FACT_BASELINE, /* before the target ran */
    FACT_PEAK,     /* largest of the run */
    FACT_IMPACT,   /* at the failure, target still there */
    FACT_AFTER,    /* at least one second after its end */
    FACT_LOG,      /* from a message; source names the line */
};

enum fact_type { FACT_INTEGER, FACT_REAL, FACT_TEXT, FACT_BOOLEAN };

struct fact {
    const char *name;
    enum fact_status status;
    enum fact_type type;
    enum fact_when when;
    int64_t integer; /* FACT_INTEGER and FACT_BOOLEAN */
    double real;     /* FACT_REAL */
    const char *text;
    const char *source; /* file, "stderr line 12", "kernel log line 3", "computed from ..." */
    const char *reason; /* for every status but FACT_PRESENT */
};

struct facts; /* opaque; keeps insertion order, a name+when is unique */

struct facts *facts_new(void);       /* NULL when out of memory */
void facts_free(struct facts *facts); /* NULL allowed */

/* A second value for the same name and when replaces an absent one and is otherwise ignored
 * (first source wins): set the most trustworthy first. 0 or -ENOMEM, -E2BIG (too many facts). */
int facts_set_integer(struct facts *, const char *name, enum fact_when, int64_t value,
                      const char *source);
int facts_set_real(struct facts *, const char *name, enum fact_when, double value,
                   const char *source);
int facts_set_text(struct facts *, const char *name, enum fact_when, const char *value,
                   const char *source);
int facts_set_boolean(struct facts *, const char *name, enum fact_when, bool value,
                      const char *source);
/* status is not FACT_PRESENT. */
int facts_set_missing(struct facts *, const char *name, enum fact_when, enum fact_status status,
                      const char *reason, const char *source);

/* Marks of a line that is less sure than it looks. */
#define FACT_MARK_JOINED "joined"       /* text_unwrap() */
#define FACT_MARK_COMPLETED "completed" /* text_complete() */
#define FACT_MARK_TRANSLATED "translated" /* text_translate() */
#define FACT_MARK_ONE_OF_RANKS "of one of the ranks"          /* rank_lines.h: RANK_LINES_BELOW */
#define FACT_MARK_PERHAPS_OTHERS "perhaps of another rank"    /* RANK_LINES_SHARED */

#define FACT_MARK_WENT_ON "the program went on" /* survived.h */
#define FACT_MARK_ENDED_WELL "the program ended well"
#define FACT_MARK_HANDLED "handled by its own words"
#define FACT_MARK_FOLLOWED "another error followed"
#define FACT_MARK_QUOTED "quoted in a sentence"
#define FACT_MARK_BYSTANDER "of another process" /* bystander.h */
#define FACT_MARK_LONG_BEFORE "a day or more before the end of the log" /* kernel_lines.c */

/* Note such a mark in the source of the fact at `index`. */
void facts_mark(struct facts *, size_t index, const char *mark);
/* Was the fact read from a line with this mark, or computed from such a fact? */
bool fact_has_mark(const struct fact *, const char *mark);
/* The first mark of doubt, but for those of repairs; NULL = none. */
const char *fact_mark_of_doubt(const struct fact *);
/* Joined or completed. */
bool fact_is_repaired(const struct fact *);
/* The line that the source names ("stderr line 12"); 0 = none. */
unsigned fact_source_line(const struct fact *);
/* The same value, from any source. */
bool fact_says_same(const struct fact *, const struct fact *);

size_t facts_count(const struct facts *);
const struct fact *facts_at(const struct facts *, size_t index);
/* NULL when nothing is known under that name, not even that it is absent. */
const struct fact *facts_find(const struct facts *, const char *name, enum fact_when when);
/* The fact from the moment closest to the failure that has a value. The order of moments: IMPACT,
 * LOG, STATIC, PEAK, AFTER, BASELINE. */
const struct fact *facts_best(const struct facts *, const char *name);
/* Present integer (or boolean, or integral real) under facts_best(); false when there is none. */
bool facts_get_integer(const struct facts *, const char *name, int64_t *ret);
/* Present number or boolean under facts_best(). */
bool facts_get_number(const struct facts *, const char *name, double *ret);
bool facts_is_present(const struct facts *, const char *name);
bool facts_get_text(const struct facts *, const char *name, const char **ret);

/* facts.json: {"format": 1, "facts": [{"name","value"|"status"+"reason","when","source"}, ...]}.
 * Also reads the short form {"name": value, ...}, which is written by hand (--facts). */
struct cJSON *facts_to_json(const struct facts *);
int facts_from_json(struct facts *, const struct cJSON *json, struct rc_err *err);

#endif
