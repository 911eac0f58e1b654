/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run_options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

struct choice {
    const char *word;
    int value;
};

/* The value of the word in a list that ends with {NULL}, or -EINVAL with all words in *err. */
static int choose(const char *option, const char *value, const struct choice *choices,
                  struct rc_err *err)
{
    struct rc_err words = {""};
    for (const struct choice *c = choices; c->word != NULL; c++) {
        if (strcmp(value, c->word) == 0)
            return c->value;
        const char *separator = c == choices ? "" : c[1].word == NULL ? " or " : ", ";
        size_t len = strlen(words.msg);
        (void)snprintf(words.msg + len, sizeof words.msg - len, "%s%s", separator, c->word);
    }
    return rc_err_set(err, -EINVAL, "--%s is %s, not '%s'", option, words.msg, value);
}

static int set_trace(void *field, const char *value, struct rc_err *err)
{
    static const struct choice modes[] = {{"auto", TRACE_AUTO}, {"eager", TRACE_EAGER},
                                          {"late", TRACE_LATE}, {"none", TRACE_NONE}, {NULL, 0}};
    int mode = choose("trace", value, modes, err);
    if (mode >= 0)
        *(enum trace_mode *)field = (enum trace_mode)mode;
    return mode < 0 ? mode : 0;
}

static int set_bundle_on(void *field, const char *value, struct rc_err *err)
{
    static const struct choice moments[] = {
        {"failure", BUNDLE_ON_FAILURE}, {"error", BUNDLE_ON_ERROR}, {"signal", BUNDLE_ON_SIGNAL},
        {"oom", BUNDLE_ON_OOM},         {"always", BUNDLE_ALWAYS},  {NULL, 0}};
    int when = choose("bundle-on", value, moments, err);
    if (when >= 0)
        *(enum bundle_on *)field = (enum bundle_on)when;
    return when < 0 ? when : 0;
}

static int set_always(void *field, const char *value, struct rc_err *err)
{
    (void)value;
    return set_bundle_on(field, "always", err);
}

static int set_follow(void *field, const char *value, struct rc_err *err)
{
    static const struct choice modes[] = {{"stderr", FOLLOW_STDERR}, {"all", FOLLOW_ALL},
                                          {"none", FOLLOW_NONE}, {NULL, 0}};
    int mode = choose("follow", value, modes, err);
    if (mode >= 0)
        *(enum follow_mode *)field = (enum follow_mode)mode;
    return mode < 0 ? mode : 0;
}

static int set_no_follow(void *field, const char *value, struct rc_err *err)
{
    (void)value;
    return set_follow(field, "none", err);
}

static int set_orphan(void *field, const char *value, struct rc_err *err)
{
    static const struct choice orphans[] = {{"kill", false}, {"keep", true}, {NULL, 0}};
    int keep = choose("orphan", value, orphans, err);
    if (keep >= 0)
        *(bool *)field = keep;
    return keep < 0 ? keep : 0;
}

static int set_finish_within(void *field, const char *value, struct rc_err *err)
{
    if (option_milliseconds(value, field) < 0)
        return rc_err_set(err, -EINVAL, "--finish-within is a time like 5s, not '%s'", value);
    return 0;
}

static int set_hash_budget(void *field, const char *value, struct rc_err *err)
{
    if (option_milliseconds(value, field) < 0)
        return rc_err_set(err, -EINVAL, "--hash-budget is a time like 60s, not '%s'", value);
    return 0;
}

static int set_hang_after(void *field, const char *value, struct rc_err *err)
{
    if (option_milliseconds(value, field) < 0)
        return rc_err_set(err, -EINVAL, "--hang-after is a time like 300s, not '%s'", value);
    return 0;
}

static int set_on_hang(void *field, const char *value, struct rc_err *err)
{
    static const struct choice ends[] = {{"go-on", false}, {"kill", true}, {NULL, 0}};
    int kill = choose("on-hang", value, ends, err);
    if (kill >= 0)
        *(bool *)field = kill;
    return kill < 0 ? kill : 0;
}

static int set_bundle_at(void *field, const char *value, struct rc_err *err)
{
    return conditions_parse(value, field, err);
}

static int set_inject(void *field, const char *value, struct rc_err *err)
{
    static const struct choice parts[] = {{"none", INJECT_NONE}, {"python", INJECT_PYTHON},
                                          {"ledger", INJECT_LEDGER}, {"all", INJECT_ALL},
                                          {NULL, 0}};
    int what = choose("inject", value, parts, err);
    if (what >= 0)
        *(unsigned *)field = (unsigned)what;
    return what < 0 ? what : 0;
}

