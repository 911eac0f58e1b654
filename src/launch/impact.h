/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copy that the tracer makes while it holds a dying process: raw bytes only, judged later by
 * others. Runs in the tracer; bounded in time (IMPACT_COPY_MS) and bytes.
 */
#ifndef LAUNCH_IMPACT_H
#define LAUNCH_IMPACT_H

#include <stdint.h>
#include <sys/types.h>

#include "record/shared.h"

struct python_place;
struct tracees;
struct traced_process;

#define IMPACT_COPY_MS 50u        /* watchdog budget at a signal stop */
#define IMPACT_LAST_EXIT_MS 1000u /* watchdog budget at the last exit event */
#define IMPACT_SAMPLER_WAIT_MS 10u
#define IMPACT_STACK_BYTES (64u << 10)
#define IMPACT_STACKS_BYTES (16u << 20)

struct impact_cause {
    enum impact_kind kind;
    pid_t pid, tid;
    int signo, code;
    pid_t sender_pid;
    uint64_t fault_address;
    uint32_t exit_status; /* wait status, UINT32_MAX = not known yet */
    const void *siginfo;  /* siginfo_t, NULL = none */
    const void *registers; /* struct user_regs_struct of the failing thread at the fault that a handler
                              took and raised again; NULL = those that it has now */
};

/* Facts about a live process, collected before it is held. Texts are NUL-terminated, NULL = none. */
struct impact_live {
    pid_t pid;
    const char *tasks; /* launch/tasks.h, read at tasks_ns */
    uint64_t tasks_ns;
    const char *tasks_again;
    uint64_t tasks_again_ns;
    const struct python_place *python; /* NULL = no CPython that can be read, for this reason: */
    const char *no_python;             /* NULL = it is no CPython */
    /* Lets the threads go; NULL = the caller does it when it finds their stops. */
    void (*let_go)(struct tracees *tracees, const struct traced_process *process);
};

/* Copy a live process. Its threads are traced; they are held for IMPACT_COPY_MS at most. Without
 * traced threads (process NULL) what /proc tells is copied. */
void impact_copy_live(struct shared *shared, struct tracees *tracees,
                      struct traced_process *process, const struct impact_live *live);

/* Copy what the process is into the next free slot; counts a drop when there is none. */
void impact_copy(struct shared *shared, struct tracees *tracees, struct traced_process *process,
                 const struct impact_cause *cause);

#endif
