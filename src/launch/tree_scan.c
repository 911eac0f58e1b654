/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/tree_scan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/proc_stat.h"
#include "base/number.h"
#include "launch/tracee.h"
#include "record/shared.h"

#define SCAN_MAX_NS 10000000u /* no stop is answered during a scan; a later scan finds the rest */
#define ALL_THREADS_EVERY 16  /* most programs fork in their first thread */
#define SEIZE_PASSES 8      /* until a scan finds no untraced thread; 3 were enough when measured */

bool tree_scan_has_ptrace_capability(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}};
    if (syscall(SYS_capget, &header, data) != 0)
        return false;
    return (data[CAP_TO_INDEX(CAP_SYS_PTRACE)].effective & CAP_TO_MASK(CAP_SYS_PTRACE)) != 0;
}

/* Field 22 is in clock ticks since boot. */
static bool older_than_min_age(pid_t pid)
{
    uint64_t start_ms = proc_stat_of(pid, 22) * 1000u / (uint64_t)sysconf(_SC_CLK_TCK);
    return start_ms > 0 && clock_ns(CLOCK_BOOTTIME) / 1000000u >= start_ms + TREE_SCAN_MIN_AGE_MS;
}

/* Not traced by another (its own gdb or strace), and not running with changed user ids. */
static bool may_seize(pid_t pid)
{
    char path[64];
    char status[32768];
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    if (fs_read_text(path, status, sizeof status) <= 0)
        return false;
    const char *tracer = strstr(status, "\nTracerPid:\t");
    const char *uid = strstr(status, "\nUid:\t");
    if (tracer == NULL || uid == NULL || strtol(tracer + 12, NULL, 10) != 0)
        return false;
    uint64_t real;
    uint64_t effective;
    uint64_t saved;
    uid += strlen("\nUid:\t");
    return number_take_before(&uid, 10, '\t', &real) &&
           number_take_before(&uid, 10, '\t', &effective) && number_take(&uid, 10, &saved) &&
           real == effective && real == saved && real == getuid();
}

uint32_t tree_scan_seize_threads(struct shared *shared, struct tracees *tracees, pid_t pid,
                                 int ptrace_options)
{
    char path[64];
    uint32_t seized = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    RC_AUTO_CLOSEDIR DIR *dir = opendir(path);
    for (const struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (tid <= 0 || tracee_find(tracees, tid) != NULL)
            continue;
        if (ptrace(PTRACE_SEIZE, tid, NULL, (void *)(intptr_t)ptrace_options) != 0) {
            if (shared->trace_errno == 0)
                shared->trace_errno = errno;
            continue;
        }
        if (tracee_add(tracees, tid, pid, clock_mono_ns()) != NULL)
            seized++;
    }
    return seized;
}

static uint32_t seize_threads(const struct tree_scan *scan, pid_t pid)
{
    return tree_scan_seize_threads(scan->shared, scan->tracees, pid, scan->ptrace_options);
}

static void seize_process(const struct tree_scan *scan, pid_t pid)
{
    if (tracee_find_process(scan->tracees, pid) != NULL || !older_than_min_age(pid) ||
        !may_seize(pid) || !scan->wanted(pid))
        return;
    if (seize_threads(scan, pid) == 0)
        return;
    scan->shared->processes_traced++;
    for (int pass = 1; pass < SEIZE_PASSES && seize_threads(scan, pid) > 0; pass++)
        ;
}

/* /proc/PID/task/TID/children: "1234 1240 " (CONFIG_PROC_CHILDREN; the leader's task lists only
 * its own children, so now and then every thread is asked). */
static uint32_t list_children(pid_t pid, bool all_threads, pid_t *out, uint32_t room)
{
    char path[96];
    char text[4096];
    uint32_t count = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    RC_AUTO_CLOSEDIR DIR *dir = opendir(path);
    for (const struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        long tid = strtol(entry->d_name, NULL, 10);
        if (tid <= 0 || (tid != pid && !all_threads))
            continue;
        (void)snprintf(path, sizeof path, "/proc/%d/task/%ld/children", (int)pid, tid);
        bool cut = fs_read_text(path, text, sizeof text) < 0; /* half a number is another process's pid */
        for (char *p = text; count < room;) {
            char *end;
            long child = strtol(p, &end, 10);
            if (end == p || (cut && *end == '\0'))
                break;
            out[count++] = (pid_t)child;
            p = end;
        }
    }
    return count;
}

void tree_scan_seize(const struct tree_scan *scan)
{
    static pid_t queue[TREE_SCAN_MAX];
    static uint32_t scans;
    bool all_threads = scans++ % ALL_THREADS_EVERY == 0;
    uint64_t give_up_ns = clock_mono_ns() + SCAN_MAX_NS;
    queue[0] = scan->root;
    uint32_t count = 1;
    for (uint32_t i = 0; i < count && clock_mono_ns() < give_up_ns; i++) {
        seize_process(scan, queue[i]);
        count += list_children(queue[i], all_threads, queue + count, TREE_SCAN_MAX - count);
    }
    if (count > scan->shared->processes_seen)
        scan->shared->processes_seen = count;
}

uint32_t tree_scan_list(pid_t root, pid_t *out, uint32_t room)
{
    uint32_t count = 1;
    out[0] = root;
    for (uint32_t i = 0; i < count; i++)
        count += list_children(out[i], true, out + count, room - count);
    return count;
}
