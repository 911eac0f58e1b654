/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program that people start. Runs the target itself; every other verb is done by
 * rocmcrash-finish, which has the libraries for it.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/bounded.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/loader_variables.h"
#include "base/own_path.h"
#include "base/say.h"
#include "cli/config.h"
#include "cli/option.h"
#include "cli/own_arguments.h"
#include "cli/run_options.h"
#include "cli/suggest.h"
#include "cli/verb_snap.h"
#include "cli/verb_watch.h"
#include "cli/verbs.h"
#include "cli/version.h"
#include "launch/supervisor.h"
#include "launch/target.h"

#define ANCESTORS_MAX 64
#define FOLDER_MS 2000
#define STACK_BYTES ((size_t)256 << 10)
#define GUARD_BYTES 4096
#define SNAP "snap"
#define WATCH "watch"

static const struct {
    const char *name, *usage, *help;
    bool has_options; /* then the verb prints its own --help */
} verbs[] = {
    {"show", "show BUNDLE...", "print the summary of a bundle", true},
    {"issue", "issue BUNDLE", "print the text of an issue for its tracker", true},
    {"open", "open BUNDLE", "show a bundle as a page in the browser", true},
    {"list", "list [DIR...]", "bundles and unfinished runs", true},
    {"verify", "verify BUNDLE...", "check every hash, and that no path leads out", true},
    {"triage", "triage BUNDLE|DIR|LOG...", "judge a bundle, or text that somebody pasted",
     true},
    {"diff", "diff A B", "what differs between bundles, likely causes first", true},
    {"fleet", "fleet DIR|BUNDLE...", "which rank of a job fell first, and which followed", true},
    {"doctor", "doctor [-- COMMAND]", "look at this machine before anything fails", true},
    {"export", "export BUNDLE", "the run for Perfetto, its allocator for PyTorch", true},
    {"stacks", "stacks PID", "where the Python threads of a hanging program are", true},
    {SNAP, "snap PID", "bundle a running process; it goes on", true},
    {WATCH, "watch PID", "look after a process that is running already", true},
    {"complete", "complete BUNDLE", "as root: add the kernel log of the run", true},
    {"reveal", "reveal BUNDLE [FILE]", "say what pseudonyms of your bundle stand for", true},
    {"redact", "redact BUNDLE|LOG", "clean a bundle, or text before it is pasted", true},
    {"recover", "recover", "bundle runs that did not finish", true},
    {"rerun", "rerun BUNDLE|-- COMMAND", "run it again, with the runtime's own trace", true},
    {"try", "try BUNDLE|-- COMMAND", "run it under single changes to find one that helps", true},
    {"fit", "fit OPTIONS -- COMMAND", "find the largest value that still runs", true},
    {"collectors", "collectors", "list what is collected", true},
    {"config", "config", "the settings in force, and where each comes from", true},
    {"release", "release PID", "let go of a process, so that gdb -p can attach", true},
    {"help", "help [VERB]", "print this, or the help of a verb", false},
};

static void print_help(void)
{
    help_text(
        "Usage: rocmcrash [OPTIONS] -- COMMAND [ARGUMENT...]\n"
        "       rocmcrash VERB ...\n\n"
        "Runs COMMAND unchanged. When it dies of a GPU memory failure or a signal, leaves\n"
        "one .tar.gz that says what kind of failure it was and which number says so.\n"
        "\nOptions:\n");
    options_help(run_options);
    (void)printf("\nVerbs:\n");
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
        option_help_row(verbs[i].usage, verbs[i].help);
    help_text(
        "\n'rocmcrash help VERB' has a verb's options.\n"
        "\nExit status: COMMAND's own, or its signal; 125 when rocmcrash itself failed\n"
        "before COMMAND ran, 126 when COMMAND cannot be executed, 127 when it is not\n"
        "found. Inside a run of another rocmcrash, COMMAND is simply run: that one makes\n"
        "the bundle.\n");
}

static const char *find_finisher(void)
{
    static char path[FS_PATH_MAX];
    return own_path_find("rocmcrash-finish", X_OK, path, sizeof path) == 0 ? path : NULL;
}

