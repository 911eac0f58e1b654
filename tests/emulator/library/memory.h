/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPU buffers of this process, and whether one more fits: KFD's limits as in kernels 6.1 and
 * 6.12, the size of the GTT manager, the physical size of VRAM.
 *
 * The bytes are in the render node's memfd (sparse: untouched pages cost nothing).
 */
#ifndef EMULATOR_MEMORY_H
#define EMULATOR_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

enum buffer_kind {
    BUFFER_VRAM,
    BUFFER_GTT,
    BUFFER_USERPTR,
    BUFFER_DOORBELL,
    BUFFER_MMIO,
    BUFFER_GEM_VRAM,
    BUFFER_GEM_GTT,
    BUFFER_IMPORT, /* another name of an existing buffer: costs nothing */
};

struct buffer {
    uint64_t handle; /* KFD's: gpu_id << 32 | index; its index is the GEM handle too */
    enum buffer_kind kind;
    unsigned gpu;
    bool is_public; /* VRAM that the CPU may map */
    uint64_t va;     /* in the GPU's address space; 0 = not mapped there (GEM) */
    uint64_t size;
    uint64_t offset; /* in the render node; of USERPTR the address in the process */
    uint32_t flags;  /* of the ioctl */
    uint32_t mapped; /* on how many GPUs */
    int descriptor;  /* one per handle, where a rule asks for it; -1 = none */
};

/* kind, gpu, is_public, va, size, flags (and offset of USERPTR and IMPORT) are given, the rest is
 * filled in. 0 or the -errno of the refusal. */
int memory_alloc(struct buffer *buffer);
int memory_free(uint64_t handle);
/* Copies the buffer of this handle to *ret; false: there is none. */
bool memory_find(uint64_t handle, struct buffer *ret);
bool memory_find_gem(uint32_t gem_handle, struct buffer *ret);
bool memory_set_mapped(uint64_t handle, uint32_t gpus);
void memory_set_va(uint64_t handle, uint64_t va);

/* AMDKFD_IOC_AVAILABLE_MEMORY */
uint64_t memory_available(unsigned gpu);

/* SVM ranges: system memory that the GPU may use without a buffer. */
void memory_add_svm(uint64_t start, uint64_t size);

/* The GPU reads or writes [va, va + len). */
struct gpu_access {
    void *data;  /* NULL = page fault */
    void *unmap; /* for memory_end_access() */
    uint64_t unmap_size;
};
struct gpu_access memory_begin_access(uint64_t va, uint64_t len);
/* The first byte of [va, va + len) that nothing maps. */
uint64_t memory_first_fault(uint64_t va, uint64_t len);
void memory_end_access(const struct gpu_access *access);

void memory_after_fork(void);

#endif
