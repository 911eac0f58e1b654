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

/* Copy what the process is into the next free slot; counts a drop when there is none. */
void impact_copy(struct shared *shared, struct tracees *tracees, struct traced_process *process,
                 const struct impact_cause *cause);

#endif
