/* SPDX-License-Identifier: Apache-2.0 */
/* Runs that nobody finished: all of us were killed, or the machine went down. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fs.h"
#include "record/rundir.h"

int rundir_lock(const char *run_dir)
{
    char path[FS_PATH_MAX];
    if ((size_t)snprintf(path, sizeof path, "%s/state", run_dir) >= sizeof path)
        return -ENAMETOOLONG;
    RC_AUTO_CLOSE int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        return -errno;
    return rc_take_fd(&fd);
}

/* A directory without run.json is one that is just being made, or was never used. */
static bool is_unfinished(const char *run_dir)
{
    char path[FS_PATH_MAX];
    if ((size_t)snprintf(path, sizeof path, "%s/run.json", run_dir) >= sizeof path ||
        access(path, R_OK) != 0)
        return false;
    RC_AUTO_CLOSE int lock = rundir_lock(run_dir);
    return lock >= 0;
}

int rundir_unfinished(rundir_unfinished_fn fn, void *context, struct rc_err *err)
{
    char base[FS_PATH_MAX];
    int count = 0;
    int r = rundir_base(base, sizeof base, err);
    if (r < 0)
        return r;
    RC_AUTO_CLOSEDIR DIR *dir = opendir(base);
    if (dir == NULL)
        return rc_err_errno(err, -errno, "cannot open '%s'", base);
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char run_dir[FS_PATH_MAX];
        int n = snprintf(run_dir, sizeof run_dir, "%s/%s", base, entry->d_name);
        if (entry->d_name[0] == '.' || n < 0 || (size_t)n >= sizeof run_dir || !is_unfinished(run_dir))
            continue;
        count++;
        if (fn != NULL)
            fn(context, run_dir);
    }
    return count;
}
