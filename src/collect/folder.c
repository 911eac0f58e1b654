/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"

#define DEPTH_MAX 8
#define ENTRIES_MAX 4096

struct walk {
    uint64_t bytes;
    uint64_t max_bytes;
    unsigned entries;
    bool tidy;
    bool cut;
};

static void walk_folder(struct walk *w, int dir_fd, int depth);

static void walk_file(struct walk *w, int dir_fd, const char *name, uint64_t size)
{
    uint64_t left = w->max_bytes > w->bytes ? w->max_bytes - w->bytes : 0;
    if (w->tidy && size > left) {
        w->cut = true;
        RC_AUTO_CLOSE int fd = openat(dir_fd, name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
        if (left == 0 || fd < 0 || fs_truncate(fd, (off_t)left) < 0) {
            (void)unlinkat(dir_fd, name, 0);
            return;
        }
        size = left;
    }
    w->bytes += size;
}

static void walk_entry(struct walk *w, int dir_fd, const char *name, int depth)
{
    struct stat st;
    if (++w->entries > ENTRIES_MAX || fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        /* The collector's own limit for files is far below this one. */
        if (w->tidy && w->entries > ENTRIES_MAX) {
            w->cut = true;
            (void)unlinkat(dir_fd, name, 0);
        }
        return;
    }
    if (S_ISDIR(st.st_mode) && depth < DEPTH_MAX) {
        int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0)
            walk_folder(w, fd, depth + 1);
        if (w->tidy)
            (void)unlinkat(dir_fd, name, AT_REMOVEDIR); /* only when it is empty */
    } else if (S_ISREG(st.st_mode) && st.st_nlink == 1) {
        walk_file(w, dir_fd, name, (uint64_t)st.st_size);
    } else if (w->tidy) {
        w->cut = true;
        (void)unlinkat(dir_fd, name, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0);
    }
}

/* Takes dir_fd over. Visits files in name order, so that the same files are cut each time. */
static void walk_folder(struct walk *w, int dir_fd, int depth)
{
    RC_AUTO_CLOSE int fd = dir_fd;
    struct dirent **names = NULL;
    int n = scandirat(fd, ".", &names, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        if (strcmp(names[i]->d_name, ".") != 0 && strcmp(names[i]->d_name, "..") != 0)
            walk_entry(w, fd, names[i]->d_name, depth);
        free(names[i]);
    }
    free(names);
}

uint64_t folder_bytes(int dir_fd)
{
    struct walk w = {.max_bytes = UINT64_MAX};
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0)
        walk_folder(&w, fd, 0);
    return w.bytes;
}

uint64_t folder_tidy(int dir_fd, uint64_t max_bytes, int *ret_cut)
{
    struct walk w = {.max_bytes = max_bytes, .tidy = true};
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0)
        walk_folder(&w, fd, 0);
    *ret_cut = w.cut;
    return w.bytes;
}
