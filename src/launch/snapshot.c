/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/snapshot.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/proc_stat.h"
#include "base/room.h"
#include "launch/impact.h"
#include "launch/options.h"
#include "launch/subject.h"
#include "launch/tracee.h"
#include "launch/tracer.h"
#include "launch/tree_scan.h"
#include "record/shared.h"
#include "telemetry/sampler.h"

#define FILES_MS 1000u /* to find CPython in the files of the first process */
#define PROCESSES_MAX SHARED_IMPACTS_MAX
#define COUNTERS_WAIT_MS 1500
#define TOUCH_MAX_MS 5000 /* for the reading of one process, most of which does not hold it */
#define SEIZE_PASSES 8
#define TRACER_WAIT_MS 3000
#define ATTEMPTS_MAX 4 /* of which the last holds nothing */

static struct tracees *tracees;

/* --- what is known before anything is touched --- */

void snapshot_fill_command(struct shared_run *run, pid_t pid)
{
    char path[64];
    char argv[sizeof run->argv];
    (void)snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
    RC_AUTO_CLOSE int fd = fs_open_read(path);
    ssize_t n = fd >= 0 ? fs_pread_full(fd, argv, sizeof argv - 1, 0) : 0;
    if (n <= 0 && run->argc > 0)
        return; /* it has ended since */
    if (n <= 0) { /* a kernel thread or a zombie has a name only */
        (void)snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
        n = fs_read_text(path, argv, 64);
        n = n > 0 ? (ssize_t)strcspn(argv, "\n") : 0;
    }
    argv[n] = '\0';
    memcpy(run->argv, argv, (size_t)n + 1);
    run->argv_bytes = (uint32_t)n + (n > 0 && argv[n - 1] != '\0');
    run->argv_cut = n == (ssize_t)sizeof argv - 1;
    run->argc = 0;
    for (uint32_t i = 0; i < run->argv_bytes; i++)
        run->argc += run->argv[i] == '\0';
}

void snapshot_fill_run(struct shared *shared, const struct snapshot_options *options)
{
    struct shared_run *run = &shared->run;
    char path[64];
    uint64_t ticks = proc_stat_of(options->pid, 22);
    uint64_t start_ns = ticks * (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK));
    uint64_t age_ns = clock_ns(CLOCK_BOOTTIME) - start_ns;
    uint64_t now_ns = clock_mono_ns();
    run->snapshot_wall_ns = clock_wall_ns();
    (void)snprintf(run->snapshot_why, sizeof run->snapshot_why, "%s", options->why);
    run->start_mono_ns = ticks > 0 && age_ns < now_ns ? now_ns - age_ns : now_ns;
    run->start_wall_ns = run->snapshot_wall_ns - (now_ns - run->start_mono_ns);
    shared_set_supervisor(shared);
    run->kmsg_start_seq = UINT64_MAX;
    run->ledger_fd = -1;
    (void)snprintf(run->ledger_error, sizeof run->ledger_error, "%s",
                   options->run != NULL ? "the run goes on: the bundle of its end has the ledger"
                                        : "the process was not started by rocmcrash");
    (void)snprintf(run->follow_error, sizeof run->follow_error, "%s",
                   options->run != NULL
                       ? "the run goes on: the bundle of its end has the output"
                       : "the process was not started by rocmcrash: its output is not known");
    snapshot_fill_command(run, options->pid);
    (void)snprintf(path, sizeof path, "/proc/%d/cwd", (int)options->pid);
    ssize_t n = readlink(path, run->cwd, sizeof run->cwd - 1);
    run->cwd[n > 0 ? n : 0] = '\0';
    if (options->output_dir != NULL)
        (void)snprintf(run->output_dir, sizeof run->output_dir, "%s", options->output_dir);
    else if (getcwd(run->output_dir, sizeof run->output_dir) == NULL)
        run->output_dir[0] = '\0';
    (void)snprintf(run->sysroot, sizeof run->sysroot, "%s", fs_sysroot());
    run->trace_mode = TRACE_LATE;
    shared->target_pid = options->pid;
    shared->target_state = TARGET_RUNNING;
    shared->trace_state = TRACE_STATE_TRACING;
}

static struct subject subjects[PROCESSES_MAX];
static uint32_t subject_count;

/* Not ourselves, where somebody asks for the tree of his own shell. */
static bool is_ours(pid_t pid)
{
    for (int depth = 0; pid > 1 && depth < 8; depth++, pid = (pid_t)proc_stat_of(pid, 4))
        if (pid == getpid())
            return true;
    return false;
}

