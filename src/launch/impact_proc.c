/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/impact_internal.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/room.h"

#define MAPS_MAX_BYTES (4u << 20)
#define FDS_MAX 4096
#define RANGES_MAX 32768

/* The mappings of the process, in order: a stack is copied to its end and not beyond, where pages
 * that nobody used would have to be made (65 ms for 200 threads, measured). */
static struct {
    struct range {
        uint64_t start, end;
    } *list; /* of RANGES_MAX */
    uint32_t count;
} ranges;

unsigned char *impact_space(const struct copier *c, uint64_t *ret_room)
{
    uint64_t data = c->at + sizeof(struct impact_chunk);
    if (data + 8 > c->limit)
        return NULL;
    *ret_room = c->limit - data - 8;
    return c->shared->arena + data;
}

void impact_commit(struct copier *c, uint32_t type, uint64_t length, uint32_t flags,
                   const uint64_t args[2])
{
    uint64_t room;
    unsigned char *payload = impact_space(c, &room);
    struct impact_chunk chunk = {.type = type, .flags = flags, .length = length};
    if (payload == NULL)
        return;
    if (args != NULL) {
        chunk.arg = args[0];
        chunk.arg2 = args[1];
    }
    memcpy(payload - sizeof chunk, &chunk, sizeof chunk);
    c->at += sizeof chunk + ((length + 7) & ~(uint64_t)7);
    c->impact->arena_length = c->at - c->impact->arena_offset;
}

void impact_put(struct copier *c, uint32_t type, const void *data, uint64_t length, uint64_t arg)
{
    uint64_t room;
    unsigned char *space = impact_space(c, &room);
    if (space == NULL || length > room)
        return;
    memcpy(space, data, length);
    impact_commit(c, type, length, 0, (uint64_t[2]){arg, 0});
}

/* In the arena, not committed yet. */
struct copied {
    const char *text; /* NULL = nothing */
    uint64_t length;
    bool cut; /* at the cap */
};

static int open_proc_file(const struct copier *c, const char *name)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)c->look, name);
    return fs_open_read(path);
}

static struct copied copy_text(const struct copier *c, int fd, uint64_t max)
{
    uint64_t room;
    unsigned char *space = impact_space(c, &room);
    if (fd < 0 || space == NULL)
        return (struct copied){.text = NULL};
    if (max > room)
        max = room;
    uint64_t length = 0;
    ssize_t n = 0;
    while (length < max && (n = read(fd, space + length, max - length)) > 0)
        length += (uint64_t)n;
    return (struct copied){.text = length > 0 ? (const char *)space : NULL,
                           .length = length,
                           .cut = length == max && n > 0};
}

static void copy_file(struct copier *c, uint32_t type, const char *name, uint64_t max)
{
    RC_AUTO_CLOSE int fd = open_proc_file(c, name);
    struct copied file = copy_text(c, fd, max);
    if (file.text != NULL)
        impact_commit(c, type, file.length, file.cut ? CHUNK_TRUNCATED : 0, NULL);
}

static uint64_t lines_in(const char *text, size_t length)
{
    uint64_t lines = 0;
    const char *end = text + length;
    while ((text = memchr(text, '\n', (size_t)(end - text))) != NULL) {
        lines++;
        text++;
    }
    return lines;
}

/* Counts the lines of a copy that was cut, and of the rest of its file. 0 = there are too many
 * to count while the target is held. */
static uint64_t lines_in_all(const struct copier *c, struct copied copied, int fd)
{
    char rest[4096]; /* Linux gives no more of it at once */
    uint64_t lines = lines_in(copied.text, copied.length);
    ssize_t n;
    while ((n = read(fd, rest, sizeof rest)) > 0 && clock_mono_ns() < c->count_until_ns)
        lines += lines_in(rest, (size_t)n);
    return n == 0 ? lines : 0;
}

static const char *parse_hex(const char *p, const char *end, uint64_t *ret)
{
    uint64_t value = 0;
    for (; p < end; p++) {
        unsigned digit = *p >= '0' && *p <= '9'   ? (unsigned)(*p - '0')
                         : *p >= 'a' && *p <= 'f' ? (unsigned)(*p - 'a') + 10
                                                  : 16;
        if (digit > 15)
            break;
        value = value << 4 | digit;
    }
    *ret = value;
    return p;
}