/* Said now, not when the bundle is made: that may be in a week. */
static int set_keep(void *field, const char *value, struct rc_err *err)
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
    return option_text(field, value, err);
}

const struct config_default run_defaults[] = {
    {"bundle-on", "failure"}, {"finish-within", "5s"}, {"hash-budget", "60s"},
    {"trace", "auto"},        {"follow", "stderr"},      {"orphan", "kill"},      {"inject", "all"},
    {"on-hang", "go-on"},
    {"color", "auto"},        {"site", SITE_DEFAULT},  {NULL, NULL},
};

const struct option_def run_options[] = {
    {"output-dir", 'o', "DIR", "where the bundle goes (default: here)",
     option_text, offsetof(struct command_line, launch.output_dir)},
    {"bundle-on", 0, "WHEN", "failure (default), error, signal, oom (even survived), always",
     set_bundle_on, offsetof(struct command_line, launch.bundle_on)},
    {"always", 0, NULL, "the same as --bundle-on=always",
     set_always, offsetof(struct command_line, launch.bundle_on)},
    {"finish-within", 0, "TIME", "time for the bundle (default 5s)",
     set_finish_within, offsetof(struct command_line, launch.finish_within_ms)},
    {"hash-budget", 0, "TIME", "more time for hashing models (default 60s)",
     set_hash_budget, offsetof(struct command_line, launch.hash_budget_ms)},
    {"trace", 0, "MODE", "auto (default), eager, late or none: how processes are observed",
     set_trace, offsetof(struct command_line, launch.trace)},
    {"follow", 0, "WHAT", "stderr (default), all (also a piped stdout) or none: what is read",
     set_follow, offsetof(struct command_line, launch.follow)},
    {"no-follow", 0, NULL, "the same as --follow=none",
     set_no_follow, offsetof(struct command_line, launch.follow)},
    {"orphan", 0, "WHAT", "kill (default) or keep the program when rocmcrash gets SIGKILL",
     set_orphan, offsetof(struct command_line, launch.keep_orphan)},
    {"inject", 0, "WHAT", "all (default), python, ledger or none: what is put into the program",
     set_inject, offsetof(struct command_line, launch.inject)},
    {"hang-after", 0, "TIME", "look at the program when it stands still for so long (300s)",
     set_hang_after, offsetof(struct command_line, launch.hang_after_ms)},
    {"on-hang", 0, "WHAT", "then go-on (default), or kill: TERM, and KILL 10 s later",
     set_on_hang, offsetof(struct command_line, launch.hang_kill)},
    {"bundle-at", 0, "COND", "a bundle when vram>90%, gtt_growth>1GiB/min, idle>120s, ...",
     set_bundle_at, offsetof(struct command_line, launch.bundle_at)},
    {"torch-history", 0, NULL, "let PyTorch record where each block was allocated (slower)",
     option_on, offsetof(struct command_line, launch.torch_history)},
    {"quiet", 'q', NULL, "print nothing after the program has ended",
     option_on, offsetof(struct command_line, launch.quiet)},
    {"color", 0, "WHEN", "auto (default), always or never: colour of those lines",
     option_colour, offsetof(struct command_line, launch.colour)},
    {"keep", 0, "KINDS", "do not replace these: hosts, users, homes, ips, paths, ...",
     set_keep, offsetof(struct command_line, launch.keep)},
    {"include", 0, "NAMES", "keep these files that are not text (devcoredump, all, ...)",
     option_text, offsetof(struct command_line, launch.include)},
    {"preview", 0, NULL, "show what is replaced, and ask whether the bundle stays",
     option_on, offsetof(struct command_line, launch.preview)},
    {"site", 0, "DIR", "this site's own rules and collectors (default /etc/rocmcrash/site.d)",
     option_text, offsetof(struct command_line, launch.site)},
    {"sysroot", 0, "DIR", "read /sys, /dev/kmsg and machine-wide /proc files below DIR",
     option_sysroot, 0},
    {"help", 'h', NULL, "print this and exit", option_on, offsetof(struct command_line, help)},
    {"version", 'V', NULL, "print the version and exit",
     option_on, offsetof(struct command_line, version)},
    {NULL, 0, NULL, NULL, NULL, 0},
};
