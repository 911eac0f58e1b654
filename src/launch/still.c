/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/still.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/proc_stat.h"
#include "base/room.h"
#include "launch/tree_scan.h"
#include "record/shared.h"

/* Beyond noise. All threads together: heartbeats, our hook's own thread and those of the GPU's runtime take
 * less than 1 % of a CPU. */
#define CPU_NOISE_PPM 20000u
#define IO_NOISE_BYTES_PER_S 16384u
#define DISK_NOISE_BYTES 4096u
/* The first thread of a process alone: one that asks every 100 ms whether it may go on takes 0.05 %. */
#define MAIN_CPU_NOISE_PPM 1000u
#define MAIN_CPU_NOISE_NS 1000000u /* at least: it is stopped and goes on when the tracer copies it */
#define MAIN_IO_NOISE_BYTES 32u
#define RUNNABLE_MAX 64

/* One process at the last look. */
struct process {
    pid_t pid;
    uint64_t cpu_ns;
    uint64_t io_bytes;   /* read and written, also to a pipe or a socket */
    uint64_t disk_bytes; /* that came from a disk: also for a mapped file */
    uint64_t ended_faults; /* page faults of its children that ended: each had some */
    uint64_t main_cpu_ns, main_io_bytes; /* of its first thread */
};

/* Threads that run or wait for a CPU. */
struct runnable {
    uint32_t count;
    pid_t tids[RUNNABLE_MAX];
};

struct looks {
    struct process processes[2][TREE_SCAN_MAX]; /* the last look and this one, in turns */
    struct runnable runnable[2];                /* likewise; found only where nothing else has shown work */
};

static uint64_t tick_ns(void)
{
    return 1000000000u / (uint64_t)sysconf(_SC_CLK_TCK);
}

/* cminflt, majflt, utime and stime: fields 11, 12, 14 and 15. */
static void read_stat(struct process *p)
{
    char path[64];
    char stat[1024];
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)p->pid);
    if (fs_read_text(path, stat, sizeof stat) <= 0)
        return;
    p->cpu_ns = (proc_stat_field(stat, 14) + proc_stat_field(stat, 15)) * tick_ns();
    p->ended_faults = proc_stat_field(stat, 11);
    p->disk_bytes = proc_stat_field(stat, 12) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t counter_in(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    return at != NULL ? strtoull(at + strlen(name), NULL, 10) : 0;
}

/* "rchar: 4711\nwchar: 42\n...": rchar and wchar have also what goes to a pipe or a socket by read() and
 * write(); read_bytes has what a mapped file reads ahead. */
static uint64_t io_of(const char *path, uint64_t *ret_disk)
{
    char text[512];
    if (fs_read_text(path, text, sizeof text) <= 0)
        return 0;
    if (ret_disk != NULL)
        *ret_disk += counter_in(text, "\nread_bytes: ");
    return counter_in(text, "rchar: ") + counter_in(text, "wchar: ");
}

static void read_process(struct process *p, pid_t pid)
{
    char path[64];
    char text[96];
    *p = (struct process){.pid = pid};
    read_stat(p);
    (void)snprintf(path, sizeof path, "/proc/%d/io", (int)pid);
    p->io_bytes = io_of(path, &p->disk_bytes);
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/io", (int)pid, (int)pid);
    p->main_io_bytes = io_of(path, NULL);
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/schedstat", (int)pid, (int)pid);
    if (fs_read_text(path, text, sizeof text) > 0)
        p->main_cpu_ns = strtoull(text, NULL, 10);
}

static uint64_t at_least(uint64_t noise, uint64_t least)
{
    return noise > least ? noise : least;
}

static bool is_beyond(uint64_t before, uint64_t now, uint64_t noise)
{
    return now < before || now - before > noise;
}

/* Processes that come or go are work, also those that came and went between two looks. */
static bool has_worked(const struct process *before, const struct process *now, uint32_t count,
                       uint64_t passed_ns)
{
    uint64_t cpu_ns = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (before[i].pid != now[i].pid || now[i].cpu_ns < before[i].cpu_ns ||
            now[i].ended_faults != before[i].ended_faults ||
            is_beyond(before[i].io_bytes, now[i].io_bytes,
                      passed_ns / 1000000 * IO_NOISE_BYTES_PER_S / 1000) ||
            is_beyond(before[i].disk_bytes, now[i].disk_bytes, DISK_NOISE_BYTES) ||
            is_beyond(before[i].main_cpu_ns, now[i].main_cpu_ns,
                      at_least(passed_ns / 1000000 * MAIN_CPU_NOISE_PPM, MAIN_CPU_NOISE_NS)) ||
            is_beyond(before[i].main_io_bytes, now[i].main_io_bytes, MAIN_IO_NOISE_BYTES))
            return true;
        cpu_ns += now[i].cpu_ns - before[i].cpu_ns;
    }
    /* A microsecond of work may end a tick, and then counts as a whole one. */
    return cpu_ns > at_least(passed_ns / 1000000 * CPU_NOISE_PPM, tick_ns());
}

