/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verdict: facts in, class with confidence and reasons out. Pure.
 *
 * The tree is data (templates/tree.json). Tests are over facts and features; a test whose input is
 * missing is *undecided*, not false, and is listed. Confidence: high = two independent sources
 * agree; no source counts twice.
 */
#ifndef DIAGNOSE_VERDICT_H
#define DIAGNOSE_VERDICT_H

#include <stdbool.h>
#include <stddef.h>

struct facts;
struct cJSON;
struct rc_err;

#define VERDICT_LIST_MAX 32
#define VERDICT_STEPS_MAX 256

struct verdict_list {
    size_t count;
    char *text[VERDICT_LIST_MAX];
};

/* Takes ownership of `text`; drops duplicates and what is beyond the limit. */
void verdict_list_take(struct verdict_list *list, char *text);
void verdict_list_release(struct verdict_list *list);

struct verdict_step {
    char *node;     /* id in the tree */
    char *question; /* in words */
    char *answer;   /* "yes", "no", "undecided", "not asked" */
    char *numbers;  /* the values that decided it, with their sources; may be "" */
};

struct verdict {
    char *class_name; /* capacity, fragmentation, leak, sdma, gtt-limit, held-by-other, host-oom,
                         page-fault, gpu-hang, hw-ras, arch-mismatch, version-mismatch, no-device,
                         resource-limit, collective, app-bug, unknown */
    char *subclass;   /* "" or a finer name ("self-imposed limit", "phantom free") */
    char *vendor;     /* "amd", "nvidia", "unknown" */
    char *confidence; /* "high", "medium", "low" */
    char *sentence;   /* the deciding numbers in one sentence */
    char *runner_up; /* the next likely class, "" = none */
    char *decides;   /* the question that would decide between the two, "" = not known */
    struct verdict_list also;    /* classes that were also seen: "class: reasons for, reasons
                                  * against" */
    struct verdict_list why;     /* reasons, each with its source */
    struct verdict_list against; /* reasons against it */
    struct verdict_list missing; /* inputs that were not there */
    struct verdict_list lacks;   /* those of them that could change the verdict, in words, the weightiest first */
    struct verdict_list advice;  /* what to try first; each with a way to see that it helped */
    char *verify;                /* verify step of the first advice, "" = none */
    char *file_at;               /* where to file the issue */
    size_t steps;
    struct verdict_step path[VERDICT_STEPS_MAX]; /* the way through the tree */
};

void verdict_release(struct verdict *);

struct tree;
/* Read templates/tree.json with the stages that it names, relative to its folder. A wrong tree gets
 * file, line (where known) and reason in *err. */
struct tree *tree_read(const char *path, struct rc_err *err);
/* The same from a text that holds the whole tree; messages call it `name`. */
struct tree *tree_parse(const char *json, size_t len, const char *name, struct rc_err *err);
/* Add a site's own nodes, a file like those in templates/tree/ (ids begin with "site-"). They come
 * after the nodes that say that nothing failed, and before all others. 0 or -errno, *err as above;
 * after an error the tree must not be used. */
int tree_add_site(struct tree *, const char *path, struct rc_err *err);
/* Add templates/defects.json: the known defects by version range. 0 or -errno, *err as above. */
int tree_add_defects(struct tree *, const char *json, size_t len, const char *name,
                     struct rc_err *err);
struct computed;
/* The facts that diagnose() computes before it asks the tree (computed.h). The tree takes
 * ownership. */
void tree_take_computed(struct tree *, struct computed *);
void tree_free(struct tree *);

/* Derive features (features.c) into `facts`, walk the tree, fill *ret. 0 or -errno. */
int diagnose(struct facts *facts, const struct tree *tree, struct verdict *ret, struct rc_err *err);

/* With the account of memory (account.h) as a section. */
struct cJSON *verdict_to_json(const struct verdict *, const struct facts *);

/* --- text to facts; each is bounded, takes any bytes, never fails on garbage --- */

/* Program output (stderr and stdout): PyTorch, HIP, HSA, BLAS, llama.cpp, JAX, ... */
void messages_to_facts(struct facts *, const char *text, size_t len, const char *source);
/* Kernel log, its records and their fragments (kernel_events.h): /dev/kmsg records
 * ("6,1234,5678,-;text"), dmesg in any time format, journalctl. */
void kernel_log_to_facts(struct facts *, const char *text, size_t len, const char *source);
/* Pasted output of tools: rocm-smi, rocminfo, amd-smi, free, cat of sysfs, nvidia-smi. */
void pasted_to_facts(struct facts *, const char *text, size_t len, const char *source);
/* Output of a run: messages and figures (quantity.h), also from wrapped lines (text_repair.h). */
void output_to_facts(struct facts *, const char *text, size_t len, const char *source);
/* A kernel log given by the user: also error codes, and lines that were cut (text_cut.h). */
void kernel_text_to_facts(struct facts *, const char *text, size_t len, const char *source);
/* Text of unknown kind (pasted into triage): all of the above. Sets log.output_read unless the text
 * holds only tables of a tool. */
void any_text_to_facts(struct facts *, const char *text, size_t len, const char *source);
/* NAME=VALUE lines. */
void environment_to_facts(struct facts *, const char *text, size_t len, const char *source);

#endif
