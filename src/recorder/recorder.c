/* SPDX-License-Identifier: Apache-2.0 */
#include "recorder/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/proc_stat.h"
#include "base/room.h"
#include "record/rundir.h"
#include "record/shared.h"
#include "recorder/flush.h"
#include "recorder/ledger_copy.h"
#include "watch/kernel_log.h"

#define DIR_ATTEMPTS_MAX 3
#define FLUSH_PERIOD_MS 1000
#define FLUSH_QUIET_MS 2000 /* while the program prints nothing */
/* A burst of kernel messages must not fill the disk. Its beginning is kept, because the first messages
 * tell most about the cause. */
#define KMSG_FILE_MAX (4u << 20)
#define HANDOVER_MS 10
#define ORPHAN_WAIT_MS 5000
#define STUCK_TRACER_MS 1000

struct recorder {
    struct shared *shared;
    const struct recorder_options *options;
    struct kernel_log kernel_log;
    bool kernel_log_open;
    bool replaying; /* we replace a recorder: the file `kmsg` is written again from the run's start */
    uint64_t replay_until; /* the recorder before us has counted the records below this number */
    int dirfd, kmsg_fd, state_fd;
    int target_pidfd, tracer_pidfd; /* -1 = had already ended */
    struct held_look tracer_look;
    size_t kmsg_bytes;
    int dir_attempts;
    uint64_t output_seen; /* the ring's head when the recorder last waited */
    char pending[65536];  /* the kernel log until the run directory exists */
    size_t pending_len;
};

/* Reads the kernel log again from the run's start. A regular file (a recorded machine) does not change,
 * so it is not read again. */
static void replay_kernel_log(struct recorder *r)
{
    r->replay_until = r->kernel_log.next_seq;
    if (r->kernel_log.regular || r->replay_until == UINT64_MAX ||
        lseek(r->kernel_log.fd, 0, SEEK_SET) < 0)
        return;
    r->replaying = true;
    r->kernel_log.next_seq = KERNEL_LOG_SEQ_UNKNOWN;
}

static void open_kernel_log(struct recorder *r)
{
    struct rc_err err = {""};
    struct shared_run *run = &r->shared->run;
    /* Only the first recorder has the mark. A replacement calls replay_kernel_log(). */
    bool first = run->kmsg_start_seq == UINT64_MAX;
    int result = kernel_log_open(&r->kernel_log, first ? r->options->kernel_log_mark : -1, &err);
    r->kernel_log_open = result >= 0;
    if (r->kernel_log_open && first)
        run->kmsg_start_seq = r->kernel_log.next_seq;
    else if (r->kernel_log_open)
        replay_kernel_log(r);
    else
        (void)snprintf(run->kmsg_error, sizeof run->kmsg_error, "%s", err.msg);
}

static void count_kernel_match(struct shared *s, const char *record)
{
    _Atomic uint32_t *counter = NULL;
    switch (kernel_log_classify(record)) {
    case KERNEL_LINE_OOM:
        counter = &s->kernel_oom_matches;
        break;
    case KERNEL_LINE_FAULT:
        counter = &s->fault_matches;
        break;
    case KERNEL_LINE_HANG:
        counter = &s->hang_matches;
        break;
    default:
        return;
    }
    atomic_fetch_add(counter, 1);
    shared_counters_at_message(s);
    uint64_t none = 0;
    (void)atomic_compare_exchange_strong(&s->first_match_ns, &none, clock_mono_ns());
}

static void keep_kernel_record(struct recorder *r, const char *record, size_t len)
{
    if (r->kmsg_bytes + len > KMSG_FILE_MAX)
        return;
    if (r->kmsg_fd < 0) {
        if (r->pending_len + len <= sizeof r->pending) {
            memcpy(r->pending + r->pending_len, record, len);
            r->pending_len += len;
        }
        return;
    }
    if (fs_write_all(r->kmsg_fd, record, len) == 0)
        r->kmsg_bytes += len;
}