/* "4711 (python3) R 4710 ..." */
static bool may_run(pid_t pid, const char *tid)
{
    char path[64];
    char stat[1024];
    (void)snprintf(path, sizeof path, "/proc/%d/task/%.16s/stat", (int)pid, tid);
    if (fs_read_text(path, stat, sizeof stat) <= 0)
        return false;
    const char *name_end = strrchr(stat, ')');
    return name_end != NULL && strncmp(name_end, ") R ", 4) == 0;
}

static void find_runnable(struct runnable *r, pid_t pid)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    RC_AUTO_CLOSEDIR DIR *tasks = opendir(path);
    for (const struct dirent *entry; tasks != NULL && r->count < RUNNABLE_MAX && (entry = readdir(tasks)) != NULL;)
        if (entry->d_name[0] != '.' && may_run(pid, entry->d_name))
            r->tids[r->count++] = (pid_t)strtol(entry->d_name, NULL, 10);
}

/* On a busy machine a thread may wait for a CPU for seconds: it has work to do. One look proves nothing, as a
 * heartbeat may run just then. */
static bool is_starved(const struct runnable *before, const struct runnable *now)
{
    for (uint32_t i = 0; i < before->count; i++)
        for (uint32_t k = 0; k < now->count; k++)
            if (before->tids[i] == now->tids[k])
                return true;
    return false;
}

/* It went on by itself. */
static void note_length(struct still_watch *w, uint64_t now_ns)
{
    if (w->since_ns != 0 && now_ns - w->since_ns > w->longest_ns)
        w->longest_ns = now_ns - w->since_ns;
}

static void look_again(struct still_watch *w, pid_t root, uint64_t now_ns)
{
    static pid_t pids[TREE_SCAN_MAX];
    static struct looks *looks;
    if (looks == NULL)
        looks = room_for(sizeof *looks);
    if (looks == NULL) { /* not known: it counts as working */
        w->since_ns = w->look_ns = now_ns;
        return;
    }
    const struct process *before = looks->processes[w->turn % 2];
    struct process *now = looks->processes[++w->turn % 2];
    uint32_t count = tree_scan_list(root, pids, TREE_SCAN_MAX);
    for (uint32_t i = 0; i < count; i++)
        read_process(&now[i], pids[i]);
    struct runnable *runnable = &looks->runnable[w->turn % 2];
    runnable->count = 0;
    bool worked = w->look_ns == 0 || count != w->processes || has_worked(before, now, count, now_ns - w->look_ns);
    for (uint32_t i = 0; !worked && i < count; i++)
        find_runnable(runnable, pids[i]);
    if (worked || is_starved(&looks->runnable[(w->turn + 1) % 2], runnable)) {
        note_length(w, now_ns);
        w->since_ns = now_ns;
    }
    w->look_ns = now_ns;
    w->processes = count;
}

static void start_anew(struct still_watch *w, uint64_t said, uint64_t now_ns)
{
    *w = (struct still_watch){
        .output_bytes = said, .since_ns = now_ns, .turn_ns = now_ns, .longest_ns = w->longest_ns};
}

uint64_t still_turn(struct still_watch *w, struct shared *shared, uint32_t look_ms,
                    uint32_t silent_ms)
{
    uint64_t now_ns = clock_mono_ns();
    uint64_t said = shared->stderr_carried.bytes + shared->stdout_carried.bytes;
    bool stopped = shared->target_stopped != 0; /* by job control: it is meant to stand */
    bool paused = w->turn_ns != 0 && now_ns - w->turn_ns > STILL_TURNS_APART_MS * NS_PER_MS;
    bool runs = shared->target_state == TARGET_RUNNING && !stopped && !paused;
    if (runs && said != w->output_bytes)
        note_length(w, now_ns);
    if (w->since_ns == 0 || said != w->output_bytes || !runs) {
        start_anew(w, said, now_ns);
        shared->still_since_ns = 0;
        return 0;
    }
    w->turn_ns = now_ns;
    uint64_t last_ns = w->look_ns != 0 ? w->look_ns : w->since_ns;
    if (now_ns - last_ns >= look_ms * NS_PER_MS)
        look_again(w, shared->target_pid, now_ns);
    uint64_t still_ms = (now_ns - w->since_ns) / NS_PER_MS;
    shared->still_since_ns = still_ms >= silent_ms ? w->since_ns : 0;
    return still_ms;
}
