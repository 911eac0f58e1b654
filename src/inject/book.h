/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bookkeeping of record/ledger.h: updates its tables when memory is allocated, freed or
 * refused. Runs in the target; pure, except for the memory that it writes. No locks: every table is
 * filled by compare-and-swap, searches are bounded, and entries without room are counted.
 */
#ifndef INJECT_BOOK_H
#define INJECT_BOOK_H

#include <stdbool.h>
#include <stdint.h>

#include "record/ledger.h"

#define BOOK_NONE UINT32_MAX

/* The process and thread that allocate or free, and the time. */
struct book_actor {
    struct ledger *ledger;
    uint32_t process; /* slot, LEDGER_NO_PROCESS = found no slot */
    int32_t tid;
    uint64_t now_ns;
};

struct book_buffer {
    uint64_t handle, address, size;
    uint32_t flags;
    int32_t file; /* descriptor of the render node for GEM, -1 for KFD */
    uint8_t gpu, kind;
};

/* The row of a thread's refusals; zeroed at the thread's start. */
struct book_row {
    uint64_t first; /* number, 0 = none */
    uint64_t last_ns, size;
    uint8_t gpu, kind, operation;
};

struct book_process {
    int32_t pid;
    uint32_t parent, forks;
    uint64_t start_ticks, pid_namespace, now_ns;
    char comm[16];
};

/* A slot for a process image; LEDGER_NO_PROCESS when none is left (counted). */
uint32_t book_add_process(struct ledger *ledger, const struct book_process *process);

uint8_t book_gpu_by_kfd(struct ledger *ledger, uint32_t kfd_gpu_id);
uint8_t book_gpu_by_minor(struct ledger *ledger, uint32_t render_minor);
/* AMDKFD_IOC_ACQUIRE_VM tells that both are the same GPU. */
void book_join_gpu(struct ledger *ledger, uint32_t kfd_gpu_id, uint32_t render_minor);

void book_allocated(const struct book_actor *actor, const struct book_buffer *buffer);
/* Called before the ioctl, because the kernel may give the handle to another thread at once: takes
 * the entry out of the live set. BOOK_NONE: no entry. Called after the ioctl: frees the entry or
 * puts it back. */
uint32_t book_begin_free(const struct book_actor *actor, uint64_t handle, int32_t file);
void book_end_free(const struct book_actor *actor, uint32_t entry, bool freed);
/* The entry of a handle, BOOK_NONE. */
uint32_t book_find(const struct book_actor *actor, uint64_t handle, int32_t file);

/* Returns its number. */
uint64_t book_refused(const struct book_actor *actor, const struct book_buffer *buffer,
                      enum ledger_operation operation, int error, struct book_row *row);
/* An allocation of the size that the row's refusals asked for: it ends the row. */
void book_satisfied(const struct book_actor *actor, const struct book_buffer *buffer,
                    struct book_row *row);
struct ledger_refusal *book_refusal(struct ledger *ledger, uint64_t number);
uint64_t book_hip_refused(const struct book_actor *actor, const struct ledger_hip_refusal *refusal);
void book_model(const struct book_actor *actor, const char *path, int error, uint64_t device,
                uint64_t inode);

static inline uint64_t book_pages(uint64_t size)
{
    return (size + 4095) & ~(uint64_t)4095;
}

#endif
