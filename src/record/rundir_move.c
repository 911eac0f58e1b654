/* SPDX-License-Identifier: Apache-2.0 */
/* Moves a run directory to another disk if its own is full or broken (finisher). */
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

#define ROOM_TO_MOVE ((size_t)16 << 20) /* telemetry is held to 12 MB, the rest is small */
#define COPY_MAX ((off_t)64 << 20)
#define NAMES_MAX 4096

static void copy_file(int from_dir, int to_dir, const char *name)
{
    static char chunk[65536];
    struct stat st;
    RC_AUTO_CLOSE int from = openat(from_dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (from < 0 || fstat(from, &st) != 0 || !S_ISREG(st.st_mode))
        return;
    RC_AUTO_CLOSE int to =
        openat(to_dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    for (off_t done = 0; to >= 0 && done < COPY_MAX;) {
        ssize_t n = read(from, chunk, sizeof chunk);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0 || fs_write_all(to, chunk, (size_t)n) < 0)
            return;
        done += n;
    }
}

static void copy_folder(int from_dir, int to_dir)
{
    RC_AUTO_CLOSEDIR DIR *dir = fs_open_folder(from_dir, ".");
    const struct dirent *entry;
    for (int i = 0; dir != NULL && i < NAMES_MAX && (entry = readdir(dir)) != NULL; i++)
        copy_file(from_dir, to_dir, entry->d_name);
}

static void copy_hook(int from_dir, int to_dir)
{
    RC_AUTO_CLOSE int from =
        openat(from_dir, "hook", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (from < 0 || mkdirat(to_dir, "hook", 0700) != 0)
        return;
    RC_AUTO_CLOSE int to = openat(to_dir, "hook", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (to >= 0)
        copy_folder(from, to);
}

void rundir_take_hook(const char *from, const char *to)
{
    char path[FS_PATH_MAX];
    RC_AUTO_CLOSE int from_dir = open(from, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    RC_AUTO_CLOSE int to_dir = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (from_dir < 0 || to_dir < 0 || strcmp(from, to) == 0)
        return;
    copy_hook(from_dir, to_dir);
    int n = snprintf(path, sizeof path, "%s/state", from);
    if (n > 0 && (size_t)n < sizeof path && access(path, F_OK) != 0 && errno == ENOENT)
        (void)fs_remove_tree(AT_FDCWD, from); /* nobody else's */
}

int rundir_move(char *path, size_t size, unsigned *place, struct rc_err *err)
{
    char to[FS_PATH_MAX];
    const char *name = strrchr(path, '/');
    if (name == NULL)
        return rc_err_set(err, -EINVAL, "'%s' is no run directory", path);
    do {
        int r = rundir_make(to, sizeof to, place, name + 1, ROOM_TO_MOVE, err);
        if (r < 0)
            return r;
        ++*place;
    } while (strcmp(to, path) == 0);
    if (strlen(to) >= size)
        return rc_err_set(err, -ENAMETOOLONG, "run directory name is too long");
    RC_AUTO_CLOSE int from_dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    RC_AUTO_CLOSE int to_dir = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (to_dir < 0)
        return rc_err_errno(err, -errno, "cannot open '%s'", to);
    if (from_dir >= 0) {
        copy_folder(from_dir, to_dir);
        copy_hook(from_dir, to_dir);
    }
    (void)fs_write_file_at(to_dir, "moved", path, strlen(path), false);
    memcpy(path, to, strlen(to) + 1);
    return 0;
}
