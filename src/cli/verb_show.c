/* SPDX-License-Identifier: Apache-2.0 */
/* `show [--all] BUNDLE` and `verify BUNDLE`: the bundle may be a stranger's. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "bundle/bundle.h"
#include "cli/option.h"
#include "cli/verbs.h"

#define SUMMARY_MAX (4u << 20)
#define DETAILS "\n## Details"
#define FLOWCHART "```mermaid\n"
#define FLOWCHART_END "\n```\n"

struct show_line {
    bool all;
};

static int set_all(void *target, const char *value, struct rc_err *err)
{
    (void)value;
    (void)err;
    ((struct show_line *)target)->all = true;
    return 0;
}

static const struct option_def show_options[] = {
    {"all", 'a', NULL, "everything, with the flowchart and the tables of facts", set_all},
    {NULL, 0, NULL, NULL, NULL},
};

static bool are_bundles(int argc, char *argv[], const char *verb)
{
    bool good = argc > 0;
    for (int i = 0; i < argc; i++)
        good = good && argv[i][0] != '-';
    if (!good)
        (void)fprintf(stderr, "rocmcrash: usage: rocmcrash %s BUNDLE...\n", verb);
    return good;
}

static const char *one_bundle(int argc, char *argv[], const char *verb)
{
    if (argc == 1 && argv[0][0] != '-')
        return argv[0];
    (void)fprintf(stderr, "rocmcrash: usage: rocmcrash %s BUNDLE\n", verb);
    return NULL;
}

/* What GitHub folds away or draws says nothing on a terminal: the tables of facts, the flowchart. */
static void shorten_for_terminal(char *text)
{
    char *details = strstr(text, DETAILS);
    if (details != NULL)
        details[1] = '\0';
    char *chart = strstr(text, FLOWCHART);
    char *end = chart != NULL ? strstr(chart, FLOWCHART_END) : NULL;
    if (end != NULL) {
        end += strlen(FLOWCHART_END);
        end += strspn(end, "\n");
        memmove(chart, end, strlen(end) + 1);
    }
}

static bool print_clean(const char *text, const char *last_line)
{
    struct buf clean = BUF_INIT;
    bundle_sanitize_text(&clean, text, strlen(text));
    if (clean.len > 0 && clean.data[clean.len - 1] != '\n')
        buf_putc(&clean, '\n');
    bool ok = fputs(buf_str(&clean), stdout) >= 0 && fputs(last_line, stdout) >= 0 &&
              fflush(stdout) == 0;
    buf_release(&clean);
    return ok;
}

int verb_show(int argc, char *argv[])
{
    struct show_line line = {.all = false};
    struct rc_err err = {""};
    RC_AUTO_FREE char *text = NULL;
    int at = options_parse(show_options, &line, argc, argv, &err);
    if (at < 0)
        (void)fprintf(stderr, "rocmcrash: %s\n", err.msg);
    const char *path = at < 0 ? NULL : one_bundle(argc - at, argv + at, "show [--all]");
    if (path == NULL)
        return VERB_EXIT_USAGE;
    ssize_t len = bundle_read_file(path, "SUMMARY.md", SUMMARY_MAX, &text, &err);
    if (len < 0) {
        verb_complain(path, &err);
        return VERB_EXIT_FAILED;
    }
    if (!line.all)
        shorten_for_terminal(text);
    bool ok = print_clean(text, line.all ? "" : "(show --all prints the tables of facts too)\n");
    verb_tell_damage(path);
    return ok ? VERB_EXIT_OK : VERB_EXIT_FAILED;
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
            (void)printf("%s: good\n", argv[i]);
        else
            verb_complain(argv[i], &err);
        worst = status > worst ? status : worst;
    }
    return worst;
}
