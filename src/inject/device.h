/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds descriptors of GPU devices. Asks the driver once (by the version ioctl, which changes
 * nothing) and remembers the answer by number, until an open() returns that number again. Runs in
 * the target.
 */
#ifndef INJECT_DEVICE_H
#define INJECT_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

enum device_kind { DEVICE_OTHER, DEVICE_KFD, DEVICE_RENDER };

typedef int (*device_ioctl_fn)(int fd, unsigned long request, ...);

/* next = the ioctl() after ours in the order of lookup. */
enum device_kind device_kind(int fd, device_ioctl_fn next);
/* Asks even if an answer is remembered. The old answer stays until the new one is there: other
 * threads use it meanwhile.
 */
enum device_kind device_kind_anew(int fd, device_ioctl_fn next);
/* The remembered kind of a descriptor; makes no system call. */
enum device_kind device_known(int fd);
/* The minor number of a render node (128 ...); 0 = not known. */
uint32_t device_minor(int fd);
/* Checks the device number first, and asks only drivers of DRM devices. */
bool device_is_render_node(int fd, device_ioctl_fn next);
void device_forget(int fd);

#endif
