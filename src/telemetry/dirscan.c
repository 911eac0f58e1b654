/* SPDX-License-Identifier: Apache-2.0 */
#include "telemetry/dirscan.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel's layout; glibc declares it only for opendir(). */
struct linux_dirent64 {
    uint64_t d_ino;
    int64_t d_off;
    uint16_t d_reclen;
    uint8_t d_type;
    char d_name[];
};

int dirscan_openat(struct dirscan *d, int dirfd, const char *path)
{
    d->filled = 0;
    d->position = 0;
    d->fd = openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return d->fd < 0 ? -errno : 0;
}

int dirscan_open(struct dirscan *d, const char *path)
{
    return dirscan_openat(d, AT_FDCWD, path);
}

const char *dirscan_next(struct dirscan *d)
{
    for (;;) {
        if (d->position >= d->filled) {
            d->filled = syscall(SYS_getdents64, d->fd, d->buf, sizeof d->buf);
            d->position = 0;
            if (d->filled <= 0)
                return NULL;
        }
        const struct linux_dirent64 *entry =
            (const struct linux_dirent64 *)(const void *)(d->buf + d->position);
        d->position += entry->d_reclen;
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            return entry->d_name;
    }
}

void dirscan_close(struct dirscan *d)
{
    if (d->fd >= 0)
        (void)close(d->fd);
    d->fd = -1;
}