static void drain_kernel_log(struct recorder *r)
{
    static char record[KERNEL_LOG_RECORD_MAX + 1]; /* a smaller buffer is refused */
    for (int i = 0; i < 1000 && r->kernel_log_open; i++) {
        ssize_t len = kernel_log_read(&r->kernel_log, record, sizeof record);
        if (len == -EPIPE)
            continue;
        if (len <= 0)
            return;
        uint64_t seq = r->kernel_log.next_seq - 1;
        if (!r->replaying && seq < r->shared->run.kmsg_start_seq &&
            r->shared->run.kmsg_start_seq != UINT64_MAX)
            r->shared->run.kmsg_start_seq = seq; /* written before the recorder started */
        if (r->replaying && seq < r->shared->run.kmsg_start_seq)
            continue;
        if (!r->replaying || seq >= r->replay_until)
            count_kernel_match(r->shared, record);
        keep_kernel_record(r, record, (size_t)len);
    }
}

static void write_state(struct recorder *r, const char *state)
{
    if (r->state_fd >= 0 && pwrite(r->state_fd, state, strlen(state), 0) > 0)
        (void)fs_truncate(r->state_fd, (off_t)strlen(state));
}

struct others {
    const char *own; /* the directory of this run, made by a recorder before us */
    uint32_t count;
};

static void count_other(void *context, const char *run_dir)
{
    struct others *others = context;
    others->count += strcmp(run_dir, others->own) != 0;
}

static void look_for_unfinished_runs(struct recorder *r, const char *own)
{
    struct others others = {.own = own};
    rundir_retire(own);
    (void)rundir_unfinished(count_other, &others, NULL);
    r->shared->unfinished_runs = others.count;
}

static void make_run_dir(struct recorder *r)
{
    struct shared_run *run = &r->shared->run;
    struct rc_err err = {""};
    char path[sizeof run->run_dir];
    r->dir_attempts++;
    if (rundir_create(path, sizeof path, run->start_wall_ns, run->supervisor_pid, &err) < 0) {
        shared_event(r->shared, "recorder", "no run directory: %s", err.msg);
        return;
    }
    r->dirfd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (r->dirfd < 0)
        return;
    r->state_fd = fs_open_write(r->dirfd, "state", O_RDWR);
    if (r->state_fd >= 0)
        (void)fs_lock(r->state_fd);
    write_state(r, "running\n");
    r->kmsg_fd =
        fs_open_write(r->dirfd, "kmsg", O_WRONLY | O_APPEND | (r->replaying ? O_TRUNC : 0));
    keep_kernel_record(r, r->pending, r->pending_len);
    memcpy(run->run_dir, path, sizeof run->run_dir);
    /* Only now, because our own run is locked: other processes look for unfinished runs, too. */
    look_for_unfinished_runs(r, path);
}

static void remove_run_dir(struct recorder *r)
{
    char path[FS_PATH_MAX];
    (void)snprintf(path, sizeof path, "%s", r->shared->run.run_dir);
    char *name = strrchr(path, '/');
    if (name == NULL)
        return;
    *name++ = '\0';
    int parent = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (parent < 0)
        return;
    (void)fs_remove_tree(parent, name);
    (void)close(parent);
}

/* `final`: no process will write again, so this is the last copy. */
static void flush(struct recorder *r, bool final)
{
    drain_kernel_log(r);
    if (r->dirfd < 0)
        return;
    struct rc_err err = {""};
    if (recorder_flush(r->shared, r->shared->run.run_dir, &err) < 0)
        shared_event(r->shared, "recorder", "%s", err.msg);
    int copied = ledger_copy_turn(r->options->ledger, r->shared, r->dirfd, final);
    if (copied < 0)
        shared_event(r->shared, "recorder", "cannot copy the ledger: %s", strerror(-copied));
}

/* The kernel reuses pids, so keep pidfds. If the target still runs after pidfd_open(), the pid was still
 * the target's: its parent has not reaped it. */
