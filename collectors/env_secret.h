/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which environment variables may be shown, and what in their values may not. An allow-list: a
 * variable that no rule names is only counted. Within the list, names and values that look like a
 * secret are replaced: deny-lists alone leak (knowledge from other tools' reports).
 */
#ifndef COLLECTORS_ENV_SECRET_H
#define COLLECTORS_ENV_SECRET_H

#include <stdbool.h>
#include <stddef.h>

struct buf;

enum env_rule {
    ENV_HIDE,      /* not on the list: count it */
    ENV_SHOW,      /* name and value */
    ENV_NAME_ONLY, /* "<set>" */
    ENV_SECRET,    /* on the list, but its name says that the value is a secret: "<redacted>" */
};

enum env_rule env_rule_of(const char *name, size_t len);
/* Append `value` with what looks like a secret replaced by "<redacted>", control characters by '?',
 * cut at max bytes ("..." appended). True when something was replaced. */
bool env_append_value(struct buf *out, const char *value, size_t max);

#endif