/* Real line: "7ffd1c977000-7ffd1c998000 rw-p 00000000 00:00 0                  [stack]". */
void impact_copy_maps(struct copier *c)
{
    RC_AUTO_CLOSE int fd = open_proc_file(c, "maps");
    struct copied maps = copy_text(c, fd, MAPS_MAX_BYTES);
    ranges.count = 0;
    if (ranges.list == NULL)
        ranges.list = room_for(RANGES_MAX * sizeof *ranges.list);
    if (maps.text == NULL)
        return;
    uint64_t lines = maps.cut ? lines_in_all(c, maps, fd) : 0;
    impact_commit(c, CHUNK_MAPS, maps.length, maps.cut ? CHUNK_TRUNCATED : 0,
                  (uint64_t[2]){lines, 0});
    const char *p = maps.text;
    const char *end = p + maps.length;
    while (ranges.list != NULL && p != NULL && p < end && ranges.count < RANGES_MAX) {
        struct range *range = &ranges.list[ranges.count];
        p = parse_hex(p, end, &range->start);
        if (p >= end || *p != '-')
            return;
        p = parse_hex(p + 1, end, &range->end);
        ranges.count++;
        p = memchr(p, '\n', (size_t)(end - p));
        p = p != NULL ? p + 1 : NULL;
    }
}

uint64_t impact_mapped_from(uint64_t address)
{
    uint32_t low = 0;
    uint32_t high = ranges.count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (ranges.list[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < ranges.count && ranges.list[low].start <= address)
        return ranges.list[low].end - address;
    return IMPACT_STACK_UNKNOWN_BYTES;
}

static void copy_link(struct copier *c, uint32_t type, const char *name)
{
    char path[64];
    char target[4096];
    (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)c->look, name);
    ssize_t n = readlink(path, target, sizeof target);
    if (n > 0)
        impact_put(c, type, target, (uint64_t)n, 0);
}

struct linux_dirent64 {
    uint64_t d_ino;
    int64_t d_off;
    unsigned short d_reclen;
    unsigned char d_type;
    char d_name[];
};

/* readdir(3) would allocate. */
void impact_each_number(pid_t pid, const char *what, bool (*fn)(void *, long), void *context)
{
    char path[64];
    char entries[8192];
    (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, what);
    RC_AUTO_CLOSE int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    long n;
    while (fd >= 0 && (n = syscall(SYS_getdents64, fd, entries, sizeof entries)) > 0) {
        for (long at = 0; at < n;) {
            struct linux_dirent64 *entry = (struct linux_dirent64 *)(void *)(entries + at);
            char *end;
            long number = strtol(entry->d_name, &end, 10);
            if (*end == '\0' && end != entry->d_name && !fn(context, number))
                return;
            at += entry->d_reclen;
        }
    }
}

struct fd_list {
    struct copier *copier;
    unsigned char *space;
    uint64_t room, length;
    uint64_t count; /* of all, once `cut`: 0 = too many to be counted while the target is held */
    bool cut;
};

/* Linux 6.2 tells the number of descriptors as the folder's size (f1f1f2569901), others tell 0. */
static uint64_t fds_by_size(pid_t pid)
{
    char path[64];
    struct stat st;
    (void)snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    return stat(path, &st) == 0 && st.st_size > 0 ? (uint64_t)st.st_size : 0;
}

static bool count_fd(struct fd_list *list)
{
    list->count++;
    if (list->count % 256 != 0 || clock_mono_ns() < list->copier->count_until_ns)
        return true;
    list->count = 0;
    return false;
}

static bool list_fd(void *context, long number)
{
    struct fd_list *list = context;
    char path[64];
    char target[512];
    if (list->cut)
        return count_fd(list);
    (void)snprintf(path, sizeof path, "/proc/%d/fd/%ld", (int)list->copier->look, number);
    ssize_t n = readlink(path, target, sizeof target - 1);
    if (n < 0)
        return true;
    target[n] = '\0';
    list->count++;
    int len = snprintf((char *)list->space + list->length, list->room - list->length, "%ld %s\n",
                       number, target);
    if (len >= 0 && (uint64_t)len < list->room - list->length && list->count <= FDS_MAX) {
        list->length += (uint64_t)len;
        return true;
    }
    list->cut = true;
    uint64_t all = fds_by_size(list->copier->look);
    if (all > 0)
        list->count = all;
    return all == 0; /* to be counted one by one then */
}

static void copy_fds(struct copier *c)
{
    struct fd_list list = {.copier = c};
    list.space = impact_space(c, &list.room);
    if (list.space == NULL)
        return;
    impact_each_number(c->look, "fd", list_fd, &list);
    if (list.length > 0)
        impact_commit(c, CHUNK_FDS, list.length, list.cut ? CHUNK_TRUNCATED : 0,
                      (uint64_t[2]){list.cut ? list.count : 0, 0});
}

void impact_copy_process(struct copier *c)
{
    copy_file(c, CHUNK_STATUS, "status", 8192);
    copy_file(c, CHUNK_STAT, "stat", 2048);
    copy_file(c, CHUNK_LIMITS, "limits", 4096);
    copy_file(c, CHUNK_CGROUP, "cgroup", 8192);
    copy_file(c, CHUNK_CMDLINE, "cmdline", 64u << 10);
    copy_file(c, CHUNK_AUXV, "auxv", 4096);
    copy_file(c, CHUNK_IO, "io", 1024);
    copy_link(c, CHUNK_EXE, "exe");
    copy_file(c, CHUNK_ENVIRON, "environ", 128u << 10);
    copy_fds(c);
}
