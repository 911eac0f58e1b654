/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.json: how the run was started and what is known of it so far, as text.
 *
 * Written by hand and without allocation, because the recorder lives beside the target with libc
 * alone; read back by the finisher with cJSON.
 */
#ifndef RECORDER_RUN_JSON_H
#define RECORDER_RUN_JSON_H

#include <stddef.h>

struct shared;

/* Render into out (always NUL-terminated, always a complete document). Returns the length, 0 when
 * it did not fit. */
size_t run_json_render(const struct shared *shared, char *out, size_t size);

#endif
