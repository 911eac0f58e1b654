/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/finish.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/say.h"
#include "launch/inject_python.h"
#include "record/shared.h"

/* Signals by which people and schedulers end a program that works. */
static bool is_polite_signal(int signo)
{
    return signo == SIGINT || signo == SIGTERM || signo == SIGHUP || signo == SIGPIPE;
}

static bool an_impact_but_for(const struct shared *s, int signo)
{
    for (uint32_t i = 0; i < s->impacts_used && i < SHARED_IMPACTS_MAX; i++)
        if (s->impacts[i].signo != 0 && s->impacts[i].signo != signo && !is_polite_signal(s->impacts[i].signo))
            return true;
    return false;
}

static bool a_process_crashed(const struct shared *s)
{
    return an_impact_but_for(s, 0);
}

static bool gpu_trouble_seen(const struct shared *s)
{
    return s->oom_matches > 0 || s->fault_matches > 0 || s->hang_matches > 0;
}

#define LIVED_ON_NS 60000000000u /* a program that lives on for longer after a request to end has ignored it */
#define KILLED_SOON_NS 5000000000u

/* It stood still, not only because it waited for a request, and was then ended by a signal. */
static bool was_ended_in_a_hang(const struct shared *s)
{
    uint64_t asked_ns = s->still_asked_ns;
    uint64_t end_ns = s->target_end_ns;
    return asked_ns != 0 && s->still_awaited_ns < s->still_began_ns &&
           (end_ns < asked_ns || end_ns - asked_ns < LIVED_ON_NS);
}

static bool is_stderr_unread(const struct shared *s, const struct launch_options *options)
{
    return options->follow != FOLLOW_NONE && s->run.follow_error[0] != '\0';
}

/* A shell ends with 128 and the signal of its child. 255 is Perl's, PHP's and ssh's error. */
static bool is_signal_of_a_child(int status)
{
    return status > 128 && status <= 128 + SIGRTMAX;
}

static enum finish_what by_what_was_seen(const struct shared *s, const struct launch_options *options)
{
    int status = s->target_status;
    if (s->target_state != TARGET_ENDED && s->supervisor_killed)
        return FINISH_BUNDLE;
    if (options->bundle_on == BUNDLE_ALWAYS)
        return FINISH_BUNDLE;
    bool kernel_saw = gpu_trouble_seen(s) || s->kernel_oom_matches > 0;
    if (s->status_unknown != 0)
        return kernel_saw || a_process_crashed(s) ? FINISH_BUNDLE : FINISH_NOTHING;
    /* Its output was not read, so a plain error cannot be told from another one. */
    if (s->run.attached_wall_ns != 0 && WIFEXITED(status) && WEXITSTATUS(status) != 0)
        return FINISH_BUNDLE;
    if (WIFSIGNALED(status)) {
        bool polite = is_polite_signal(WTERMSIG(status)) && !gpu_trouble_seen(s) &&
                      options->bundle_on != BUNDLE_ON_SIGNAL && !was_ended_in_a_hang(s);
        return polite && !a_process_crashed(s) ? FINISH_NOTHING : FINISH_BUNDLE;
    }
    if (WEXITSTATUS(status) != 0) {
        bool pattern = gpu_trouble_seen(s) || s->error_matches > 0 || s->kernel_oom_matches > 0;
        /* It may have swallowed PyTorch's exception, printed nothing and left by os._exit(). */
        bool silent = inject_python_saw_oom(s) || s->ledger_refusals > 0;
        /* More was printed than could be read. The part that was not read may hold a message. */
        bool unseen = s->stderr_carried.unseen > 0 || (s->ledger_in_use != 0 && is_stderr_unread(s, options));
        if (pattern || silent || unseen || a_process_crashed(s) || was_ended_in_a_hang(s))
            return FINISH_BUNDLE;
        if (s->plain_matches == 0)
            return is_signal_of_a_child(WEXITSTATUS(status)) ? FINISH_NOTHING : FINISH_HINT;
        return options->bundle_on == BUNDLE_ON_ERROR ? FINISH_BUNDLE : FINISH_HINT;
    }
    if (options->bundle_on == BUNDLE_ON_OOM && inject_python_saw_oom(s))
        return FINISH_BUNDLE;
    if (s->oom_matches == 0)
        return FINISH_NOTHING;
    return options->bundle_on == BUNDLE_ON_OOM ? FINISH_BUNDLE : FINISH_RECORD;
}

