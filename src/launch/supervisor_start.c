/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/supervisor_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fs.h"
#include "inject/settle.h"
#include "launch/finish.h"
#include "launch/inject_python.h"
#include "launch/library_name.h"
#include "record/job_variables.h"
#include "record/ledger.h"
#include "watch/kernel_log.h"
#include "watch/stream.h"

#define OWN_FD_MIN 10         /* the caller's descriptors 0 to 2 may be closed, and stay so */

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

void supervisor_fill_run(struct supervisor *s, char *const argv[])
{
    struct shared_run *run = &s->shared->run;
    run->start_mono_ns = clock_mono_ns();
    run->start_wall_ns = clock_wall_ns();
    shared_set_supervisor(s->shared);
    run->kmsg_start_seq = UINT64_MAX;
    fill_argv(run, argv);
    if (getcwd(run->cwd, sizeof run->cwd) == NULL)
        run->cwd[0] = '\0';
    (void)snprintf(run->output_dir, sizeof run->output_dir, "%s",
                   s->options->output_dir != NULL ? s->options->output_dir : run->cwd);
    (void)snprintf(run->sysroot, sizeof run->sysroot, "%s", fs_sysroot());
    job_variables_keep(run->job_variables, sizeof run->job_variables);
    run->trace_mode = s->options->trace;
}

/* Read by a collector after the end; where it is stderr's file, too, the relay reads it. */
static void note_stdout_file(struct shared_run *run)
{
    struct stat st;
    if (run->stdout_kind != STREAM_FILE || stream_same(STDOUT_FILENO, STDERR_FILENO) ||
        fstat(STDOUT_FILENO, &st) != 0)
        return;
    int flags = fcntl(STDOUT_FILENO, F_GETFL);
    off_t at = (flags & O_APPEND) != 0 ? st.st_size : lseek(STDOUT_FILENO, 0, SEEK_CUR);
    ssize_t len = readlink("/proc/self/fd/1", run->stdout_path, sizeof run->stdout_path - 1);
    run->stdout_path[len > 0 ? len : 0] = '\0';
    run->stdout_inode = st.st_ino;
    run->stdout_start = at > 0 ? (uint64_t)at : 0;
}

/* A shell at a prompt moves its jobs between foreground and background by the terminal of its stderr (tcsetpgrp(2)). That
 * fails on our pty, which is not the controlling terminal. NULL = the command can have a pty. */
static const char *why_no_pty(char *const argv[])
{
    static const char *const reasons[] = {
        [TERMINAL_NOT_NEEDED] = NULL,
        [TERMINAL_FOR_A_PROMPT] = "the command is a shell at a prompt, which needs its terminal",
        [TERMINAL_TO_DRAW] = "the command draws on the terminal, which it needs",
    };
    return stream_kind_of(STDERR_FILENO) == STREAM_TERMINAL ? reasons[target_terminal_need(argv)] : NULL;
}

void supervisor_plan_relay(struct supervisor *s, char *const argv[])
{
    struct shared_run *run = &s->shared->run;
    struct rc_err err = {""};
    struct relay *relays = s->helpers.relays;
    const char *no_pty = why_no_pty(argv);
    enum follow_mode mode = no_pty != NULL ? FOLLOW_NONE : s->options->follow;
    if (relay_plan(&relays[0], mode, &err) < 0)
        (void)snprintf(run->follow_error, sizeof run->follow_error, "%s", err.msg);
    else if (no_pty != NULL && s->options->follow != FOLLOW_NONE)
        (void)snprintf(run->follow_error, sizeof run->follow_error, "%s", no_pty);
    else if (mode == FOLLOW_NONE)
        (void)snprintf(run->follow_error, sizeof run->follow_error, "switched off by --follow=none");
    else if (relays[0].way == RELAY_NONE)
        (void)snprintf(run->follow_error, sizeof run->follow_error, "stderr is %s, which is not read",
                       stream_kind_name(relays[0].stderr_kind));
    run->stderr_kind = relays[0].stderr_kind;
    run->stdout_kind = relays[0].stdout_kind;
    if (mode != FOLLOW_NONE)
        note_stdout_file(run);
    if (mode == FOLLOW_ALL && relay_plan_stdout(&relays[1], &err) < 0)
        (void)snprintf(run->stdout_error, sizeof run->stdout_error, "%s", err.msg);
}

void supervisor_bundle_for_recorder(void *context)
{
    const struct supervisor *s = context;
    supervisor_count_refusals(s);
    enum finish_what what = finish_decide(s->shared, s->options);
    if (what >= FINISH_ENDED)
        (void)finish_start(s->shared_fd, s->options, what, LOADER_VARIABLES_ALL, true);
}

static void forget_for_recorder(void *context)
{
    const struct supervisor *s = context;
    inject_python_remove(s->shared);
}

/* If the caller closed stdin, stdout or stderr, one of our descriptors gets that number. The
 * target would overwrite it or write to it. */
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

int supervisor_open_events(struct supervisor *s)
{
    sigset_t all;
    (void)sigfillset(&all);
    s->signal_fd = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
    s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    s->recorder_wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return s->signal_fd < 0 || s->wake_fd < 0 || s->recorder_wake_fd < 0 ? -errno : 0;
}

