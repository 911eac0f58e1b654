/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plays the supervisor around the relay: plans, forks the target and the relay process, kills or
 * stops the relay process as asked, replaces it, and ends with the target's status.
 *
 *   watch_driver [--kills N] [--seed S] [--stop] [--report FILE] [--wait-relay] [--no-memory] -- COMMAND...
 *
 * --kills  SIGKILL the relay process N times at random moments, then SIGUSR1 to the target
 * --no-memory  the relay process gets no memory, not even a thread's stack
 * --stop   SIGSTOP the relay process once; only relay_stuck() lets the run continue; then SIGUSR1
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "record/shared.h"
#include "watch/relay.h"

struct driver {
    struct relay relay;
    struct shared *shared;
    pid_t target, helper;
    int target_status;
    bool target_ended, helper_done;
    unsigned kills_left, kills, restarts, stuck, resizes;
    bool stop, stopped;
    bool wait_relay, no_memory;
    uint64_t truncate_at; /* fd 2's file is truncated after so many read bytes; 0 = never */
    uint64_t oldest_heartbeat_ns; /* highest age seen, once the relay process has begun */
    unsigned seed;
    const char *report;
    char plan_error[256];
};

static void fork_helper(struct driver *d)
{
    d->helper = fork();
    struct rlimit none = {0, 0};
    if (d->helper == 0 && d->no_memory)
        (void)setrlimit(RLIMIT_AS, &none);
    if (d->helper == 0)
        relay_run(&d->relay, d->shared);
    atomic_store(&d->shared->helpers[HELPER_RELAY].pid, d->helper);
}

static void fork_target(struct driver *d, char **argv)
{
    d->target = fork();
    if (d->target == 0) {
        sigset_t none;
        (void)sigemptyset(&none);
        relay_child_setup(&d->relay);
        (void)sigprocmask(SIG_SETMASK, &none, NULL);
        (void)execvp(argv[0], argv);
        _exit(127);
    }
    atomic_store(&d->shared->target_pid, d->target);
}

/* The relay has released the stream before its process is reaped, so a test that sees it gone can rely on that.
 */
static void reap(struct driver *d)
{
    siginfo_t info = {.si_pid = 0};
    int status;
    while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid > 0) {
        pid_t pid = info.si_pid;
        info.si_pid = 0;
        if (pid == d->helper)
            (void)relay_supervise(&d->relay, d->shared);
        (void)waitpid(pid, &status, 0);
        if (pid == d->target) {
            d->target_status = status;
            d->target_ended = true;
        }
        if (pid != d->helper)
            continue;
        d->helper_done = WIFEXITED(status) && WEXITSTATUS(status) == 0;
        d->helper = 0;
        if (!d->helper_done) {
            d->restarts++;
            fork_helper(d);
        }
    }
}

static void note_heartbeat(struct driver *d)
{
    uint64_t beat = atomic_load(&d->shared->helpers[HELPER_RELAY].heartbeat_ns);
    uint64_t now = clock_mono_ns();
    if (beat != 0 && now > beat && now - beat > d->oldest_heartbeat_ns)
        d->oldest_heartbeat_ns = now - beat;
}

static void disturb(struct driver *d)
{
    note_heartbeat(d);
    if (d->helper == 0)
        return;
    if (d->truncate_at > 0 && atomic_load(&d->shared->stderr_carried.bytes) >= d->truncate_at) {
        d->truncate_at = 0;
        (void)!ftruncate(STDERR_FILENO, 0);
    }
    if (d->kills_left > 0) {
        struct timespec ts = {.tv_nsec = rand_r(&d->seed) % 3000000};
        (void)nanosleep(&ts, NULL);
        pid_t killed = d->helper;
        (void)kill(killed, SIGKILL);
        siginfo_t info;
        (void)waitid(P_PID, (id_t)killed, &info, WEXITED | WNOWAIT);
        reap(d);
        d->kills++;
        if (--d->kills_left == 0)
            (void)kill(d->target, SIGUSR1);
    }
    if (d->stop && !d->stopped) {
        (void)kill(d->helper, SIGSTOP);
        d->stopped = true;
    }
    if (relay_stuck(&d->relay, d->shared)) {
        d->stuck++;
        (void)kill(d->helper, SIGKILL);
        if (d->stopped)
            (void)kill(d->target, SIGUSR1);
    }
}

