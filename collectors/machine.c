/* SPDX-License-Identifier: Apache-2.0 */
#include "collectors/machine.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fs.h"
#include "base/number.h"
#include "record/impact_record.h"

static int compare_names(const void *a, const void *b)
{
    return strcmp(a, b);
}

int machine_list(const char *path, char (*names)[MACHINE_NAME_MAX], int max)
{
    char full[FS_PATH_MAX];
    int r = fs_machine_path(full, sizeof full, path);
    if (r < 0)
        return r;
    RC_AUTO_CLOSEDIR DIR *dir = opendir(full);
    if (dir == NULL)
        return -errno;
    int n = 0;
    for (struct dirent *e; n < max && (e = readdir(dir)) != NULL;) {
        size_t len = strlen(e->d_name);
        if (e->d_name[0] != '.' && len < MACHINE_NAME_MAX)
            memcpy(names[n++], e->d_name, len + 1);
    }
    qsort(names, (size_t)n, MACHINE_NAME_MAX, compare_names);
    return n;
}

static int compare_numbers(const void *a, const void *b)
{
    int x = *(const int *)a;
    int y = *(const int *)b;
    return (x > y) - (x < y);
}

int machine_cards(int *ret_numbers, int max)
{
    enum { ENTRIES_MAX = 1024 }; /* 64 partitions with card, renderD and a few connectors each */
    RC_AUTO_FREE char(*names)[MACHINE_NAME_MAX] = malloc((size_t)ENTRIES_MAX * MACHINE_NAME_MAX);
    if (names == NULL)
        return -ENOMEM;
    int n = machine_list("/sys/class/drm", names, ENTRIES_MAX);
    int found = 0;
    for (int i = 0; i < n && found < max; i++) {
        int64_t number = number_in_name(names[i], "card"); /* not card0-DP-1 */
        if (number >= 0)
            ret_numbers[found++] = (int)number;
    }
    qsort(ret_numbers, (size_t)found, sizeof *ret_numbers, compare_numbers);
    return n < 0 ? n : found;
}

void machine_missing(struct collect_out *out, const char *name, enum fact_when when, int code,
                     const char *path)
{
    char reason[256];
    (void)snprintf(reason, sizeof reason, "%s: %s", path, strerror(-code));
    bool absent = code == -ENOENT || code == -ENOTDIR || code == -ENODEV;
    collect_missing(out, name, when, absent ? FACT_ABSENT : FACT_UNREADABLE, reason, path);
}

void machine_integer(struct collect_out *out, const char *name, enum fact_when when, const char *path)
{
    char text[64];
    uint64_t value = 0;
    ssize_t n = fs_read_machine_text(path, text, sizeof text);
    if (n > 0 && fs_parse_u64(text, &value) == 0 && value <= INT64_MAX)
        collect_integer(out, name, when, (int64_t)value, path);
    else
        machine_missing(out, name, when, n < 0 ? (int)n : -EINVAL, path);
}

/* --- impact files --- */

static ssize_t text_of_file(const char *path, int64_t pid, enum impact_chunk_type type, char *out,
                            size_t size)
{
    struct impact_record impact;
    int r = impact_record_read(&impact, path, NULL);
    if (r < 0)
        return r;
    bool is_asked_for = pid <= 0 || impact.header.pid == pid;
    RC_AUTO_FREE char *text = is_asked_for ? impact_record_text(&impact, type) : NULL;
    impact_record_release(&impact);
    if (text == NULL)
        return -ENOENT;
    size_t len = strnlen(text, size - 1);
    memcpy(out, text, len);
    out[len] = '\0';
    return (ssize_t)len;
}

ssize_t impact_text(const struct collect_ctx *ctx, enum impact_chunk_type type, char *out,
                    size_t size)
{
    out[0] = '\0';
    for (int i = 0; ctx->run_dir[0] != '\0' && i < SHARED_IMPACTS_MAX; i++) {
        char path[FS_PATH_MAX];
        int n = snprintf(path, sizeof path, "%s/impact.%d", ctx->run_dir, i);
        if (n < 0 || (size_t)n >= sizeof path)
            return -ENAMETOOLONG;
        ssize_t len = text_of_file(path, ctx->failed_pid, type, out, size);
        if (len > 0)
            return len;
    }
    return -ENOENT;
}

const char *environ_get(const char *const *environ_list, const char *name)
{
    size_t len = strlen(name);
    for (; environ_list != NULL && *environ_list != NULL; environ_list++)
        if (strncmp(*environ_list, name, len) == 0 && (*environ_list)[len] == '=')
            return *environ_list + len + 1;
    return NULL;
}

void machine_append_clean(struct buf *out, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        buf_putc(out, (c < 0x20 && c != '\n' && c != '\t') || c == 0x7f ? '?' : (char)c);
    }
}
