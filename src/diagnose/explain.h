/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why not that class? Lists every node of a class with its conditions: those that hold, those that
 * are false, and those that cannot be decided, with the missing inputs. For a condition with
 * several operands it shows only the operands that decide it. Pure; used by `triage --explain`.
 */
#ifndef DIAGNOSE_EXPLAIN_H
#define DIAGNOSE_EXPLAIN_H

#include "diagnose/verdict.h"

#define EXPLAIN_NODES_MAX 32

struct explain_node {
    char *id;
    char *question;
    char *answer; /* eval_answer_word() */
    bool later;   /* yes, but an earlier node had decided */
    struct verdict_list holds;
    struct verdict_list fails;   /* each with the values that make it false */
    struct verdict_list unknown; /* each with the names of what is missing */
};

struct explanation {
    size_t count;
    struct explain_node node[EXPLAIN_NODES_MAX];
};

/* `facts` as diagnose() left them (with features), `verdict` as diagnose() gave it. -EINVAL: there
 * is no such class; *err lists the classes. */
int explain_class(const struct facts *, const struct tree *, const struct verdict *,
                  const char *class_name, struct explanation *ret, struct rc_err *err);
void explanation_release(struct explanation *);
struct cJSON *explanation_to_json(const struct explanation *);

#endif
