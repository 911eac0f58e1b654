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

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/own_folder.h"

#define ROOM_TO_START ((size_t)256 << 10)

static int format_path(char *out, size_t size, struct rc_err *err, const char *a, const char *b)
{
    int n = snprintf(out, size, "%s%s", a, b);
    if (n < 0 || (size_t)n >= size)
        return rc_err_set(err, -ENAMETOOLONG, "state directory name is too long");
    return 0;
}

static int join(char *out, size_t size, const char *base, const char *name, struct rc_err *err)
{
    int n = snprintf(out, size, "%s/%s", base, name);
    if (n < 0 || (size_t)n >= size)
        return rc_err_set(err, -ENAMETOOLONG, "run directory name is too long");
    return 0;
}

/* A directory in a shared /tmp must belong to us, be private, and not be a link of another user. */
static int check_private(const char *path, struct rc_err *err)
{
    struct stat st;
    if (lstat(path, &st) != 0)
        return rc_err_errno(err, -errno, "cannot look at '%s'", path);
    if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 022) != 0)
        return rc_err_set(err, -EPERM, "'%s' is not a private directory of ours", path);
    return 0;
}

static int try_base(const char *path, struct rc_err *err)
{
    int r = fs_mkdir_p(path);
    if (r < 0)
        return rc_err_errno(err, r, "cannot make '%s'", path);
    r = check_private(path, err);
    if (r == 0 && access(path, W_OK | X_OK) != 0)
        r = rc_err_errno(err, -errno, "cannot write to '%s'", path);
    return r;
}

static void parent_of(const char *runs, char own[FS_PATH_MAX])
{
    (void)snprintf(own, FS_PATH_MAX, "%.*s", (int)(strrchr(runs, '/') - runs), runs);
}

/* In a folder where others may write, the folder that holds "runs" is private to us, too. */
static int private_parent(const char *runs, struct rc_err *err)
{
    char own[FS_PATH_MAX];
    parent_of(runs, own);
    if (mkdir(own, 0700) != 0 && errno != EEXIST)
        return rc_err_errno(err, -errno, "cannot make '%s'", own);
    return check_private(own, err);
}

/* Any user can take the name rocmcrash-UID in a shared folder. Nobody can take all random names. */
enum place_kind { PLACE_NAMED, PLACE_OWN, PLACE_SHARED, PLACE_RANDOM };

static const struct place {
    enum place_kind kind;
    const char *name; /* a variable of the environment, or a shared folder */
    const char *tail;
} places[] = {{PLACE_NAMED, "ROCMCRASH_STATE_DIR", "/runs"},
              {PLACE_OWN, "XDG_STATE_HOME", "/rocmcrash/runs"},
              {PLACE_OWN, "HOME", "/.local/state/rocmcrash/runs"},
              {PLACE_SHARED, "/tmp", NULL},
              {PLACE_SHARED, "/dev/shm", NULL}, /* memory: if no disk can be written */
              {PLACE_RANDOM, "/tmp", NULL},
              {PLACE_RANDOM, "/var/tmp", NULL},
              {PLACE_RANDOM, "/dev/shm", NULL},
              {PLACE_RANDOM, ".", NULL}};

