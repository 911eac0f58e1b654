/* SPDX-License-Identifier: Apache-2.0 */
/*
 * User-mode queues. One thread of the process plays the GPU's processors: it follows the doorbells,
 * executes SDMA packets and AQL barriers, and completes kernel dispatches without running them.
 * It starts with the first queue.
 */
#ifndef EMULATOR_QUEUE_H
#define EMULATOR_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

struct kfd_ioctl_create_queue_args;

struct queue {
    uint32_t id, type, size; /* size of the ring in bytes */
    unsigned gpu;
    uint64_t ring;
    uint64_t *read_pointer;
    uint64_t *write_pointer;
    uint64_t *doorbell;
    uint64_t position; /* SDMA: bytes consumed */
    bool stopped;      /* hung, or the process's queues were evicted after a page fault */
    struct queue *next;
};

int queue_create(struct kfd_ioctl_create_queue_args *args);
int queue_destroy(uint32_t id);
int queue_update(uint32_t id, uint64_t ring, uint32_t size);
void queue_after_fork(void);

/* --- between the files of the processors --- */

/* Returns how many packets were done; stops at a packet that has to wait. */
unsigned queue_run_aql(struct queue *queue);
unsigned queue_run_sdma(struct queue *queue);

uint64_t queue_clock(void);
/* Writes the kernel log, raises the event, stops the queue. */
void queue_page_fault(struct queue *queue, uint64_t address, bool is_write);
/* Applies the faults of faults_on_gpu(); true if the queue stopped. enum fault_moment. */
bool queue_faults(struct queue *queue, int moment);

#endif
