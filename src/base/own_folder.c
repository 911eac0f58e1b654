/* SPDX-License-Identifier: Apache-2.0 */
#include "base/own_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bounded.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/fs.h"

#define ANSWER_MS 1000

/* In a user namespace that maps only some ids, every other owner is shown as the overflow id
 * (user_namespaces(7)). The owner says nothing there. */
static bool all_owners_are_shown(void)
{
    char map[128];
    if (fs_read_text("/proc/self/uid_map", map, sizeof map) <= 0)
        return true;
    /* "         0          0 4294967295": inside, outside, count */
    char *end = map;
    for (int field = 0; field < 2; field++)
        (void)strtoul(end, &end, 10);
    return strtoul(end, NULL, 10) >= UINT32_MAX;
}

static bool owner_is_safe(const struct stat *st)
{
    return st->st_uid == 0 || st->st_uid == geteuid() || !all_owners_are_shown();
}

static bool parents_are_safe(char *real)
{
    for (char *slash = strrchr(real, '/'); slash != NULL; slash = strrchr(real, '/')) {
        struct stat st;
        *slash = '\0';
        if (stat(real[0] != '\0' ? real : "/", &st) != 0 || !owner_is_safe(&st) ||
            ((st.st_mode & S_IWOTH) != 0 && (st.st_mode & S_ISVTX) == 0))
            return false;
    }
    return true;
}

/* mkdir -p begins below the deepest folder that exists. */
static bool deepest_existing(const char *path, char *out, size_t size)
{
    int n = snprintf(out, size, "%s", path);
    if (path[0] != '/' || n < 0 || (size_t)n >= size)
        return false;
    struct stat st;
    while (stat(out, &st) != 0) {
        char *slash = strrchr(out, '/');
        if (slash == NULL || (errno != ENOENT && errno != ENOTDIR))
            return false;
        *slash = '\0';
        if (slash == out)
            return false;
    }
    return S_ISDIR(st.st_mode) && st.st_uid == geteuid();
}

bool own_folder_is_safe(const char *path)
{
    char existing[FS_PATH_MAX];
    char real[PATH_MAX];
    return deepest_existing(path, existing, sizeof existing) && realpath(existing, real) != NULL &&
           parents_are_safe(real);
}

static bool try_folder(void *path)
{
    return own_folder_is_safe(path);
}

/* Asked again and again, a file system that does not answer would cost a second each time. */
static bool answers(char *path)
{
    static char silent[FS_PATH_MAX];
    if (strcmp(path, silent) == 0)
        return false;
    if (bounded_reach(try_folder, path, ANSWER_MS))
        return true;
    (void)snprintf(silent, sizeof silent, "%s", path);
    return false;
}

const char *own_folder_from(const char *variable)
{
    char *value = getenv(variable);
    return value != NULL && value[0] == '/' && answers(value) && own_folder_is_safe(value) ? value
                                                                                           : NULL;
}

const char *own_path_distrust(const char *path, const struct stat *st)
{
    char real[PATH_MAX];
    if (!owner_is_safe(st))
        return "it belongs to another user";
    if ((st->st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return "others may write to it (chmod go-w)";
    if (realpath(path, real) == NULL || !parents_are_safe(real))
        return "it lies in a folder where others may exchange it";
    return NULL;
}

static int open_existing(int parent_fd, const char *parent, const char *name, mode_t closed, int *ret_fd,
                         struct rc_err *err)
{
    RC_AUTO_CLOSE int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return rc_err_errno(err, -errno, "cannot use '%s/%s'", parent, name);
    struct stat st;
    if (fstat(fd, &st) != 0)
        return rc_err_errno(err, -errno, "cannot use '%s/%s'", parent, name);
    if (st.st_uid != geteuid())
        return rc_err_set(err, -EPERM, "'%s/%s' belongs to another user", parent, name);
    if ((st.st_mode & closed) != 0)
        return rc_err_set(err, -EPERM, "'%s/%s' is open to other users", parent, name);
    *ret_fd = rc_take_fd(&fd);
    return 0;
}

int own_folder_open(const char *parent, const char *name, mode_t closed, int *ret_fd,
                    struct rc_err *err)
{
    RC_AUTO_CLOSE int parent_fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (parent_fd < 0)
        return rc_err_errno(err, -errno, "cannot open '%s'", parent);
    if (mkdirat(parent_fd, name, 0700) != 0 && errno != EEXIST)
        return rc_err_errno(err, -errno, "cannot make '%s/%s'", parent, name);
    return open_existing(parent_fd, parent, name, closed, ret_fd, err);
}

int own_folder_find(const char *parent, const char *prefix, mode_t closed, char *name, size_t size)
{
    RC_AUTO_CLOSEDIR DIR *dir = opendir(parent);
    if (dir == NULL)
        return -errno;
    name[0] = '\0';
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        RC_AUTO_CLOSE int fd = -1;
        bool later = name[0] != '\0' && strcmp(entry->d_name, name) >= 0;
        if (later || strncmp(entry->d_name, prefix, strlen(prefix)) != 0 || strlen(entry->d_name) >= size)
            continue;
        if (open_existing(dirfd(dir), parent, entry->d_name, closed, &fd, NULL) == 0)
            (void)snprintf(name, size, "%s", entry->d_name);
    }
    return name[0] != '\0' ? 0 : -ENOENT;
}