static void open_processes(struct recorder *r)
{
    struct shared *s = r->shared;
    pid_t tracer = s->helpers[HELPER_TRACER].pid;
    r->target_pidfd = (int)syscall(SYS_pidfd_open, s->target_pid, 0);
    r->tracer_pidfd = tracer > 0 ? (int)syscall(SYS_pidfd_open, tracer, 0) : -1;
    if (s->target_state == TARGET_RUNNING || r->target_pidfd < 0)
        return;
    (void)close(r->target_pidfd);
    r->target_pidfd = -1;
}

static bool is_stopped(pid_t pid)
{
    return proc_state_of(pid) == 'T';
}

/* When the target is stopped, the supervisor stops itself, too, so that the shell sees it. If the target
 * is continued just before that, nobody would continue the supervisor. */
static void end_stale_stop(const struct shared *s)
{
    if (s->supervisor_mirrors != 0 && s->target_stopped == 0 && is_stopped(shared_supervisor()) &&
        s->supervisor_mirrors != 0 && s->target_stopped == 0)
        (void)kill(shared_supervisor(), SIGCONT);
}

/* Kills a tracer that is stopped or hangs, so that it no longer holds the target. Without a supervisor
 * only the recorder can do that. */
static void watch_tracer(const struct recorder *r)
{
    const struct shared_helper *tracer = &r->shared->helpers[HELPER_TRACER];
    uint64_t busy_ns = tracer->work_pending_ns;
    uint64_t now_ns = clock_mono_ns();
    bool hangs = busy_ns != 0 && now_ns > busy_ns &&
                 now_ns - busy_ns > STUCK_TRACER_MS * NS_PER_MS;
    if (r->tracer_pidfd >= 0 && (hangs || is_stopped(tracer->pid)))
        (void)syscall(SYS_pidfd_send_signal, r->tracer_pidfd, SIGKILL, NULL, 0);
}

/* The target holds both the tracer, which it waits for, and the supervisor, which would kill the tracer. */
static void watch_held_tracer(struct recorder *r)
{
    if (r->tracer_pidfd < 0 ||
        !proc_stays_held(&r->tracer_look, r->shared->helpers[HELPER_TRACER].pid, clock_mono_ns()))
        return;
    shared_event(r->shared, "recorder", "the tracer is held by another: killing it");
    (void)syscall(SYS_pidfd_send_signal, r->tracer_pidfd, SIGKILL, NULL, 0);
}

static bool is_gone(int pidfd)
{
    struct pollfd fd = {.fd = pidfd, .events = POLLIN};
    return pidfd < 0 || (poll(&fd, 1, 0) > 0 && fd.revents != 0);
}

/* The tracer reports how the target ended; without a tracer no report comes. */
static bool target_is_over(const struct recorder *r)
{
    return r->shared->target_state == TARGET_ENDED ||
           (is_gone(r->target_pidfd) && is_gone(r->tracer_pidfd));
}

/* The caller killed the supervisor, but meant the target. */
static _Noreturn void stand_in_for_supervisor(struct recorder *r)
{
    struct shared *s = r->shared;
    s->supervisor_killed = 1;
    shared_event(s, "recorder", "the process that the caller started was killed");
    if (s->target_state == TARGET_RUNNING && r->target_pidfd >= 0 && !r->options->keep_orphan) {
        s->ended_with_supervisor = 1;
        (void)syscall(SYS_pidfd_send_signal, r->target_pidfd, SIGKILL, NULL, 0);
    }
    uint64_t give_up_ns = clock_mono_ns() + ORPHAN_WAIT_MS * NS_PER_MS;
    while (!target_is_over(r) && (r->options->keep_orphan || clock_mono_ns() < give_up_ns)) {
        flush(r, false);
        watch_tracer(r);
        watch_held_tracer(r);
        (void)poll(NULL, 0, r->options->keep_orphan ? 100 : 10);
    }
    if (r->dirfd < 0)
        make_run_dir(r);
    flush(r, true);
    write_state(r, "ended\n");
    if (r->options->bundle != NULL)
        r->options->bundle(r->options->context);
    _exit(0);
}

