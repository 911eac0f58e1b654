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
#include "cli/option.h"
#include "launch/finish.h"
#include "launch/options.h"
#include "launch/snapshot.h"
#include "launch/supervisor.h"
#include "record/shared.h"

#define SNAP_FAILED 2 /* as other verbs that could not do it */
#define SNAP_HASH_MS 5000

struct snap_line {
    bool tree, help;
    struct launch_options launch;
};

static const struct option_def snap_options[] = {
    {"tree", 0, NULL, "its descendants, too", option_on, offsetof(struct snap_line, tree)},
    {"output-dir", 'o', "DIR", "where the bundle goes (default: here)",
     option_text, offsetof(struct snap_line, launch.output_dir)},
    {"json", 0, NULL, "print the bundle as a JSON object",
     option_on, offsetof(struct snap_line, launch.json)},
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
    (void)printf("Usage: rocmcrash snap [OPTIONS] PID\n\n"
                 "Makes a bundle of a running process: what its threads do and wait for, its\n"
                 "memory and the GPU's. The process goes on; it is held for 50 ms at most.\n\n"
                 "Options:\n");
    options_help(snap_options);
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
    if (options->json && options->finisher != NULL)
        (void)execv(options->finisher, argv);
    (void)say_line(stderr, "rocmcrash: %s", err->msg);
    return SNAP_FAILED;
}

static int take_and_bundle(const struct snap_line *line, pid_t pid)
{
    struct rc_err err = {""};
    int shared_fd = -1;
    struct shared *shared = shared_create(&shared_fd, &err);
    const struct snapshot_options options = {.pid = pid,
                                             .tree = line->tree,
                                             .why = "asked for by rocmcrash snap",
                                             .output_dir = line->launch.output_dir};
    if (shared == NULL || snapshot_take(shared, &options, &err) < 0)
        return tell_failure(&line->launch, &err);
    return make_bundle(shared_fd, &line->launch);
}

int verb_snap(int argc, char *argv[], const char *site, const char *finisher)
{
    struct snap_line line = {.launch = {.on_stdout = true,
                                        .finish_within_ms = 5000,
                                        .hash_budget_ms = SNAP_HASH_MS,
                                        .site = site,
                                        .finisher = finisher}};
    struct rc_err err = {""};
    uint64_t pid = 0;
    int at = options_parse_around(snap_options, &line, argc, argv, &err);
    if (at < 0) {
        (void)say_line(stderr, "rocmcrash: %s", err.msg);
        return LAUNCH_EXIT_OWN_FAILURE;
    }
    if (line.help) {
        print_help();
        return 0;
    }
    if (at != argc - 1 || fs_parse_u64(argv[at], &pid) < 0 || pid == 0 || pid > INT32_MAX) {
        (void)fprintf(stderr, "rocmcrash: snap needs the number of one process\n");
        return LAUNCH_EXIT_OWN_FAILURE;
    }
    return take_and_bundle(&line, (pid_t)pid);
}
