/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of /proc/PID/maps that name a file. */
#ifndef COLLECTORS_LIB_PROCMAPS_H
#define COLLECTORS_LIB_PROCMAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fs.h"

struct procmaps_entry {
    uint64_t start, end, offset, inode;
    unsigned dev_major, dev_minor;
    char permissions[5];
    char path[FS_PATH_MAX]; /* octal escapes of the kernel undone */
    bool deleted;
};

/* The next mapping of a file (path begins with '/') at or after *cursor, which starts as the whole
 * text and moves on. Skips lines that it does not understand. false = no more. */
bool procmaps_next(const char **cursor, struct procmaps_entry *ret);

struct procmaps_file {
    char *path;
    bool deleted;    /* unlinked or replaced since it was mapped */
    bool executable; /* some part of it is mapped with x */
};

/* Distinct files sorted by path, at most `max`. Count or -ENOMEM; release with
 * procmaps_files_free(). */
int procmaps_files(const char *maps, size_t max, struct procmaps_file **ret);
void procmaps_files_free(struct procmaps_file *files, size_t count);

#endif