/* A guess, which costs no file: the finisher reads the variables, and writes no record where it finds no job. */
static bool may_be_rank(void)
{
    for (char **entry = environ; *entry != NULL; entry++) {
        size_t len = strcspn(*entry, "=");
        if ((len >= 4 && strncmp(*entry + len - 4, "RANK", 4) == 0) || strncmp(*entry, "SLURM_PROCID=", 13) == 0 ||
            strncmp(*entry, "JOB_COMPLETION_INDEX=", 21) == 0)
            return true;
    }
    return false;
}

/* Open MPI 5.0.7 waits for no answer: it sends SIGKILL 0.3 s after SIGTERM, to the rank's whole process group. One
 * that outlives the request for longer may hang. */
static bool was_killed_by_open_mpi(const struct shared *s)
{
    const char *size = getenv("OMPI_COMM_WORLD_SIZE");
    if (size == NULL || strtoul(size, NULL, 10) < 2)
        return false;
    bool ended = s->target_state == TARGET_ENDED;
    uint64_t end_ns = ended && s->target_end_ns != 0 ? s->target_end_ns : clock_mono_ns();
    int status = s->target_status;
    bool killed = !ended || (s->status_unknown == 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    return killed && end_ns < s->asked_to_end_ns + KILLED_SOON_NS;
}

static bool was_asked_to_end(const struct shared *s)
{
    return s->asked_to_end_ns != 0 && clock_mono_ns() < s->asked_to_end_ns + LIVED_ON_NS;
}

enum finish_what finish_decide(const struct shared *s, const struct launch_options *options)
{
    enum finish_what what = by_what_was_seen(s, options);
    if (!was_asked_to_end(s) || !may_be_rank())
        return what;
    bool only_killed = was_killed_by_open_mpi(s) && options->bundle_on != BUNDLE_ALWAYS && options->bundle_on != BUNDLE_ON_SIGNAL &&
                       !gpu_trouble_seen(s) && s->kernel_oom_matches == 0 && !an_impact_but_for(s, SIGKILL) && !was_ended_in_a_hang(s);
    return what < FINISH_BUNDLE || only_killed ? FINISH_ENDED : what;
}

static const char *verb_of(enum finish_what what)
{
    return what == FINISH_RECORD ? "record" : what == FINISH_ENDED ? "ended" : "run";
}

#define FINISHER_STACK_BYTES (8u << 20)
#define APART_MS 1000

void finish_lift_limits(void)
{
    static const int limits[] = {RLIMIT_FSIZE, RLIMIT_AS, RLIMIT_DATA, RLIMIT_NOFILE};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        struct rlimit limit;
        if (getrlimit(limits[i], &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
            continue;
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(limits[i], &limit);
        /* CAP_SYS_RESOURCE would allow more; thousands of descriptors are enough. */
        struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
        if (limits[i] != RLIMIT_NOFILE && limit.rlim_max != RLIM_INFINITY)
            (void)setrlimit(limits[i], &none);
    }
    struct rlimit stack;
    if (getrlimit(RLIMIT_STACK, &stack) == 0 && stack.rlim_cur < FINISHER_STACK_BYTES) {
        struct rlimit enough = {FINISHER_STACK_BYTES, stack.rlim_max};
        if (stack.rlim_max < FINISHER_STACK_BYTES)
            enough.rlim_max = FINISHER_STACK_BYTES; /* if even that is too little, the finisher starts a
                                                     * thread with a larger stack */
        (void)setrlimit(RLIMIT_STACK, &enough);
    }
    (void)signal(SIGXFSZ, SIG_IGN);
}

/* The finisher has a session, limits and signals of its own. Of the streams it keeps stderr alone. */
static void stand_apart(const struct launch_options *options, bool silent)
{
    (void)umask(077); /* the caller's mask may deny even us access to what we create */
    finish_lift_limits();
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)signal(SIGCHLD, SIG_DFL);
    int null_fd = open("/dev/null", O_RDWR);
    (void)dup2(null_fd, STDIN_FILENO);
    /* Its words are ours and belong on stderr; stdout is the target's alone. */
    if ((!options->on_stdout && options->json_of == NULL) || silent)
        (void)dup2(silent ? null_fd : STDERR_FILENO, STDOUT_FILENO);
    if (silent)
        (void)dup2(null_fd, STDERR_FILENO);
}

/* `tells`: prints why it could not be executed. The loader reports missing libraries itself. */
static _Noreturn void exec_finisher(int shared_fd, const struct launch_options *options,
                                    enum finish_what what, bool silent, bool tells)
{
    static char here[PATH_MAX];
    char fd[16];
    char within[16];
    char hash[16];
    char full[16];
    (void)snprintf(fd, sizeof fd, "%d", shared_fd);
    (void)snprintf(within, sizeof within, "%u", options->finish_within_ms);
    (void)snprintf(hash, sizeof hash, "%u", options->hash_budget_ms);
    const char *argv[32] = {options->finisher, verb_of(what)};
    int argc = 2;
    argv[argc++] = "--shared-fd";
    argv[argc++] = fd;
    argv[argc++] = "--finish-within-ms";
    argv[argc++] = within;
    argv[argc++] = "--hash-budget-ms";
    argv[argc++] = hash;
    (void)snprintf(full, sizeof full, "%u", options->full_bundles);
    argv[argc++] = "--full-bundles";
    argv[argc++] = full;
    if (options->event_to != NULL) {
        argv[argc++] = "--event-to";
        argv[argc++] = options->event_to;
    }
    if (silent || options->quiet)
        argv[argc++] = "--quiet";
    if (options->json_of != NULL) {
        argv[argc++] = "--json";
        argv[argc++] = options->json_of;
    }
    if (options->colour != NULL) {
        argv[argc++] = "--color";
        argv[argc++] = options->colour;
    }
    if (options->preview)
        argv[argc++] = "--preview";
    if (options->keep != NULL) {
        argv[argc++] = "--keep";
        argv[argc++] = options->keep;
    }
    if (options->include != NULL) {
        argv[argc++] = "--include";
        argv[argc++] = options->include;
    }
    argv[argc++] = "--site";
    argv[argc++] = options->site;
    /* run.json has it too, but there bytes that are no UTF-8 are lost. */
    const char *output_dir = options->output_dir;
    if (output_dir == NULL)
        output_dir = getcwd(here, sizeof here);
    if (output_dir != NULL) {
        argv[argc++] = "--output-dir";
        argv[argc++] = output_dir;
    }
    argv[argc] = NULL;

    stand_apart(options, silent);
    (void)fcntl(shared_fd, F_SETFD, 0);
    (void)execv(options->finisher, (char *const *)argv);
    if (tells)
        (void)say_line(stderr, "rocmcrash: cannot run '%s': %s", options->finisher, strerror(errno));
    _exit(127);
}

/* The child has its own session, or is gone, when the pipe has no writer. */
static void wait_until_closed(const int pipe_fds[2])
{
    struct pollfd end = {.fd = pipe_fds[0]};
    int error = errno; /* of fork() */
    (void)close(pipe_fds[1]);
    if (end.fd >= 0)
        (void)poll(&end, 1, APART_MS); /* POLLHUP; a child that somebody stops must not hold us */
    (void)close(pipe_fds[0]);
    errno = error;
}

pid_t finish_start(int shared_fd, const struct launch_options *options, enum finish_what what,
                   enum loader_variables aside, bool silent)
{
    if (options->finisher == NULL) {
        errno = ENOENT;
        return -1;
    }
    int apart[2] = {-1, -1};
    (void)pipe2(apart, O_CLOEXEC);
    pid_t pid = fork();
    if (pid == 0) {
        (void)setsid();
        (void)close(apart[0]);
        (void)close(apart[1]);
        (void)loader_variables_put_aside(aside);
        /* The caller tries again with fewer variables put aside; only the last attempt prints. */
        bool last = aside == LOADER_VARIABLES_NONE;
        exec_finisher(shared_fd, options, what, silent, last && !silent && !options->quiet);
    }
    wait_until_closed(apart);
    return pid;
}
