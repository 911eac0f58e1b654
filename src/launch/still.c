/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/still.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "launch/tree_scan.h"
#include "record/shared.h"

/* Beyond noise: a thread that wakes up ten times a second uses less than 1 % of a CPU. */
#define CPU_NOISE_PPM 20000u
/* A heartbeat through a pipe or an eventfd. */
#define IO_NOISE_BYTES 4096u

struct totals {
    uint64_t cpu_ns, io_bytes;
    uint32_t processes;
};

static uint64_t ticks_to_ns(uint64_t ticks)
{
    return ticks * (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK));
}

/* majflt, utime and stime: fields 12, 14 and 15 of /proc/PID/stat. The name in field 2 may hold anything. */
static void add_stat(pid_t pid, struct totals *all)
{
    char path[64];
    char stat[1024];
    unsigned long long major_faults, user, system;
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (fs_read_text(path, stat, sizeof stat) <= 0)
        return;
    const char *name_end = strrchr(stat, ')');
    if (name_end == NULL || sscanf(name_end + 1, " %*c %*s %*s %*s %*s %*s %*s %*s %*s %llu %*s %llu %llu",
                                   &major_faults, &user, &system) != 3)
        return;
    all->cpu_ns += ticks_to_ns(user + system);
    all->io_bytes += major_faults * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* "rchar: 4711\nwchar: 42\n...": rchar and wchar have also what goes to a pipe or a socket by read() and
 * write(); read_bytes has what a mapped file reads ahead. */
static void add_io(pid_t pid, struct totals *all)
{
    static const char *const counters[] = {"rchar: ", "wchar: ", "\nread_bytes: ", "\nwrite_bytes: "};
    char path[64];
    char text[512];
    (void)snprintf(path, sizeof path, "/proc/%d/io", (int)pid);
    if (fs_read_text(path, text, sizeof text) <= 0)
        return;
    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++) {
        const char *at = strstr(text, counters[i]);
        all->io_bytes += at != NULL ? strtoull(at + strlen(counters[i]), NULL, 10) : 0;
    }
}

static struct totals look(pid_t root)
{
    static pid_t pids[TREE_SCAN_MAX];
    struct totals all = {.processes = tree_scan_list(root, pids, TREE_SCAN_MAX)};
    for (uint32_t i = 0; i < all.processes; i++) {
        add_stat(pids[i], &all);
        add_io(pids[i], &all);
    }
    return all;
}

/* Processes that come or go are work. */
static bool has_worked(const struct still_watch *w, const struct totals *now, uint64_t passed_ns)
{
    return now->processes != w->processes || now->cpu_ns < w->cpu_ns ||
           (now->cpu_ns - w->cpu_ns) * 1000000u > passed_ns * CPU_NOISE_PPM ||
           now->io_bytes < w->io_bytes || now->io_bytes - w->io_bytes > IO_NOISE_BYTES;
}

static void look_again(struct still_watch *w, pid_t root, uint64_t now_ns)
{
    struct totals now = look(root);
    if (w->look_ns == 0 || has_worked(w, &now, now_ns - w->look_ns))
        w->since_ns = now_ns;
    w->look_ns = now_ns;
    w->cpu_ns = now.cpu_ns;
    w->io_bytes = now.io_bytes;
    w->processes = now.processes;
}

uint64_t still_turn(struct still_watch *w, struct shared *shared, uint32_t look_ms,
                    uint32_t silent_ms)
{
    uint64_t now_ns = clock_mono_ns();
    uint64_t said = shared->stderr_carried.bytes + shared->stdout_carried.bytes;
    bool stopped = shared->target_stopped != 0; /* by job control: it is meant to stand */
    if (w->since_ns == 0 || said != w->output_bytes || stopped ||
        shared->target_state != TARGET_RUNNING) {
        *w = (struct still_watch){.output_bytes = said, .since_ns = now_ns};
        shared->still_since_ns = 0;
        return 0;
    }
    uint64_t last_ns = w->look_ns != 0 ? w->look_ns : w->since_ns;
    if (now_ns - last_ns >= look_ms * NS_PER_MS)
        look_again(w, shared->target_pid, now_ns);
    uint64_t still_ms = (now_ns - w->since_ns) / NS_PER_MS;
    shared->still_since_ns = still_ms >= silent_ms ? w->since_ns : 0;
    return still_ms;
}
