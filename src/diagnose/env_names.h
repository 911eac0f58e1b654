/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of the environment variables that may be shown: for the collector of the failed process and
 * for `env` output in a report. An allow-list: a variable that no rule names is not shown. Within
 * the list, names that hint at a secret hide their value. Deny-lists alone leak, as the reports of
 * other tools show.
 */
#ifndef DIAGNOSE_ENV_NAMES_H
#define DIAGNOSE_ENV_NAMES_H

#include <stdbool.h>
#include <stddef.h>

enum env_rule {
    ENV_HIDE,      /* not on the list: count it */
    ENV_SHOW,      /* name and value */
    ENV_NAME_ONLY, /* "<set>" */
    ENV_SECRET,    /* on the list, but the name hints at a secret: "<redacted>" */
};

enum env_rule env_rule_of(const char *name, size_t len);
/* A word in the name hints at a secret: "HF_TOKEN", "apikey". */
bool env_name_is_secret(const char *name, size_t len);
/* The word begins like the token of a known service: "hf_...". */
bool env_value_begins_secret(const char *value, size_t len);

#endif
