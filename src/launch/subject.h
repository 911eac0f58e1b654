/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that is looked at while it lives: twice through /proc, which does not stop it, and then
 * copied, for which its threads are held. Used by who makes a snapshot (launch/snapshot.c) and by the
 * tracer, when the program stands still (launch/tracer_still.c).
 */
#ifndef LAUNCH_SUBJECT_H
#define LAUNCH_SUBJECT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "launch/python_stacks.h"

struct shared;
struct traced_process;
struct tracees;

struct subject {
    pid_t pid;
    struct buf tasks, tasks_again; /* launch/tasks.h */
    uint64_t tasks_ns, tasks_again_ns;
    struct python_place python;
    bool has_python;
    char no_python[192]; /* a line that says why its stacks cannot be read, "" = it is no CPython */
};

/* The first look, and where its CPython lies. For that, files are read, which may hang: a child does it
 * and gets `patience_ms`. */
void subject_look(struct subject *subject, unsigned patience_ms);
void subject_look_again(struct subject *subject);
/* `process`: its threads are traced by the caller; NULL = they are not. `let_go` as in struct
 * impact_live. */
void subject_copy(const struct subject *subject, struct shared *shared, struct tracees *tracees,
                  struct traced_process *process,
                  void (*let_go)(struct tracees *tracees, const struct traced_process *process));
void subject_release(struct subject *subject);

#endif
