/* SPDX-License-Identifier: Apache-2.0 */
/* `watch PID`: the supervisor of a process that somebody else started. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/proc_stat.h"
#include "base/say.h"
#include "base/say_in_time.h"
#include "launch/finish.h"
#include "launch/snapshot.h"
#include "launch/supervisor_internal.h"
#include "watch/kernel_log.h"
#include "watch/stream.h"

#define TRACER_TELLS_MS 1000 /* the tracer reports a death that the pidfd has shown */
#define REAPED_MS 2000       /* only then the kernel shows others how it ended */
#define READY_MS 2000
#define COMMAND_SETTLES_NS 10000000000u

/* ioctl(pidfd, PIDFD_GET_INFO), Linux 6.13; how the process ended: 6.15, after it was reaped. */
struct pidfd_answer {
    uint64_t mask, cgroup_id;
    uint32_t pid, tgid, ppid, ids[8];
    int32_t exit_code;
};
#define PIDFD_ASK _IOWR(0xFF, 11, struct pidfd_answer)
#define PIDFD_ANSWER_EXIT (UINT64_C(1) << 3)

/* --- its end, where nobody traced it --- */

static bool is_over(int pidfd, int wait_ms, short events)
{
    struct pollfd fd = {.fd = pidfd, .events = POLLIN};
    return poll(&fd, 1, wait_ms) > 0 && (fd.revents & events) != 0;
}

/* Field 52 of /proc/PID/stat, of one that its parent has not reaped yet. */
static bool status_of_zombie(pid_t pid, int *ret)
{
    char path[64];
    char stat[1024];
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (fs_read_text(path, stat, sizeof stat) <= 0)
        return false;
    const char *p = strrchr(stat, ')');
    if (p == NULL || p[1] != ' ' || p[2] != 'Z')
        return false;
    *ret = (int)proc_stat_field(stat, 52);
    return true;
}

static bool status_by_pidfd(int pidfd, int *ret)
{
    struct pidfd_answer answer = {.mask = PIDFD_ANSWER_EXIT};
    uint64_t give_up_ns = clock_mono_ns() + REAPED_MS * NS_PER_MS;
    while (!is_over(pidfd, 0, POLLHUP) && clock_mono_ns() < give_up_ns)
        (void)poll(NULL, 0, 10);
    if (ioctl(pidfd, PIDFD_ASK, &answer) != 0 || (answer.mask & PIDFD_ANSWER_EXIT) == 0)
        return false;
    *ret = answer.exit_code;
    return true;
}

static void end_untraced(struct supervisor *s)
{
    struct shared *shared = s->shared;
    int status = 0;
    shared->target_end_ns = clock_mono_ns();
    /* 0 is also what the kernel shows to those who may not know. */
    bool known = status_of_zombie(shared->target_pid, &status) && status != 0;
    known = known || status_by_pidfd(s->target_pidfd, &status);
    shared->target_status = known ? status : 0;
    shared->status_unknown = !known;
    shared->target_state = TARGET_ENDED;
}

static void look_for_its_end(struct supervisor *s)
{
    const struct shared *shared = s->shared;
    if (shared->target_state == TARGET_ENDED || !is_over(s->target_pidfd, 0, POLLIN))
        return;
    uint64_t give_up_ns = clock_mono_ns() + TRACER_TELLS_MS * NS_PER_MS;
    while (shared->trace_state == TRACE_STATE_TRACING && shared->target_state != TARGET_ENDED &&
           shared->helpers[HELPER_TRACER].pid > 0 && clock_mono_ns() < give_up_ns)
        supervisor_turn(s, 10);
    if (shared->target_state != TARGET_ENDED)
        end_untraced(s);
}

/* --- start --- */

