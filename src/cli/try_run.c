/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/try_run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/own_path.h"
#include "base/say.h"
#include "cli/again.h"
#include "cli/name_map.h"
#include "cli/verbs.h"
#include "experiment/changes.h"

#define TICK_MS 100
#define NO_BUNDLE_MS 5000 /* where most probably none comes */
#define GRACE_NS (10000 * NS_PER_MS) /* from SIGTERM to SIGKILL: a bundle is made meanwhile */

/* --- in the child --- */

static _Noreturn void die(const char *what)
{
    (void)say_line(stderr, "rocmcrash: try: %s: %s", what, strerror(errno));
    _exit(125);
}

static void take_streams(const int output[2])
{
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 || dup2(output[1], STDOUT_FILENO) < 0 ||
        dup2(output[1], STDERR_FILENO) < 0)
        _exit(125);
}

/* rocmcrash with the plan's command; NULL and errno: there is no memory. The caller's. */
static const char **command_under_us(const struct try_plan *plan, const char *rocmcrash)
{
    size_t n = 0;
    char **own = plan->change != NULL ? change_command(plan->change, plan->command) : NULL;
    char *const *wanted = plan->change != NULL ? own : plan->command;
    const char *const before[] = {rocmcrash, "--always", "--quiet", "--hash-budget=0s",
                                  "--output-dir", plan->folder, "--"};
    enum { BEFORE = sizeof before / sizeof before[0] };
    while (wanted != NULL && wanted[n] != NULL)
        n++;
    const char **argv = wanted != NULL ? calloc(BEFORE + n + 1, sizeof *argv) : NULL;
    if (argv == NULL)
        return NULL;
    memcpy(argv, before, sizeof before);
    for (size_t i = 0; i < n; i++)
        argv[BEFORE + i] = wanted[i];
    return argv;
}

static _Noreturn void exec_run(const struct try_plan *plan)
{
    char rocmcrash[FS_PATH_MAX];
    if (own_path_find("rocmcrash", X_OK, rocmcrash, sizeof rocmcrash) < 0)
        die("cannot start");
    const char **argv = command_under_us(plan, rocmcrash);
    if (argv == NULL)
        die("cannot start");
    if (plan->cwd[0] != '\0' && chdir(plan->cwd) != 0)
        die("cannot go to the run's folder");
    if (plan->change != NULL && (errno = -change_hand_over(plan->change)) != 0)
        die("cannot make the change");
    (void)execv(rocmcrash, (char *const *)(uintptr_t)argv);
    die("cannot run rocmcrash");
}

static pid_t start(const struct try_plan *plan, int *ret_output)
{
    int output[2];
    if (pipe2(output, O_CLOEXEC) != 0)
        return -errno;
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        (void)setpgid(0, 0);
        (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
        (void)signal(SIGINT, SIG_DFL);
        (void)signal(SIGTERM, SIG_DFL);
        verb_put_back_child_signal();
        if (getppid() != parent)
            _exit(125);
        take_streams(output);
        exec_run(plan);
    }
    int r = pid < 0 ? -errno : 0;
    (void)close(output[1]);
    if (pid > 0)
        (void)setpgid(pid, pid);
    if (pid > 0)
        *ret_output = output[0];
    else
        (void)close(output[0]);
    return pid > 0 ? pid : r;
}

/* --- while it runs --- */

struct watch {
    pid_t pid;
    int output;        /* -1: at its end */
    uint64_t start_ns, asked_ns; /* to end; 0 = not */
    bool killed;
};

/* The last bytes of everything that was read. */
static void keep_tail(struct try_run *run, const char *bytes, size_t n)
{
    size_t have = strlen(run->tail);
    size_t most = sizeof run->tail - 1;
    size_t taken = n < most ? n : most;
    size_t kept = have < most - taken ? have : most - taken;
    memmove(run->tail, run->tail + have - kept, kept);
    memcpy(run->tail + kept, bytes + n - taken, taken);
    run->tail[kept + taken] = '\0';
}

/* Waits for output or for a tick. */
static void read_output(struct watch *w, struct try_run *run)
{
    char bytes[65536];
    struct pollfd wait = {.fd = w->output, .events = POLLIN};
    if (poll(&wait, w->output >= 0, TICK_MS) <= 0)
        return;
    ssize_t n = read(w->output, bytes, sizeof bytes);
    for (ssize_t i = 0; i < n; i++)
        run->lines += bytes[i] == '\n';
    if (n > 0)
        keep_tail(run, bytes, (size_t)n);
    if (n == 0) {
        (void)close(w->output);
        w->output = -1;
    }
}

/* The command gets SIGTERM through rocmcrash, which then makes the bundle. What does not end is killed
 * with everything of its group. */
static void ask_to_end(struct watch *w)
{
    uint64_t now = clock_mono_ns();
    if (w->asked_ns == 0) {
        w->asked_ns = now;
        (void)kill(w->pid, SIGTERM);
    } else if (!w->killed && now - w->asked_ns > GRACE_NS) {
        w->killed = true;
        (void)kill(-w->pid, SIGKILL);
    }
}

