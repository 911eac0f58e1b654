/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of messages_to_facts(): the figures of an out-of-memory message and their readers. Internal
 * to diagnose/.
 */
#ifndef DIAGNOSE_MESSAGES_H
#define DIAGNOSE_MESSAGES_H

#include "diagnose/rules.h"

enum oom_field {
    OOM_REQUESTED,
    OOM_TOTAL,
    OOM_FREE,
    OOM_ALLOCATED,
    OOM_UNALLOCATED, /* reserved but unallocated */
    OOM_ALLOWED,
    OOM_PRIVATE,
    OOM_RESERVED, /* old wording: in total; or cached */
    OOM_HOLDER_PID,
    OOM_HOLDER_BYTES,
    OOM_PROCESS_BYTES,
    OOM_DESIRED,
    OOM_DEVICE,
    OOM_FIELDS,
};

struct oom {
    const char *framework; /* NULL = none yet */
    unsigned line;         /* line of its first figure */
    unsigned known;        /* bit per field */
    bool headless;         /* figures without the words in front of them */
    bool ladder;           /* a pool retries with smaller sizes: harmless if it succeeds in the
                            * end */
    int64_t value[OOM_FIELDS];
};

/* The first and the last message of the text, in whatever order the parsers find them. */
struct oom_log {
    struct oom first, last;
    unsigned count;
};

static inline bool oom_has(const struct oom *o, enum oom_field f)
{
    return (o->known & (1u << f)) != 0;
}

/* No machine has so much memory. A request may be such a mistake; a free size is a negative one without its sign. */
#define OOM_BELIEVED_BYTES ((int64_t)1 << 50)

static inline void oom_set(struct oom *o, enum oom_field f, int64_t value)
{
    bool any = f == OOM_REQUESTED || f == OOM_DESIRED || f == OOM_HOLDER_PID || f == OOM_DEVICE;
    bool believed = any || (value >= 0 && value <= OOM_BELIEVED_BYTES);
    if (!believed && f != OOM_FREE)
        return;
    value = believed ? value : 0;
    o->value[f] = value;
    o->known |= 1u << f;
}

/* The figures that a rule took as "oom.*"; of two values for one field the first counts. */
void oom_take(struct oom *, const struct rule_takes *);
/* Adds a message. It completes the message before it if that is on the same line or a few lines
 * above, of the same framework, and has no request yet or the same one. */
void oom_log_add(struct oom_log *, const struct oom *);
void oom_log_emit(const struct scan *, const struct oom_log *);

/* PyTorch, every wording since 0.x. Reads the whole text, because the message may be wrapped; the
 * text begins with line `line`. */
void torch_messages(struct oom_log *, struct text all, unsigned line);
/* --- an engine's report of its memory at start --- */

struct figure {
    int64_t value;
    unsigned line; /* 0 = not known */
};

enum engine_part {
    ENGINE_MODEL,
    ENGINE_KV,
    ENGINE_COMPUTE,
    ENGINE_PARTS, /* of one load; the members below stay */
    ENGINE_FREE = ENGINE_PARTS,
    ENGINE_FIGURES,
};

#define ENGINE_DEVICES_MAX 8

struct engine_device {
    char name[16]; /* ROCm0 */
    struct figure parts[ENGINE_FIGURES];
};

struct engine_state {
    struct engine_device devices[ENGINE_DEVICES_MAX]; /* of the last load */
    unsigned device_count;
    unsigned loads;      /* models loaded one after the other */
    bool has_context;    /* a KV cache or a compute buffer came since the last weights */
    bool windowed;       /* layers with a sliding window: the cache is not linear in the context */
};
/* True; see rules_run.act. */
bool engine_read(struct rules_run *, struct engine_state *, enum rule_reader,
                 const struct rule_takes *);
/* Call it after rules_emit(). */
void engine_emit(const struct rules_run *, const struct engine_state *);

/* --- messages_warned.c: mere warnings --- */
/* Call it last: decides whether a warning was the failure. */
void warned_settle(const struct rules_run *);

/* Faults, HSA, loader, Python: one line. */
struct runtime_state {
    bool in_traceback;
    unsigned tracebacks, first_traceback;
    unsigned exception_line, first_line;
    char exception[96], first[96]; /* the last one and the first one */
    char message[400];
    char frame[160]; /* the innermost one outside libraries, of the traceback so far: "train.py:12 in step" */
    char place[160]; /* the same of the last exception */
    unsigned ladder, ladder_line, after_ladder; /* ordinary lines after the last refusal */
    unsigned llvm; /* major version of the last frame's libLLVM */
    bool pin_frame; /* the innermost frame so far is pin_memory() */
    unsigned pin_line;
};
void runtime_line(const struct scan *, struct runtime_state *, const struct line_words *);
/* See rules_run.act. */
bool runtime_read(const struct scan *, struct runtime_state *, enum rule_reader, struct text line,
                  const struct rule_takes *);
void runtime_emit(const struct scan *, const struct runtime_state *);

/* The pool got memory in the end: the program printed more lines, and no exception followed. */
bool runtime_ladder_ended(const struct runtime_state *);
/* Sets msg.exception_after_oom if the program survived its last failed allocation. */
void order_emit(const struct scan *, struct text all, unsigned first, const struct oom_log *,
                const struct runtime_state *);

/* A reporter's own words (any_text.c only): report.memory_grows, report.memory_stays. */
void prose_to_facts(struct facts *, const char *text, size_t len, const char *source);

#endif
