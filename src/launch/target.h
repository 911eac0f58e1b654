/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The child that becomes the target: what happens between fork and exec, and whether its exec will
 * gain privilege.
 */
#ifndef LAUNCH_TARGET_H
#define LAUNCH_TARGET_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "inject/terminal_need.h"

struct launch_options;
struct preload;
struct relay;
struct shared;

struct target_spec {
    char *const *argv;
    const struct preload *preload; /* the ledger's library, NULL = none */
    const sigset_t *signal_mask;   /* as the caller gave it to us */
    const struct relay *relays;    /* RELAYS of them */
    bool child_signal_ignored;     /* the caller had SIGCHLD ignored: so has the target */
    int go_fd;                     /* the child waits for one byte (or EOF) before exec */
    int go_write_fd;               /* the child closes it, so that EOF comes */
    int exec_error_fd;             /* close-on-exec; receives errno as an int when exec fails */
    const struct launch_options *options;
};

/* Fork; the child says in the shared memory that it runs (unless the supervisor has given up on it,
 * then it leaves) and waits for go; exec; on failure report and _exit 127 (not found) or 126, as env(1) does. */
pid_t target_fork(struct shared *shared, const struct target_spec *spec);

/* Converts what waitid() reports into the status word of waitpid(). */
int target_wait_status(const siginfo_t *si);

/* Become the command, unobserved. Returns only when that fails: says why, gives 127 or 126. */
int target_exec_here(char *const argv[]);

/*
 * Will execvp(name) gain set-uid, set-gid or file capabilities? A traced process would silently
 * lose them, and no ptrace stop lies between the decision and the exec. Follows "#!" lines.
 */
bool target_exec_is_privileged(const char *name);

/*
 * Is this a shell, or a program whose work is to exec another (env, nice, timeout)? What it execs in
 * its own process may be set-uid, so without CAP_SYS_PTRACE it is not traced.
 */
bool target_is_launcher(const char *name);

/* Does the command need the terminal itself? */
enum terminal_need target_terminal_need(char *const argv[]);

#endif
