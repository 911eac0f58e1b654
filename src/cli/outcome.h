/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The outcome of a verb that acts, as one JSON object on stdout (--json). templates/schema/outcome.json has
 * its members. From outcome_begin() to outcome_end() everything else that is printed on stdout goes to
 * stderr, also what a child prints. Without --json nothing here prints anything but the error.
 */
#ifndef CLI_OUTCOME_H
#define CLI_OUTCOME_H

#include <stdbool.h>
#include <sys/types.h>

#include "cli/option.h"

struct cJSON;
struct rc_err;

struct outcome {
    struct cJSON *json; /* NULL = people read it */
    int stdout_fd;      /* what stdout was; -1 = still is */
};

void outcome_begin(struct outcome *outcome, const char *verb, bool wanted);
/* A member; none where no object is wanted or the text is NULL. */
void outcome_text(struct outcome *outcome, const char *name, const char *value);
void outcome_number(struct outcome *outcome, const char *name, double value);
void outcome_flag(struct outcome *outcome, const char *name, bool value);
/* "bundle", and what the verdict in it is. */
void outcome_bundle(struct outcome *outcome, const char *path);
/* Prints the object with the exit status and, where that is not 0, err->msg (not "") as "error"; without
 * --json such an error as verb_complain() does (path: NULL = of no file). Returns the status, VERB_EXIT_FAILED when nothing could be
 * printed. */
int outcome_end(struct outcome *outcome, int status, const char *path, const struct rc_err *err);

/* --- the command line of a verb that has no options of its own --- */

struct plain_verb {
    const char *name;
    const char *usage; /* "complete [--json] BUNDLE" */
    const char *help;  /* what it does, lines */
    bool has_operand;  /* exactly one, else none */
};

#define OUTCOME_GOES_ON (-1)
/* Reads --json and --help. OUTCOME_GOES_ON with *ret_json and, where there is one, *ret_operand; else
 * the exit status: help is printed, or the command line is wrong and a message says so. */
int plain_verb_parse(const struct plain_verb *verb, int argc, char *argv[], bool *ret_json,
                     const char **ret_operand);
/* The same for a verb whose operand is the number of a process. Begins *outcome as well. */
int plain_verb_process(const struct plain_verb *verb, int argc, char *argv[], struct outcome *outcome,
                       pid_t *ret_pid);

#endif
