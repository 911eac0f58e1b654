/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `trace-split FOLDER BYTES -- COMMAND...`, internal to `rerun`: runs the command, and keeps the
 * lines of the ROCm runtime's own trace apart from what the program itself writes to stderr. The
 * trace is capped: its first half and its last are kept, the middle is not.
 */
#ifndef CLI_TRACE_SPLIT_H
#define CLI_TRACE_SPLIT_H

#include <stdbool.h>
#include <stddef.h>

#define TRACE_HEAD "head"
#define TRACE_TAIL "tail.%u" /* 0 and 1, written in turn */

/* Is this a line of HIP's log or of libhsakmt's? */
bool trace_line_is_runtime(const char *line, size_t len);
/* HIP's errors (level 1) are shown as well: they carry the figures of a refused allocation. */
bool trace_line_is_error(const char *line, size_t len);

int verb_trace_split(int argc, char *argv[]);

#endif
