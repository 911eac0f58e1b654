/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the parts of the impact's copy. They run in the tracer, while the target is held: no
 * allocation.
 *
 *   impact.c       its order and its threads: registers and stacks
 *   impact_proc.c  what /proc tells of the process
 */
#ifndef LAUNCH_IMPACT_INTERNAL_H
#define LAUNCH_IMPACT_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "launch/impact.h"
#include "record/shared.h"

#define IMPACT_STACK_UNKNOWN_BYTES (16u << 10) /* of a stack whose mapping is not known */

/* An arena that is filled chunk by chunk. */
struct copier {
    struct shared *shared;
    struct shared_impact *impact;
    pid_t look;     /* whose /proc entry is read */
    uint64_t limit; /* end of the arena */
    uint64_t at;
    uint64_t stack_bytes;
    uint64_t count_until_ns; /* what is not copied is counted until then */
};

/* Room for the payload of the next chunk; NULL = there is none. */
unsigned char *impact_space(const struct copier *c, uint64_t *ret_room);
/* `length` bytes were put there. args: arg and arg2 of the chunk, or NULL. */
void impact_commit(struct copier *c, uint32_t type, uint64_t length, uint32_t flags,
                   const uint64_t args[2]);
/* All of it, or nothing. */
void impact_put(struct copier *c, uint32_t type, const void *data, uint64_t length, uint64_t arg);

void impact_copy_maps(struct copier *c);
/* Bytes from the address to the end of its mapping, after impact_copy_maps(). */
uint64_t impact_mapped_from(uint64_t address);
void impact_copy_process(struct copier *c);
/* fn for every numeric entry of /proc/PID/<what>, until it says false. */
void impact_each_number(pid_t pid, const char *what, bool (*fn)(void *, long), void *context);

#endif
