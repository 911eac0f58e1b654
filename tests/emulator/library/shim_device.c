/* SPDX-License-Identifier: Apache-2.0 */
/* ioctl() of the nodes, and mmap() only where a rule bounds the number of mappings. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/kfd_ioctl.h>

#include "driver.h"
#include "emulator.h"
#include "faults.h"
#include "redirect.h"

#define DRM_TYPE 'd'

static long dispatch(const struct node *node, unsigned long request, void *arg)
{
    unsigned type = _IOC_TYPE(request);
    if (node->kind == NODE_KFD && type == AMDKFD_IOCTL_BASE)
        return kfd_ioctl(node, request, arg);
    if (node->kind == NODE_RENDER && type == DRM_TYPE)
        return drm_ioctl(node, request, arg);
    return -ENOTTY;
}

EXPORT int ioctl(int fd, unsigned long request, ...)
{
    va_list args;
    va_start(args, request);
    void *arg = va_arg(args, void *);
    va_end(args);
    unsigned type = _IOC_TYPE(request);
    struct node node;
    if ((type != AMDKFD_IOCTL_BASE && type != DRM_TYPE) || !emulator_on() ||
        !node_of_fd(fd, &node))
        return (int)syscall(SYS_ioctl, fd, request, arg);
    long r = dispatch(&node, request, arg);
    if (r < 0) {
        errno = (int)-r;
        return -1;
    }
    return (int)r;
}

static uint64_t count_mappings(void)
{
    char text[4096];
    uint64_t count = 0;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n;
    while ((n = syscall(SYS_read, fd, text, sizeof text)) > 0)
        for (ssize_t i = 0; i < n; i++)
            count += text[i] == '\n';
    (void)syscall(SYS_close, fd);
    return count;
}

static void *map(void *at, size_t len, int prot, int flags, int fd, off_t offset)
{
    uint64_t max = 0;
    struct node node;
    if (fd >= 0 && emulator_on() && (max = faults_mappings_max()) > 0 && node_of_fd(fd, &node) &&
        count_mappings() >= max) {
        errno = ENOMEM; /* as vm.max_map_count */
        return MAP_FAILED;
    }
    return (void *)syscall(SYS_mmap, at, len, prot, flags, fd, offset);
}

EXPORT void *mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset)
{
    return map(at, len, prot, flags, fd, offset);
}

EXPORT void *mmap64(void *at, size_t len, int prot, int flags, int fd, off64_t offset)
{
    return map(at, len, prot, flags, fd, offset);
}
