/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads and processes that are traced: fixed tables, no allocation. Private to launch/tracer*.
 */
#ifndef LAUNCH_TRACEE_H
#define LAUNCH_TRACEE_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define TRACEE_THREADS_MAX 8192
#define TRACEE_PROCESSES_MAX 1024

/* A leaky bucket of events. */
struct rate {
    uint64_t drained_ns;
    uint32_t events;
};

enum release_reason {
    RELEASE_NOT,
    RELEASE_UNTIL_EXEC, /* it may gain privilege, which a tracer would prevent: until it is another program */
    RELEASE_BUSY,     /* too many stops: may be seized again when it has calmed down */
    RELEASE_FOR_GOOD, /* somebody else wants to trace it */
};

struct traced_process {
    pid_t pid; /* thread group id, 0 = free */
    uint32_t threads;         /* traced and not yet at their exit event */
    uint32_t members;         /* entries of the thread table */
    uint64_t first_seen_ns;
    struct rate rate;
    enum release_reason releasing; /* each thread is detached at its next stop */
    bool impact_taken;
};

struct traced_thread {
    pid_t tid; /* 0 = free */
    uint16_t process;   /* index */
    bool exiting;       /* its exit event was seen */
    bool has_first;     /* first_signal is a fatal signal that a handler took */
    bool listening;     /* in a group stop */
    int first_signo;
    int first_code;
    uint64_t first_address;
};

struct tracees {
    struct traced_thread threads[TRACEE_THREADS_MAX]; /* open addressing by tid */
    struct traced_process processes[TRACEE_PROCESSES_MAX];
    uint32_t thread_count;
    uint32_t process_high; /* no process lies at or above this index */
};

struct traced_thread *tracee_find(struct tracees *t, pid_t tid);
/* Find or add; NULL when the tables are full. */
struct traced_thread *tracee_add(struct tracees *t, pid_t tid, pid_t pid, uint64_t now_ns);
void tracee_remove(struct tracees *t, struct traced_thread *thread);
struct traced_process *tracee_process(struct tracees *t, const struct traced_thread *thread);
struct traced_process *tracee_find_process(struct tracees *t, pid_t pid);
bool tracee_is_thread_of(pid_t pid, pid_t tid);
/* The process of any thread of the machine, 0 when it is gone. Fast for the processes of `t`. */
pid_t tracee_tgid(const struct tracees *t, pid_t tid);

#endif