/* Distributions install libraries without the permission to execute them. */
static const char *find_ledger_library(void)
{
    static char path[FS_PATH_MAX];
    return own_path_find("librocmcrash-ledger.so", R_OK, path, sizeof path) == 0 ? path : NULL;
}

/* The folder, as Python wants it. */
static const char *find_python_hook(void)
{
    static char path[FS_PATH_MAX];
    if (own_path_find("python/rocmcrash_hook.py", R_OK, path, sizeof path) < 0)
        return NULL;
    *strrchr(path, '/') = '\0';
    return path;
}

static const char *verb_name(size_t index)
{
    return index < sizeof verbs / sizeof verbs[0] ? verbs[index].name : NULL;
}

static bool is_verb(const char *word)
{
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
        if (strcmp(word, verbs[i].name) == 0)
            return true;
    return false;
}

static bool asks_for_help(const char *word)
{
    return word != NULL && (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0);
}

/* `verify --help`: the help of a verb without options of its own. */
static bool help_of_verb(const char *verb, const char *word)
{
    if (!asks_for_help(word))
        return false;
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        if (strcmp(verb, verbs[i].name) != 0)
            continue;
        if (verbs[i].has_options)
            return false;
        (void)say_line(stdout, "Usage: rocmcrash %s", verbs[i].usage);
        (void)putchar('\n');
        (void)say_line(stdout, "%s", verbs[i].help);
    }
    return true;
}

/* The settings below the command line. 0, or -EINVAL after a message. */
static int take_settings(struct command_line *line)
{
    static struct config config;
    struct rc_err err = {""};
    int r = config_load(&config, run_options, run_defaults, &err);
    for (size_t i = 0; i < CONFIG_FILES; i++)
        if (config.files[i].state == CONFIG_REFUSED)
            (void)say_line(stderr, "rocmcrash: '%s' is not read: %s", config.files[i].path,
                           config.files[i].reason);
    if (r == 0)
        r = config_apply(&config, line, &err);
    if (r < 0)
        (void)say_line(stderr, "rocmcrash: %s", err.msg);
    return r;
}

/* A verb reads one setting only, the site's folder. `config` itself reports wrong settings. */
static int settle_for_verb(char *const argv[])
{
    struct command_line line = {.launch = {.follow = FOLLOW_STDERR}};
    if (strcmp(argv[1], "config") == 0 || asks_for_help(argv[2]))
        return 0;
    int r = take_settings(&line);
    return r == 0 && setenv("ROCMCRASH_SITE", line.launch.site, 1) != 0 ? -errno : r;
}

static int run_verb(char *argv[])
{
    const char *finisher = find_finisher();
    if (finisher == NULL) {
        (void)fprintf(stderr, "rocmcrash: rocmcrash-finish is not installed beside rocmcrash\n");
        return LAUNCH_EXIT_OWN_FAILURE;
    }
    argv[0] = (char *)(uintptr_t)finisher;
    (void)loader_variables_put_aside(LOADER_VARIABLES_BUT_PATH);
    (void)execv(finisher, argv);
    (void)say_line(stderr, "rocmcrash: cannot run '%s': %s", finisher, strerror(errno));
    return LAUNCH_EXIT_OWN_FAILURE;
}

/* The two verbs that this program does itself. */
static int look_at_process(int argc, char *argv[])
{
    struct command_line line = {.launch = {.follow = true}};
    (void)signal(SIGCHLD, SIG_DFL); /* if it were ignored, we could not wait for the finisher */
    if (asks_for_help(argv[2]))
        line.launch.site = SITE_DEFAULT;
    else if (take_settings(&line) < 0)
        return LAUNCH_EXIT_OWN_FAILURE;
    return (strcmp(argv[1], SNAP) == 0 ? verb_snap : verb_watch)(argc - 2, argv + 2, line.launch.site,
                                                                 find_finisher());
}

/* The program that the process runs; "" where it may not be asked. */
static void exe_of(pid_t pid, char *out, size_t size)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%ld/exe", (long)pid);
    ssize_t n = pid > 0 ? readlink(path, out, size - 1) : -1;
    out[n > 0 ? n : 0] = '\0';
}

