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
#include <unistd.h>

#include "base/err.h"
#include "base/fs.h"
#include "base/own_path.h"
#include "cli/option.h"
#include "cli/own_arguments.h"
#include "launch/supervisor.h"

#define ANCESTORS_MAX 64
#define RELEASE_USAGE "release PID"
#define RELEASE_HELP "let go of a traced process, so that gdb -p can attach"

struct command_line {
    struct launch_options launch;
    bool help, version;
};

static int set_help(void *target, const char *value, struct rc_err *err)
{
    (void)value;
    (void)err;
    ((struct command_line *)target)->help = true;
    return 0;
}

static int set_version(void *target, const char *value, struct rc_err *err)
{
    (void)value;
    (void)err;
    ((struct command_line *)target)->version = true;
    return 0;
}

static int set_output_dir(void *target, const char *value, struct rc_err *err)
{
    (void)err;
    ((struct command_line *)target)->launch.output_dir = value;
    return 0;
}

static int set_trace(void *target, const char *value, struct rc_err *err)
{
    static const struct {
        const char *name;
        enum trace_mode mode;
    } modes[] = {
        {"auto", TRACE_AUTO}, {"eager", TRACE_EAGER}, {"late", TRACE_LATE}, {"none", TRACE_NONE}};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        if (strcmp(value, modes[i].name) == 0) {
            ((struct command_line *)target)->launch.trace = modes[i].mode;
            return 0;
        }
    }
    return rc_err_set(err, -EINVAL, "--trace is auto, eager, late or none, not '%s'", value);
}

static int set_bundle_on(void *target, const char *value, struct rc_err *err)
{
    struct launch_options *launch = &((struct command_line *)target)->launch;
    if (strcmp(value, "failure") == 0)
        launch->bundle_on = BUNDLE_ON_FAILURE;
    else if (strcmp(value, "oom") == 0)
        launch->bundle_on = BUNDLE_ON_OOM;
    else if (strcmp(value, "always") == 0)
        launch->bundle_on = BUNDLE_ALWAYS;
    else
        return rc_err_set(err, -EINVAL, "--bundle-on is failure, oom or always, not '%s'", value);
    return 0;
}

static int set_always(void *target, const char *value, struct rc_err *err)
{
    (void)value;
    return set_bundle_on(target, "always", err);
}

static int set_no_follow(void *target, const char *value, struct rc_err *err)
{
    (void)value;
    (void)err;
    ((struct command_line *)target)->launch.follow = false;
    return 0;
}

static int set_orphan(void *target, const char *value, struct rc_err *err)
{
    struct launch_options *launch = &((struct command_line *)target)->launch;
    if (strcmp(value, "keep") != 0 && strcmp(value, "kill") != 0)
        return rc_err_set(err, -EINVAL, "--orphan is kill or keep, not '%s'", value);
    launch->keep_orphan = strcmp(value, "keep") == 0;
    return 0;
}

static int set_quiet(void *target, const char *value, struct rc_err *err)
{
    (void)value;
    (void)err;
    ((struct command_line *)target)->launch.quiet = true;
    return 0;
}

static int set_finish_within(void *target, const char *value, struct rc_err *err)
{
    if (option_milliseconds(value, &((struct command_line *)target)->launch.finish_within_ms) < 0)
        return rc_err_set(err, -EINVAL, "--finish-within is a time like 5s, not '%s'", value);
    return 0;
}

static int set_hash_budget(void *target, const char *value, struct rc_err *err)
{
    if (option_milliseconds(value, &((struct command_line *)target)->launch.hash_budget_ms) < 0)
        return rc_err_set(err, -EINVAL, "--hash-budget is a time like 60s, not '%s'", value);
    return 0;
}

static int set_inject(void *target, const char *value, struct rc_err *err)
{
    static const struct {
        const char *name;
        enum inject_what what;
    } choices[] = {{"none", INJECT_NONE},
                   {"python", INJECT_PYTHON},
                   {"ledger", INJECT_LEDGER},
                   {"all", INJECT_ALL}};
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
        if (strcmp(value, choices[i].name) == 0) {
            ((struct command_line *)target)->launch.inject = choices[i].what;
            return 0;
        }
    }
    return rc_err_set(err, -EINVAL, "--inject is none, python, ledger or all, not '%s'", value);
}

static int set_torch_history(void *target, const char *value, struct rc_err *err)
{
    (void)value;
    (void)err;
    ((struct command_line *)target)->launch.torch_history = true;
    return 0;
}

static int set_sysroot(void *target, const char *value, struct rc_err *err)
{
    (void)target;
    (void)err;
    fs_set_sysroot(value);
    return setenv("ROCMCRASH_SYSROOT", value, 1) == 0 ? 0 : -errno;
}

