/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/tasks.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fs.h"
#include "launch/process_memory.h"

#define OWNER_AT 8 /* of pthread_mutex_t: int lock, unsigned count, int owner */

/* A file of the thread as one line without tabs; "-" when it is empty or cannot be read. */
static void read_line(const char *dir, const char *name, char *out, size_t size)
{
    char path[96];
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    if (fs_read_text(path, out, size) <= 0 || out[0] == '\n')
        (void)snprintf(out, size, "-");
    out[strcspn(out, "\n")] = '\0';
    for (char *c = out; *c != '\0'; c++)
        if ((unsigned char)*c < ' ')
            *c = '?';
}

/* "4711 (a name) S 1 ...": the letter after the name. */
static char state_in(const char *stat)
{
    const char *end = strrchr(stat, ')');
    return end != NULL && end[1] == ' ' ? end[2] : '?';
}

/* Nanoseconds on a CPU, from schedstat; from the ticks of stat if the kernel lacks it. */
static uint64_t cpu_ns(const char *dir, const char *stat)
{
    char text[128];
    read_line(dir, "schedstat", text, sizeof text);
    if (text[0] != '-')
        return strtoull(text, NULL, 10);
    const char *p = strrchr(stat, ')');
    for (int field = 2; p != NULL && field < 14; field++)
        p = strchr(p + 1, ' ');
    if (p == NULL)
        return 0;
    char *rest;
    uint64_t ticks = strtoull(p + 1, &rest, 10);
    ticks += strtoull(rest, NULL, 10);
    return ticks * (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK));
}

/* "202 0x7f12a40 0x189 ...": the words of the lock that it waits for. */
static void read_lock(pid_t pid, const char *call, char *out, size_t size)
{
    char *rest;
    uint32_t word;
    uint32_t owner;
    long number = strtol(call, &rest, 10);
    (void)snprintf(out, size, "-");
    if (rest == call || number != SYS_futex)
        return;
    uint64_t address = strtoull(rest, NULL, 16);
    if (address % 4 == 0 && process_memory_read(pid, address, &word, sizeof word) &&
        process_memory_read(pid, address + OWNER_AT, &owner, sizeof owner))
        (void)snprintf(out, size, "%" PRIx32 ",%" PRIu32, word, owner);
}

static void read_task(pid_t pid, const char *dir, const char *tid, struct buf *out)
{
    char stat[1024];
    char wchan[96];
    char call[192];
    char lock[40];
    char name[64];
    read_line(dir, "stat", stat, sizeof stat);
    if (stat[0] == '-')
        return; /* it has ended */
    read_line(dir, "wchan", wchan, sizeof wchan);
    read_line(dir, "syscall", call, sizeof call);
    read_line(dir, "comm", name, sizeof name);
    read_lock(pid, call, lock, sizeof lock);
    buf_printf(out, "%s\t%c\t%" PRIu64 "\t%s\t%s\t%s\t%s\n", tid, state_in(stat), cpu_ns(dir, stat),
               strcmp(wchan, "0") == 0 ? "-" : wchan, call, lock, name);
}

void tasks_read(pid_t pid, struct buf *out)
{
    char path[64];
    char dir[80];
    (void)snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    RC_AUTO_CLOSEDIR DIR *tasks = opendir(path);
    for (const struct dirent *entry; tasks != NULL && (entry = readdir(tasks)) != NULL;) {
        if (entry->d_name[0] == '.')
            continue;
        (void)snprintf(dir, sizeof dir, "%s/%.12s", path, entry->d_name);
        read_task(pid, dir, entry->d_name, out);
    }
}
