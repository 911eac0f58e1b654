/* SPDX-License-Identifier: Apache-2.0 */
/* The last step before the manifest: nothing private leaves unasked. */
#ifndef CLI_STAGE_REDACT_H
#define CLI_STAGE_REDACT_H

struct rc_err;

/* Redact every text file below the stage in place and write redaction.json. 0 or -errno; then no
 * bundle may be made of it. */
int stage_redact(const char *stage, int stage_fd, struct rc_err *err);

#endif
