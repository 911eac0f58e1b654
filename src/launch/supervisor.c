/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fs.h"
#include "launch/finish.h"
#include "launch/forward.h"
#include "launch/helpers.h"
#include "launch/inherited.h"
#include "record/shared.h"

#define TICK_MS 100
#define DRAIN_MS 1000
#define RECORDER_READS_MS 100
#define RECORDER_END_MS 300
#define FINISHER_GRACE_MS 3000
#define FINISHER_STARTS_MAX 3 /* it is killed or stopped by somebody: once more, from the run directory */
#define OWN_FD_MIN 10         /* the caller's descriptors 0 to 2 may be closed, and stay so */

struct supervisor {
    struct shared *shared;
    int shared_fd;
    const struct launch_options *options;
    struct helpers helpers;
    struct forwarder forwarder;
    struct inherited inherited;
    sigset_t caller_mask;
    bool child_signal_ignored;
    int signal_fd, wake_fd, recorder_wake_fd, exec_error_fd;
    uint32_t mirrored_stops; /* how many stops of the target we have shown to our parent */
    pid_t finisher;
    int finisher_status;
    bool finisher_ended, hurry, told_unfinished;
};

/* --- start --- */

static void fill_argv(struct shared_run *run, char *const argv[])
{
    for (int i = 0; argv[i] != NULL; i++) {
        size_t len = strlen(argv[i]) + 1;
        run->argc++;
        if (len > sizeof run->argv - run->argv_bytes) {
            run->argv_cut = 1;
            continue;
        }
        memcpy(run->argv + run->argv_bytes, argv[i], len);
        run->argv_bytes += (uint32_t)len;
    }
}

static void fill_run(struct supervisor *s, char *const argv[])
{
    struct shared_run *run = &s->shared->run;
    run->start_mono_ns = clock_mono_ns();
    run->start_wall_ns = clock_wall_ns();
    run->supervisor_pid = getpid();
    run->kmsg_start_seq = UINT64_MAX;
    fill_argv(run, argv);
    if (getcwd(run->cwd, sizeof run->cwd) == NULL)
        run->cwd[0] = '\0';
    (void)snprintf(run->output_dir, sizeof run->output_dir, "%s",
                   s->options->output_dir != NULL ? s->options->output_dir : run->cwd);
    (void)snprintf(run->sysroot, sizeof run->sysroot, "%s", fs_sysroot());
    run->trace_mode = s->options->trace;
}

static void plan_relay(struct supervisor *s)
{
    struct shared_run *run = &s->shared->run;
    struct rc_err err = {""};
    enum follow_mode mode = s->options->follow ? FOLLOW_STDERR : FOLLOW_NONE;
    if (relay_plan(&s->helpers.relay, mode, &err) < 0)
        (void)snprintf(run->follow_error, sizeof run->follow_error, "%s", err.msg);
    else if (!s->options->follow)
        (void)snprintf(run->follow_error, sizeof run->follow_error, "switched off by --no-follow");
    run->stderr_kind = s->helpers.relay.stderr_kind;
    run->stdout_kind = s->helpers.relay.stdout_kind;
}

static void bundle_for_recorder(void *context)
{
    const struct supervisor *s = context;
    enum finish_what what = finish_decide(s->shared, s->options);
    if (what != FINISH_NOTHING)
        (void)finish_start(s->shared_fd, s->options, what, true);
}

/* Where the caller closed stdin, stdout or stderr, a descriptor of ours gets that number: it would
 * be overwritten, or written to. */
static int move_up(int *fd)
{
    if (*fd < 0 || *fd >= OWN_FD_MIN)
        return *fd < 0 ? -errno : 0;
    int high = fcntl(*fd, F_DUPFD_CLOEXEC, OWN_FD_MIN);
    if (high < 0)
        return *fd > STDERR_FILENO ? 0 : -errno;
    (void)close(*fd);
    *fd = high;
    return 0;
}

