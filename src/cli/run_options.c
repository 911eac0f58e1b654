/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fs.h"

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
    static const struct {
        const char *name;
        enum bundle_on when;
    } modes[] = {{"failure", BUNDLE_ON_FAILURE},
                 {"error", BUNDLE_ON_ERROR},
                 {"signal", BUNDLE_ON_SIGNAL},
                 {"oom", BUNDLE_ON_OOM},
                 {"always", BUNDLE_ALWAYS}};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        if (strcmp(value, modes[i].name) == 0) {
            launch->bundle_on = modes[i].when;
            return 0;
        }
    }
    return rc_err_set(err, -EINVAL, "--bundle-on is failure, error, signal, oom or always, not '%s'",
                      value);
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

static int set_colour(void *target, const char *value, struct rc_err *err)
{
    if (strcmp(value, "auto") != 0 && strcmp(value, "always") != 0 && strcmp(value, "never") != 0)
        return rc_err_set(err, -EINVAL, "--color is auto, always or never, not '%s'", value);
    ((struct command_line *)target)->launch.colour = value;
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
        "addresses", "serials", "mails", "folders", "project", "projects", "text", "texts"};
    for (const char *at = value; *at != '\0';) {
        size_t len = strcspn(at, ",");
        bool known = len == 0;
        for (size_t i = 0; !known && i < sizeof words / sizeof words[0]; i++)
            known = strlen(words[i]) == len && strncmp(words[i], at, len) == 0;
        if (!known)
            return rc_err_set(err, -EINVAL,
                              "--keep is a list of homes, users, hosts, ips, macs, ids, emails, "
                              "accounts, paths, projects, texts; not '%.*s'",
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

static int set_site(void *target, const char *value, struct rc_err *err)
{
    (void)err;
    ((struct command_line *)target)->launch.site = value;
    return 0;
}

static int set_preview(void *target, const char *value, struct rc_err *err)
{
    (void)value;
    (void)err;
    ((struct command_line *)target)->launch.preview = true;
    return 0;
}

const struct config_default run_defaults[] = {
    {"bundle-on", "failure"}, {"finish-within", "5s"}, {"hash-budget", "60s"},
    {"trace", "auto"},        {"orphan", "kill"},      {"inject", "all"},
    {"color", "auto"},        {"site", SITE_DEFAULT},  {NULL, NULL},
};

const struct option_def run_options[] = {
    {"output-dir", 'o', "DIR", "where the bundle goes (default: here)",
     set_output_dir},
    {"bundle-on", 0, "WHEN", "failure (default), error, signal, oom (even survived), always",
     set_bundle_on},
    {"always", 0, NULL, "the same as --bundle-on=always", set_always},
    {"finish-within", 0, "TIME", "time for the bundle (default 5s)",
     set_finish_within},
    {"hash-budget", 0, "TIME", "more time for hashing models (default 60s)",
     set_hash_budget},
    {"trace", 0, "MODE", "auto (default), eager, late or none: how processes are observed",
     set_trace},
    {"no-follow", 0, NULL, "leave the program's stderr and stdout alone", set_no_follow},
    {"orphan", 0, "WHAT", "kill (default) or keep the program when rocmcrash gets SIGKILL",
     set_orphan},
    {"inject", 0, "WHAT", "all (default), python, ledger or none: what is put into the program",
     set_inject},
    {"torch-history", 0, NULL, "let PyTorch record where each block was allocated (slower)",
     set_torch_history},
    {"quiet", 'q', NULL, "print nothing after the program has ended", set_quiet},
    {"color", 0, "WHEN", "auto (default), always or never: colour of those lines", set_colour},
    {"keep", 0, "KINDS", "do not replace these: hosts, users, homes, ips, paths, ...", set_keep},
    {"include", 0, "NAMES", "keep these files that are not text (devcoredump, all, ...)",
     set_include},
    {"preview", 0, NULL, "show what is replaced, before it is written", set_preview},
    {"site", 0, "DIR", "this site's own rules and collectors (default /etc/rocmcrash/site.d)",
     set_site},
    {"sysroot", 0, "DIR", "read /sys, /dev/kmsg and machine-wide /proc files below DIR",
     set_sysroot},
    {"help", 'h', NULL, "print this and exit", set_help},
    {"version", 'V', NULL, "print the version and exit", set_version},
    {NULL, 0, NULL, NULL, NULL},
};
