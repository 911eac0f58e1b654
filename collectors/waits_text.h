/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds out what threads wait for, from the lines of launch/tasks.h. Pure functions on text.
 */
#ifndef COLLECTORS_WAITS_TEXT_H
#define COLLECTORS_WAITS_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WAITS_THREADS_MAX 4096
#define WAITS_PHRASE_MAX 320

enum wait_kind {
    WAIT_UNKNOWN, /* asleep; in which system call may not be read */
    WAIT_RUNS,
    WAIT_BLOCKED, /* D: not even a signal ends it */
    WAIT_STOPPED, /* by a signal or a debugger */
    WAIT_LOCK,    /* futex(2) */
    WAIT_SLEEP,   /* for a time only */
    WAIT_RESUMED, /* a timed wait that a stop interrupted and that continues; the kernel does not say which
                   * call it is */
    WAIT_EVENTS,  /* poll(2) and the like on descriptors */
    WAIT_CHILD,
    WAIT_GPU,     /* ioctl(2) or read(2) on a GPU's device */
    WAIT_PIPE,
    WAIT_SOCKET,
    WAIT_TERMINAL,
    WAIT_FILE,    /* a call on a file; asleep in it, but it can be interrupted */
    WAIT_CALL,    /* another system call */
};

struct wait_thread {
    int tid;
    char state;
    uint64_t cpu_ns;
    char wchan[64], name[32];
    long call; /* number of the system call; -1 = none, not known or running */
    uint64_t args[6];
    uint32_t lock_word, lock_owner;
    bool has_lock;
};

struct wait_threads {
    struct wait_thread *list; /* owned */
    size_t count;
};

/* False when memory was short. The caller frees ret->list. Lines of another form are skipped. */
bool waits_parse(const char *text, struct wait_threads *ret);
const struct wait_thread *waits_find(const struct wait_threads *threads, int tid);

/* Does a thread run, or have they used a tenth of a CPU's time between the looks? A thread that is runnable at both
 * looks may get little of a busy machine. */
bool waits_are_at_work(const struct wait_threads *first, const struct wait_threads *again, uint64_t interval_ns);
/* CPU time of all between the looks. */
uint64_t waits_used_ns(const struct wait_threads *first, const struct wait_threads *again);

/* `fds` is a list of lines "FD TARGET", "" = not known. */
enum wait_kind waits_kind(const struct wait_thread *thread, const char *fds);
/* One lower-case word for a fact: "lock", "gpu", ... */
const char *waits_word(enum wait_kind kind);
/* "waits for a lock", "reads /mnt/data/x", ... with what it waits for as far as it is known. */
void waits_phrase(const struct wait_thread *thread, const char *fds, char *out, size_t size);

enum deadlock {
    DEADLOCK_NONE,
    DEADLOCK_CIRCLE, /* threads of which each waits for a mutex that the next one owns */
    DEADLOCK_INSIDE, /* every thread waits, without a time limit, for locks that only threads of this
                        process can release: nothing but a signal ends it */
};

/* Are the threads in a deadlock? Both looks must show it for the same waits. `maps` shows which memory other
 * processes share. `out` gets the sentence. */
enum deadlock waits_deadlock(const struct wait_threads *first, const struct wait_threads *again,
                             const char *maps, char *out, size_t size);

#endif
