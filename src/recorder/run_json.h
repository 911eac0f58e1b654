/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.json: how the run was started, and what is known about it so far.
 *
 * The recorder lives beside the target and has libc only, so this code writes JSON itself and allocates
 * nothing. The finisher reads it with cJSON (cli/run_info.c).
 */
#ifndef RECORDER_RUN_JSON_H
#define RECORDER_RUN_JSON_H

#include <stddef.h>

struct shared;

/* Writes a complete, NUL-terminated document into `out`. Returns its length, 0 when it did not fit. */
size_t run_json_render(const struct shared *shared, char *out, size_t size);

#endif