static int open_descriptors(struct supervisor *s, int go[2], int exec_error[2])
{
    sigset_t all;
    (void)sigfillset(&all);
    s->signal_fd = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
    s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    s->recorder_wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->signal_fd < 0 || s->wake_fd < 0 || s->recorder_wake_fd < 0 ||
        pipe2(go, O_CLOEXEC) != 0 || pipe2(exec_error, O_CLOEXEC | O_NONBLOCK) != 0)
        return -errno;
    int *fds[] = {&s->signal_fd, &s->wake_fd,  &s->recorder_wake_fd, &s->shared_fd,
                  &go[0],        &go[1],       &exec_error[0],       &exec_error[1]};
    int r = 0;
    for (size_t i = 0; r == 0 && i < sizeof fds / sizeof fds[0]; i++)
        r = move_up(fds[i]);
    return r;
}

/*
 * Wait (some 100 us) until the tracer has forked the target: until then nothing that the caller gave
 * us has been let go of, and the target can still be executed right here if the tracer is killed
 * or may not fork. -ECHILD: that is the case.
 */
static int wait_for_target(struct supervisor *s)
{
    struct shared *shared = s->shared;
    pid_t tracer = shared->helpers[HELPER_TRACER].pid;
    while (shared->target_state == TARGET_NOT_STARTED || shared->target_state == TARGET_STARTING) {
        siginfo_t si = {.si_pid = 0};
        (void)waitid(P_PID, (id_t)tracer, &si, WEXITED | WSTOPPED | WNOHANG | WNOWAIT);
        if (si.si_pid == tracer && si.si_code == CLD_STOPPED)
            (void)kill(tracer, SIGKILL);
        uint32_t state = TARGET_NOT_STARTED;
        if (si.si_pid == tracer && si.si_code != CLD_STOPPED &&
            atomic_compare_exchange_strong(&shared->target_state, &state, TARGET_ENDED))
            return -ECHILD;
        struct pollfd fd = {.fd = s->wake_fd, .events = POLLIN};
        (void)poll(&fd, 1, 1);
    }
    return 0;
}

/* Before the tracer: the target must not get a pipe that nobody carries. */
static void start_relay(struct supervisor *s)
{
    struct relay *relay = &s->helpers.relay;
    if (relay->way == RELAY_NONE || helper_start(&s->helpers, HELPER_RELAY))
        return;
    struct shared_run *run = &s->shared->run;
    (void)snprintf(run->follow_error, sizeof run->follow_error, "no process for it: %s",
                   strerror(errno));
    relay_drop(relay);
    relay->way = RELAY_NONE;
}

/* Fork the tracer, which forks the target; then everything that only looks on. */
static int start_processes(struct supervisor *s, char *const argv[])
{
    int go[2];
    int exec_error[2];
    int r = open_descriptors(s, go, exec_error);
    if (r < 0)
        return r;
    struct helpers *h = &s->helpers;
    h->tracer = (struct tracer_options){
        .target = {.argv = argv,
                   .signal_mask = &s->caller_mask,
                   .relay = &h->relay,
                   .child_signal_ignored = s->child_signal_ignored,
                   .go_fd = go[0],
                   .go_write_fd = go[1],
                   .exec_error_fd = exec_error[1]},
        .go_write_fd = go[1],
        .wake_fd = s->wake_fd,
        .inherited = &s->inherited,
        .mode = s->options->trace,
        .keep_orphan = s->options->keep_orphan,
    };
    h->recorder = (struct recorder_options){
        .supervisor_pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0),
        .wake_fd = s->recorder_wake_fd,
        .keep_orphan = s->options->keep_orphan,
        .bundle = bundle_for_recorder,
        .context = s,
    };
    (void)move_up(&h->recorder.supervisor_pidfd); /* pidfds are close-on-exec */
    start_relay(s);
    if (!helper_start(h, HELPER_TRACER))
        return -EAGAIN;
    r = wait_for_target(s);
    if (r < 0)
        return r;
    (void)close(go[0]);
    (void)close(go[1]);
    (void)close(exec_error[1]);
    s->exec_error_fd = exec_error[0];
    relay_parent_after_fork(&h->relay);
    inherited_close(&s->inherited);
    (void)helper_start(h, HELPER_RECORDER);
    (void)helper_start(h, HELPER_SAMPLER);
    return 0;
}

/* --- while it runs --- */

