/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ioctls. Dispatched by number: the structures grew between versions, and what is read and
 * written here are their first members. 0 (or what the ioctl returns) or -errno.
 */
#ifndef EMULATOR_DRIVER_H
#define EMULATOR_DRIVER_H

#include "node.h"

long kfd_ioctl(const struct node *node, unsigned long request, void *arg);
long drm_ioctl(const struct node *node, unsigned long request, void *arg);

/* AMDGPU_INFO, of drm_ioctl() */
struct drm_amdgpu_info;
long drm_query_info(unsigned gpu, struct drm_amdgpu_info *query);

/* A descriptor for the buffer, -errno. */
int driver_export(uint64_t handle);
/* The buffer behind such a descriptor of this process. */
bool driver_exported(int fd, uint64_t *ret_handle);

void driver_unknown(const char *device, unsigned number, unsigned size);

#endif
