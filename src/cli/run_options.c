/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run_options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

#define WORDS_MAX 5

/* The words that an option takes. A switch stands for the first one. */
static const struct choice {
    const char *option;
    bool is_bool; /* the field is a bool; otherwise an enum or unsigned */
    struct {
        const char *word;
        int value;
    } words[WORDS_MAX + 1];
} choices[] = {
    {"trace", false,
     {{"auto", TRACE_AUTO}, {"eager", TRACE_EAGER}, {"late", TRACE_LATE}, {"none", TRACE_NONE}}},
    {"bundle-on", false,
     {{"failure", BUNDLE_ON_FAILURE}, {"error", BUNDLE_ON_ERROR}, {"signal", BUNDLE_ON_SIGNAL},
      {"oom", BUNDLE_ON_OOM}, {"always", BUNDLE_ALWAYS}}},
    {"always", false, {{"always", BUNDLE_ALWAYS}}},
    {"follow", false, {{"stderr", FOLLOW_STDERR}, {"all", FOLLOW_ALL}, {"none", FOLLOW_NONE}}},
    {"no-follow", false, {{"none", FOLLOW_NONE}}},
    {"orphan", true, {{"kill", false}, {"keep", true}}},
    {"inject", false,
     {{"none", INJECT_NONE}, {"python", INJECT_PYTHON}, {"ledger", INJECT_LEDGER}, {"all", INJECT_ALL}}},
    {"on-hang", true, {{"go-on", false}, {"kill", true}}},
};

static int not_a_choice(const struct choice *c, const char *value, struct rc_err *err)
{
    struct rc_err words = {""};
    for (size_t i = 0; c->words[i].word != NULL; i++) {
        const char *separator = i == 0 ? "" : c->words[i + 1].word == NULL ? " or " : ", ";
        size_t len = strlen(words.msg);
        (void)snprintf(words.msg + len, sizeof words.msg - len, "%s%s", separator, c->words[i].word);
    }
    return rc_err_set(err, -EINVAL, "--%s is %s, not '%s'", c->option, words.msg, value);
}

static int set_choice(const struct option_def *option, void *field, const char *value, struct rc_err *err)
{
    const struct choice *c = choices;
    const struct choice *end = choices + sizeof choices / sizeof choices[0];
    while (c < end && strcmp(c->option, option->name) != 0)
        c++;
    if (c == end)
        return rc_err_set(err, -EINVAL, "--%s has no table of words", option->name);
    for (size_t i = 0; c->words[i].word != NULL; i++) {
        if (value != NULL && strcmp(value, c->words[i].word) != 0)
            continue;
        if (c->is_bool)
            *(bool *)field = c->words[i].value != 0;
        else
            *(unsigned *)field = (unsigned)c->words[i].value;
        return 0;
    }
    return not_a_choice(c, value, err);
}

static int set_hang_after(const struct option_def *option, void *field, const char *value, struct rc_err *err)
{
    if (strcmp(value, "auto") == 0) {
        *(uint32_t *)field = HANG_AFTER_AUTO;
        return 0;
    }
    if (option_time_ms(option, field, value, err) < 0)
        return rc_err_set(err, -EINVAL, "--%s is auto, or a time like 90s or 10m, not '%s'", option->name, value);
    return 0;
}

int option_conditions(const struct option_def *option, void *field, const char *value,
                      struct rc_err *err)
{
    (void)option;
    return conditions_parse(value, field, err);
}

int option_conditions_outside(const struct option_def *option, void *field, const char *value,
                              struct rc_err *err)
{
    int r = option_conditions(option, field, value, err);
    if (r == 0 && (conditions_need_output(field) || conditions_need_steps(field)))
        return rc_err_set(err, -EINVAL, "--%s: silent and step are known only of a program that rocmcrash starts (%s)",
                          option->name, "rocmcrash --bundle-at='silent>10m' COMMAND");
    return r;
}

/* Said now, not when the bundle is made: that may be in a week. */
static int set_keep(const struct option_def *option, void *field, const char *value, struct rc_err *err)
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
    return option_text(option, field, value, err);
}

static int set_full_bundles(const struct option_def *option, void *field, const char *value, struct rc_err *err)
{
    return option_number(option, field, value, 0, 100000, err);
}

const struct config_default run_defaults[] = {
    {"bundle-on", "failure"}, {"finish-within", "5s"}, {"hash-budget", "60s"}, {"full-bundles", "1"},
    {"trace", "auto"},        {"follow", "stderr"},      {"orphan", "kill"},      {"inject", "all"},
    {"on-hang", "go-on"},
    {"color", "auto"},        {"site", SITE_DEFAULT},  {NULL, NULL},
};

const struct option_def run_options[] = {
    {"output-dir", 'o', "DIR", "where the bundle goes (default: here)",
     option_text, offsetof(struct command_line, launch.output_dir)},
    {"bundle-on", 0, "WHEN", "failure (default), error, signal, oom (even survived), always",
     set_choice, offsetof(struct command_line, launch.bundle_on)},
    {"always", 0, NULL, "the same as --bundle-on=always",
     set_choice, offsetof(struct command_line, launch.bundle_on)},
    {"finish-within", 0, "TIME", "time for the bundle (default 5s)",
     option_time_ms, offsetof(struct command_line, launch.finish_within_ms)},
    {"hash-budget", 0, "TIME", "more time for hashing models (default 60s)",
     option_time_ms, offsetof(struct command_line, launch.hash_budget_ms)},
    {"full-bundles", 0, "N", "full ones of ranks that fail alike, 0 = all (default 1)",
     set_full_bundles, offsetof(struct command_line, launch.full_bundles)},
    {"event-to", 0, "PROG", "run it with the verdict and the bundle's address (default: none)",
     option_text, offsetof(struct command_line, launch.event_to)},
    {"trace", 0, "MODE", "auto (default), eager, late or none: how processes are observed",
     set_choice, offsetof(struct command_line, launch.trace)},
    {"follow", 0, "WHAT", "stderr (default), all (also a piped stdout) or none: what is read",
     set_choice, offsetof(struct command_line, launch.follow)},
    {"no-follow", 0, NULL, "the same as --follow=none",
     set_choice, offsetof(struct command_line, launch.follow)},
    {"orphan", 0, "WHAT", "kill (default) or keep the program when rocmcrash gets SIGKILL",
     set_choice, offsetof(struct command_line, launch.keep_orphan)},
    {"inject", 0, "WHAT", "all (default), python, ledger or none: what is put into the program",
     set_choice, offsetof(struct command_line, launch.inject)},
    {"hang-after", 0, "TIME", "a bundle when it stands still for so long (say 300s), or auto: by its PyTorch steps, else 300 s; told at the end",
     set_hang_after, offsetof(struct command_line, launch.hang_after_ms)},
    {"on-hang", 0, "WHAT", "then go-on (default), or kill: TERM, and KILL 10 s later",
     set_choice, offsetof(struct command_line, launch.hang_kill)},
    {"bundle-at", 0, "COND", "a bundle when vram>90%, gtt_growth>1GiB/min, idle>120s, ...",
     option_conditions, offsetof(struct command_line, launch.bundle_at)},
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
    {"preview", 0, NULL, "show what is replaced, and ask whether to keep the bundle",
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