/* Not by the name in `stat`: a script called rocmcrash has it, too. */
static bool runs_rocmcrash(pid_t pid)
{
    char exe[FS_PATH_MAX];
    exe_of(pid, exe, sizeof exe);
    const char *name = strrchr(exe, '/');
    return exe[0] == '\0' ||
           (name != NULL && strncmp(name, "/rocmcrash", 10) == 0 && (name[10] == '\0' || name[10] == ' '));
}

/* "4711 (rocmcrash-T) S 4710 ...": the parent; and is the process one of a run of ours? */
static pid_t parent_of(pid_t pid, bool *ret_is_ours)
{
    char path[64];
    char stat[512];
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (fs_read_text(path, stat, sizeof stat) <= 0)
        return 0;
    const char *name = strchr(stat, '(');
    const char *end = strrchr(stat, ')');
    if (name == NULL || end == NULL || strlen(end) < 5)
        return 0;
    *ret_is_ours = (strncmp(name, "(rocmcrash)", 11) == 0 || strncmp(name, "(rocmcrash-T)", 13) == 0) &&
                   runs_rocmcrash(pid);
    return (pid_t)strtol(end + 4, NULL, 10);
}

/*
 * Part of a run that is observed already? Its supervisor is a subreaper and its tracer the parent
 * of the target (launch/tracer.h), so one of the two is an ancestor of the whole tree. Two that
 * hold, forward and bundle the same failure would be one too many.
 */
static bool inside_another_run(void)
{
    bool is_ours = false;
    pid_t pid = parent_of(getpid(), &is_ours);
    is_ours = false; /* that was ourselves */
    for (int depth = 0; depth < ANCESTORS_MAX && pid > 1 && !is_ours; depth++)
        pid = parent_of(pid, &is_ours);
    return is_ours;
}

/* The finisher is linked with the libraries, and prints their versions. */
static int print_version(void)
{
    static char name[] = "rocmcrash";
    static char verb[] = "version";
    char *argv[] = {name, verb, NULL};
    (void)say_line(stdout, "rocmcrash %s (%s)", ROCMCRASH_VERSION, version_commit);
    (void)say_line(stdout, "parts: finisher %s, ledger %s, Python hook %s",
                 find_finisher() != NULL ? "yes" : "missing",
                 find_ledger_library() != NULL ? "yes" : "missing",
                 find_python_hook() != NULL ? "yes" : "missing");
    (void)fflush(stdout);
    return find_finisher() != NULL ? run_verb(argv) : 0;
}

/* `help` or `help VERB`: the second is `VERB --help`. */
static int help(int argc, char *argv[])
{
    static char word[] = "--help";
    char *of_verb[] = {argv[0], argv[2], word, NULL};
    if (argc > 3) {
        (void)fprintf(stderr, "rocmcrash: usage: rocmcrash help [VERB]\n");
        return LAUNCH_EXIT_OWN_FAILURE;
    }
    if (argc < 3 || strcmp(argv[2], "help") == 0 || argv[2][0] == '-') {
        print_help();
        return 0;
    }
    if (!is_verb(argv[2])) {
        const char *near = suggest_near(argv[2], verb_name);
        if (near != NULL)
            (void)say_line(stderr, "rocmcrash: there is no verb '%s'; did you mean '%s'?", argv[2], near);
        else
            (void)say_line(stderr, "rocmcrash: there is no verb '%s' (see rocmcrash --help)", argv[2]);
        return LAUNCH_EXIT_OWN_FAILURE;
    }
    if (strcmp(argv[2], SNAP) == 0)
        return verb_snap(1, of_verb + 2, SITE_DEFAULT, NULL);
    if (strcmp(argv[2], WATCH) == 0)
        return verb_watch(1, of_verb + 2, SITE_DEFAULT, NULL);
    return help_of_verb(argv[2], word) ? 0 : run_verb(of_verb);
}

static bool is_no_folder(void *path)
{
    struct stat st;
    if (stat(path, &st) == 0)
        return !S_ISDIR(st.st_mode);
    return errno == ENOENT || errno == ENOTDIR;
}

/* The options that the user gave now: a setting of the site stops no run. */
static int check_options(const struct command_line *given)
{
    const char *site = given->launch.site;
    const char *program = given->launch.event_to;
    if (site != NULL && bounded_ask(is_no_folder, (void *)(uintptr_t)site, FOLDER_MS))
        (void)say_line(stderr, "rocmcrash: --site: there is no folder '%s'", site);
    else if (program != NULL && !suggest_finds(program))
        (void)say_line(stderr, "rocmcrash: --event-to: cannot find '%s'", program);
    else
        return 0;
    return LAUNCH_EXIT_OWN_FAILURE;
}

