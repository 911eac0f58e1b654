/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Late tracing: find the processes of the target's tree by /proc and seize those that have settled.
 *
 * A process younger than TREE_SCAN_MIN_AGE_MS is left alone, so that set-uid programs keep their
 * rights, debuggers can trace their children, and short-lived children cost nothing. Runs in the
 * tracer.
 */
#ifndef LAUNCH_TREE_SCAN_H
#define LAUNCH_TREE_SCAN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct shared;
struct tracees;

#define TREE_SCAN_MIN_AGE_MS 1000
#define TREE_SCAN_MAX 512 /* processes looked at in one walk */

struct tree_scan {
    struct shared *shared;
    struct tracees *tracees;
    pid_t root;
    int ptrace_options;
    bool (*wanted)(pid_t pid); /* asked before a process is seized */
};

/* Walk the tree below root and seize what is old enough, not traced, and of our own user. */
void tree_scan_seize(const struct tree_scan *scan);

/* The process and its descendants, parents before children; at most `room` (> 0). */
uint32_t tree_scan_list(pid_t root, pid_t *out, uint32_t room);
/* Seize the threads of a process that are not in the table yet; returns how many. The first refusal is
 * in shared->trace_errno. */
uint32_t tree_scan_seize_threads(struct shared *shared, struct tracees *tracees, pid_t pid,
                                 int ptrace_options);

/* CAP_SYS_PTRACE in the effective set: then exec keeps set-uid bits under trace. */
bool tree_scan_has_ptrace_capability(void);

#endif
