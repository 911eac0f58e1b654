/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does one more buffer fit? amdgpu_amdkfd_reserve_mem_limit() of Linux 6.1 and 6.12, the small BAR
 * check of kfd_ioctl_alloc_memory_of_gpu(), and TTM's limits (physical VRAM, with eviction of
 * graphics buffers to GTT; size of the GTT manager). With the state lock held.
 */
#ifndef EMULATOR_LIMITS_H
#define EMULATOR_LIMITS_H

#include <stdint.h>

struct buffer;
struct slot;

/* Charges the buffer to the process, or reports the limit that refuses it. 0 or -errno. */
int limits_take(const struct buffer *buffer, struct slot *mine, const char **ret_reason);
void limits_give_back(const struct buffer *buffer, struct slot *mine);
uint64_t limits_available(unsigned gpu);

#endif
