/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library in one process. Its constructor removes it from the environment. At the first event
 * it maps the ledger and enters the process. Runs in the target.
 */
#ifndef INJECT_ATTACH_H
#define INJECT_ATTACH_H

#include <stdbool.h>
#include <stdint.h>

#include "inject/book.h"
#include "inject/preload.h"

/* State of one thread. Zero in a new thread; a forked child has a copy of its parent's. */
struct attach_thread {
    uint32_t epoch; /* pid of the process this belongs to */
    int32_t tid;
    struct book_row row;
    uint32_t refusals; /* number of refusals of this thread, compared at HIP's failures */
    uint64_t last_refusal;
    int32_t hip_device;
    /* The last allocation, for the mmap() of its memory. */
    uint64_t last_size;
    uint8_t last_gpu, last_kind;
};

/* False = there is no ledger, and all calls are only passed on. The ledger is mapped at the first
 * write: most programs of a run never use a GPU. */
bool attach_wanted(void);
/* NULL = not mapped, or no longer possible. */
struct ledger *attach_ledger(void);
/* False = as above. Enters the process if that is not done yet. Does not set the time. */
bool attach_actor(struct book_actor *actor);
struct attach_thread *attach_thread(void);
uint64_t attach_now_ns(void);
/* The time of the last tick: a fifth of the cost. */
uint64_t attach_coarse_ns(void);
/* For the programs that this process starts; path "" = do not inject. */
const struct preload *attach_preload(void);
/* Between vfork and exec: a child in its parent's memory. */
bool attach_shares_memory(void);
/* Called before a start. True if there are so many that the library's 30 us for each would be
 * noticed. */
bool attach_is_crowded(void);
/* Called before and after an exec. No effect in a vfork()ed child, which is not the process. */
void attach_exec_begins(void);
void attach_exec_failed(void);
/* Counts what exec found about a program. */
void attach_count_left_out(enum preload_answer answer);

#endif
