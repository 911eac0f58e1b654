/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fs.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

static const char *sysroot_override;

const char *fs_sysroot(void)
{
    if (sysroot_override != NULL)
        return sysroot_override;
    const char *env = getenv("ROCMCRASH_SYSROOT");
    return env != NULL && strcmp(env, "/") != 0 ? env : "";
}

void fs_set_sysroot(const char *dir)
{
    sysroot_override = dir;
}

int fs_machine_path(char *out, size_t size, const char *path)
{
    int n = snprintf(out, size, "%s%s", fs_sysroot(), path);
    return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

int fs_open_read(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    return fd < 0 ? -errno : fd;
}

int fs_open_regular(const char *path)
{
    char self[32];
    struct stat st;
    RC_AUTO_CLOSE int place = open(path, O_PATH | O_CLOEXEC);
    if (place < 0 || fstat(place, &st) != 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return S_ISDIR(st.st_mode) ? -EISDIR : -ENODEV;
    (void)snprintf(self, sizeof self, "/proc/self/fd/%d", place);
    return fs_open_read(self);
}

int fs_open_machine(const char *path)
{
    char full[FS_PATH_MAX];
    int r = fs_machine_path(full, sizeof full, path);
    return r < 0 ? r : fs_open_read(full);
}

ssize_t fs_pread_text(int fd, char *out, size_t size)
{
    size_t len = 0;
    while (len < size - 1) {
        ssize_t n = pread(fd, out + len, size - 1 - len, (off_t)len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            out[0] = '\0';
            return -errno;
        }
        if (n == 0)
            break;
        len += (size_t)n;
    }
    out[len] = '\0';
    char more = 0;
    bool longer = len == size - 1 && pread(fd, &more, 1, (off_t)len) == 1 && more != '\0';
    len = strnlen(out, len);
    while (len > 0 && isspace((unsigned char)out[len - 1]))
        out[--len] = '\0';
    return longer ? -EFBIG : (ssize_t)len;
}

ssize_t fs_read_text(const char *path, char *out, size_t size)
{
    out[0] = '\0';
    RC_AUTO_CLOSE int fd = fs_open_read(path);
    return fd < 0 ? fd : fs_pread_text(fd, out, size);
}

ssize_t fs_read_regular_text(const char *path, char *out, size_t size)
{
    out[0] = '\0';
    RC_AUTO_CLOSE int fd = fs_open_regular(path);
    return fd < 0 ? fd : fs_pread_text(fd, out, size);
}

ssize_t fs_read_machine_text(const char *path, char *out, size_t size)
{
    char full[FS_PATH_MAX];
    out[0] = '\0';
    int r = fs_machine_path(full, sizeof full, path);
    return r < 0 ? r : fs_read_text(full, out, size);
}

ssize_t fs_read_all(const char *path, size_t max, char **ret_data)
{
    RC_AUTO_CLOSE int fd = fs_open_read(path);
    return fd < 0 ? fd : fs_read_all_fd(fd, max, ret_data);
}

ssize_t fs_read_all_fd(int fd, size_t max, char **ret_data)
{
    RC_AUTO_FREE char *data = NULL;
    size_t len = 0;
    size_t capacity = 0;
    for (;;) {
        if (len == capacity) {
            capacity = capacity ? capacity * 2 : 4096;
            if (capacity > max)
                capacity = max;
            char *grown = realloc(data, capacity + 1);
            if (grown == NULL)
                return -ENOMEM;
            data = grown;
        }
        char one;
        ssize_t n = len < max ? read(fd, data + len, capacity - len) : read(fd, &one, 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n > 0 && len == max) {
            data[len] = '\0';
            *ret_data = rc_take(&data);
            return -EFBIG;
        }
        if (n == 0)
            break;
        len += (size_t)n;
    }
    data[len] = '\0';
    *ret_data = rc_take(&data);
    return (ssize_t)len;
}

int fs_write_all(int fd, const void *data, size_t len)
{
    const char *p = data;
    while (len > 0) {
        ssize_t n = write(fd, p, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

int fs_pwrite_all(int fd, const void *data, size_t len, off_t at)
{
    const char *p = data;
    while (len > 0) {
        ssize_t n = pwrite(fd, p, len, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        p += n;
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

ssize_t fs_pread_full(int fd, void *data, size_t len, off_t at)
{
    size_t have = 0;
    while (have < len) {
        ssize_t n = pread(fd, (char *)data + have, len - have, at + (off_t)have);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        have += (size_t)n;
    }
    return (ssize_t)have;
}

int fs_sync(int fd)
{
    int r;
    do
        r = fsync(fd);
    while (r != 0 && errno == EINTR);
    return r == 0 ? 0 : -errno;
}

int fs_truncate(int fd, off_t size)
{
    int r;
    do
        r = ftruncate(fd, size);
    while (r != 0 && errno == EINTR);
    return r == 0 ? 0 : -errno;
}

int fs_lock(int fd)
{
    int r;
    do
        r = flock(fd, LOCK_EX | LOCK_NB);
    while (r != 0 && errno == EINTR);
    return r == 0 ? 0 : -errno;
}

int fs_close(int fd)
{
    return close(fd) == 0 || errno == EINTR ? 0 : -errno;
}

static int open_regular(int dirfd, const char *name, int flags)
{
    struct stat st;
    /* O_TRUNC does nothing to a pipe; O_NONBLOCK does nothing to a regular file. */
    RC_AUTO_CLOSE int fd =
        openat(dirfd, name, flags | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) != 0)
        return -errno;
    return S_ISREG(st.st_mode) ? rc_take_fd(&fd) : -ENXIO;
}

/* A folder that somebody put in the place of the file: it keeps its contents, under another name. Not where `name` is
 * a path, which may be a user's. */
static bool put_folder_aside(int dirfd, const char *name)
{
    char aside[FS_PATH_MAX];
    int n = snprintf(aside, sizeof aside, "%s.folder", name);
    return dirfd != AT_FDCWD && n > 0 && (size_t)n < sizeof aside && renameat(dirfd, name, dirfd, aside) == 0;
}

int fs_open_write(int dirfd, const char *name, int flags)
{
    int fd = open_regular(dirfd, name, flags);
    if (fd == -EISDIR && put_folder_aside(dirfd, name))
        fd = open_regular(dirfd, name, flags);
    if (fd != -ENXIO && fd != -ELOOP)
        return fd;
    if ((flags & O_APPEND) != 0)
        return -ELOOP;
    return unlinkat(dirfd, name, 0) == 0 ? open_regular(dirfd, name, flags) : fd;
}

int fs_write_file_at(int dirfd, const char *name, const void *data, size_t len, bool durable)
{
    char temporary[FS_PATH_MAX];
    int n = snprintf(temporary, sizeof temporary, "%s.tmp.%ld", name, (long)getpid());
    if (n < 0 || (size_t)n >= sizeof temporary)
        return -ENAMETOOLONG;
    int fd = fs_open_write(dirfd, temporary, O_WRONLY | O_TRUNC);
    if (fd < 0)
        return fd;
    int r = fs_write_all(fd, data, len);
    if (r == 0 && durable)
        r = fs_sync(fd);
    int closed = fs_close(fd);
    if (r == 0)
        r = closed;
    if (r == 0 && renameat(dirfd, temporary, dirfd, name) != 0 &&
        !(errno == EISDIR && put_folder_aside(dirfd, name) && renameat(dirfd, temporary, dirfd, name) == 0))
        r = -errno;
    if (r < 0)
        (void)unlinkat(dirfd, temporary, 0);
    return r;
}

int fs_mkdir_p(const char *path)
{
    char partial[FS_PATH_MAX];
    size_t len = strlen(path);
    if (len == 0 || len >= sizeof partial)
        return len == 0 ? -ENOENT : -ENAMETOOLONG;
    memcpy(partial, path, len + 1);
    for (char *p = partial + 1; *p != '\0'; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        if (mkdir(partial, 0700) != 0 && errno != EEXIST)
            return -errno;
        *p = '/';
    }
    if (mkdir(partial, 0700) == 0)
        return 0;
    if (errno != EEXIST)
        return -errno;
    struct stat st;
    if (stat(partial, &st) != 0)
        return -errno;
    return S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
}

DIR *fs_open_folder(int parent_fd, const char *name)
{
    int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir == NULL && fd >= 0) {
        int error = errno;
        (void)close(fd);
        errno = error;
    }
    return dir;
}

static int remove_tree_on(int parent_fd, const char *name, dev_t device, int depth)
{
    struct stat st;
    if (fstatat(parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return -errno;
    if (!S_ISDIR(st.st_mode))
        return unlinkat(parent_fd, name, 0) == 0 ? 0 : -errno;
    if (st.st_dev != device || depth > 64)
        return -EXDEV;
    RC_AUTO_CLOSEDIR DIR *dir = fs_open_folder(parent_fd, name);
    if (dir == NULL)
        return -errno;
    int first = 0;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        int r = remove_tree_on(dirfd(dir), entry->d_name, device, depth + 1);
        if (r < 0 && first == 0)
            first = r;
    }
    if (unlinkat(parent_fd, name, AT_REMOVEDIR) != 0 && first == 0)
        first = -errno;
    return first;
}

int fs_remove_tree(int parent_fd, const char *name)
{
    struct stat st;
    if (fstatat(parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return -errno;
    return remove_tree_on(parent_fd, name, st.st_dev, 0);
}

int fs_parse_u64(const char *text, uint64_t *ret)
{
    while (isspace((unsigned char)*text))
        text++;
    if (!isdigit((unsigned char)*text))
        return -EINVAL;
    errno = 0;
    char *end = NULL;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0)
        return -errno;
    while (isspace((unsigned char)*end))
        end++;
    if (*end != '\0')
        return -EINVAL;
    *ret = value;
    return 0;
}