/* The folder of an earlier call, or of another process of ours. */
static int find_random(const char *shared, char *out, size_t size)
{
    char prefix[48];
    char name[256]; /* of a directory entry, with its NUL */
    (void)snprintf(prefix, sizeof prefix, ".rocmcrash-%lu.", (unsigned long)geteuid());
    int r = own_folder_find(shared, prefix, S_IWGRP | S_IWOTH, name, sizeof name);
    if (r < 0)
        return r == -ENOENT ? -EINVAL : r;
    int n = snprintf(out, size, "%s/%s/runs", shared, name);
    return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

static int make_random(const char *shared, char *out, size_t size, struct rc_err *err)
{
    char own[FS_PATH_MAX];
    char name[48];
    (void)snprintf(name, sizeof name, ".rocmcrash-%lu.XXXXXX", (unsigned long)geteuid());
    int r = join(own, sizeof own, shared, name, err);
    if (r < 0)
        return r;
    if (mkdtemp(own) == NULL)
        return rc_err_errno(err, -errno, "cannot make a folder in '%s'", shared);
    return format_path(out, size, err, own, "/runs");
}

/* The last place is the folder where the program was started. Its name is absolute, because other
 * processes use it. */
static int shared_folder(const struct place *place, char *out, size_t size)
{
    if (strcmp(place->name, ".") != 0)
        return format_path(out, size, NULL, place->name, "");
    return getcwd(out, size) != NULL ? 0 : -EINVAL;
}

int rundir_place(unsigned number, char *out, size_t size)
{
    if (number >= sizeof places / sizeof places[0])
        return -ENOENT;
    const struct place *place = &places[number];
    if (place->kind == PLACE_SHARED) {
        int n = snprintf(out, size, "%s/rocmcrash-%lu/runs", place->name, (unsigned long)geteuid());
        return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
    }
    if (place->kind == PLACE_RANDOM) {
        char shared[FS_PATH_MAX];
        int r = shared_folder(place, shared, sizeof shared);
        return r < 0 ? r : find_random(shared, out, size);
    }
    const char *value =
        place->kind == PLACE_OWN ? own_folder_from(place->name) : getenv(place->name);
    if (value == NULL || value[0] == '\0')
        return -EINVAL;
    return format_path(out, size, NULL, value, place->tail);
}

bool rundir_is_ours(unsigned number, const char *runs)
{
    char own[FS_PATH_MAX];
    parent_of(runs, own);
    return (places[number].kind != PLACE_SHARED || check_private(own, NULL) == 0) &&
           check_private(runs, NULL) == 0;
}

static int open_place(unsigned number, char *out, size_t size, struct rc_err *err)
{
    int r = rundir_place(number, out, size);
    if (r == -EINVAL && places[number].kind == PLACE_RANDOM) {
        char shared[FS_PATH_MAX];
        r = shared_folder(&places[number], shared, sizeof shared);
        r = r < 0 ? r : make_random(shared, out, size, err);
    }
    if (r == 0 && places[number].kind == PLACE_SHARED)
        r = private_parent(out, err);
    return r < 0 ? r : try_base(out, err);
}

int rundir_base(char *out, size_t size, struct rc_err *err)
{
    struct rc_err tried = {""};
    for (unsigned place = 0; place < sizeof places / sizeof places[0]; place++)
        if (open_place(place, out, size, &tried) == 0)
            return 0;
    return rc_err_set(err, -EACCES, "%s", tried.msg);
}

static int run_name(char *out, size_t size, uint64_t start_wall_ns, int32_t pid)
{
    time_t seconds = (time_t)(start_wall_ns / 1000000000u);
    struct tm utc;
    char stamp[32];
    if (gmtime_r(&seconds, &utc) == NULL ||
        strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%SZ", &utc) == 0)
        return -EINVAL;
    int n = snprintf(out, size, "%s-%d", stamp, (int)pid);
    return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

int rundir_name(char *out, size_t size, uint64_t start_wall_ns, int32_t pid, struct rc_err *err)
{
    char base[FS_PATH_MAX];
    char name[64];
    int r = rundir_base(base, sizeof base, err);
    if (r == 0 && (r = run_name(name, sizeof name, start_wall_ns, pid)) < 0)
        return rc_err_errno(err, r, "cannot name the run directory");
    return r < 0 ? r : join(out, size, base, name, err);
}

bool rundir_is_disk_error(int code)
{
    return code == -ENOSPC || code == -EDQUOT || code == -EROFS || code == -EIO;
}

/* On a full disk a file can be created, and writing to it fails.
 */
int rundir_has_room(const char *dir, size_t room, struct rc_err *err)
{
    char path[FS_PATH_MAX];
    int r = join(path, sizeof path, dir, ".room", err);
    int fd = r < 0 ? -1 : fs_open_write(AT_FDCWD, path, O_WRONLY);
    if (r == 0 && fd < 0)
        return rc_err_errno(err, fd, "cannot write to '%s'", dir);
    static const char page[4096];
    while (r == 0 && fallocate(fd, 0, 0, (off_t)room) != 0) {
        if (errno == EINTR)
            continue;
        r = errno == EOPNOTSUPP || errno == ENOSYS ? fs_write_all(fd, page, sizeof page) : -errno;
        break;
    }
    int closed = fd >= 0 ? fs_close(fd) : 0;
    if (r == 0)
        r = closed;
    (void)unlink(path);
    return r < 0 ? rc_err_errno(err, r, "no room in '%s'", dir) : 0;
}

int rundir_make(char *out, size_t size, unsigned *place, const char *name, size_t room,
                struct rc_err *err)
{
    char base[FS_PATH_MAX];
    for (; *place < sizeof places / sizeof places[0]; ++*place) {
        if (open_place(*place, base, sizeof base, err) < 0 ||
            join(out, size, base, name, err) < 0)
            continue;
        bool made = mkdir(out, 0700) == 0;
        if (!made && errno != EEXIST) {
            (void)rc_err_errno(err, -errno, "cannot make '%s'", out);
            continue;
        }
        if (room == 0 || rundir_has_room(out, room, err) == 0)
            return 0;
        if (made)
            (void)rmdir(out);
    }
    return -ENOENT;
}

int rundir_create(char *out, size_t size, uint64_t start_wall_ns, int32_t pid, struct rc_err *err)
{
    char name[64];
    unsigned place = 0;
    int r = run_name(name, sizeof name, start_wall_ns, pid);
    if (r < 0)
        return rc_err_errno(err, r, "cannot name the run directory");
    if (rundir_make(out, size, &place, name, ROOM_TO_START, err) == 0)
        return 0;
    place = 0; /* full everywhere: a part is better than nothing */
    return rundir_make(out, size, &place, name, 0, err);
}