/* Said now, not when the bundle is made: that may be in a week. */
static int set_keep(void *target, const char *value, struct rc_err *err)
{
    static const char *const words[] = {
        "home", "user", "host", "ip", "mac", "id", "email", "account", "path", "homes", "users",
        "hosts", "ips", "macs", "ids", "emails", "accounts", "paths", "hostnames", "usernames",
        "addresses", "serials", "mails", "folders"};
    for (const char *at = value; *at != '\0';) {
        size_t len = strcspn(at, ",");
        bool known = len == 0;
        for (size_t i = 0; !known && i < sizeof words / sizeof words[0]; i++)
            known = strlen(words[i]) == len && strncmp(words[i], at, len) == 0;
        if (!known)
            return rc_err_set(err, -EINVAL,
                              "--keep is a list of homes, users, hosts, ips, macs, ids, emails, "
                              "accounts, paths; not '%.*s'",
                              (int)(len < 40 ? len : 40), at);
        at += len + (at[len] == ',');
    }
    ((struct command_line *)target)->launch.keep = value;
    return 0;
}

static int set_include(void *target, const char *value, struct rc_err *err)
{
    (void)err;
    ((struct command_line *)target)->launch.include = value;
    return 0;
}

static int set_preview(void *target, const char *value, struct rc_err *err)
{
    (void)value;
    (void)err;
    ((struct command_line *)target)->launch.preview = true;
    return 0;
}

static const struct option_def option_table[] = {
    {"output-dir", 'o', "DIR", "where the bundle goes (default: the current directory)",
     set_output_dir},
    {"bundle-on", 0, "WHEN", "failure (default), oom (also one the program survived), always",
     set_bundle_on},
    {"always", 0, NULL, "the same as --bundle-on=always", set_always},
    {"finish-within", 0, "TIME", "have the bundle ready after this time (default 5s)",
     set_finish_within},
    {"hash-budget", 0, "TIME", "further time for hashing model files (default 60s)",
     set_hash_budget},
    {"trace", 0, "MODE", "auto (default), eager, late or none: how processes are observed",
     set_trace},
    {"no-follow", 0, NULL, "put nothing between the program and its stderr", set_no_follow},
    {"orphan", 0, "WHAT", "kill (default) or keep the program when rocmcrash gets SIGKILL",
     set_orphan},
    {"inject", 0, "WHAT", "all (default), python, ledger or none: what is put into the program",
     set_inject},
    {"torch-history", 0, NULL, "let PyTorch record where each block was allocated (slower)",
     set_torch_history},
    {"quiet", 'q', NULL, "print nothing after the program has ended", set_quiet},
    {"keep", 0, "KINDS", "do not replace these: hosts, users, homes, ips, paths, ...", set_keep},
    {"include", 0, "NAMES", "keep files that are not text in the bundle (devcoredump, all, ...)",
     set_include},
    {"preview", 0, NULL, "show each replacement before the bundle is written", set_preview},
    {"sysroot", 0, "DIR", "read /sys, /dev/kmsg and machine-wide /proc files below DIR",
     set_sysroot},
    {"help", 'h', NULL, "print this and exit", set_help},
    {"version", 'V', NULL, "print the version and exit", set_version},
    {NULL, 0, NULL, NULL, NULL},
};

static const struct {
    const char *name, *usage, *help;
    bool has_options; /* then the verb prints its own --help */
} verbs[] = {
    {"show", "show [--all] BUNDLE", "print the summary of a bundle", false},
    {"verify", "verify BUNDLE", "check every hash, and that nothing leads outside", false},
    {"triage", "triage [OPTIONS] BUNDLE|LOG...", "judge a bundle, or text that somebody pasted",
     true},
    {"diff", "diff [OPTIONS] A B", "what differs between two bundles, likely causes first", true},
    {"doctor", "doctor [OPTIONS] [-- CMD]", "look at this machine before anything fails", true},
    {"export", "export --trace BUNDLE", "the run as a trace for Perfetto", true},
    {"stacks", "stacks PID", "where every Python thread of a hanging program is", false},
    {"complete", "complete BUNDLE", "as root: add the kernel log of the run's window", false},
    {"redact", "redact [OPTIONS] BUNDLE|LOG", "clean a bundle, or text before it is pasted", true},
    {"recover", "recover", "bundle runs that did not finish", false},
    {"rerun", "rerun [OPTIONS] BUNDLE|-- CMD", "run it again, with the runtime's own trace", true},
    {"collectors", "collectors", "list what is collected", false},
};

static void print_help(void)
{
    (void)printf(
        "Usage: rocmcrash [OPTIONS] -- COMMAND [ARGUMENT...]\n"
        "       rocmcrash VERB ...\n\n"
        "Runs COMMAND unchanged. When it dies of a GPU memory failure or a signal, leaves one\n"
        ".tar.gz that says what kind of failure it was and which number says so.\n\nOptions:\n");
    options_help(option_table);
    (void)printf("\nVerbs:\n");
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
        (void)printf("  %-30s %s\n", verbs[i].usage, verbs[i].help);
    (void)printf("  %-30s %s\n", RELEASE_USAGE, RELEASE_HELP);
    (void)printf(
        "\n'rocmcrash VERB --help' has a verb's options.\n"
        "\nExit status: COMMAND's own, or its signal; 125 when rocmcrash itself failed before\n"
        "COMMAND ran, 126 when COMMAND cannot be executed, 127 when it is not found.\n"
        "Inside a run of another rocmcrash, COMMAND is simply run: that one makes the bundle.\n");
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

static bool is_verb(const char *word)
{
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
        if (strcmp(word, verbs[i].name) == 0)
            return true;
    return false;
}

/* `show --help`: of a verb that has no options of its own to tell of. */
static bool help_of_verb(const char *verb, const char *word)
{
    if (word == NULL || (strcmp(word, "--help") != 0 && strcmp(word, "-h") != 0))
        return false;
    if (strcmp(verb, "release") == 0)
        (void)printf("Usage: rocmcrash %s\n\n%s\n", RELEASE_USAGE, RELEASE_HELP);
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        if (strcmp(verb, verbs[i].name) != 0)
            continue;
        if (verbs[i].has_options)
            return false;
        (void)printf("Usage: rocmcrash %s\n\n%s\n", verbs[i].usage, verbs[i].help);
    }
    return true;
}