static int open_descriptors(struct supervisor *s, int go[2], int exec_error[2])
{
    int r = supervisor_open_events(s);
    if (r < 0)
        return r;
    if (pipe2(go, O_CLOEXEC) != 0 || pipe2(exec_error, O_CLOEXEC | O_NONBLOCK) != 0)
        return -errno;
    int *fds[] = {&s->signal_fd, &s->wake_fd,  &s->recorder_wake_fd, &s->shared_fd,
                  &go[0],        &go[1],       &exec_error[0],       &exec_error[1]};
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
    pid_t tracer = s->helpers.pids[HELPER_TRACER];
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
static void start_relay(struct supervisor *s, struct relay *relay)
{
    struct shared_run *run = &s->shared->run;
    bool is_stdout = relay_helper(relay) == HELPER_STDOUT_RELAY;
    if (relay->way == RELAY_NONE)
        return;
    if (helper_start(&s->helpers, relay_helper(relay))) {
        run->follows_stdout |= is_stdout;
        return;
    }
    (void)snprintf(is_stdout ? run->stdout_error : run->follow_error, sizeof run->follow_error,
                   "no process for it: %s", strerror(errno));
    relay_drop(relay);
    relay->way = RELAY_NONE;
}

static int name_library(struct supervisor *s, const char *path)
{
    char name[PRELOAD_PATH_MAX];
    int r = library_name(path, name, sizeof name);
    return r < 0 ? r : preload_set_path(&s->preload, name);
}

/* 0 = not known. /dev/tty gives the number of the terminal that it stands for. */
static unsigned terminal_device(int fd)
{
    unsigned device = 0;
    return ioctl(fd, TIOCGDEV, &device) == 0 ? device : 0;
}

static unsigned long long inode_of(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 ? st.st_ino : 0;
}

/* After the descriptors have their numbers: the library finds the memory by them. */
static void prepare_ledger(struct supervisor *s)
{
    struct shared_run *run = &s->shared->run;
    struct rc_err err = {""};
    run->ledger_fd = -1;
    if ((s->options->inject & INJECT_LEDGER) == 0 || s->options->ledger_library == NULL) {
        (void)snprintf(run->ledger_error, sizeof run->ledger_error, "%s",
                       s->options->ledger_library == NULL ? "its library is not installed"
                                                          : "switched off by the setting inject");
        return;
    }
    s->ledger = ledger_create(&s->ledger_fd, &err);
    if (s->ledger == NULL || move_up(&s->ledger_fd) < 0 ||
        name_library(s, s->options->ledger_library) < 0) {
        (void)snprintf(run->ledger_error, sizeof run->ledger_error, "%s",
                       s->ledger == NULL ? err.msg : "its library cannot be preloaded from there");
        return;
    }
    struct ledger *l = s->ledger;
    l->owner_pid = getpid();
    l->shared_fd = s->shared_fd;
    l->counters_at = offsetof(struct shared, impact_request);
    l->pid_namespace = ledger_pid_namespace();
    run->ledger_fd = s->ledger_fd;
    const struct relay *relay = &s->helpers.relays[0];
    bool has_pty = relay->way == RELAY_TERMINAL;
    (void)snprintf(s->preload.config, sizeof s->preload.config,
                   PRELOAD_CONFIG "%d:%d:%llx:%llx:%x:%x:%d:%llu", l->owner_pid, s->ledger_fd,
                   (unsigned long long)l->nonce[0], (unsigned long long)l->nonce[1],
                   has_pty ? terminal_device(relay->replacement) : 0,
                   has_pty ? terminal_device(relay->down) : 0, has_pty ? relay->asked[1] : 0,
                   has_pty ? inode_of(relay->asked[1]) : 0);
}

/* Fork the tracer, which forks the target; then everything that only looks on. */
int supervisor_start_processes(struct supervisor *s, char *const argv[])
{
    int go[2] = {-1, -1};
    int exec_error[2] = {-1, -1};
    int r = open_descriptors(s, go, exec_error);
    if (r < 0)
        return r;
    prepare_ledger(s);
    struct helpers *h = &s->helpers;
    s->shared->run.shared_fd = s->shared_fd;
    h->tracer = (struct tracer_options){
        .target = {.argv = argv,
                   .preload = &s->preload,
                   .signal_mask = &s->caller_mask,
                   .relays = h->relays,
                   .child_signal_ignored = s->child_signal_ignored,
                   .go_fd = go[0],
                   .go_write_fd = go[1],
                   .exec_error_fd = exec_error[1],
                   .options = s->options},
        .go_write_fd = go[1],
        .wake_fd = s->wake_fd,
        .inherited = &s->inherited,
        .mode = s->options->trace,
        .keep_orphan = s->options->keep_orphan,
    };
    h->recorder = (struct recorder_options){
        .supervisor_pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0),
        .wake_fd = s->recorder_wake_fd,
        .kernel_log_mark = kernel_log_mark(),
        .ledger = s->ledger,
        .keep_orphan = s->options->keep_orphan,
        .bundle = supervisor_bundle_for_recorder,
        .forget = forget_for_recorder,
        .context = s,
    };
    (void)move_up(&h->recorder.supervisor_pidfd); /* pidfds are close-on-exec */
    (void)move_up(&h->recorder.kernel_log_mark);
    inject_python_plan(s->shared, s->options);
    for (int i = 0; i < RELAYS; i++)
        start_relay(s, &h->relays[i]);
    if (!helper_start(h, HELPER_TRACER))
        return -EAGAIN;
    r = wait_for_target(s);
    if (r < 0)
        return r;
    s->started = s->shared->target_pid;
    s->end_pidfd = (int)syscall(SYS_pidfd_open, s->started, 0);
    (void)move_up(&s->end_pidfd);
    (void)close(go[0]);
    (void)close(go[1]);
    (void)close(exec_error[1]);
    s->exec_error_fd = exec_error[0];
    for (int i = 0; i < RELAYS; i++)
        relay_parent_after_fork(&h->relays[i]);
    inherited_close(&s->inherited);
    (void)helper_start(h, HELPER_RECORDER);
    (void)helper_start(h, HELPER_SAMPLER);
    return 0;
}
