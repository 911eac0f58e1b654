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

/* utime and stime, fields 14 and 15 of /proc/PID/stat; the name in field 2 may hold anything. */
static uint64_t cpu_of(pid_t pid)
{
    char path[64];
    char stat[1024];
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (fs_read_text(path, stat, sizeof stat) <= 0)
        return 0;
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

/* "rchar: 4711\nwchar: 42\n...": also what goes to stdout, a pipe or a socket by read() and write(). */
static uint64_t io_of(pid_t pid)
{
    char path[64];
    char text[512];
    (void)snprintf(path, sizeof path, "/proc/%d/io", (int)pid);
    if (fs_read_text(path, text, sizeof text) <= 0)
        return 0;
    const char *written = strstr(text, "wchar: ");
    return strtoull(text + strcspn(text, " "), NULL, 10) +
           (written != NULL ? strtoull(written + 7, NULL, 10) : 0);
}

static struct totals look(pid_t root)
{
    static pid_t pids[TREE_SCAN_MAX];
    struct totals all = {.processes = tree_scan_list(root, pids, TREE_SCAN_MAX)};
    for (uint32_t i = 0; i < all.processes; i++) {
        all.cpu_ns += cpu_of(pids[i]);
        all.io_bytes += io_of(pids[i]);
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