/* Said before a run of days, not after it. */
static int check_command(const struct command_line *line, char *argv[], int at)
{
    const char *folder = line->launch.output_dir;
    char hint[256];
    if (argv[1 + at] == NULL)
        (void)fprintf(stderr, "rocmcrash: no command given (see rocmcrash --help)\n");
    else if (folder != NULL && bounded_ask(is_no_folder, (void *)(uintptr_t)folder, FOLDER_MS))
        (void)say_line(stderr, "rocmcrash: --output-dir: there is no folder '%s'", folder);
    else if ((at == 0 || strcmp(argv[at], "--") != 0) &&
             suggest_command(argv + 1 + at, verb_name, hint, sizeof hint))
        (void)say_line(stderr, "rocmcrash: %s", hint);
    else
        return 0;
    return LAUNCH_EXIT_OWN_FAILURE;
}

static int run(int argc, char *argv[])
{
    struct command_line line = {.launch = {.follow = FOLLOW_STDERR}};
    struct rc_err err = {""};
    if (argc > 1 && is_verb(argv[1]) && help_of_verb(argv[1], argv[2]))
        return 0;
    if (argc > 1 && strcmp(argv[1], "help") == 0)
        return help(argc, argv);
    if (argc > 1 && (strcmp(argv[1], SNAP) == 0 || strcmp(argv[1], WATCH) == 0))
        return look_at_process(argc, argv);
    if (argc > 1 && is_verb(argv[1]))
        return settle_for_verb(argv) == 0 ? run_verb(argv) : LAUNCH_EXIT_OWN_FAILURE;
    int at = options_parse(run_options, &line, argc - 1, argv + 1, &err);
    if (at < 0) {
        (void)say_line(stderr, "rocmcrash: %s (see rocmcrash --help)", err.msg);
        return LAUNCH_EXIT_OWN_FAILURE;
    }
    if (line.help) {
        print_help();
        return 0;
    }
    if (line.version)
        return print_version();
    if (check_options(&line) != 0)
        return LAUNCH_EXIT_OWN_FAILURE;
    line = (struct command_line){.launch = {.follow = FOLLOW_STDERR}};
    if (take_settings(&line) < 0)
        return LAUNCH_EXIT_OWN_FAILURE;
    (void)options_parse(run_options, &line, argc - 1, argv + 1, &err); /* stronger; no error above */
    if (check_command(&line, argv, at) != 0)
        return LAUNCH_EXIT_OWN_FAILURE;
    if (inside_another_run())
        return target_exec_here(argv + 1 + at);
    line.launch.finisher = find_finisher();
    line.launch.ledger_library = find_ledger_library();
    line.launch.python_hook = find_python_hook();
    return launch_run(&line.launch, own_arguments_hide(argc, argv, 1 + at));
}

/* --- a stack of our own --- */

static struct {
    int argc, status;
    char **argv;
} call;

static void run_call(void)
{
    call.status = run(call.argc, call.argv);
}

/* The limit of the stack is the program's (ulimit -Hs), and may be too small for us and for the helpers, which
 * inherit this stack. It is not a second thread: the tracer and PR_SET_PDEATHSIG belong to one thread. */
static bool run_on_own_stack(void)
{
    static ucontext_t first, own; /* a kilobyte each */
    struct rlimit limit;
    if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= STACK_BYTES || getcontext(&own) != 0)
        return false;
    void *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED)
        return false;
    (void)mprotect(stack, GUARD_BYTES, PROT_NONE); /* what lies below it must not be overwritten */
    own.uc_stack = (stack_t){.ss_sp = stack, .ss_size = STACK_BYTES};
    own.uc_link = &first;
    makecontext(&own, run_call, 0);
    return swapcontext(&first, &own) == 0;
}

int main(int argc, char *argv[])
{
    call.argc = argc;
    call.argv = argv;
    if (!run_on_own_stack())
        run_call();
    return say_end() < 0 && call.status == 0 ? VERB_EXIT_FAILED : call.status;
}
