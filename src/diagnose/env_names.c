/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/env_names.h"

#include <ctype.h>
#include <string.h>

#include "diagnose/text.h"

extern const char environment_rows[]; /* templates/environment.tsv */

#define SECRET_REST_MIN 8 /* characters of a token after its known beginning */

/* Does the row name `name`? "*" at its end: anything may follow. */
static bool names_it(struct text row, const char *name, size_t len)
{
    bool begins = row.len > 0 && row.at[row.len - 1] == '*';
    size_t n = row.len - begins;
    return (begins ? len >= n : len == n) && memcmp(name, row.at, n) == 0;
}

/* Does a row of this rule name it? Case counts. */
static bool is_listed(const char *rule, const char *name, size_t len)
{
    struct text rest = {environment_rows, strlen(environment_rows)}, line;
    size_t n = strlen(rule);
    while (text_next_line(&rest, &line))
        if (text_starts(line, rule) && line.len > n && line.at[n] == '\t' && names_it(text_skip(line, n + 1), name, len))
            return true;
    return false;
}

/* The same, with the word of a row anywhere in the name. */
static bool has_secret_part(struct text name)
{
    static const char rule[] = "secret-part\t";
    struct text rest = {environment_rows, strlen(environment_rows)}, line;
    while (text_next_line(&rest, &line)) {
        struct text part = text_skip(line, sizeof rule - 1);
        if (text_starts(line, rule) && text_search(name, part.at, part.len) != NULL)
            return true;
    }
    return false;
}

bool env_value_begins_secret(const char *value, size_t len)
{
    static const char rule[] = "secret-value\t";
    struct text rest = {environment_rows, strlen(environment_rows)}, line;
    while (text_next_line(&rest, &line)) {
        struct text begin = text_skip(line, sizeof rule - 1);
        if (text_starts(line, rule) && len >= begin.len + SECRET_REST_MIN && memcmp(value, begin.at, begin.len) == 0)
            return true;
    }
    return false;
}

bool env_name_is_secret(const char *name, size_t len)
{
    char upper[128];
    size_t n = len < sizeof upper ? len : sizeof upper - 1;
    for (size_t i = 0; i < n; i++)
        upper[i] = (char)toupper((unsigned char)name[i]);
    if (has_secret_part((struct text){upper, n}))
        return true;
    for (size_t start = 0, i = 0; i <= n; i++) {
        if (i < n && isalnum((unsigned char)upper[i]))
            continue;
        if (is_listed("secret-word", upper + start, i - start))
            return true;
        start = i + 1;
    }
    return false;
}

enum env_rule env_rule_of(const char *name, size_t len)
{
    /* The name is shown and becomes part of a fact's name: letters, digits, '_' only. */
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)name[i]) && name[i] != '_')
            return ENV_HIDE;
    if (is_listed("show", name, len))
        return env_name_is_secret(name, len) ? ENV_SECRET : ENV_SHOW;
    return is_listed("hide-value", name, len) ? ENV_NAME_ONLY : ENV_HIDE;
}
