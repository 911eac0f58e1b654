/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The live counters of the tree: mem_info_* of the cards, kfd/proc/PID/..., and ROOT/proc/PID/fdinfo.
 * Readers keep the files open, so they are written in place: each is mapped once and its 21 bytes are
 * stored anew, which takes no file descriptor and cannot fail when they run out. Short numbers are
 * filled up with newlines: every reader strips those (rocm-smi rejects blanks). Called with the state
 * lock held.
 */
#ifndef EMULATOR_PUBLISH_H
#define EMULATOR_PUBLISH_H

#include <stdint.h>

/* Counters of the card the GPU belongs to. */
void publish_gpu(unsigned gpu);
/* kfd/proc/PID of this process; creates it. */
void publish_process(unsigned gpu);
void publish_queue(uint32_t id, unsigned gpu, uint32_t type, uint32_t size);
void publish_queue_gone(uint32_t id);
/* fdinfo of the render node that this process has open as fd; -1 = all it knows. */
void publish_fdinfo_open(int fd, unsigned gpu);
void publish_fdinfo(unsigned gpu);
void publish_remove_process(int pid);
/* In a child: the mappings belong to the parent. */
void publish_after_fork(void);

#endif
