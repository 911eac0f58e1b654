/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device nodes. An open of /dev/kfd or /dev/dri/renderD* gives a new open of a sparse memfd of this
 * process, whose name ("emulator:kfd:PID", "emulator:render128:PID", "emulator:dmabuf:PID:HANDLE")
 * is found again through /proc/self/fd: so mmap, dup, fork and passing of descriptors are the real
 * ones. The PID tells a child that uses its parent's descriptor, which KFD refuses.
 */
#ifndef EMULATOR_NODE_H
#define EMULATOR_NODE_H

#include <stdbool.h>
#include <stdint.h>

enum node_kind { NODE_NONE, NODE_KFD, NODE_RENDER, NODE_DMABUF };

struct node {
    enum node_kind kind;
    unsigned gpu;    /* NODE_RENDER */
    int pid;         /* the process that opened it */
    uint64_t handle; /* NODE_DMABUF */
};

/* Doorbells of a GPU in the KFD node. libhsakmt 5.2.3 masks the first offset with ~0xffffffff. */
#define NODE_DOORBELLS(gpu) ((1ull << 40) + ((uint64_t)(gpu) << 33))
#define NODE_DOORBELLS_SIZE 8192u
#define NODE_MMIO 0ull
#define NODE_EVENTS (1ull << 45)
#define NODE_SIZE (1ull << 46)

/* A descriptor or -errno. cloexec: O_CLOEXEC or 0. */
int node_open_kfd(int cloexec);
int node_open_render(unsigned gpu, int cloexec);
int node_open_dmabuf(uint64_t handle, uint64_t size);

bool node_of_fd(int fd, struct node *ret);

/* The memfd itself: where the bytes of the GPU's memory, or of the doorbells, are. */
int node_kfd_memory(void);
int node_render_memory(unsigned gpu);

void node_after_fork(void);

#endif
