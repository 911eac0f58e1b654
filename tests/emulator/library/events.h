/* SPDX-License-Identifier: Apache-2.0 */
/*
 * KFD events, as kfd_events.c keeps them: setting one wakes every waiter; an auto-reset event stays
 * set only if nobody waited; the age counts the sets. Exceptions of the GPU go to all events of
 * their type with the data that libhsakmt hands to ROCr.
 * Functions that answer an ioctl return 0 or -errno.
 */
#ifndef EMULATOR_EVENTS_H
#define EMULATOR_EVENTS_H

#include <stdint.h>

#include <linux/kfd_ioctl.h>

int events_create(struct kfd_ioctl_create_event_args *args);
int events_destroy(uint32_t id);
int events_set(uint32_t id);
int events_reset(uint32_t id);
int events_wait(struct kfd_ioctl_wait_events_args *args);

void events_page_fault(unsigned gpu, uint64_t address);
void events_gpu_reset(unsigned gpu);

void events_after_fork(void);

#endif