static void find_subjects(struct shared *shared, const struct snapshot_options *options)
{
    static pid_t pids[TREE_SCAN_MAX];
    uint32_t count = 1;
    pids[0] = options->pid;
    if (options->tree)
        count = tree_scan_list(options->pid, pids, TREE_SCAN_MAX);
    for (uint32_t i = 0; i < count; i++) {
        if (is_ours(pids[i]))
            continue;
        shared->processes_seen++;
        if (subject_count < PROCESSES_MAX)
            subjects[subject_count++].pid = pids[i];
        else
            shared->impacts_dropped++;
    }
}

/* --- the child that holds them --- */

static bool add_threads(struct shared *shared, pid_t pid)
{
    return tree_scan_seize_threads(shared, tracees, pid, 0) > 0;
}

/* A signal that stopped the thread reaches it now. */
static void let_thread_go(pid_t tid)
{
    siginfo_t si = {.si_pid = 0};
    if (waitid(P_PID, (id_t)tid, &si, WSTOPPED | WNOHANG | WNOWAIT | __WALL) != 0 || si.si_pid == 0)
        return;
    int signo = si.si_status >> 8 == 0 ? si.si_status : 0;
    (void)ptrace(PTRACE_DETACH, tid, NULL, (void *)(intptr_t)signo);
}

/* A thread that has not stopped (in D state) is let go by the kernel when this child ends, at once. */
static void let_go(struct tracees *t, const struct traced_process *process)
{
    for (uint32_t i = 0; i < TRACEE_THREADS_MAX; i++)
        if (t->threads[i].tid != 0 && &t->processes[t->threads[i].process] == process)
            let_thread_go(t->threads[i].tid);
}

/* Its pages are mapped then, in this process: none is made while another is held. */
static void prepare_arena(struct shared *shared)
{
    memset(shared->arena + shared->arena_used, 0, sizeof shared->arena - shared->arena_used);
}

/* In a child of its own. */
static _Noreturn void touch(struct shared *shared, struct subject *s, bool may_hold)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)setpriority(PRIO_PROCESS, 0, -20); /* if it is allowed: while this child waits for a CPU, the
                                              * threads that it holds stand still */
    prepare_arena(shared);
    for (int pass = 0; may_hold && pass < SEIZE_PASSES && add_threads(shared, s->pid); pass++)
        ;
    struct traced_process *process = tracee_find_process(tracees, s->pid);
    if (process != NULL)
        shared->processes_traced++;
    subject_look_again(s);
    subject_copy(s, shared, tracees, process, let_go);
    _exit(0);
}

static bool holds_too_long(const struct shared *shared)
{
    uint64_t since_ns = shared->held_since_ns;
    return since_ns != 0 && clock_mono_ns() > since_ns + shared->held_budget_ms * NS_PER_MS;
}

/* False when it was ended before it was done. */
static bool watch_child(struct shared *shared, pid_t child)
{
    uint64_t give_up_ns = clock_mono_ns() + TOUCH_MAX_MS * NS_PER_MS;
    bool in_time = true;
    while (waitpid(child, NULL, WNOHANG) == 0) {
        if (holds_too_long(shared) || clock_mono_ns() > give_up_ns) {
            in_time = false;
            (void)kill(child, SIGKILL);
        }
        (void)poll(NULL, 0, 1);
    }
    shared->held_since_ns = 0;
    return in_time;
}

/* On a busy machine a copy may take longer than a process may be held: what is incomplete is dropped, and
 * tried again; in the end without holding it, which tells less of threads that run. */
static int touch_in_child(struct shared *shared, struct subject *s)
{
    for (int attempt = 1; attempt <= ATTEMPTS_MAX; attempt++) {
        const uint64_t arena_used = shared->arena_used;
        const uint32_t impacts_used = shared->impacts_used;
        const uint32_t traced = shared->processes_traced;
        pid_t child = fork();
        if (child < 0)
            return -errno;
        if (child == 0)
            touch(shared, s, attempt < ATTEMPTS_MAX);
        if (watch_child(shared, child))
            return 0;
        if (attempt == ATTEMPTS_MAX)
            break;
        shared->arena_used = arena_used;
        shared->impacts_used = impacts_used;
        shared->processes_traced = traced;
    }
    shared->watchdog_kills++;
    return 0;
}

/* --- what the tracer of the run has copied --- */

static bool is_copied(const struct shared *shared, pid_t pid)
{
    for (uint32_t i = 0; i < shared->impacts_used && i < SHARED_IMPACTS_MAX; i++)
        if (shared->impacts[i].pid == pid)
            return true;
    return false;
}

