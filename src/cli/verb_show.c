/* SPDX-License-Identifier: Apache-2.0 */
/* `show BUNDLE...` and `verify BUNDLE...`: the bundle may be a stranger's. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/say.h"
#include "bundle/bundle.h"
#include "cli/option.h"
#include "cli/terminal.h"
#include "cli/verbs.h"

#define SUMMARY_MAX (4u << 20)
struct show_line {
    bool all, raw, help;
    const char *section, *colour;
};

static int set_all(void *target, const char *value, struct rc_err *err)
{
    (void)value;
    (void)err;
    ((struct show_line *)target)->all = true;
    return 0;
}

static int set_raw(void *target, const char *value, struct rc_err *err)
{
    (void)value;
    (void)err;
    ((struct show_line *)target)->raw = true;
    return 0;
}

static int set_help(void *target, const char *value, struct rc_err *err)
{
    (void)value;
    (void)err;
    ((struct show_line *)target)->help = true;
    return 0;
}

static int set_section(void *target, const char *value, struct rc_err *err)
{
    (void)err;
    ((struct show_line *)target)->section = value;
    return 0;
}

static int set_colour(void *target, const char *value, struct rc_err *err)
{
    if (strcmp(value, "auto") != 0 && strcmp(value, "always") != 0 && strcmp(value, "never") != 0)
        return rc_err_set(err, -EINVAL, "--color is auto, always or never, not '%s'", value);
    ((struct show_line *)target)->colour = value;
    return 0;
}

static const struct option_def show_options[] = {
    {"all", 'a', NULL, "with the tables of facts", set_all},
    {"section", 0, "WORD", "only sections whose heading has this word", set_section},
    {"raw", 0, NULL, "the Markdown as it is, to paste it", set_raw},
    {"color", 0, "WHEN", "auto (default), always or never", set_colour},
    {"help", 'h', NULL, "print this and exit", set_help},
    {NULL, 0, NULL, NULL, NULL},
};

static bool are_bundles(int argc, char *argv[], const char *verb)
{
    bool good = argc > 0;
    for (int i = 0; i < argc; i++)
        good = good && argv[i][0] != '-';
    if (!good)
        (void)say_line(stderr, "rocmcrash: usage: rocmcrash %s BUNDLE...", verb);
    return good;
}

static bool print_page(const char *text, const struct show_line *line)
{
    struct buf clean = BUF_INIT;
    struct buf page = BUF_INIT;
    struct report_style style = terminal_style(STDOUT_FILENO, line->colour);
    say_clean(&clean, text, strlen(text));
    if (line->raw)
        buf_append(&page, buf_str(&clean), clean.len);
    else
        report_page(buf_str(&clean), line->all, line->section, &style, &page);
    if (page.len > 0 && page.data[page.len - 1] != '\n')
        buf_putc(&page, '\n');
    if (!line->all && !line->raw && line->section == NULL)
        buf_puts(&page, "('rocmcrash show --all' has the tables of facts)\n");
    bool ok = fputs(buf_str(&page), stdout) >= 0 && fflush(stdout) == 0;
    buf_release(&clean);
    buf_release(&page);
    return ok;
}

static int show_one(const char *path, const struct show_line *line)
{
    struct rc_err err = {""};
    RC_AUTO_FREE char *text = NULL;
    if (bundle_read_file(path, "SUMMARY.md", SUMMARY_MAX, &text, &err) < 0) {
        verb_complain(path, &err);
        return VERB_EXIT_FAILED;
    }
    bool ok = print_page(text, line);
    verb_tell_damage(path);
    return ok ? VERB_EXIT_OK : VERB_EXIT_FAILED;
}

int verb_show(int argc, char *argv[])
{
    struct show_line line = {.all = false};
    struct rc_err err = {""};
    int worst = VERB_EXIT_OK;
    int at = options_parse(show_options, &line, argc, argv, &err);
    if (at < 0)
        (void)say_line(stderr, "rocmcrash: %s", err.msg);
    if (at >= 0 && line.help) {
        (void)printf("Usage: rocmcrash show [OPTIONS] BUNDLE...\n\n"
                     "Prints the summary of a bundle.\n\nOptions:\n");
        options_help(show_options);
        return VERB_EXIT_OK;
    }
    if (at < 0 || !are_bundles(argc - at, argv + at, "show [OPTIONS]"))
        return VERB_EXIT_USAGE;
    for (int i = at; i < argc; i++) {
        if (i > at)
            (void)putchar('\n');
        if (argc - at > 1)
            (void)say_line(stdout, "==> %s <==", argv[i]);
        int status = show_one(argv[i], &line);
        worst = status > worst ? status : worst;
    }
    return worst;
}

int verb_verify(int argc, char *argv[])
{
    int worst = VERB_EXIT_OK;
    if (!are_bundles(argc, argv, "verify"))
        return VERB_EXIT_USAGE;
    for (int i = 0; i < argc; i++) {
        struct rc_err err = {""};
        int r = bundle_verify(argv[i], &err);
        int status = r == 0 ? VERB_EXIT_OK : r == -EBADMSG ? VERB_EXIT_BAD : VERB_EXIT_FAILED;
        if (r == 0)
            (void)say_line(stdout, "%s: good", argv[i]);
        else
            verb_complain(argv[i], &err);
        worst = status > worst ? status : worst;
    }
    return worst;
}