/* A launcher may kill the supervisor's process group before the finisher has left it. The supervisor ends us then.
 * If the finisher has left it, the second one waits for it and leaves (cli/verb_run.c). */
static _Noreturn void wait_until_finisher_is_apart(struct recorder *r)
{
    struct pollfd supervisor = {.fd = r->options->supervisor_pidfd, .events = POLLIN};
    if (r->state_fd >= 0)
        (void)close(r->state_fd); /* its lock is for the finisher */
    r->shared->recorder_flushed = 1;
    while (getppid() == shared_supervisor())
        (void)poll(&supervisor, 1, HANDOVER_MS);
    if (r->options->bundle != NULL)
        r->options->bundle(r->options->context);
    _exit(0);
}

static void supervisor_said_done(struct recorder *r)
{
    if (r->shared->supervisor_done == 1) {
        if (r->dirfd >= 0)
            remove_run_dir(r);
        if (r->options->forget != NULL)
            r->options->forget(r->options->context);
        _exit(0);
    }
    if (r->dirfd < 0)
        make_run_dir(r);
    flush(r, true);
    write_state(r, "ended\n");
    wait_until_finisher_is_apart(r);
}

/* A turn costs little more than its wake-up, so there are fewer turns while the program is quiet. The
 * first output after that is on the disk within two seconds, later output within one. */
static int wait_ms(struct recorder *r)
{
    if (r->dirfd < 0 && r->dir_attempts < DIR_ATTEMPTS_MAX)
        return RECORDER_QUIET_MS;
    uint64_t said = atomic_load(&r->shared->output.head);
    bool quiet = said == r->output_seen && r->shared->supervisor_mirrors == 0;
    r->output_seen = said;
    return quiet ? FLUSH_QUIET_MS : FLUSH_PERIOD_MS;
}

/* The SIGCHLD of a child that asked a file system. All signals are blocked, and one that waits counts among those that the
 * user may queue (RLIMIT_SIGPENDING). Unblocked it would stop us, as the supervisor traces us. */
static void drop_child_signal(void)
{
    const struct timespec now = {0};
    sigset_t child;
    (void)sigemptyset(&child);
    (void)sigaddset(&child, SIGCHLD);
    (void)sigtimedwait(&child, NULL, &now);
}

_Noreturn void recorder_run(struct shared *shared, const struct recorder_options *options)
{
    struct recorder *r = room_for(sizeof *r);
    if (r == NULL)
        _exit(1);
    r->shared = shared;
    r->options = options;
    r->dirfd = r->kmsg_fd = r->state_fd = -1;
    open_processes(r);
    struct shared_helper *me = &shared->helpers[HELPER_RECORDER];
    open_kernel_log(r);
    struct pollfd fds[] = {
        {.fd = options->wake_fd, .events = POLLIN},
        {.fd = options->supervisor_pidfd, .events = POLLIN},
        /* poll() always reports a regular file (a recorded log) ready: it is read once a turn instead. */
        {.fd = r->kernel_log_open && !r->kernel_log.regular ? r->kernel_log.fd : -1, .events = POLLIN},
    };
    for (;;) {
        me->heartbeat_ns = clock_mono_ns();
        me->work_pending_ns = 0;
        (void)poll(fds, sizeof fds / sizeof fds[0], wait_ms(r));
        me->work_pending_ns = clock_mono_ns();
        if (shared->supervisor_done != 0)
            supervisor_said_done(r);
        if (getppid() != shared_supervisor())
            stand_in_for_supervisor(r);
        end_stale_stop(shared);
        watch_held_tracer(r);
        if ((fds[2].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0)
            fds[2].fd = -1;
        uint64_t age_ns = clock_mono_ns() - shared->run.start_mono_ns;
        if (r->dirfd < 0 && r->dir_attempts < DIR_ATTEMPTS_MAX &&
            (age_ns >= RECORDER_QUIET_MS * NS_PER_MS || shared->impacts_used > 0))
            make_run_dir(r);
        flush(r, false);
        drop_child_signal();
    }
}
