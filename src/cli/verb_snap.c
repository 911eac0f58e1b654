/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verb_snap.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fs.h"
#include "base/say.h"
#include "cli/live_process.h"
#include "cli/run_options.h"
#include "launch/await.h"
#include "launch/finish.h"
#include "launch/options.h"
#include "launch/snapshot.h"
#include "launch/supervisor.h"
#include "record/shared.h"

#define SNAP_FAILED 2 /* as other verbs that could not do it */
#define SNAP_HASH_MS 5000

#define TIMES_MAX 100
#define HELP_WIDTH 76

struct snap_line {
    bool tree, json, help;
    struct condition_list conditions;
    unsigned times; /* how many bundles at most, 0 = one */
    struct launch_options launch;
};

static int set_times(const struct option_def *option, void *field, const char *value, struct rc_err *err)
{
    return option_number(option, field, value, 1, TIMES_MAX, err);
}

static const struct option_def snap_options[] = {
    {"tree", 0, NULL, "its descendants, too", option_on, offsetof(struct snap_line, tree)},
    {"watch", 0, "COND", "wait for vram>90%, gtt_growth>1GiB/min, idle>120s, ...",
     option_conditions_outside, offsetof(struct snap_line, conditions)},
    {"times", 0, "N", "with --watch: a bundle at each crossing, N at most (default 1)",
     set_times, offsetof(struct snap_line, times)},
    {"output-dir", 'o', "DIR", "where the bundle goes (default: here)",
     option_text, offsetof(struct snap_line, launch.output_dir)},
    {"json", 0, NULL, "print the bundle as a JSON object",
     option_on, offsetof(struct snap_line, json)},
    {"quiet", 'q', NULL, "print nothing", option_on, offsetof(struct snap_line, launch.quiet)},
    {"color", 0, "WHEN", "auto (default), always or never",
     option_colour, offsetof(struct snap_line, launch.colour)},
    {"keep", 0, "KINDS", "do not replace these: hosts, users, homes, ips, paths, ...",
     option_text, offsetof(struct snap_line, launch.keep)},
    {"sysroot", 0, "DIR", "read /sys, /dev/kmsg and machine-wide /proc files below DIR",
     option_sysroot, 0},
    {"help", 'h', NULL, "print this and exit", option_on, offsetof(struct snap_line, help)},
    {NULL, 0, NULL, NULL, NULL, 0},
};

static void print_help(void)
{
    help_text("Usage: rocmcrash snap [OPTIONS] PID\n\n"
              "Makes a bundle of a running process: what its threads do and wait for, its\n"
              "memory and the GPU's. The process goes on; it is held for 50 ms at most.\n\n"
              "Options:\n");
    options_help(snap_options);
    char names[160];
    conditions_names(names, sizeof names);
    help_text("\nA condition compares one of these with < or >; sizes have a growth, too\n"
              "(rss_growth>1GiB/min). Several: 'vram>90%,idle>120s'. 'silent' and\n"
              "'step' are for --bundle-at of a run only.\n");
    for (char *at = names, *end; *at != '\0'; at = end) {
        end = strlen(at) > HELP_WIDTH ? (char *)memrchr(at, ' ', HELP_WIDTH) + 1 : at + strlen(at);
        (void)say_line(stdout, "  %.*s", (int)(end - at) - (*end != '\0'), at); /* without the blank */
    }
}

