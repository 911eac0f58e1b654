/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into our programs: keeps beside the disk what a machine that goes down now would find
 * on it, at worst. RC_DURABLE_OF = folder that is watched, RC_DURABLE = folder for the copies:
 *
 *   data.INODE   the bytes of a file at its last fsync(2) or fdatasync(2)
 *   names.INODE  of a folder at its last fsync(2): a line "INODE NAME" for each entry
 *
 * A name whose file was never synced is an empty file then, and a file whose name was not is gone.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *watched(int fd)
{
    static char path[PATH_MAX];
    char link[64];
    const char *of = getenv("RC_DURABLE_OF");
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n <= 0 || of == NULL)
        return NULL;
    path[n] = '\0';
    return strncmp(path, of, strlen(of)) == 0 ? path : NULL;
}

static void copy_bytes(const char *from, int to)
{
    char chunk[65536];
    ssize_t n;
    int fd = open(from, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && (n = read(fd, chunk, sizeof chunk)) > 0)
        (void)!write(to, chunk, (size_t)n);
    if (fd >= 0)
        (void)close(fd);
}

static void copy_names(const char *from, int to)
{
    DIR *dir = opendir(from);
    const struct dirent *e;
    while (dir != NULL && (e = readdir(dir)) != NULL)
        if (e->d_name[0] != '.')
            (void)dprintf(to, "%llu %s\n", (unsigned long long)e->d_ino, e->d_name);
    if (dir != NULL)
        (void)closedir(dir);
}

static void remember(int fd)
{
    struct stat st;
    char name[PATH_MAX];
    char temporary[PATH_MAX];
    const char *folder = getenv("RC_DURABLE");
    const char *path = watched(fd);
    if (folder == NULL || path == NULL || fstat(fd, &st) != 0)
        return;
    bool is_dir = S_ISDIR(st.st_mode);
    (void)snprintf(name, sizeof name, "%s/%s.%llu", folder, is_dir ? "names" : "data",
                   (unsigned long long)st.st_ino);
    (void)snprintf(temporary, sizeof temporary, "%s/new.%d", folder, (int)getpid());
    int to = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (to < 0)
        return;
    if (is_dir)
        copy_names(path, to);
    else
        copy_bytes(path, to);
    (void)close(to);
    (void)rename(temporary, name);
}

int fsync(int fd)
{
    int r = (int)syscall(SYS_fsync, fd);
    if (r == 0)
        remember(fd);
    return r;
}

int fdatasync(int fd)
{
    int r = (int)syscall(SYS_fdatasync, fd);
    if (r == 0)
        remember(fd);
    return r;
}
