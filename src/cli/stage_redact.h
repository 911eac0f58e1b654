/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nothing private leaves unasked. Facts are redacted before they are judged for the bundle, so that
 * the verdict, the summary and everything said later about the bundle come from the same values;
 * files of the stage are redacted in place just before the archive is made.
 */
#ifndef CLI_STAGE_REDACT_H
#define CLI_STAGE_REDACT_H

struct facts;
struct rc_err;
struct redactor;

/* With the names of this machine and user; NULL when there is no memory. */
struct redactor *stage_redactor(void);
/* A redacted copy (facts_free() it); names, moments and sources below /proc and /sys are the same.
 * 0 or -errno. */
int stage_redact_facts(struct redactor *redactor, const struct facts *facts,
                       struct facts **ret_clean, struct rc_err *err);
/* A line or a name; malloc()ed, NULL when there is no memory. */
char *stage_redact_line(struct redactor *redactor, const char *line);
/* Every file below the stage in place, but those that are made of redacted facts, and write
 * redaction.json. 0 or -errno; then no bundle may be made of it. */
int stage_redact_files(struct redactor *redactor, const char *stage, int stage_fd,
                       struct rc_err *err);

#endif
