/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/outcome.h"

#include <cjson/cJSON.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/say.h"
#include "bundle/bundle.h"
#include "cli/json_print.h"
#include "cli/verbs.h"

#define VERDICT_MAX ((size_t)1 << 20)

void outcome_begin(struct outcome *outcome, const char *verb, bool wanted)
{
    *outcome = (struct outcome){.json = wanted ? cJSON_CreateObject() : NULL, .stdout_fd = -1};
    if (outcome->json == NULL)
        return;
    outcome_text(outcome, "verb", verb);
    (void)fflush(stdout);
    outcome->stdout_fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (outcome->stdout_fd >= 0)
        (void)dup2(STDERR_FILENO, STDOUT_FILENO);
}

void outcome_text(struct outcome *outcome, const char *name, const char *value)
{
    if (outcome->json != NULL && value != NULL)
        (void)cJSON_AddStringToObject(outcome->json, name, value);
}

void outcome_number(struct outcome *outcome, const char *name, double value)
{
    if (outcome->json != NULL)
        (void)cJSON_AddNumberToObject(outcome->json, name, value);
}

void outcome_flag(struct outcome *outcome, const char *name, bool value)
{
    if (outcome->json != NULL)
        (void)cJSON_AddBoolToObject(outcome->json, name, value);
}

void outcome_bundle(struct outcome *outcome, const char *path)
{
    static const char *const taken[] = {"class", "confidence", "sentence"};
    RC_AUTO_FREE char *text = NULL;
    struct rc_err none = {""};
    if (outcome->json == NULL)
        return;
    outcome_text(outcome, "bundle", path);
    ssize_t len = bundle_read_file(path, "verdict.json", VERDICT_MAX, &text, &none);
    cJSON *verdict = len > 0 ? cJSON_ParseWithLength(text, (size_t)len) : NULL;
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
        outcome_text(outcome, taken[i],
                     cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(verdict, taken[i])));
    cJSON_Delete(verdict);
}

int outcome_end(struct outcome *outcome, int status, const char *path, const struct rc_err *err)
{
    bool is_told = status != VERB_EXIT_OK && err->msg[0] != '\0'; /* otherwise *err is about something that
                                                                   * did no harm */
    if (outcome->json == NULL) {
        if (is_told)
            verb_complain(path, err);
        return status;
    }
    outcome_number(outcome, "status", status);
    outcome_text(outcome, "error", is_told ? err->msg : NULL);
    (void)fflush(stdout);
    if (outcome->stdout_fd >= 0) {
        (void)dup2(outcome->stdout_fd, STDOUT_FILENO);
        (void)close(outcome->stdout_fd);
    }
    int r = json_print(outcome->json, JSON_LINE);
    outcome->json = NULL;
    return r == 0 || status != VERB_EXIT_OK ? status : VERB_EXIT_FAILED;
}

int verb_failed(int argc, char *argv[])
{
    struct outcome outcome;
    struct rc_err err = {""};
    if (argc != 2)
        return VERB_EXIT_USAGE;
    (void)rc_err_set(&err, 0, "%s", argv[1]);
    outcome_begin(&outcome, argv[0], true);
    return outcome_end(&outcome, VERB_EXIT_FAILED, NULL, &err);
}

/* --- the command line of a verb that has no options of its own --- */

struct plain_line {
    bool json, help;
};

static void print_lines(const char *text)
{
    for (size_t len; *text != '\0'; text += text[len] == '\n' ? len + 1 : len) {
        len = strcspn(text, "\n");
        (void)say_line(stdout, "%.*s", (int)len, text);
    }
}

int plain_verb_parse(const struct plain_verb *verb, int argc, char *argv[], bool *ret_json,
                     const char **ret_operand)
{
    static const struct option_def options[] = {
        {"json", 0, NULL, "print what was done as a JSON object",
         option_on, offsetof(struct plain_line, json)},
        {"help", 'h', NULL, "print this and exit", option_on, offsetof(struct plain_line, help)},
        {NULL, 0, NULL, NULL, NULL, 0},
    };
    struct plain_line line = {.json = false};
    struct rc_err err = {""};
    int at = options_parse_around(options, &line, argc, argv, &err);
    if (at >= 0 && line.help) {
        (void)say_line(stdout, "Usage: rocmcrash %s", verb->usage);
        (void)putchar('\n');
        print_lines(verb->help);
        (void)printf("\nOptions:\n");
        options_help(options);
        return VERB_EXIT_OK;
    }
    if (at < 0 || argc - at != (verb->has_operand ? 1 : 0)) {
        if (at < 0)
            (void)say_line(stderr, "rocmcrash: %s", err.msg);
        else if (!verb->has_operand)
            (void)say_line(stderr, "rocmcrash: '%s': this verb takes no argument; usage: rocmcrash %s", argv[at], verb->usage);
        else
            (void)say_line(stderr, "rocmcrash: usage: rocmcrash %s", verb->usage);
        return VERB_EXIT_USAGE;
    }
    *ret_json = line.json;
    if (verb->has_operand)
        *ret_operand = argv[at];
    return OUTCOME_GOES_ON;
}

int plain_verb_process(const struct plain_verb *verb, int argc, char *argv[], struct outcome *outcome,
                       pid_t *ret_pid)
{
    const char *word = NULL;
    uint64_t number = 0;
    bool json = false;
    int status = plain_verb_parse(verb, argc, argv, &json, &word);
    if (status != OUTCOME_GOES_ON)
        return status;
    if (fs_parse_u64(word, &number) < 0 || number == 0 || number > INT32_MAX) {
        (void)say_line(stderr, "rocmcrash: usage: rocmcrash %s", verb->usage);
        return VERB_EXIT_USAGE;
    }
    outcome_begin(outcome, verb->name, json);
    *ret_pid = (pid_t)number;
    return OUTCOME_GOES_ON;
}