/* The newest copy of each process, since `since_ns`. */
static void take_copies(struct shared *shared, const struct shared *run, uint64_t since_ns)
{
    uint32_t used = run->impacts_used < SHARED_IMPACTS_MAX ? run->impacts_used : SHARED_IMPACTS_MAX;
    for (uint32_t i = used; i-- > 0;) {
        const struct shared_impact *from = &run->impacts[i];
        uint64_t length = from->arena_length;
        if (from->kind != IMPACT_SNAPSHOT || from->state != IMPACT_COMPLETE ||
            from->time_ns < since_ns || is_copied(shared, from->pid) ||
            from->arena_offset > sizeof run->arena || length > sizeof run->arena - from->arena_offset ||
            length > sizeof shared->arena - shared->arena_used)
            continue;
        struct shared_impact *to = &shared->impacts[shared->impacts_used];
        *to = *from;
        to->arena_offset = shared->arena_used;
        memcpy(shared->arena + to->arena_offset, run->arena + from->arena_offset, length);
        shared->arena_used += length;
        shared->impacts_used++;
        shared->processes_traced++;
    }
}

/* The tracer answers in some milliseconds; without it the processes are read without being held. */
static void wait_for_tracer(struct shared *shared, const struct snapshot_options *options)
{
    const struct shared *run = options->run;
    for (int ms = 0; ms < TRACER_WAIT_MS && (int32_t)(run->look_answer - options->request) < 0; ms += 10)
        (void)poll(NULL, 0, 10);
    take_copies(shared, run, options->since_ns);
}

static int touch_in_children(struct shared *shared)
{
    for (uint32_t i = 0; i < subject_count; i++) {
        if (is_copied(shared, subjects[i].pid))
            continue;
        int r = touch_in_child(shared, &subjects[i]);
        if (r < 0)
            return r;
    }
    if (shared->processes_traced == 0 && shared->trace_errno == 0 && proc_status_number(shared->target_pid, "TracerPid") == 0)
        shared->trace_state = TRACE_STATE_SLOW;
    else if (shared->processes_traced == 0)
        shared->trace_state = proc_status_number(shared->target_pid, "TracerPid") != 0 ? TRACE_STATE_OFF : TRACE_STATE_REFUSED;
    return 0;
}

/* --- counters --- */

pid_t snapshot_start_sampler(struct shared *shared)
{
    shared->sampler_baseline_done = 1; /* what is in use now is no baseline: the process has run for some time */
    pid_t pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        sampler_run(shared);
    }
    if (pid > 0)
        shared->helpers[HELPER_SAMPLER].pid = pid;
    return pid;
}

static void end_sampler(struct shared *shared, pid_t pid)
{
    uint32_t request = shared_ask_counters(shared, shared->target_pid);
    for (int ms = 0; pid > 0 && ms < COUNTERS_WAIT_MS; ms += 5) {
        if ((int32_t)(shared->impact_answer - request) >= 0 || waitpid(pid, NULL, WNOHANG) == pid)
            break;
        (void)poll(NULL, 0, 5);
    }
    if (pid > 0)
        (void)kill(pid, SIGKILL); /* one in D state is left behind */
    shared->helpers[HELPER_SAMPLER].pid = 0;
}

int snapshot_take(struct shared *shared, const struct snapshot_options *options, struct rc_err *err)
{
    if (kill(options->pid, 0) != 0 && errno == ESRCH)
        return rc_err_set(err, -ESRCH, "there is no process %d", (int)options->pid);
    tracees = room_for(sizeof *tracees);
    if (tracees == NULL)
        return rc_err_errno(err, -ENOMEM, "cannot look at process %d", (int)options->pid);
    snapshot_fill_run(shared, options);
    find_subjects(shared, options);
    pid_t sampler = snapshot_start_sampler(shared);
    uint64_t due_ns = clock_mono_ns() + SNAPSHOT_INTERVAL_MS * NS_PER_MS;
    for (uint32_t i = 0; i < subject_count; i++)
        subject_look(&subjects[i], FILES_MS / (i + 1));
    while (clock_mono_ns() < due_ns)
        (void)poll(NULL, 0, 20);
    if (options->run != NULL)
        wait_for_tracer(shared, options);
    int r = touch_in_children(shared);
    end_sampler(shared, sampler);
    return r < 0 ? rc_err_errno(err, r, "cannot look at process %d", (int)options->pid) : 0;
}
