/* SPDX-License-Identifier: Apache-2.0 */
/* Runs that nobody finished: all of us were killed, or the machine went down. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fs.h"
#include "record/rundir.h"

int rundir_lock(const char *run_dir)
{
    RC_AUTO_CLOSE int folder = open(run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return -errno;
    RC_AUTO_CLOSE int fd = fs_open_write(folder, "state", O_RDWR);
    if (fd < 0)
        return fd;
    int r = fs_lock(fd);
    if (r < 0)
        return r;
    return rc_take_fd(&fd);
}

/* An empty directory is just being made, or was never used. If the machine crashed, run.json may be
 * lost; the other files are still worth a bundle. */
static bool has_evidence(const char *run_dir)
{
    static const char *const names[] = {"run.json",     "impact.0", "output.head", "output.1",
                                        "samples.0000", "kmsg",     "events"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[FS_PATH_MAX];
        struct stat st;
        if ((size_t)snprintf(path, sizeof path, "%s/%s", run_dir, names[i]) < sizeof path &&
            lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0)
            return true;
    }
    return false;
}

static bool is_unfinished(const char *run_dir)
{
    if (!has_evidence(run_dir))
        return false;
    RC_AUTO_CLOSE int lock = rundir_lock(run_dir);
    return lock != -EWOULDBLOCK; /* another error is no sign of life */
}

/* Was the run moved by rundir_move(), because a disk was full? */
static bool was_moved(const char *run_dir)
{
    char path[FS_PATH_MAX];
    char before[FS_PATH_MAX];
    char folder[FS_PATH_MAX];
    if ((size_t)snprintf(path, sizeof path, "%s/moved", run_dir) >= sizeof path ||
        fs_read_text(path, before, sizeof before) <= 0)
        return false;
    int r;
    for (unsigned place = 0; (r = rundir_place(place, folder, sizeof folder)) != -ENOENT; place++) {
        size_t len = r == 0 ? strlen(folder) : 0;
        if (len > 0 && strncmp(before, folder, len) == 0 && before[len] == '/')
            return true;
    }
    return false;
}

static int look_in(const char *folder, bool only_moved, rundir_unfinished_fn fn, void *context)
{
    RC_AUTO_CLOSEDIR DIR *dir = opendir(folder);
    if (dir == NULL)
        return -errno;
    int count = 0;
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char run_dir[FS_PATH_MAX];
        int n = snprintf(run_dir, sizeof run_dir, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] == '.' || n < 0 || (size_t)n >= sizeof run_dir ||
            (only_moved && !was_moved(run_dir)) || !is_unfinished(run_dir))
            continue;
        count++;
        if (fn != NULL)
            fn(context, run_dir);
    }
    return count;
}

/* Looks in the folder that takes runs now, in the folders before it (their disk may have become
 * read-only since), and, for moved runs, in those after it. */
int rundir_unfinished(rundir_unfinished_fn fn, void *context, struct rc_err *err)
{
    char base[FS_PATH_MAX];
    char folder[FS_PATH_MAX];
    int r = rundir_base(base, sizeof base, err);
    if (r < 0)
        base[0] = '\0';
    int count = 0;
    bool behind = false;
    int end;
    for (unsigned place = 0; (end = rundir_place(place, folder, sizeof folder)) != -ENOENT;
         place++) {
        if (end < 0 || !rundir_is_ours(place, folder))
            continue;
        int more = look_in(folder, behind, fn, context);
        if (more < 0 && strcmp(folder, base) == 0)
            return rc_err_errno(err, more, "cannot open '%s'", base);
        count += more > 0 ? more : 0;
        behind = behind || strcmp(folder, base) == 0;
    }
    return r < 0 && count == 0 ? r : count;
}

static int is_run(const struct dirent *entry)
{
    return entry->d_name[0] >= '0' && entry->d_name[0] <= '9';
}

static uint64_t bytes_below(int parent_fd, const char *name, int depth)
{
    uint64_t sum = 0;
    struct stat st;
    RC_AUTO_CLOSEDIR DIR *dir = fs_open_folder(parent_fd, name);
    for (const struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        bool is_self = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
        if (is_self || fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        sum += (uint64_t)st.st_blocks * 512;
        if (S_ISDIR(st.st_mode) && depth > 0)
            sum += bytes_below(dirfd(dir), entry->d_name, depth - 1);
    }
    return sum;
}

uint64_t rundir_bytes(const char *run_dir)
{
    return bytes_below(AT_FDCWD, run_dir, 3);
}

/* How many of the oldest runs to remove. Their names begin with their times. */
static int surplus_of(const char *base, struct dirent *const entries[], int count)
{
    uint64_t bytes = 0;
    for (int i = count - 1; i >= 0; i--) {
        char run_dir[FS_PATH_MAX];
        int n = snprintf(run_dir, sizeof run_dir, "%s/%s", base, entries[i]->d_name);
        bytes += n > 0 && (size_t)n < sizeof run_dir ? rundir_bytes(run_dir) : 0;
        if (count - i > RUNDIR_KEPT_MAX || bytes > RUNDIR_KEPT_BYTES)
            return i + 1 < RUNDIR_RETIRED_MAX ? i + 1 : RUNDIR_RETIRED_MAX;
    }
    return 0;
}

/* Only with the lock: without one (on a file system that lacks flock(2)) the run may still be
 * alive. */
static void retire(const char *run_dir)
{
    if (!has_evidence(run_dir))
        return;
    RC_AUTO_CLOSE int lock = rundir_lock(run_dir);
    if (lock >= 0)
        (void)fs_remove_tree(AT_FDCWD, run_dir);
}

void rundir_retire(const char *own)
{
    char base[FS_PATH_MAX];
    struct dirent **entries = NULL;
    int count = rundir_base(base, sizeof base, NULL) == 0 ? scandir(base, &entries, is_run, alphasort) : 0;
    int surplus = surplus_of(base, entries, count);
    for (int i = 0; i < count; i++) {
        char run_dir[FS_PATH_MAX];
        int n = snprintf(run_dir, sizeof run_dir, "%s/%s", base, entries[i]->d_name);
        if (i < surplus && n > 0 && (size_t)n < sizeof run_dir && strcmp(run_dir, own) != 0)
            retire(run_dir);
        free(entries[i]);
    }
    free(entries);
}
