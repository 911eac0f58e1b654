/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/stage_names.h"

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fs.h"

#define DEPTH_MAX 3 /* "impact/0/maps.txt" and one more */

static void read_folder(const char *folder, const char *prefix, int depth,
                        struct stage_names *names)
{
    char path[FS_PATH_MAX];
    RC_AUTO_CLOSEDIR DIR *dir = opendir(folder);
    for (const struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        char below[256];
        struct stat st;
        if (entry->d_name[0] == '.' ||
            (size_t)snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) >= sizeof path ||
            lstat(path, &st) != 0 ||
            (size_t)snprintf(below, sizeof below, "%s%s%s", prefix, entry->d_name,
                             S_ISDIR(st.st_mode) ? "/" : "") >= sizeof below)
            continue;
        if (S_ISDIR(st.st_mode) && depth > 0)
            read_folder(path, below, depth - 1, names);
        else if (S_ISREG(st.st_mode))
            stage_names_add(names, below);
    }
}

void stage_names_read(const char *stage, struct stage_names *ret)
{
    ret->count = 0;
    read_folder(stage, "", DEPTH_MAX, ret);
}

void stage_names_add(struct stage_names *names, const char *name)
{
    for (size_t i = 0; i < names->count; i++) {
        if (strcmp(names->list[i], name) == 0)
            return;
    }
    const char *copy = names->count < STAGE_NAMES_MAX ? strdup(name) : NULL;
    if (copy != NULL)
        names->list[names->count++] = copy;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void stage_names_sort(struct stage_names *names)
{
    qsort(names->list, names->count, sizeof names->list[0], by_name);
}

void stage_names_release(struct stage_names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free((void *)(uintptr_t)names->list[i]);
    names->count = 0;
}
