/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which descriptors are GPU devices. Asked of the driver once (by the version ioctl, which changes
 * nothing) and remembered by number, until an open() returns that number again. Runs in the target.
 */
#ifndef INJECT_DEVICE_H
#define INJECT_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

enum device_kind { DEVICE_OTHER, DEVICE_KFD, DEVICE_RENDER };

typedef int (*device_ioctl_fn)(int fd, unsigned long request, ...);

/* next = the ioctl() behind us. */
enum device_kind device_kind(int fd, device_ioctl_fn next);
/* Asks in any case. What is remembered stays until there is an answer: others rely on it meanwhile.
 */
enum device_kind device_kind_anew(int fd, device_ioctl_fn next);
/* The remembered kind of a descriptor; makes no system call. */
enum device_kind device_known(int fd);
/* The minor number of a render node (128 ...); 0 = not known. */
uint32_t device_minor(int fd);
/* Looks at its number first, and asks the driver only of what is a DRM device. */
bool device_is_render_node(int fd, device_ioctl_fn next);
void device_forget(int fd);

#endif
