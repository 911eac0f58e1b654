/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verb_watch.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/say.h"
#include "cli/live_process.h"
#include "cli/run_options.h"
#include "launch/options.h"
#include "launch/supervisor.h"

#define WATCH_HASH_MS 60000

struct watch_line {
    bool json, help;
    struct launch_options launch;
};

static const struct option_def watch_options[] = {
    {"hang-after", 0, "TIME", "bundle it, too, when it stands still for so long (say 300s); else never",
     option_time_ms, offsetof(struct watch_line, launch.hang_after_ms)},
    {"bundle-at", 0, "COND", "a bundle when vram>90%, gtt_growth>1GiB/min, idle>120s, ...",
     option_conditions_outside, offsetof(struct watch_line, launch.bundle_at)},
    {"output-dir", 'o', "DIR", "where bundles go (default: here)",
     option_text, offsetof(struct watch_line, launch.output_dir)},
    {"json", 0, NULL, "print a JSON object for each bundle",
     option_on, offsetof(struct watch_line, json)},
    {"quiet", 'q', NULL, "print nothing", option_on, offsetof(struct watch_line, launch.quiet)},
    {"color", 0, "WHEN", "auto (default), always or never",
     option_colour, offsetof(struct watch_line, launch.colour)},
    {"keep", 0, "KINDS", "do not replace these: hosts, users, homes, ips, paths, ...",
     option_text, offsetof(struct watch_line, launch.keep)},
    {"sysroot", 0, "DIR", "read /sys, /dev/kmsg and machine-wide /proc files below DIR",
     option_sysroot, 0},
    {"help", 'h', NULL, "print this and exit", option_on, offsetof(struct watch_line, help)},
    {NULL, 0, NULL, NULL, NULL, 0},
};

static void print_help(void)
{
    help_text("Usage: rocmcrash watch [OPTIONS] PID\n\n"
              "Looks after a process that is running already, and leaves a bundle when it ends\n"
              "badly. Ctrl-C stops the watching; the process goes on.\n\n"
              "Options:\n");
    options_help(watch_options);
    help_text("\nExit status: 0 when the process ended well, or the watching was ended; 1 when it\n"
              "ended badly, or in an unknown way; 2 when it could not be watched.\n");
}

int verb_watch(int argc, char *argv[], const char *site, const char *finisher)
{
    struct watch_line line = {.launch = {.finish_within_ms = 5000,
                                         .hash_budget_ms = WATCH_HASH_MS,
                                         .site = site,
                                         .finisher = finisher}};
    struct rc_err err = {""};
    pid_t pid = 0;
    int at = options_parse_around(watch_options, &line, argc, argv, &err);
    if (at < 0) {
        (void)say_line(stderr, "rocmcrash: %s", err.msg);
        return LAUNCH_EXIT_OWN_FAILURE;
    }
    if (line.help) {
        print_help();
        return 0;
    }
    line.launch.json_of = line.json ? "watch" : NULL;
    if (!live_process("watch", argc, argv, at, &pid))
        return LAUNCH_EXIT_OWN_FAILURE;
    return launch_attend(&line.launch, pid);
}