static void target_ended_here(struct supervisor *s, int status)
{
    s->shared->target_status = status;
    s->shared->target_end_ns = clock_mono_ns();
    s->shared->target_state = TARGET_ENDED;
}

static int wait_status_of(const siginfo_t *si)
{
    if (si->si_code == CLD_EXITED)
        return (si->si_status & 0xff) << 8;
    return si->si_status | (si->si_code == CLD_DUMPED ? 0x80 : 0);
}

static void child_ended(struct supervisor *s, pid_t pid, int status)
{
    if (helper_ended(&s->helpers, pid, status))
        return;
    if (pid == s->finisher) {
        s->finisher_ended = true;
        s->finisher_status = status;
    } else if (pid == s->shared->target_pid && s->shared->target_state == TARGET_RUNNING) {
        target_ended_here(s, status);
    }
}

/* A finisher that somebody stops would keep the caller waiting: it is started again. */
static void child_stopped(struct supervisor *s, pid_t pid, int signo)
{
    if (pid == s->finisher) {
        (void)kill(pid, SIGKILL);
    } else if (!helper_stopped(&s->helpers, pid) && pid == s->shared->target_pid) {
        s->shared->target_stopped = (uint32_t)signo;
        s->shared->target_stops++;
    }
}

static void child_changed(struct supervisor *s, const siginfo_t *si)
{
    if (si->si_code == CLD_STOPPED)
        child_stopped(s, si->si_pid, si->si_status);
    else if (si->si_code != CLD_CONTINUED)
        child_ended(s, si->si_pid, wait_status_of(si));
    else if (si->si_pid == s->shared->target_pid)
        s->shared->target_stopped = 0;
}

static void reap(struct supervisor *s)
{
    for (;;) {
        siginfo_t si = {.si_pid = 0};
        if (waitid(P_ALL, 0, &si, WEXITED | WSTOPPED | WCONTINUED | WNOHANG) != 0 || si.si_pid == 0)
            return;
        child_changed(s, &si);
    }
}

/* The caller's job control sees us: stop as the target stopped. */
static void mirror_stop(struct supervisor *s)
{
    uint32_t stops = s->shared->target_stops;
    uint32_t stop = s->shared->target_stopped;
    if (stops == s->mirrored_stops || stop == 0)
        return;
    s->mirrored_stops = stops;
    struct sigaction standard = {.sa_handler = SIG_DFL};
    struct sigaction before;
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, (int)stop);
    if (stop != SIGSTOP)
        (void)sigaction((int)stop, &standard, &before);
    (void)kill(getpid(), (int)stop);
    (void)sigprocmask(SIG_UNBLOCK, &set, NULL); /* we stop here, and go on here */
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    if (stop != SIGSTOP)
        (void)sigaction((int)stop, &before, NULL);
}