/* Read by a collector after the end, from here on. */
static void note_its_stdout(struct shared *shared)
{
    struct shared_run *run = &shared->run;
    struct stat st;
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/fd/1", (int)shared->target_pid);
    ssize_t len = readlink(path, run->stdout_path, sizeof run->stdout_path - 1);
    run->stdout_path[len > 0 ? len : 0] = '\0';
    if (len <= 0 || stat(path, &st) != 0 || !S_ISREG(st.st_mode)) {
        run->stdout_path[0] = '\0';
        return;
    }
    run->stdout_kind = STREAM_FILE;
    run->stdout_inode = st.st_ino;
    run->stdout_start = (uint64_t)st.st_size;
}

static void fill_run(struct supervisor *s, pid_t pid)
{
    struct shared_run *run = &s->shared->run;
    const struct snapshot_options what = {.pid = pid, .why = "", .output_dir = s->options->output_dir};
    snapshot_fill_run(s->shared, &what);
    run->snapshot_wall_ns = 0;
    run->attached_wall_ns = clock_wall_ns();
    run->shared_fd = s->shared_fd;
    s->shared->trace_state = TRACE_STATE_STARTING;
    s->shared->processes_seen = 1;
    s->shared->sampler_baseline_done = 1; /* what is in use now is no baseline: the process has run for some time */
    note_its_stdout(s->shared);
}

static int open_descriptors(struct supervisor *s, pid_t pid)
{
    int r = supervisor_open_events(s);
    if (r < 0)
        return r;
    s->target_pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    return s->target_pidfd < 0 ? -errno : 0;
}

static int start_helpers(struct supervisor *s)
{
    struct helpers *h = &s->helpers;
    h->tracer = (struct tracer_options){.attach_pid = s->shared->target_pid,
                                        .wake_fd = s->wake_fd,
                                        .inherited = &s->inherited,
                                        .mode = s->options->trace,
                                        .keep_orphan = true};
    h->recorder = (struct recorder_options){
        .supervisor_pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0),
        .wake_fd = s->recorder_wake_fd,
        .kernel_log_mark = kernel_log_mark(),
        .keep_orphan = true,
        .bundle = supervisor_bundle_for_recorder,
        .context = s,
    };
    if (!helper_start(h, HELPER_TRACER))
        return -EAGAIN;
    (void)helper_start(h, HELPER_RECORDER);
    (void)helper_start(h, HELPER_SAMPLER);
    uint64_t give_up_ns = clock_mono_ns() + READY_MS * NS_PER_MS;
    while (s->shared->trace_state == TRACE_STATE_STARTING && clock_mono_ns() < give_up_ns &&
           s->shared->helpers[HELPER_TRACER].pid > 0)
        supervisor_turn(s, 5);
    return 0;
}

static void say_what_can_be_had(const struct supervisor *s)
{
    const struct shared *shared = s->shared;
    if (s->options->quiet)
        return;
    (void)say_line(stderr, "rocmcrash: watching process %d (%s) until it ends; Ctrl-C leaves it alone",
                   (int)shared->target_pid, shared->run.argv);
    if (shared->trace_state != TRACE_STATE_TRACING)
        (void)say_line(stderr, "rocmcrash: it cannot be traced (%s): its end is noticed, but no stacks are copied, "
                               "and how it ended is known only if the kernel reports it (Linux 6.15)",
                       shared->trace_state == TRACE_STATE_OFF ? "another program traces it, it has a sanitizer, or it could gain privilege"
                       : shared->trace_errno != 0             ? strerror(shared->trace_errno)
                                                              : "the tracer does not answer");
    (void)say_line(stderr, "rocmcrash: what it prints is %s; who allocated GPU memory, and what PyTorch knows, is known "
                           "of a program that rocmcrash starts only",
                   shared->run.stdout_path[0] != '\0' ? "read from the file that its stdout is" : "not seen");
}

/* --- the loop --- */

/* A shell that was started just now becomes another program soon. */
static void refresh_command(struct supervisor *s)
{
    struct shared_run *run = &s->shared->run;
    if (clock_wall_ns() - run->attached_wall_ns < COMMAND_SETTLES_NS)
        snapshot_fill_command(run, s->shared->target_pid);
}

