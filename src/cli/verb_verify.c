/* SPDX-License-Identifier: Apache-2.0 */
/* `verify BUNDLE...`: the bundle may be a stranger's. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/say.h"
#include "bundle/bundle.h"
#include "cli/json_print.h"
#include "cli/option.h"
#include "cli/verbs.h"

struct verify_line {
    bool json, help;
};

static const struct option_def verify_options[] = {
    {"json", 0, NULL, "a JSON object a line", option_on, offsetof(struct verify_line, json)},
    {"help", 'h', NULL, "print this and exit", option_on, offsetof(struct verify_line, help)},
    {NULL, 0, NULL, NULL, NULL, 0},
};

static void print_json(const char *path, bool good, const struct rc_err *err)
{
    cJSON *row = cJSON_CreateObject();
    (void)cJSON_AddStringToObject(row, "path", path);
    (void)cJSON_AddBoolToObject(row, "good", good);
    if (!good)
        (void)cJSON_AddStringToObject(row, "error", err->msg);
    (void)json_print(row, JSON_LINE);
}

static int verify_one(const char *path, bool json)
{
    struct rc_err err = {""};
    int r = bundle_verify(path, &err);
    if (json)
        print_json(path, r == 0, &err);
    else if (r == 0)
        (void)say_whole(stdout, "%s: good", path);
    else
        verb_complain(path, &err);
    return r == 0 ? VERB_EXIT_OK : r == -EBADMSG ? VERB_EXIT_BAD : VERB_EXIT_FAILED;
}

int verb_verify(int argc, char *argv[])
{
    struct verify_line line = {.json = false};
    struct rc_err err = {""};
    int worst = VERB_EXIT_OK;
    int at = options_parse_around(verify_options, &line, argc, argv, &err);
    if (at >= 0 && line.help) {
        help_text("Usage: rocmcrash verify [OPTIONS] BUNDLE...\n\n"
                  "Checks every hash, and that no path leads out of the bundle.\n\nOptions:\n");
        options_help(verify_options);
        return VERB_EXIT_OK;
    }
    if (at < 0 || at == argc) {
        (void)say_line(stderr, "rocmcrash: %s",
                       at < 0 ? err.msg : "verify needs a bundle; usage: rocmcrash verify [OPTIONS] BUNDLE...");
        return VERB_EXIT_USAGE;
    }
    for (int i = at; i < argc; i++) {
        int status = verify_one(argv[i], line.json);
        worst = status > worst ? status : worst;
    }
    return fflush(stdout) == 0 ? worst : VERB_EXIT_FAILED;
}
