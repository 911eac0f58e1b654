/* SPDX-License-Identifier: Apache-2.0 */
#include "record/rundir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fs.h"

static int format_path(char *out, size_t size, struct rc_err *err, const char *a, const char *b)
{
    int n = snprintf(out, size, "%s%s", a, b);
    if (n < 0 || (size_t)n >= size)
        return rc_err_set(err, -ENAMETOOLONG, "state directory name is too long");
    return 0;
}

/* A directory in a shared /tmp must be ours and nobody else's, and not a link that someone laid. */
static int check_private(const char *path, struct rc_err *err)
{
    struct stat st;
    if (lstat(path, &st) != 0)
        return rc_err_errno(err, -errno, "cannot look at '%s'", path);
    if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 022) != 0)
        return rc_err_set(err, -EPERM, "'%s' is not a private directory of ours", path);
    return 0;
}

static int try_base(char *out, size_t size, struct rc_err *err, const char *root, const char *tail)
{
    int r = format_path(out, size, err, root, tail);
    if (r == 0 && (r = fs_mkdir_p(out)) < 0)
        return rc_err_errno(err, r, "cannot make '%s'", out);
    if (r == 0)
        r = check_private(out, err);
    if (r == 0 && access(out, W_OK | X_OK) != 0)
        r = rc_err_errno(err, -errno, "cannot write to '%s'", out);
    return r;
}

int rundir_base(char *out, size_t size, struct rc_err *err)
{
    const char *named = getenv("ROCMCRASH_STATE_DIR");
    if (named != NULL && named[0] != '\0' && try_base(out, size, err, named, "/runs") == 0)
        return 0;
    const char *xdg = getenv("XDG_STATE_HOME");
    if (xdg != NULL && xdg[0] == '/' && try_base(out, size, err, xdg, "/rocmcrash/runs") == 0)
        return 0;
    const char *home = getenv("HOME");
    if (home != NULL && home[0] == '/' &&
        try_base(out, size, err, home, "/.local/state/rocmcrash/runs") == 0)
        return 0;
    char shared_tmp[64];
    (void)snprintf(shared_tmp, sizeof shared_tmp, "/tmp/rocmcrash-%lu", (unsigned long)geteuid());
    if (mkdir(shared_tmp, 0700) != 0 && errno != EEXIST)
        return rc_err_errno(err, -errno, "cannot make '%s'", shared_tmp);
    int r = check_private(shared_tmp, err);
    return r < 0 ? r : try_base(out, size, err, shared_tmp, "/runs");
}

int rundir_name(char *out, size_t size, uint64_t start_wall_ns, int32_t pid, struct rc_err *err)
{
    char base[FS_PATH_MAX];
    int r = rundir_base(base, sizeof base, err);
    if (r < 0)
        return r;
    time_t seconds = (time_t)(start_wall_ns / 1000000000u);
    struct tm utc;
    char stamp[32];
    if (gmtime_r(&seconds, &utc) == NULL ||
        strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%SZ", &utc) == 0)
        return rc_err_set(err, -EINVAL, "cannot name the run directory");
    int n = snprintf(out, size, "%s/%s-%d", base, stamp, (int)pid);
    if (n < 0 || (size_t)n >= size)
        return rc_err_set(err, -ENAMETOOLONG, "run directory name is too long");
    return 0;
}

int rundir_create(char *out, size_t size, uint64_t start_wall_ns, int32_t pid, struct rc_err *err)
{
    int r = rundir_name(out, size, start_wall_ns, pid, err);
    if (r < 0)
        return r;
    if (mkdir(out, 0700) != 0 && errno != EEXIST)
        return rc_err_errno(err, -errno, "cannot make '%s'", out);
    return 0;
}
