/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses texts of /proc. Pure: (text, len) -> struct with per-field validity; any bytes.
 *
 * Usable from every process of a run (tracer, sampler, finisher): no allocation, no reads.
 */
#ifndef TELEMETRY_PROCFS_H
#define TELEMETRY_PROCFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum proc_status_have {
    PROC_HAVE_NAME = 1u << 0,
    PROC_HAVE_STATE = 1u << 1,
    PROC_HAVE_TGID = 1u << 2,
    PROC_HAVE_PPID = 1u << 3,
    PROC_HAVE_TRACER = 1u << 4,
    PROC_HAVE_UID = 1u << 5,
    PROC_HAVE_RSS = 1u << 6, /* a zombie and a kernel thread have no Vm* lines */
    PROC_HAVE_RSS_PEAK = 1u << 7,
    PROC_HAVE_RSS_SHMEM = 1u << 8,
    PROC_HAVE_SWAP = 1u << 9,
    PROC_HAVE_PINNED = 1u << 10,
    PROC_HAVE_LOCKED = 1u << 11,
    PROC_HAVE_THREADS = 1u << 12,
    PROC_HAVE_SIG_CAUGHT = 1u << 13,
    PROC_HAVE_SIG_IGNORED = 1u << 14,
    PROC_HAVE_SIG_BLOCKED = 1u << 15,
};

struct proc_status {
    uint32_t have;
    char name[16];
    char state; /* 'R', 'S', 'D', 'T', 't', 'Z', 'X' */
    int32_t tgid, ppid, tracer_pid;
    uint32_t uid[4]; /* real, effective, saved, file system */
    uint64_t rss_bytes, rss_peak_bytes, rss_shmem_bytes, swap_bytes, pinned_bytes, locked_bytes;
    uint64_t threads;
    uint64_t sig_caught, sig_ignored, sig_blocked; /* bit n-1 = signal n */
};

void procfs_parse_status(const char *text, size_t len, struct proc_status *ret);

enum meminfo_have {
    MEMINFO_HAVE_TOTAL = 1u << 0,
    MEMINFO_HAVE_AVAILABLE = 1u << 1,
    MEMINFO_HAVE_SWAP_TOTAL = 1u << 2,
    MEMINFO_HAVE_SWAP_FREE = 1u << 3,
    MEMINFO_HAVE_SHMEM = 1u << 4,
};

struct meminfo {
    uint32_t have;
    uint64_t total_bytes, available_bytes, swap_total_bytes, swap_free_bytes, shmem_bytes;
};

void procfs_parse_meminfo(const char *text, size_t len, struct meminfo *ret);

/* /proc/pressure/memory: total= of the "some" and "full" lines, microseconds. */
struct pressure {
    bool has_some, has_full;
    uint64_t some_us, full_us;
};

void procfs_parse_pressure(const char *text, size_t len, struct pressure *ret);

/* "Max open files" of /proc/PID/limits, soft limit; false when absent or "unlimited". */
bool procfs_parse_fd_limit(const char *text, size_t len, uint64_t *ret);

/* The cgroups of the process by /proc/PID/cgroup. "" = no such hierarchy. */
struct cgroup_paths {
    char v2[1024];        /* line "0::/path" */
    char v1_memory[1024]; /* line "9:memory:/path" */
    bool cut;             /* a path did not fit and was left out */
};

void procfs_parse_cgroup(const char *text, size_t len, struct cgroup_paths *ret);

/* oom_kill of memory.events (v2: "oom_kill 3") and memory.oom_control (v1, Linux >= 4.13). */
bool procfs_parse_oom_kills(const char *text, size_t len, uint64_t *ret);

/* Lines of /proc/PID/maps in this piece of the text. */
uint64_t procfs_count_lines(const char *text, size_t len);

#endif