static int run_verb(char *argv[])
{
    const char *finisher = find_finisher();
    if (finisher == NULL) {
        (void)fprintf(stderr, "rocmcrash: rocmcrash-finish is not installed beside rocmcrash\n");
        return LAUNCH_EXIT_OWN_FAILURE;
    }
    argv[0] = (char *)(uintptr_t)finisher;
    (void)execv(finisher, argv);
    (void)fprintf(stderr, "rocmcrash: cannot run '%s': %s\n", finisher, strerror(errno));
    return LAUNCH_EXIT_OWN_FAILURE;
}

/* The tracer of the process, which must be a rocmcrash, is asked by SIGUSR2 to let it go. */
static int release(const char *word)
{
    uint64_t pid;
    char path[64];
    char status[4096];
    char exe[FS_PATH_MAX];
    if (word == NULL || fs_parse_u64(word, &pid) < 0 || pid == 0 || pid > INT32_MAX) {
        (void)fprintf(stderr, "rocmcrash: release needs the number of a process\n");
        return LAUNCH_EXIT_OWN_FAILURE;
    }
    (void)snprintf(path, sizeof path, "/proc/%llu/status", (unsigned long long)pid);
    (void)fs_read_text(path, status, sizeof status);
    const char *line = strstr(status, "\nTracerPid:\t");
    long tracer = line != NULL ? strtol(line + 12, NULL, 10) : 0;
    (void)snprintf(path, sizeof path, "/proc/%ld/exe", tracer);
    ssize_t n = tracer > 0 ? readlink(path, exe, sizeof exe - 1) : -1;
    exe[n > 0 ? n : 0] = '\0';
    const char *name = strrchr(exe, '/');
    if (name == NULL || strcmp(name, "/rocmcrash") != 0) {
        (void)fprintf(stderr, "rocmcrash: process %llu is not traced by a rocmcrash\n",
                      (unsigned long long)pid);
        return 1;
    }
    if (sigqueue((pid_t)tracer, SIGUSR2, (union sigval){.sival_int = (int)pid}) != 0) {
        (void)fprintf(stderr, "rocmcrash: cannot reach tracer %ld: %s\n", tracer, strerror(errno));
        return 1;
    }
    return 0;
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
    *ret_is_ours = strncmp(name, "(rocmcrash)", 11) == 0 || strncmp(name, "(rocmcrash-T)", 13) == 0;
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

static int run_as_is(char *argv[])
{
    (void)execvp(argv[0], argv);
    int error = errno;
    (void)fprintf(stderr, "rocmcrash: cannot run '%s': %s\n", argv[0], strerror(error));
    return error == ENOENT ? 127 : 126;
}

int main(int argc, char *argv[])
{
    struct command_line line = {.launch = {.follow = true,
                                           .finish_within_ms = 5000,
                                           .hash_budget_ms = 60000,
                                           .inject = INJECT_ALL}};
    struct rc_err err = {""};
    if (argc > 1 && (is_verb(argv[1]) || strcmp(argv[1], "release") == 0) &&
        help_of_verb(argv[1], argv[2]))
        return 0;
    if (argc > 1 && is_verb(argv[1]))
        return run_verb(argv);
    if (argc > 1 && strcmp(argv[1], "release") == 0)
        return release(argv[2]);
    int at = options_parse(option_table, &line, argc - 1, argv + 1, &err);
    if (at < 0) {
        (void)fprintf(stderr, "rocmcrash: %s (see rocmcrash --help)\n", err.msg);
        return LAUNCH_EXIT_OWN_FAILURE;
    }
    if (line.help) {
        print_help();
        return 0;
    }
    if (line.version) {
        (void)printf("rocmcrash %s\n", ROCMCRASH_VERSION);
        return 0;
    }
    if (argv[1 + at] == NULL) {
        (void)fprintf(stderr, "rocmcrash: no command given (see rocmcrash --help)\n");
        return LAUNCH_EXIT_OWN_FAILURE;
    }
    if (inside_another_run())
        return run_as_is(argv + 1 + at);
    line.launch.finisher = find_finisher();
    line.launch.ledger_library = find_ledger_library();
    line.launch.python_hook = find_python_hook();
    return launch_run(&line.launch, own_arguments_hide(argc, argv, 1 + at));
}
