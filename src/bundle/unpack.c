/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unpacks into a folder that is ours. Every part of a path is opened without following links, and
 * every file is made anew. The reader has already refused names that lead outside; without that,
 * too, nothing could lead outside.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fs.h"
#include "bundle/internal.h"

/* Opens the folder that `name` lies in, and makes it if needed; *ret_last is the last part of
 * `name`. */
static int open_parent(int root, const char *name, const char **ret_last)
{
    RC_AUTO_CLOSE int fd = fcntl(root, F_DUPFD_CLOEXEC, 3);
    if (fd < 0)
        return -errno;
    for (const char *slash; (slash = strchr(name, '/')) != NULL; name = slash + 1) {
        char part[BUNDLE_NAME_MAX + 1];
        size_t len = (size_t)(slash - name);
        if (len >= sizeof part)
            return -ENAMETOOLONG;
        memcpy(part, name, len);
        part[len] = '\0';
        if (mkdirat(fd, part, 0700) != 0 && errno != EEXIST)
            return -errno;
        int next = openat(fd, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (next < 0)
            return -errno;
        (void)close(fd);
        fd = next;
    }
    *ret_last = name;
    return rc_take_fd(&fd);
}

static int copy_data(struct reader *reader, int fd, struct rc_err *err)
{
    char data[64 * 1024];
    ssize_t n;
    while ((n = reader_data(reader, data, sizeof data, err)) > 0) {
        int r = fs_write_all(fd, data, (size_t)n);
        if (r < 0)
            return rc_err_errno(err, r, "cannot write an unpacked file");
    }
    return (int)n;
}

static int unpack_entry(struct reader *reader, const struct reader_entry *entry, int root,
                        struct rc_err *err)
{
    const char *last = entry->name;
    RC_AUTO_CLOSE int parent = open_parent(root, entry->name, &last);
    if (parent < 0)
        return rc_err_errno(err, parent, "cannot unpack '%s'", entry->name);
    int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    RC_AUTO_CLOSE int fd = openat(parent, last, flags, 0600);
    if (fd < 0)
        return rc_err_errno(err, -errno, "cannot unpack '%s'", entry->name);
    int r = copy_data(reader, fd, err);
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = entry->mtime}};
    if (r == 0)
        (void)futimens(fd, times); /* so that a rewrite keeps them; nothing depends on it */
    int closed = r == 0 ? fs_close(rc_take_fd(&fd)) : 0;
    if (closed < 0)
        r = rc_err_errno(err, closed, "cannot write '%s'", entry->name);
    return r;
}

int bundle_unpack_fd(int fd, int dir_fd, struct rc_err *err)
{
    struct reader *reader = NULL;
    struct reader_entry entry;
    int r = reader_open(&reader, fd, err);
    while (r == 0 && (r = reader_next(reader, &entry, err)) > 0)
        r = unpack_entry(reader, &entry, dir_fd, err);
    reader_close(reader);
    return r;
}

/* Make dir, or take an empty one of ours. */
static int open_fresh(const char *dir, int *ret_fd, struct rc_err *err)
{
    if (mkdir(dir, 0700) != 0 && errno != EEXIST)
        return rc_err_errno(err, -errno, "cannot make '%s'", dir);
    RC_AUTO_CLOSE int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0)
        return rc_err_errno(err, -errno, "cannot open '%s'", dir);
    if (st.st_uid != geteuid())
        return rc_err_set(err, -EPERM, "'%s' belongs to another user", dir);
    if ((st.st_mode & 077) != 0 && fchmod(fd, 0700) != 0)
        return rc_err_errno(err, -errno, "cannot close '%s' to others", dir);
    RC_AUTO_CLOSEDIR DIR *list = fs_open_folder(fd, ".");
    if (list == NULL)
        return rc_err_errno(err, -errno, "cannot list '%s'", dir);
    for (struct dirent *e; (e = readdir(list)) != NULL;) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            return rc_err_set(err, -ENOTEMPTY, "'%s' is not empty", dir);
    }
    *ret_fd = rc_take_fd(&fd);
    return 0;
}

int bundle_unpack(const char *path, const char *dir, struct rc_err *err)
{
    RC_AUTO_CLOSE int fd = bundle_open(path, err);
    if (fd < 0)
        return fd;
    RC_AUTO_CLOSE int dir_fd = -1;
    int r = open_fresh(dir, &dir_fd, err);
    return r < 0 ? r : bundle_unpack_fd(fd, dir_fd, err);
}
