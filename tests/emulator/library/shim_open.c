/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wrappers of the libc functions that take a path. Functions that are plain system calls are
 * called directly as such, so that they work at any moment, also while other libraries initialise.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "emulator.h"
#include "fdinfo.h"
#include "machine.h"
#include "publish.h"
#include "redirect.h"
#include "state.h"

static int open_node(const struct node *node, int flags)
{
    int cloexec = flags & O_CLOEXEC;
    int fd = node->kind == NODE_KFD ? node_open_kfd(cloexec) : node_open_render(node->gpu, cloexec);
    if (fd < 0) {
        errno = -fd;
        return -1;
    }
    state_lock();
    if (node->kind == NODE_RENDER)
        publish_fdinfo_open(fd, node->gpu);
    else if (machine.gpu_count > 0)
        publish_process(0);
    state_unlock();
    return fd;
}

static int open_path(int dir, const char *path, int flags, mode_t mode)
{
    char out[PATH_MAX];
    struct node node;
    if (redirect_is_node(path, &node))
        return open_node(&node, flags);
    return (int)syscall(SYS_openat, dir, redirect(path, out), flags, mode);
}

#define MODE_OF(flags, mode)                                                                       \
    mode_t mode = 0;                                                                               \
    if (((flags) & (O_CREAT | __O_TMPFILE)) != 0) {                                                \
        va_list args;                                                                              \
        va_start(args, flags);                                                                     \
        mode = va_arg(args, mode_t);                                                               \
        va_end(args);                                                                              \
    }

EXPORT int open(const char *path, int flags, ...)
{
    MODE_OF(flags, mode)
    return open_path(AT_FDCWD, path, flags, mode);
}

EXPORT int open64(const char *path, int flags, ...)
{
    MODE_OF(flags, mode)
    return open_path(AT_FDCWD, path, flags | O_LARGEFILE, mode);
}

EXPORT int openat(int dir, const char *path, int flags, ...)
{
    MODE_OF(flags, mode)
    return open_path(dir, path, flags, mode);
}

EXPORT int openat64(int dir, const char *path, int flags, ...)
{
    MODE_OF(flags, mode)
    return open_path(dir, path, flags | O_LARGEFILE, mode);
}

/* Called by programs built with _FORTIFY_SOURCE. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dir, const char *path, int flags);
int __openat64_2(int dir, const char *path, int flags);
char *__realpath_chk(const char *path, char *resolved, size_t size);
ssize_t __readlink_chk(const char *path, char *out, size_t len, size_t size);

EXPORT int __open_2(const char *path, int flags)
{
    return open_path(AT_FDCWD, path, flags, 0);
}

EXPORT int __open64_2(const char *path, int flags)
{
    return open_path(AT_FDCWD, path, flags | O_LARGEFILE, 0);
}

EXPORT int __openat_2(int dir, const char *path, int flags)
{
    return open_path(dir, path, flags, 0);
}

EXPORT int __openat64_2(int dir, const char *path, int flags)
{
    return open_path(dir, path, flags | O_LARGEFILE, 0);
}

EXPORT FILE *fopen(const char *path, const char *mode)
{
    FILE *(*real)(const char *, const char *);
    char out[PATH_MAX];
    *(void **)&real = redirect_next("fopen");
    return real(redirect(path, out), mode);
}

EXPORT FILE *fopen64(const char *path, const char *mode)
{
    FILE *(*real)(const char *, const char *);
    char out[PATH_MAX];
    *(void **)&real = redirect_next("fopen64");
    return real(redirect(path, out), mode);
}

EXPORT DIR *opendir(const char *path)
{
    DIR *(*real)(const char *);
    char out[PATH_MAX];
    *(void **)&real = redirect_next("opendir");
    return real(redirect(path, out));
}

EXPORT int scandir(const char *path, struct dirent ***list, int (*filter)(const struct dirent *),
                   int (*compare)(const struct dirent **, const struct dirent **))
{
    int (*real)(const char *, struct dirent ***, int (*)(const struct dirent *),
                int (*)(const struct dirent **, const struct dirent **));
    char out[PATH_MAX];
    *(void **)&real = redirect_next("scandir");
    return real(redirect(path, out), list, filter, compare);
}

EXPORT int scandir64(const char *path, struct dirent64 ***list,
                     int (*filter)(const struct dirent64 *),
                     int (*compare)(const struct dirent64 **, const struct dirent64 **))
{
    int (*real)(const char *, struct dirent64 ***, int (*)(const struct dirent64 *),
                int (*)(const struct dirent64 **, const struct dirent64 **));
    char out[PATH_MAX];
    *(void **)&real = redirect_next("scandir64");
    return real(redirect(path, out), list, filter, compare);
}

EXPORT int access(const char *path, int mode)
{
    char out[PATH_MAX];
    return (int)syscall(SYS_faccessat, AT_FDCWD, redirect(path, out), mode);
}

EXPORT int faccessat(int dir, const char *path, int mode, int flags)
{
    int (*real)(int, const char *, int, int);
    char out[PATH_MAX];
    *(void **)&real = redirect_next("faccessat");
    return real(dir, redirect(path, out), mode, flags);
}

EXPORT int euidaccess(const char *path, int mode)
{
    return faccessat(AT_FDCWD, path, mode, AT_EACCESS);
}

/* A descriptor of a node reads as the node: libdrm finds its device that way. */
static ssize_t node_link(const char *path, char *out, size_t size)
{
    int fd = -1;
    int pid = 0;
    struct node node;
    char text[64];
    if (path == NULL || (sscanf(path, "/proc/self/fd/%d", &fd) != 1 &&
                         sscanf(path, "/proc/%d/fd/%d", &pid, &fd) != 2))
        return -1;
    if (fd >= FDINFO_FDS || !emulator_on() || !node_of_link(path, &node) || node.kind == NODE_DMABUF)
        return -1;
    int n = node.kind == NODE_KFD
                ? snprintf(text, sizeof text, "/dev/kfd")
                : snprintf(text, sizeof text, "/dev/dri/renderD%d",
                           machine.gpus[node.gpu].render_minor);
    size_t len = (size_t)n < size ? (size_t)n : size;
    memcpy(out, text, len);
    return (ssize_t)len;
}

EXPORT ssize_t readlinkat(int dir, const char *path, char *out, size_t size)
{
    char other[PATH_MAX];
    ssize_t n = node_link(path, out, size);
    return n >= 0 ? n : syscall(SYS_readlinkat, dir, redirect(path, other), out, size);
}

EXPORT ssize_t readlink(const char *path, char *out, size_t size)
{
    return readlinkat(AT_FDCWD, path, out, size);
}

EXPORT ssize_t __readlink_chk(const char *path, char *out, size_t len, size_t size)
{
    if (len > size)
        abort();
    return readlinkat(AT_FDCWD, path, out, len);
}

EXPORT char *realpath(const char *path, char *resolved)
{
    char *(*real)(const char *, char *);
    char out[PATH_MAX];
    *(void **)&real = redirect_next("realpath");
    char *found = real(redirect(path, out), resolved);
    redirect_strip(found);
    return found;
}

EXPORT char *__realpath_chk(const char *path, char *resolved, size_t size)
{
    if (size < PATH_MAX)
        abort();
    return realpath(path, resolved);
}

EXPORT char *canonicalize_file_name(const char *path)
{
    return realpath(path, NULL);
}
