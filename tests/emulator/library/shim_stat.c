/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stat() and its relatives: the nodes are character devices with the numbers of the tree (libdrm and
 * libhsakmt look them up in /sys/dev/char). Old binaries call __xstat().
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "emulator.h"
#include "machine.h"
#include "redirect.h"

#define KFD_MAJOR 235u
#define DRM_MAJOR 226u

static dev_t device_of(const struct node *node)
{
    if (node->kind == NODE_KFD)
        return makedev(KFD_MAJOR, 0);
    return makedev(DRM_MAJOR, (unsigned)machine.gpus[node->gpu].render_minor);
}

static void make_device(const struct node *node, struct stat *st)
{
    st->st_mode = S_IFCHR | 0666;
    st->st_rdev = device_of(node);
    st->st_size = 0;
}

static int stat_fd(int fd, struct stat *st)
{
    struct node node;
    int r = (int)syscall(SYS_fstat, fd, st);
    /* A memfd has no links. Ordinary files have, so their names need not be read. */
    if (r == 0 && S_ISREG(st->st_mode) && st->st_nlink == 0 && emulator_on() &&
        node_of_fd(fd, &node) && node.kind != NODE_DMABUF)
        make_device(&node, st);
    return r;
}

static int stat_at(int dir, const char *path, struct stat *st, int flags)
{
    char out[PATH_MAX];
    struct node node;
    if ((flags & AT_EMPTY_PATH) != 0 && path != NULL && path[0] == '\0')
        return stat_fd(dir, st);
    int r = (int)syscall(SYS_newfstatat, dir, redirect(path, out), st, flags);
    if (r == 0 && redirect_is_node(path, &node)) {
        make_device(&node, st);
        const char *card = strstr(path, "/card");
        if (card != NULL) /* the primary node has a minor of its own */
            st->st_rdev = makedev(DRM_MAJOR, minor(st->st_rdev) - 128);
    }
    return r;
}

EXPORT int stat(const char *path, struct stat *st)
{
    return stat_at(AT_FDCWD, path, st, 0);
}

EXPORT int lstat(const char *path, struct stat *st)
{
    return stat_at(AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW);
}

EXPORT int fstat(int fd, struct stat *st)
{
    return stat_fd(fd, st);
}

EXPORT int fstatat(int dir, const char *path, struct stat *st, int flags)
{
    return stat_at(dir, path, st, flags);
}

/* struct stat64 is struct stat on 64-bit machines. */
EXPORT int stat64(const char *path, struct stat64 *st)
{
    return stat_at(AT_FDCWD, path, (struct stat *)st, 0);
}

EXPORT int lstat64(const char *path, struct stat64 *st)
{
    return stat_at(AT_FDCWD, path, (struct stat *)st, AT_SYMLINK_NOFOLLOW);
}

EXPORT int fstat64(int fd, struct stat64 *st)
{
    return stat_fd(fd, (struct stat *)st);
}

EXPORT int fstatat64(int dir, const char *path, struct stat64 *st, int flags)
{
    return stat_at(dir, path, (struct stat *)st, flags);
}

int __xstat(int version, const char *path, struct stat *st);
int __xstat64(int version, const char *path, struct stat64 *st);
int __lxstat(int version, const char *path, struct stat *st);
int __lxstat64(int version, const char *path, struct stat64 *st);
int __fxstat(int version, int fd, struct stat *st);
int __fxstat64(int version, int fd, struct stat64 *st);

EXPORT int __xstat(int version, const char *path, struct stat *st)
{
    (void)version;
    return stat_at(AT_FDCWD, path, st, 0);
}

EXPORT int __xstat64(int version, const char *path, struct stat64 *st)
{
    (void)version;
    return stat_at(AT_FDCWD, path, (struct stat *)st, 0);
}

EXPORT int __lxstat(int version, const char *path, struct stat *st)
{
    (void)version;
    return stat_at(AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW);
}

EXPORT int __lxstat64(int version, const char *path, struct stat64 *st)
{
    (void)version;
    return stat_at(AT_FDCWD, path, (struct stat *)st, AT_SYMLINK_NOFOLLOW);
}

EXPORT int __fxstat(int version, int fd, struct stat *st)
{
    (void)version;
    return stat_fd(fd, st);
}

EXPORT int __fxstat64(int version, int fd, struct stat64 *st)
{
    (void)version;
    return stat_fd(fd, (struct stat *)st);
}

EXPORT int statx(int dir, const char *path, int flags, unsigned mask, struct statx *st)
{
    char out[PATH_MAX];
    struct node node;
    int r = (int)syscall(SYS_statx, dir, redirect(path, out), flags, mask, st);
    if (r != 0 || path == NULL)
        return r;
    bool by_fd = path[0] == '\0' && (flags & AT_EMPTY_PATH) != 0;
    bool is_node = by_fd ? st->stx_nlink == 0 && emulator_on() && node_of_fd(dir, &node) &&
                               node.kind != NODE_DMABUF
                         : redirect_is_node(path, &node);
    if (is_node) {
        st->stx_mode = S_IFCHR | 0666;
        st->stx_rdev_major = major(device_of(&node));
        st->stx_rdev_minor = minor(device_of(&node));
    }
    return r;
}
