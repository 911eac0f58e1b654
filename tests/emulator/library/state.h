/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of each process: ROOT/emulator/state, one file that all processes of the emulated
 * machine map, so that they share one budget. Totals are sums over the slots of the processes, not
 * separate counters: a process that dies in the middle of an update leaves no wrong total.
 *
 * The lock is robust. All functions are called with it held, unless noted.
 */
#ifndef EMULATOR_STATE_H
#define EMULATOR_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "machine.h"

#define STATE_SLOTS 128

/* Bytes of one process on one GPU. */
struct holding {
    uint64_t vram;        /* through KFD; counts in kfd/proc/PID/vram_<gpu_id> */
    uint64_t gtt;         /* through KFD */
    uint64_t userptr;     /* the process's own pages: mem_info_preempt_used */
    uint64_t gem_vram;    /* buffers of the render node that want VRAM ... */
    uint64_t gem_evicted; /* ... and the part of them that was moved to GTT */
    uint64_t gem_gtt;
    uint64_t visible; /* the part of vram that the CPU may map */
};

struct slot {
    int32_t pid; /* 0 = free */
    struct holding gpu[MACHINE_GPUS_MAX];
};

/* 0 or -errno. Not locked. Takes the slot of this pid over from the image before an exec. */
int state_open(void);
/* In the child of a fork: its own slot, its own files. Not locked. */
void state_after_fork(void);

void state_lock(void);
void state_unlock(void);

/* The slot of this process; NULL when the table is full of living processes. */
struct slot *state_mine(void);
struct slot *state_slots(void); /* STATE_SLOTS of them */

/*
 * Frees the memory of dead processes and writes counters; returns how many there were. A process
 * that is not dead yet keeps its memory: amdkfd frees it with the address space, after the ptrace
 * exit stop. A tool that reads the counters in that stop must still find the memory in use.
 */
unsigned state_reap(void);

/* Sums over all processes. */
struct usage {
    uint64_t kfd_vram;     /* against KFD's limit */
    uint64_t vram;         /* resident in the GPU's memory: mem_info_vram_used */
    uint64_t visible;      /* mem_info_vis_vram_used */
    uint64_t gtt;          /* mem_info_gtt_used */
    uint64_t userptr;      /* mem_info_preempt_used */
};
struct usage state_usage(unsigned gpu);
/* Against KFD's limits over all GPUs. */
uint64_t state_system_used(void);
uint64_t state_ttm_used(void);

/* Next numbers that all processes share. */
uint64_t state_next_log(void);
uint64_t state_next_kmsg(void);

#endif
