/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces the parts of environment variables' values that look like a secret. diagnose/env_names.h
 * decides which variables are shown.
 */
#ifndef COLLECTORS_ENV_SECRET_H
#define COLLECTORS_ENV_SECRET_H

#include <stdbool.h>
#include <stddef.h>

struct buf;

/* Append `value`, with parts that look like a secret replaced by "<redacted>" and control
 * characters by '?', cut at max bytes ("..." appended). True if something was replaced. */
bool env_append_value(struct buf *out, const char *value, size_t max);

#endif
