/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The DRM keys of /proc/PID/fdinfo/N in the three generations that are in use: up to Linux 6.2, 6.3
 * to 6.12, and after the common memory statistics of drm_print_memory_stats().
 */
#ifndef EMULATOR_FDINFO_H
#define EMULATOR_FDINFO_H

#include <stdint.h>

struct holding;

/* Process address space id that KFD and the kernel log show for a process. */
uint32_t fdinfo_pasid(int pid);

/* Libraries get the lowest numbers. A higher descriptor has no fdinfo here; neither have our
 * own. */
#define FDINFO_FDS 256

/* The descriptors of this process that are render nodes. fdinfo_next(-1, gpu) is the first; -1 = none. */
void fdinfo_opened(int fd, unsigned gpu);
void fdinfo_forget(void);
int fdinfo_next(int fd, unsigned gpu);

/* The text always has this size: it is filled up with newlines, so that it can be stored in place. */
#define FDINFO_SIZE 1280
void fdinfo_write(char out[FDINFO_SIZE], unsigned gpu, int fd, const struct holding *held);

#endif
