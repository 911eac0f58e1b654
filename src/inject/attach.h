/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library in one process: taken out of the environment by its constructor, the ledger mapped,
 * the process entered into it at its first event. Runs in the target.
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
    uint32_t refusals; /* ever, of this thread: HIP's failures are compared with it */
    uint64_t last_refusal;
    int32_t hip_device;
    /* The last allocation, for mmap() of it. */
    uint64_t last_size;
    uint8_t last_gpu, last_kind;
};

/* False = there is no ledger: everything is only passed on. It is mapped when there is something to
 * write, since most programs of a run never see a GPU. */
bool attach_wanted(void);
/* NULL = not mapped, or not possible any more. */
struct ledger *attach_ledger(void);
/* False = as above. Enters the process when it has not been. Without the time. */
bool attach_actor(struct book_actor *actor);
struct attach_thread *attach_thread(void);
uint64_t attach_now_ns(void);
/* The time of the last tick: at a fifth of the price. */
uint64_t attach_coarse_ns(void);
/* For the programs that this process starts; path "" = do not inject. */
const struct preload *attach_preload(void);
/* Between vfork and exec: a child in its parent's memory. */
bool attach_shares_memory(void);
/* A start to be made: true when there are so many that the library would be felt, by 30 us each. */
bool attach_is_crowded(void);
/* Around an exec. No effect in a vfork()ed child, which is not the process. */
void attach_exec_begins(void);
void attach_exec_failed(void);
/* Counts what exec found about a program. */
void attach_count_left_out(enum preload_answer answer);

#endif