static int make_bundle(int shared_fd, const struct launch_options *options)
{
    int status = 0;
    pid_t pid =
        finish_start(shared_fd, options, FINISH_BUNDLE, LOADER_VARIABLES_BUT_PATH, false);
    if (pid < 0) {
        (void)say_line(stderr, "rocmcrash: cannot start rocmcrash-finish: %s", strerror(errno));
        return LAUNCH_EXIT_OWN_FAILURE;
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : SNAP_FAILED;
}

/* The finisher prints it: it has the library for that. */
static int tell_failure(const struct launch_options *options, const struct rc_err *err)
{
    char name[] = "rocmcrash-finish";
    char verb[] = "failed";
    char of[] = "snap";
    char message[sizeof err->msg];
    char *argv[] = {name, verb, of, message, NULL};
    (void)snprintf(message, sizeof message, "%s", err->msg);
    if (options->json_of != NULL && options->finisher != NULL)
        (void)execv(options->finisher, argv);
    (void)say_line(stderr, "rocmcrash: %s", err->msg);
    return SNAP_FAILED;
}

static int take_and_bundle(const struct snap_line *line, pid_t pid, const char *why)
{
    struct rc_err err = {""};
    int shared_fd = -1;
    struct shared *shared = shared_create(&shared_fd, &err);
    const struct snapshot_options options = {.pid = pid,
                                             .tree = line->tree,
                                             .why = why,
                                             .output_dir = line->launch.output_dir};
    if (shared == NULL || snapshot_take(shared, &options, &err) < 0)
        return tell_failure(&line->launch, &err);
    return make_bundle(shared_fd, &line->launch);
}

static int report_end(const struct launch_options *options, struct await *await, unsigned made,
                      int reason)
{
    char what[CONDITION_TEXT_MAX];
    struct rc_err err = {""};
    if (!await_end(await, what, sizeof what))
        (void)rc_err_set(&err, -ENODATA, "--watch=%s: that was never known here", what);
    else if (reason < 0)
        (void)rc_err_set(&err, reason, "the process that reads the counters has ended");
    else if (made == 0)
        (void)rc_err_set(&err, -ESRCH, "the process ended before the condition held");
    if (made == 0)
        return tell_failure(options, &err);
    if (err.msg[0] != '\0')
        (void)say_line(stderr, "rocmcrash: %s", err.msg);
    return 0;
}

/* A child takes each snapshot, so that the next one begins as the first did. */
static int watch(const struct snap_line *line, pid_t pid)
{
    static struct await await;
    struct rc_err err = {""};
    char why[96];
    unsigned made = 0;
    int r = await_begin(&await, pid, &line->conditions, &err);
    if (r < 0)
        return tell_failure(&line->launch, &err);
    unsigned times = line->times > 0 ? line->times : 1;
    while (made < times && (r = await_next(&await, why, sizeof why)) > 0) {
        int status = 0;
        pid_t child = fork();
        if (child == 0)
            _exit(take_and_bundle(line, pid, why));
        while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
            ;
        if (child < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            (void)await_end(&await, why, sizeof why);
            return SNAP_FAILED;
        }
        made++;
    }
    return report_end(&line->launch, &await, made, r);
}

int verb_snap(int argc, char *argv[], const char *site, const char *finisher)
{
    struct snap_line line = {.launch = {.on_stdout = true,
                                        .finish_within_ms = 5000,
                                        .hash_budget_ms = SNAP_HASH_MS,
                                        .site = site,
                                        .finisher = finisher}};
    struct rc_err err = {""};
    pid_t pid = 0;
    int at = options_parse_around(snap_options, &line, argc, argv, &err);
    if (at < 0) {
        (void)say_line(stderr, "rocmcrash: %s", err.msg);
        return LAUNCH_EXIT_OWN_FAILURE;
    }
    if (line.help) {
        print_help();
        return 0;
    }
    line.launch.json_of = line.json ? "snap" : NULL;
    if (!live_process("snap", argc, argv, at, &pid))
        return LAUNCH_EXIT_OWN_FAILURE;
    if (line.times > 0 && line.conditions.count == 0) {
        (void)fprintf(stderr, "rocmcrash: --times needs --watch\n");
        return LAUNCH_EXIT_OWN_FAILURE;
    }
    if (line.conditions.count > 0)
        return watch(&line, pid);
    return take_and_bundle(&line, pid, "asked for by rocmcrash snap");
}