static void loop(struct supervisor *s)
{
    const struct launch_options *options = s->options;
    while (s->shared->target_state != TARGET_ENDED && s->leave_signal == 0) {
        bool busy = hang_is_busy(&s->hang) || s->crossing.aside.child != 0;
        supervisor_turn(s, helpers_calm(&s->helpers) && !busy ? CALM_TICK_MS : TICK_MS);
        hang_turn(&s->hang, s->shared, options, s->helpers.relays);
        crossing_turn(&s->crossing, s->shared, options, s->helpers.relays, s->hang.still_ms);
        refresh_command(s);
        look_for_its_end(s);
    }
}

static int tell_end(const struct supervisor *s)
{
    const struct shared *shared = s->shared;
    int status = shared->target_status;
    bool bad = shared->status_unknown || status != 0;
    if (s->options->quiet)
        return bad;
    if (shared->status_unknown)
        (void)say_line(stderr, "rocmcrash: process %d has ended; how is not known", (int)shared->target_pid);
    else if (WIFSIGNALED(status))
        (void)say_line(stderr, "rocmcrash: process %d was ended by signal %d", (int)shared->target_pid,
                       WTERMSIG(status));
    else
        (void)say_line(stderr, "rocmcrash: process %d ended with exit code %d", (int)shared->target_pid,
                       WEXITSTATUS(status));
    return bad;
}

int launch_attend(const struct launch_options *options, pid_t pid)
{
    static struct supervisor s;
    struct rc_err err = {""};
    s = (struct supervisor){.options = options,
                            .target_pidfd = -1, .end_pidfd = -1,
                            .is_attached = true,
                            .exec_error_fd = -1,
                            .ledger_fd = -1,
                            .helpers = {.options = options, .relays = {RELAY_INIT, RELAY_INIT}}};
    supervisor_take_over_signals(&s);
    say_in_time(&stderr, SUPERVISOR_WAIT_MS);
    s.shared = shared_create(&s.shared_fd, &err);
    if (s.shared == NULL) {
        (void)say_line(stderr, "rocmcrash: cannot watch process %d: %s", (int)pid, err.msg);
        return ATTEND_FAILED;
    }
    int r = open_descriptors(&s, pid);
    if (r == 0) {
        s.helpers.shared = s.forwarder.shared = s.shared;
        fill_run(&s, pid);
        r = start_helpers(&s);
    }
    if (r < 0) {
        if (err.msg[0] == '\0')
            (void)(r == -ESRCH ? rc_err_set(&err, r, "there is no process %d", (int)pid)
                               : rc_err_errno(&err, r, "cannot watch process %d", (int)pid));
        (void)say_line(stderr, "rocmcrash: %s", err.msg);
        return ATTEND_FAILED;
    }
    say_what_can_be_had(&s);
    s.hang.idle_ms = conditions_idle_ms(&options->bundle_at);
    s.hang.tracer = &s.helpers.pids[HELPER_TRACER];
    (void)crossing_begin(&s.crossing, &options->bundle_at);
    loop(&s);
    int status = 0;
    if (s.leave_signal != 0) {
        helper_kill(&s.helpers, HELPER_TRACER); /* the kernel lets go of what it traced */
        supervisor_end_recorder(&s, 1);
        if (!options->quiet)
            (void)say_line(stderr, "rocmcrash: process %d is no longer watched; it goes on", (int)pid);
    } else {
        status = tell_end(&s) ? ATTEND_BAD : 0;
        supervisor_wait_for_asides(&s);
        hang_tell(&s.hang, options);
        crossing_tell(&s.crossing, options);
        supervisor_finish(&s);
    }
    helper_kill(&s.helpers, HELPER_SAMPLER);
    helper_reap(&s.helpers, HELPER_TRACER);
    return status;
}
