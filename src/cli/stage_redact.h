/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nothing private leaves unasked. Names and secrets are learned from everything that is staged,
 * facts are redacted before they are judged for the bundle, so that the verdict, the summary and
 * everything said later about the bundle come from the same values; files of the stage are redacted
 * in place just before the archive is made.
 */
#ifndef CLI_STAGE_REDACT_H
#define CLI_STAGE_REDACT_H

#include <stdbool.h>
#include <stddef.h>

struct cJSON;
struct facts;
struct manifest;
struct rc_err;
struct redactor;

/* The user's choices. */
struct privacy {
    const char *keep;    /* kinds that stay, NULL = none */
    const char *include; /* files that are not text and stay, NULL = none */
    const char *cwd;     /* of the run, NULL = ours */
    bool preview;        /* each change on stdout, before the bundle is written */
};

/* Knows the names of this machine and user, and the rules of the templates folder, or the built-in rules
 * where those cannot be used. *err then says so, and also when `keep` is wrong. NULL: no memory. */
struct redactor *stage_redactor(const struct privacy *privacy, struct rc_err *err);
/* A redacted copy (facts_free() it); names, moments and sources below /proc and /sys are the same.
 * 0 or -errno. */
int stage_redact_facts(struct redactor *redactor, const struct facts *facts,
                       struct facts **ret_clean, struct rc_err *err);
/* A line or a name; malloc()ed, NULL when there is no memory. */
char *stage_redact_line(struct redactor *redactor, const char *line);
/* Replaces *text by its redacted form, in new memory. 0, or -errno with the text unchanged. */
int stage_redact_text(struct redactor *redactor, const char *file, char **text, size_t *len);
/* A bundle that was redacted before: its pseudonyms are not given to others. 0 or -errno. */
int stage_reserve(struct redactor *redactor, const char *stage, struct rc_err *err);
/* Was the bundle redacted before, by the rules of this redactor? Then what they guess is not tried again: it would find words
 * of our own. Call it before stage_learn(). */
void stage_resume(struct redactor *redactor, const char *stage);
/* Look through every file below the stage for names and secrets. 0 or -errno. */
int stage_learn(struct redactor *redactor, const char *stage, struct rc_err *err);
/* The reasons of the manifest's rows, and another copy of the rows (NULL = none). 0 or -errno. */
int stage_redact_rows(struct redactor *redactor, struct manifest *manifest, struct cJSON *items);

enum stage_scope {
    STAGE_OWN,        /* facts.json, verdict.json and SUMMARY.md are made of redacted facts */
    STAGE_EVERYTHING, /* somebody else's */
};
/* Names and contents of every file below the stage; what is not text is removed unless it is
 * included. Writes redaction.json. 0 or -errno; then no bundle may be made of it. */
int stage_redact_files(struct redactor *redactor, const char *stage, int stage_fd,
                       enum stage_scope scope, const struct privacy *privacy, struct rc_err *err);
/* After the last change: how many there were, and what to do about them. */
void stage_print_preview_end(const struct redactor *redactor);

#endif