static void take_signals(struct supervisor *s)
{
    struct signalfd_siginfo info;
    while (!forward_is_full(&s->forwarder) &&
           read(s->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        switch ((int)info.ssi_signo) {
        case SIGCHLD:
            break; /* reap() follows in any case */
        case SIGWINCH:
            if (relay_resize(&s->helpers.relay))
                (void)kill(s->shared->target_pid, SIGWINCH);
            break;
        default:
            forward_take(&s->forwarder, &info);
            break;
        }
    }
}

static void turn(struct supervisor *s, int timeout_ms)
{
    int due_ms = forward_due(&s->forwarder);
    if (due_ms >= 0 && due_ms < timeout_ms)
        timeout_ms = due_ms;
    struct pollfd fds[] = {
        {.fd = s->signal_fd, .events = POLLIN},
        {.fd = s->wake_fd, .events = POLLIN},
    };
    uint64_t count;
    if (poll(fds, 2, timeout_ms) > 0 && (fds[1].revents & POLLIN) != 0)
        (void)!read(s->wake_fd, &count, sizeof count);
    take_signals(s);
    reap(s);
    (void)relay_supervise(&s->helpers.relay, s->shared);
    helpers_watch(&s->helpers);
}

static void tell_of_unfinished_runs(struct supervisor *s)
{
    unsigned count = s->shared->unfinished_runs;
    if (count == 0 || s->told_unfinished || s->options->quiet)
        return;
    s->told_unfinished = true;
    (void)dprintf(STDERR_FILENO,
                  "rocmcrash: %u earlier run%s left no bundle; 'rocmcrash recover' makes it\n", count,
                  count == 1 ? "" : "s");
}

/* --- the end --- */

static void drain_relay(struct supervisor *s)
{
    uint64_t give_up_ns = clock_mono_ns() + DRAIN_MS * 1000000u;
    while (s->shared->helpers[HELPER_RELAY].pid > 0 && clock_mono_ns() < give_up_ns &&
           !relay_drained(&s->helpers.relay, s->shared))
        turn(s, 1);
}

static void end_recorder(struct supervisor *s, uint32_t done)
{
    s->shared->supervisor_done = done;
    uint64_t one = 1;
    (void)!write(s->recorder_wake_fd, &one, sizeof one);
    uint64_t give_up_ns = clock_mono_ns() + RECORDER_END_MS * 1000000u;
    while (s->shared->helpers[HELPER_RECORDER].pid > 0 && clock_mono_ns() < give_up_ns)
        turn(s, 5);
    helper_kill(&s->helpers, HELPER_RECORDER);
}

/* While the finisher works, a signal to us asks it to come to an end; the bundle is still made. */
static void wait_for_finisher(struct supervisor *s)
{
    uint64_t budget_ms = (uint64_t)s->options->finish_within_ms + s->options->hash_budget_ms +
                         FINISHER_GRACE_MS;
    uint64_t give_up_ns = clock_mono_ns() + budget_ms * 1000000u;
    struct pollfd fd = {.fd = s->signal_fd, .events = POLLIN};
    while (!s->finisher_ended && clock_mono_ns() < give_up_ns) {
        (void)poll(&fd, 1, TICK_MS);
        struct signalfd_siginfo info;
        while (read(s->signal_fd, &info, sizeof info) == (ssize_t)sizeof info)
            if (info.ssi_signo == SIGINT || info.ssi_signo == SIGTERM || info.ssi_signo == SIGHUP ||
                info.ssi_signo == SIGQUIT)
                s->hurry = true;
        if (s->hurry)
            (void)kill(s->finisher, SIGTERM);
        s->hurry = false;
        reap(s);
    }
    if (!s->finisher_ended && !s->options->quiet)
        (void)dprintf(STDERR_FILENO, "rocmcrash: the bundle is still being made in the background\n");
}

/*
 * Of a program that failed without a word the kernel log may know why, but the recorder reads it in
 * its own time. Woken (and never calmed again) it turns at once; a turn begun after now has seen all
 * that the kernel wrote before the end.
 */
static void let_recorder_read_on(struct supervisor *s)
{
    const struct shared_helper *recorder = &s->shared->helpers[HELPER_RECORDER];
    uint64_t one = 1;
    uint64_t give_up_ns = clock_mono_ns() + RECORDER_READS_MS * 1000000u;
    uint64_t seen_ns = clock_mono_ns();
    (void)!write(s->recorder_wake_fd, &one, sizeof one);
    for (int turns = 0; turns < 2 && recorder->pid > 0 && clock_mono_ns() < give_up_ns;) {
        uint64_t beat_ns = recorder->heartbeat_ns;
        if (beat_ns > seen_ns) {
            seen_ns = beat_ns;
            turns++;
        } else {
            turn(s, 1);
        }
    }
}

static void finish(struct supervisor *s)
{
    enum finish_what what = finish_decide(s->shared, s->options);
    if (what == FINISH_NOTHING && s->shared->target_status != 0) {
        let_recorder_read_on(s);
        what = finish_decide(s->shared, s->options);
    }
    end_recorder(s, what == FINISH_NOTHING ? 1 : 2);
    if (what == FINISH_NOTHING)
        return;
    for (int start = 0; start < FINISHER_STARTS_MAX; start++) {
        s->finisher_ended = false;
        s->finisher = finish_start(s->shared_fd, s->options, what, false);
        if (s->finisher <= 0)
            break;
        wait_for_finisher(s);
        if (!s->finisher_ended || !WIFSIGNALED(s->finisher_status))
            return;
        shared_event(s->shared, "supervisor", "the finisher was killed by signal %d",
                     WTERMSIG(s->finisher_status));
    }
    if (!s->options->quiet)
        (void)dprintf(STDERR_FILENO, "rocmcrash: %s; the run is kept in %s\n",
                      s->finisher > 0 ? "rocmcrash-finish was killed each time"
                                      : "cannot start rocmcrash-finish",
                      s->shared->run.run_dir);
}

/* End as the target ended. Not dumpable: a second core of ours would overwrite the target's. */
static int leave_by_signal(int signo)
{
    struct rlimit none = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &none);
    (void)prctl(PR_SET_DUMPABLE, 0);
    (void)signal(signo, SIG_DFL);
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, signo);
    (void)kill(getpid(), signo);
    (void)sigprocmask(SIG_UNBLOCK, &set, NULL);
    return 128 + signo; /* as pid 1 the kernel ignores it */
}

