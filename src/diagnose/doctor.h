/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Predicts what may go wrong on this machine: facts in, findings of the rules out. Pure.
 *
 * The rules are data (templates/doctor.json) in the language of the decision tree. A rule with
 * "each": "gpu" is asked for every GPU. A rule whose inputs are missing is undecided: it is listed,
 * but is no finding.
 */
#ifndef DIAGNOSE_DOCTOR_H
#define DIAGNOSE_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>

struct facts;
struct cJSON;
struct rc_err;

/* In the order of the exit status that they ask for. */
enum doctor_severity {
    DOCTOR_NOTE, /* good to know; nothing is wrong */
    DOCTOR_WARN, /* something may be wrong */
    DOCTOR_FAIL, /* something will fail */
};

struct doctor_finding {
    const char *id; /* of the rule; lives as long as the rules */
    enum doctor_severity severity;
    bool is_setting; /* about a variable of the environment */
    char *gpus;   /* "0", "0-7", "0, 2"; "" = not about one GPU */
    char *say;    /* the sentence with its number (of the first GPU) and the number's source */
    char *mend;   /* the command or the change that fixes it */
    char *verify; /* how to see that it helped; "" = none */
    char *source; /* where the rule comes from */
};

/* A rule that could not be decided, and the inputs that it lacked ("host.mem_total_bytes: why"). */
struct doctor_undecided {
    const char *id;
    char *missing;
};

struct doctor_report {
    size_t rules; /* how many there are, each counted once */
    size_t finding_count;
    struct doctor_finding *findings; /* most severe first, then in the order of the rules */
    size_t undecided_count;
    struct doctor_undecided *undecided;
};

struct computed;
struct doctor_rules;

/* Adds the facts of `all` that describe the machine before the run. Counters that were read later are left
 * out, because the program may have filled the GPU by then. Computed facts are left out, too:
 * doctor_examine() computes them anew. 0 or -errno. */
int doctor_facts_before(struct facts *to, const struct facts *all);

/* A wrong file gets its name, line and reason in *err. */
struct doctor_rules *doctor_rules_parse(const char *json, size_t len, const char *file,
                                        struct rc_err *err);
void doctor_rules_free(struct doctor_rules *);

/* Derive the inputs of the rules (features.h, computed.h, doctor_features.c) into `facts`, then ask
 * every rule. 0 or -errno; release `ret` in both cases. */
int doctor_examine(struct facts *facts, const struct computed *computed,
                   const struct doctor_rules *rules, struct doctor_report *ret, struct rc_err *err);
void doctor_report_release(struct doctor_report *);

enum doctor_severity doctor_worst(const struct doctor_report *); /* DOCTOR_NOTE if there is no
                                                                  * finding */
const char *doctor_severity_name(enum doctor_severity);          /* "note", "warn", "fail" */
/* {"status", "findings": [...], "not_asked": [...], "rules"}. Caller deletes it. */
struct cJSON *doctor_report_to_json(const struct doctor_report *);

/*
 * doctor_features.c: f.alloc.* (PyTorch's allocator options as this version reads them), the
 * override per GPU (gpu.N.override_*), f.visible_gpus_none, gpu.N.has_kernels.
 */
void doctor_features(struct facts *facts);

#endif
