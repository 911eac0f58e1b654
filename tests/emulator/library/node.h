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

/*
 * Offsets in the KFD node. libhsakmt 5.2.3 masks a doorbell offset with ~0xffffffff, so the low half
 * of a base is 0; an event page at 0 would mean that there is none. All is low for one GPU: a memfd
 * counts against RLIMIT_FSIZE, which a cautious caller sets small.
 */
#define NODE_DOORBELLS(gpu) ((uint64_t)(gpu) << 33)
#define NODE_DOORBELLS_SIZE 8192u
#define NODE_MMIO 0x4000ull
#define NODE_EVENTS 0x10000ull
#define NODE_KFD_SIZE 0x20000ull

/* A descriptor or -errno. cloexec: O_CLOEXEC or 0. */
int node_open_kfd(int cloexec);
int node_open_render(unsigned gpu, int cloexec);
int node_open_dmabuf(uint64_t handle, uint64_t size);

bool node_of_fd(int fd, struct node *ret);
/* For any process: link = "/proc/4711/fd/5". */
bool node_of_link(const char *link, struct node *ret);

/* The memfd itself: where the bytes of the GPU's memory, or of the doorbells, are. */
int node_kfd_memory(void);
int node_render_memory(unsigned gpu);

/* Makes the memory at least this large; holes cost nothing. 0 or -errno, -EFBIG beyond a hard
 * RLIMIT_FSIZE (no SIGXFSZ). */
int node_grow(int memory, uint64_t size);

void node_after_fork(void);

#endif