static int own_status(struct supervisor *s, char *const argv[])
{
    int error = 0;
    int status = s->shared->target_status;
    if (read(s->exec_error_fd, &error, sizeof error) == (ssize_t)sizeof error) {
        s->shared->exec_errno = error;
        (void)dprintf(STDERR_FILENO, "rocmcrash: cannot run '%s': %s\n", argv[0], strerror(error));
    }
    return status;
}

/* Whatever of ours does not work: the target runs. */
static int run_unobserved(struct supervisor *s, char *const argv[], const char *why)
{
    (void)dprintf(STDERR_FILENO, "rocmcrash: %s; running without observation\n", why);
    if (s->shared != NULL) {
        helper_kill(&s->helpers, HELPER_RELAY);
        while (waitpid(-1, NULL, 0) > 0) /* what we become knows no children */
            ;
    }
    (void)prctl(PR_SET_CHILD_SUBREAPER, 0);
    if (s->child_signal_ignored)
        (void)signal(SIGCHLD, SIG_IGN);
    (void)sigprocmask(SIG_SETMASK, &s->caller_mask, NULL);
    (void)execvp(argv[0], argv);
    int error = errno;
    (void)dprintf(STDERR_FILENO, "rocmcrash: cannot run '%s': %s\n", argv[0], strerror(error));
    return error == ENOENT ? 127 : 126;
}

static void take_over_signals(struct supervisor *s)
{
    sigset_t all;
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_BLOCK, &all, &s->caller_mask);
    struct sigaction child;
    (void)sigaction(SIGCHLD, NULL, &child);
    s->child_signal_ignored = child.sa_handler == SIG_IGN;
    if (s->child_signal_ignored)
        (void)signal(SIGCHLD, SIG_DFL);
}

int launch_run(const struct launch_options *options, char *const argv[])
{
    static struct supervisor s;
    struct rc_err err = {""};
    s = (struct supervisor){.options = options, .helpers = {.options = options, .relay = RELAY_INIT}};
    take_over_signals(&s);
    inherited_list(&s.inherited);
    s.shared = shared_create(&s.shared_fd, &err);
    if (s.shared == NULL)
        return run_unobserved(&s, argv, err.msg);
    s.helpers.shared = s.shared;
    s.forwarder.shared = s.shared;
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    fill_run(&s, argv);
    plan_relay(&s);
    int r = start_processes(&s, argv);
    if (r < 0)
        return run_unobserved(&s, argv, r == -ECHILD ? "no process for the tracer" : strerror(-r));

    while (s.shared->target_state != TARGET_ENDED) {
        turn(&s, TICK_MS);
        mirror_stop(&s);
    }
    drain_relay(&s);
    tell_of_unfinished_runs(&s);
    int status = own_status(&s, argv);
    if (s.shared->exec_errno != 0)
        end_recorder(&s, 1);
    else
        finish(&s);
    helper_kill(&s.helpers, HELPER_SAMPLER);
    helper_reap(&s.helpers, HELPER_TRACER); /* the caller's wait4() gets the target's times by it */
    return WIFSIGNALED(status) ? leave_by_signal(WTERMSIG(status)) : WEXITSTATUS(status);
}
