/* SPDX-License-Identifier: Apache-2.0 */
/* `issue BUNDLE`: title and text of an issue, in the sections of the tracker's form. The text goes to
 * stdout, what the user should know before he posts it to stderr. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/say.h"
#include "cli/assets.h"
#include "cli/bundle_files.h"
#include "cli/input.h"
#include "cli/json_print.h"
#include "cli/name_map.h"
#include "cli/option.h"
#include "cli/verbs.h"
#include "report/issue.h"

struct issue_line {
    const char *tracker;
    bool json, help;
};

static const struct option_def issue_options[] = {
    {"for", 0, "TRACKER", "rocm, pytorch, vllm, llama.cpp, jax, drm-amd, other",
     option_text, offsetof(struct issue_line, tracker)},
    {"json", 0, NULL, "an object with title, body, link and what becomes public",
     option_on, offsetof(struct issue_line, json)},
    {"help", 'h', NULL, "print this and exit", option_on, offsetof(struct issue_line, help)},
    {NULL, 0, NULL, NULL, NULL, 0},
};

static const cJSON *tracker_named(const cJSON *trackers, const char *name)
{
    const cJSON *tracker = NULL;
    cJSON_ArrayForEach(tracker, cJSON_GetObjectItemCaseSensitive(trackers, "trackers"))
    {
        const char *its = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(tracker, "name"));
        if (its != NULL && strcmp(its, name) == 0)
            return tracker;
    }
    return NULL;
}

struct issue_text {
    struct buf title, body, link, is_public;
};

/* A bundle that its user made here has its names on this machine. */
static bool is_made_here(const char *bundle)
{
    struct rc_err none = {""};
    cJSON *names = name_map_of_file(bundle, &none);
    cJSON_Delete(names);
    return names != NULL;
}

static void print_json(const struct issue_text *text, const cJSON *tracker, const char *bundle)
{
    cJSON *json = cJSON_CreateObject();
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(tracker, "name"));
    (void)cJSON_AddStringToObject(json, "tracker", name != NULL ? name : "");
    (void)cJSON_AddStringToObject(json, "title", buf_str(&text->title));
    (void)cJSON_AddStringToObject(json, "body", buf_str(&text->body));
    (void)cJSON_AddStringToObject(json, "link", buf_str(&text->link));
    (void)cJSON_AddBoolToObject(json, "made_here", is_made_here(bundle));
    cJSON *is_public = cJSON_AddArrayToObject(json, "makes_public");
    for (const char *line = buf_str(&text->is_public); *line != '\0';) {
        size_t len = strcspn(line, "\n");
        RC_AUTO_FREE char *copy = strndup(line, len);
        (void)cJSON_AddItemToArray(is_public, cJSON_CreateString(copy != NULL ? copy : ""));
        line += len + 1;
    }
    (void)json_print(json, JSON_LINE);
}

/* 0 or -EIO: the text is lost, and nothing is to be attached. */
static int print_text(const struct issue_text *text, const char *bundle)
{
    struct buf clean = BUF_INIT;
    (void)say_line(stderr, "rocmcrash: this text makes public:");
    for (const char *line = buf_str(&text->is_public); *line != '\0';) {
        size_t len = strcspn(line, "\n");
        (void)say_line(stderr, "  - %.*s", (int)len, line);
        line += len + 1;
    }
    (void)say_whole(stdout, "Title: %s", buf_str(&text->title));
    say_clean(&clean, buf_str(&text->body), text->body.len);
    (void)putchar('\n');
    (void)fwrite(buf_str(&clean), 1, clean.len, stdout);
    buf_release(&clean);
    if (fflush(stdout) != 0 || ferror(stdout))
        return -EIO;
    if (!is_made_here(bundle))
        (void)say_line(stderr, "rocmcrash: nothing here shows that you made this bundle: look for mentions, links and pictures "
                               "in the text of somebody else");
    if (strstr(buf_str(&text->body), "<project") != NULL)
        (void)say_line(stderr, "rocmcrash: names in it were replaced: 'rocmcrash reveal' says by what; a run with --keep=projects keeps them");
    (void)say_whole(stderr, "rocmcrash: read it, change what is wrong, attach %s", bundle);
    if (text->link.len > 0)
        (void)say_whole(stderr, "rocmcrash: the form: %s", buf_str(&text->link));
    return 0;
}

static int make_issue(const struct issue_line *line, const char *bundle, struct rc_err *err)
{
    static struct bundle_files files;
    struct issue_text text = {BUF_INIT, BUF_INIT, BUF_INIT, BUF_INIT};
    RC_AUTO_FREE char *trackers_text = NULL;
    ssize_t len = asset_read("trackers.json", &trackers_text, err);
    cJSON *trackers = len > 0 ? cJSON_ParseWithLength(trackers_text, (size_t)len) : NULL;
    int r = trackers != NULL ? 0 : len < 0 ? (int)len : rc_err_set(err, -EINVAL, "trackers.json is damaged");
    if (r == 0)
        r = bundle_files_of_archive(&files, bundle, err);
    const cJSON *tracker = r < 0                  ? NULL
                           : line->tracker == NULL ? issue_tracker(&files.view, trackers)
                                                   : tracker_named(trackers, line->tracker);
    if (r == 0 && tracker == NULL)
        r = rc_err_set(err, -ESRCH, "there is no tracker '%s' (see rocmcrash issue --help)", line->tracker);
    if (r == 0) {
        issue_title(&files.view, tracker, &text.title);
        issue_body(&files.view, tracker, &text.body);
        issue_link(&files.view, tracker, &text.link);
        issue_makes_public(&files.view, tracker, &text.is_public);
        if (line->json)
            print_json(&text, tracker, bundle);
        else
            r = print_text(&text, bundle);
    }
    buf_release(&text.title);
    buf_release(&text.body);
    buf_release(&text.link);
    buf_release(&text.is_public);
    bundle_files_release(&files);
    cJSON_Delete(trackers);
    return r;
}

int verb_issue(int argc, char *argv[])
{
    struct issue_line line = {.tracker = NULL};
    struct rc_err err = {""};
    int at = options_parse_around(issue_options, &line, argc, argv, &err);
    if (at >= 0 && line.help) {
        help_text("Usage: rocmcrash issue [OPTIONS] [BUNDLE]\n\n"
                  "Prints title and text of an issue in the sections of the tracker's form, and\n"
                  "where the form is. Nothing is sent. Without BUNDLE: of the newest in this\nfolder.\n\nOptions:\n");
        options_help(issue_options);
        return VERB_EXIT_OK;
    }
    static const char usage[] = "rocmcrash issue [OPTIONS] [BUNDLE]";
    RC_AUTO_FREE char *newest = NULL;
    const char *path = input_one_bundle(argc, argv, at, usage, &err, &newest);
    if (path == NULL)
        return input_status_of_none(argc, at);
    int r = make_issue(&line, path, &err);
    if (r < 0 && line.json && err.msg[0] != '\0') {
        cJSON *json = cJSON_CreateObject();
        (void)cJSON_AddStringToObject(json, "path", path);
        (void)cJSON_AddStringToObject(json, "error", err.msg);
        (void)json_print(json, JSON_LINE);
    } else if (r < 0) {
        verb_complain(path, &err);
    }
    if (r < 0)
        return r == -ESRCH ? VERB_EXIT_USAGE : VERB_EXIT_FAILED;
    verb_tell_damage(path);
    return VERB_EXIT_OK;
}
