/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What in the values of environment variables may not be shown: what looks like a secret is
 * replaced. Which variables are shown at all: diagnose/env_names.h.
 */
#ifndef COLLECTORS_ENV_SECRET_H
#define COLLECTORS_ENV_SECRET_H

#include <stdbool.h>
#include <stddef.h>

struct buf;

/* Append `value` with what looks like a secret replaced by "<redacted>", control characters by '?',
 * cut at max bytes ("..." appended). True when something was replaced. */
bool env_append_value(struct buf *out, const char *value, size_t max);

#endif