static void look_at_clock(struct watch *w, struct try_run *run, const struct try_plan *plan)
{
    const struct try_limits *limits = &plan->limits;
    uint64_t age = clock_mono_ns() - w->start_ns;
    if (w->asked_ns == 0) {
        run->seconds = (double)age / 1e9;
        run->ended_by_us = !plan->tick(plan->context, run->seconds);
        run->failed_late = limits->fail_after_ns > 0 && age > limits->fail_after_ns;
        run->outlived = !run->failed_late && limits->pass_after_ns > 0 && age > limits->pass_after_ns;
    }
    if (run->ended_by_us || run->failed_late || run->outlived)
        ask_to_end(w);
}

/* A grandchild may hold the pipe for long: what is there now is read, its end is not waited for. */
static void read_rest(struct watch *w, struct try_run *run)
{
    uint64_t lines;
    if (w->output < 0 || fcntl(w->output, F_SETFL, O_NONBLOCK) != 0)
        return;
    do {
        lines = run->lines;
        read_output(w, run);
    } while (w->output >= 0 && run->lines > lines);
    if (w->output >= 0)
        (void)close(w->output);
}

/* It could not start the command, which then left no bundle; or the command ended with this status. */
static bool is_rocmcrashs_own(int status)
{
    return WIFEXITED(status) && WEXITSTATUS(status) >= 125 && WEXITSTATUS(status) <= 127;
}

static bool group_lives(pid_t group)
{
    while (waitpid(-group, NULL, WNOHANG) > 0)
        ;
    return kill(-group, 0) == 0;
}

/* Workers that outlive their command hold memory of the GPU, which the next run would miss. The finisher and the
 * relay have sessions of their own. A group's number is not given away while a process has it. */
static void end_group(pid_t group)
{
    uint64_t asked_ns = clock_mono_ns();
    bool killed = false;
    while (group_lives(group) && clock_mono_ns() - asked_ns < 2 * GRACE_NS) {
        if (!killed && clock_mono_ns() - asked_ns > GRACE_NS) {
            killed = true;
            (void)kill(-group, SIGKILL);
        }
        (void)poll(NULL, 0, TICK_MS);
    }
}

struct bundle_wait {
    const struct try_plan *plan;
    const struct try_run *run;
};

static bool is_still_wanted(void *context)
{
    const struct bundle_wait *w = context;
    return w->plan->tick(w->plan->context, w->run->seconds);
}

static void find_bundle(struct try_run *run, const struct try_plan *plan, bool killed)
{
    struct bundle_wait context = {.plan = plan, .run = run};
    bool improbable = killed || is_rocmcrashs_own(run->wait_status);
    const struct again_wait wait = {.milliseconds = improbable ? NO_BUNDLE_MS : AGAIN_BUNDLE_MS,
                                    .go_on = is_still_wanted, .context = &context};
    if (again_wait_for_bundle(plan->folder, &wait, run->bundle, sizeof run->bundle) < 0)
        run->bundle[0] = '\0';
    else
        name_map_gather(run->bundle, plan->campaign);
}

static void keep_last_line(char *text)
{
    size_t len = strlen(text);
    while (len > 0 && text[len - 1] == '\n')
        text[--len] = '\0';
    char *newline = strrchr(text, '\n');
    if (newline != NULL)
        memmove(text, newline + 1, strlen(newline));
}

int try_run(struct try_run *ret, const struct try_plan *plan, struct rc_err *err)
{
    struct watch w = {.start_ns = clock_mono_ns(), .output = -1};
    *ret = (struct try_run){.wait_status = 0};
    again_adopt_orphans();
    w.pid = start(plan, &w.output);
    if (w.pid < 0)
        return rc_err_errno(err, w.pid, "cannot start a run");
    for (;;) {
        siginfo_t info = {.si_pid = 0};
        ret->end_unknown = waitid(P_PID, (id_t)w.pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 && errno != EINTR;
        if (info.si_pid == w.pid || ret->end_unknown)
            break;
        read_output(&w, ret);
        look_at_clock(&w, ret, plan);
    }
    if (w.asked_ns == 0)
        ret->seconds = (double)(clock_mono_ns() - w.start_ns) / 1e9;
    if (!ret->end_unknown) {
        (void)kill(-w.pid, SIGTERM); /* while its leader is a zombie, the number is the group's */
        (void)waitpid(w.pid, &ret->wait_status, 0);
        end_group(w.pid);
    }
    read_rest(&w, ret);
    find_bundle(ret, plan, w.killed);
    ret->not_started = ret->bundle[0] == '\0' && is_rocmcrashs_own(ret->wait_status);
    if (ret->not_started)
        keep_last_line(ret->tail);
    return 0;
}

int try_make_folder(const char *output_dir, const char *verb, char *ret_here, char *ret_folder,
                    struct rc_err *err)
{
    char here[FS_PATH_MAX] = "";
    char stamp[32] = "";
    const char *wanted = output_dir != NULL ? output_dir : ".";
    time_t now = time(NULL);
    struct tm utc;
    if (gmtime_r(&now, &utc) != NULL)
        (void)strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%SZ", &utc);
    if (realpath(wanted, here) == NULL ||
        snprintf(ret_folder, FS_PATH_MAX, "%s/rocmcrash-%s-%s-XXXXXX", here, verb, stamp) >= FS_PATH_MAX ||
        mkdtemp(ret_folder) == NULL)
        return rc_err_errno(err, -errno, "cannot write into '%s'", wanted);
    if (ret_here != NULL)
        (void)snprintf(ret_here, FS_PATH_MAX, "%s", here);
    return 0;
}
