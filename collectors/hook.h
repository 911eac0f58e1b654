/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of the collector "hook": hook.c finds and copies the files of the Python hook and sets the
 * facts, hook_text.c makes readable text of its records.
 */
#ifndef COLLECTORS_HOOK_H
#define COLLECTORS_HOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct cJSON;

/* The content of the file "events" for one process, and for the hook itself. */
struct hook_events {
    struct cJSON *list;            /* every line, in order */
    const struct cJSON *exception; /* the last uncaught one of the process, NULL = none */
    const struct cJSON *thread_exception; /* the last exception that ended only a thread */
    const char *version;           /* version of the process's torch, "" = not imported */
    const char *build;             /* "hip", "cuda", "cpu" */
    const struct cJSON *device; /* the event of the process's own device, NULL = not used */
    int processes;     /* processes with any event */
    char trouble[448]; /* troubles, each kind once, as far as there is room; "" = none */
};

/* pid 0: the last of any process. `text` is changed. 0 or -ENOMEM. */
int hook_events_read(char *text, int64_t pid, struct hook_events *ret);
void hook_events_release(struct hook_events *events);

/* Adds a trouble. */
void hook_add_trouble(struct hook_events *events, const char *text);

/* Python's stacks of a record, one thread after the other. */
void hook_stacks_text(const struct cJSON *record, struct buf *out);
/* "forward < step < <module>": of the thread that asked for memory, innermost first. */
void hook_functions_text(const struct cJSON *record, struct buf *out);
void hook_exception_text(const struct cJSON *exception, struct buf *out);

/* Does the exception, or one of its causes, say that memory ran out? */
bool hook_exception_is_oom(const struct cJSON *exception);

/* Does `bytes` match the size in PyTorch's message ("Tried to allocate 1.50 GiB", within its
 * rounding)? */
enum hook_asked { HOOK_ASKED_UNKNOWN, HOOK_ASKED_SAME, HOOK_ASKED_OTHER };
enum hook_asked hook_exception_requested(const struct cJSON *exception, int64_t bytes);

/* Only numbers below 2^53, enough for bytes of memory; -1 = missing. */
int64_t hook_number(const struct cJSON *object, const char *name);
const char *hook_string(const struct cJSON *object, const char *name);

/* --- hook_facts.c: figures to facts; `device` is PyTorch's ordinal --- */
struct collect_out;
struct torch_growth;
struct torch_series;
struct torch_snapshot;

/* The figures of an out-of-memory record; `caused`: it is the cause of the failure. */
void hook_facts_of_oom(const struct cJSON *record, bool caused, const char *source,
                       struct collect_out *out);
/* memory_stats() of `device` in any record. */
void hook_facts_of_stats(const struct cJSON *record, int64_t device, const char *source,
                         struct collect_out *out);
void hook_facts_of_snapshot(const struct torch_snapshot *snapshot, const char *source,
                            struct collect_out *out);
/* The figures of a growth, below the name `name_of`. */
void hook_facts_of_growth(const struct torch_growth *g, const char *name_of, const char *source,
                          struct collect_out *out);
/* How much more the driver counts for process `pid` than PyTorch has reserved, at the end and over
 * time: contexts, libraries, and other allocators in the process. */
void hook_facts_of_gap(const struct torch_series *all_devices, int64_t pid, const char *run_dir,
                       struct collect_out *out);
/* The memory that PyTorch held when the device was initialised, and its peak: rows of the memory
 * table. */
void hook_facts_of_moments(const struct torch_series *series, const struct cJSON *record,
                           const struct cJSON *initialised, int64_t device, int64_t pid,
                           struct collect_out *out);
/* A text that is not NUL-terminated. */
struct hook_text {
    const char *data;
    size_t len;
};

/* torch.kept.*: memory that the program keeps permanently. Not set if there are too few marks. */
void hook_facts_of_kept(const struct cJSON *record, struct hook_text snapshot, int64_t device,
                        const char *source, struct collect_out *out);
void hook_facts_of_live(struct hook_text marks, struct hook_text snapshot, int64_t snapshot_ns,
                        int64_t device, struct collect_out *out);
/* --- hook_pools.c: facts jax.*, tensorflow.*, cupy.*; hook_onnx.c: facts onnxruntime.* --- */
struct collect_ctx;
void hook_pools(const struct collect_ctx *ctx, const char *dir, const struct hook_events *events,
                struct collect_out *out);
void hook_onnx(const struct collect_ctx *ctx, const char *dir, struct collect_out *out);

/* Takes the statistics from the last row if there is no record; and the growth. */
void hook_facts_of_series(const struct torch_series *series, const char *source,
                          struct collect_out *out);

#endif