static void write_report(const struct driver *d, bool drained)
{
    if (d->report == NULL)
        return;
    FILE *f = fopen(d->report, "we");
    if (f == NULL)
        return;
    struct shared *s = d->shared;
    (void)fprintf(f,
                  "way=%d both=%d kills=%u restarts=%u stuck=%u resizes=%u drained=%d done=%d "
                  "bytes=%llu ring=%llu oom=%u fault=%u hang=%u error=%u first=%d closed=%u "
                  "helper=%d age_ms=%llu plan='%s'\n",
                  (int)d->relay.way, d->relay.both, d->kills, d->restarts, d->stuck, d->resizes,
                  drained, d->helper_done, (unsigned long long)atomic_load(&s->stderr_carried.bytes),
                  (unsigned long long)atomic_load(&s->output.head), atomic_load(&s->oom_matches),
                  atomic_load(&s->fault_matches), atomic_load(&s->hang_matches),
                  atomic_load(&s->error_matches), atomic_load(&s->first_match_ns) != 0,
                  atomic_load(&s->stderr_carried.downstream_closed), (int)d->helper,
                  (unsigned long long)(d->oldest_heartbeat_ns / 1000000), d->plan_error);
    (void)fclose(f);
}

static bool wait_drained(struct driver *d)
{
    uint64_t start = clock_mono_ns();
    while (!relay_drained(&d->relay, d->shared)) {
        reap(d);
        if (relay_stuck(&d->relay, d->shared) && d->helper > 0)
            (void)kill(d->helper, SIGKILL);
        if (clock_mono_ns() - start > 10000000000u)
            return false;
        struct timespec ts = {.tv_nsec = 200000};
        (void)nanosleep(&ts, NULL);
    }
    return true;
}

static int parse(struct driver *d, int argc, char **argv)
{
    int i = 1;
    for (; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--stop") == 0)
            d->stop = true;
        else if (strcmp(argv[i], "--wait-relay") == 0)
            d->wait_relay = true;
        else if (strcmp(argv[i], "--no-memory") == 0)
            d->no_memory = true;
        else if (strcmp(argv[i], "--kills") == 0)
            d->kills_left = (unsigned)strtoul(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--truncate-at") == 0)
            d->truncate_at = strtoul(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--seed") == 0)
            d->seed = (unsigned)strtoul(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--report") == 0)
            d->report = argv[++i];
    }
    return i + 1;
}

static void supervise(struct driver *d, const sigset_t *set)
{
    struct timespec tick = {.tv_nsec = 20000000};
    while (!d->target_ended) {
        bool disturbing = d->kills_left > 0 || (d->stop && !d->stopped);
        struct timespec now = {0};
        siginfo_t info;
        if (sigtimedwait(set, &info, disturbing ? &now : &tick) == SIGWINCH) {
            if (relay_resize(&d->relay)) {
                d->resizes++;
                (void)kill(d->target, SIGWINCH);
            }
        }
        reap(d);
        if (!d->target_ended)
            disturb(d);
    }
}

int main(int argc, char **argv)
{
    static struct driver d;
    (void)alarm(50); /* no process of a failed test survives */
    d.seed = 1;
    int first = parse(&d, argc, argv);
    int fd = -1;
    struct rc_err err = {""};
    if (first >= argc || (d.shared = shared_create(&fd, &err)) == NULL)
        return 125;
    shared_set_supervisor(d.shared);
    if (relay_plan(&d.relay, FOLLOW_STDERR, &err) != 0)
        (void)snprintf(d.plan_error, sizeof d.plan_error, "%s", err.msg);
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGCHLD);
    (void)sigaddset(&set, SIGWINCH);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    fork_target(&d, argv + first);
    relay_parent_after_fork(&d.relay);
    if (d.relay.way != RELAY_NONE)
        fork_helper(&d);
    supervise(&d, &set);
    bool drained = wait_drained(&d);
    atomic_store(&d.shared->supervisor_done, 1);
    if (d.wait_relay && d.helper > 0 && waitpid(d.helper, &fd, 0) == d.helper)
        d.helper_done = WIFEXITED(fd) && WEXITSTATUS(fd) == 0;
    write_report(&d, drained);
    return WIFSIGNALED(d.target_status) ? 128 + WTERMSIG(d.target_status)
                                        : WEXITSTATUS(d.target_status);
}
