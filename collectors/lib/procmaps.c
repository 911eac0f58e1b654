/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 7f1c2a000000-7f1c2a021000 r-xp 00002000 fd:01 1835045 /opt/rocm/lib/libamdhip64.so.6
 * ... /tmp/x (deleted)
 *
 * fs/proc/task_mmu.c show_map_vma(): the name is escaped for newline only ("\012").
 */
#include "collectors/lib/procmaps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "collectors/lib/cleantext.h"

#define DELETED " (deleted)"

static void copy_path(struct procmaps_entry *entry, const char *from, size_t len)
{
    size_t used = 0;
    for (size_t i = 0; i < len && used + 1 < sizeof entry->path; i++) {
        if (len - i >= 4 && memcmp(from + i, "\\012", 4) == 0) {
            entry->path[used++] = '\n';
            i += 3;
        } else {
            entry->path[used++] = from[i];
        }
    }
    entry->path[used] = '\0';
    entry->deleted = cleantext_ends(entry->path, DELETED);
    if (entry->deleted)
        entry->path[used - strlen(DELETED)] = '\0';
}

static bool parse_line(const char *line, size_t len, struct procmaps_entry *ret)
{
    char head[160];
    const char *slash = memchr(line, '/', len);
    if (slash == NULL || slash == line || slash[-1] != ' ' || /* "[anon:a/b]" */
        (size_t)(slash - line) >= sizeof head || len - (size_t)(slash - line) >= sizeof ret->path)
        return false;
    memcpy(head, line, (size_t)(slash - line));
    head[slash - line] = '\0';
    const char *p = head;
    uint64_t major, minor;
    if (!number_take_before(&p, 16, '-', &ret->start) ||
        !number_take_before(&p, 16, ' ', &ret->end) || strcspn(p, " ") != 4 || p[4] != ' ')
        return false;
    memcpy(ret->permissions, p, 4);
    ret->permissions[4] = '\0';
    p += 5;
    if (!number_take_before(&p, 16, ' ', &ret->offset) ||
        !number_take_before(&p, 16, ':', &major) || !number_take_before(&p, 16, ' ', &minor) ||
        !number_take_before(&p, 10, ' ', &ret->inode) || (major | minor) > UINT32_MAX)
        return false;
    ret->dev_major = (unsigned)major;
    ret->dev_minor = (unsigned)minor;
    copy_path(ret, slash, len - (size_t)(slash - line));
    return true;
}

bool procmaps_next(const char **cursor, struct procmaps_entry *ret)
{
    while (**cursor != '\0') {
        const char *line = *cursor;
        size_t len = strcspn(line, "\n");
        *cursor = line + len + (line[len] == '\n');
        if (parse_line(line, len, ret))
            return true;
    }
    return false;
}

static int compare_files(const void *a, const void *b)
{
    const struct procmaps_file *x = a;
    const struct procmaps_file *y = b;
    return strcmp(x->path, y->path);
}

void procmaps_files_free(struct procmaps_file *files, size_t count)
{
    for (size_t i = 0; files != NULL && i < count; i++)
        free(files[i].path);
    free(files);
}

/* Parts of one file are neighbours in the address space: comparing with the last one keeps the list
 * short before it is sorted. */
static size_t gather(const char *maps, struct procmaps_file *files, size_t max)
{
    size_t count = 0;
    struct procmaps_entry entry;
    while (count < max && procmaps_next(&maps, &entry)) {
        if (count == 0 || strcmp(files[count - 1].path, entry.path) != 0) {
            char *path = strdup(entry.path);
            if (path == NULL)
                break;
            files[count++] = (struct procmaps_file){.path = path};
        }
        files[count - 1].deleted |= entry.deleted;
        files[count - 1].executable |= entry.permissions[2] == 'x';
    }
    return count;
}

int procmaps_files(const char *maps, size_t max, struct procmaps_file **ret)
{
    *ret = NULL;
    struct procmaps_file *files = calloc(max, sizeof files[0]);
    if (files == NULL)
        return -ENOMEM;
    size_t count = gather(maps, files, max);
    if (count > 1)
        qsort(files, count, sizeof files[0], compare_files);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (kept > 0 && strcmp(files[kept - 1].path, files[i].path) == 0) {
            files[kept - 1].deleted |= files[i].deleted;
            files[kept - 1].executable |= files[i].executable;
            free(files[i].path);
        } else {
            files[kept++] = files[i];
        }
    }
    *ret = files;
    return (int)kept;
}
