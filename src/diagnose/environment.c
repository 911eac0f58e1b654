/* SPDX-License-Identifier: Apache-2.0 */
/*
 * environment_to_facts(): NAME=VALUE lines as env.NAME, for the variables that steer GPU programs.
 *
 * Pure. Takes `env` output, /proc/PID/environ (NUL between entries) and shell lines ("export A=b").
 * Only the allow-listed names become facts (env_names.h): an environment is full of secrets.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "diagnose/env_names.h"
#include "diagnose/text_facts.h"
#include "diagnose/verdict.h"

static struct text unquote(struct text value)
{
    value = text_trim(value);
    if (value.len >= 2 && (value.at[0] == '"' || value.at[0] == '\'') &&
        value.at[value.len - 1] == value.at[0])
        value = (struct text){value.at + 1, value.len - 2};
    return value;
}

static void read_line(const struct scan *s, struct text line)
{
    char fact[128];
    line = text_trim(line);
    if (text_starts(line, "export "))
        line = text_trim(text_skip(line, 7));
    else if (text_starts(line, "Environment="))
        line = unquote(text_skip(line, 12));
    size_t n = 0;
    while (n < line.len && (isalnum((unsigned char)line.at[n]) || line.at[n] == '_'))
        n++;
    if (n == 0 || n > 100 || n == line.len || line.at[n] != '=' ||
        isdigit((unsigned char)line.at[0]))
        return;
    enum env_rule rule = env_rule_of(line.at, n);
    if (rule != ENV_SHOW && rule != ENV_NAME_ONLY)
        return;
    struct text value = unquote(text_skip(line, n + 1));
    (void)snprintf(fact, sizeof fact, "env.%.*s", (int)n, line.at);
    scan_text_when(s, fact, FACT_STATIC, rule == ENV_SHOW ? value : (struct text){"<set>", 5});
}

void environment_to_facts(struct facts *facts, const char *data, size_t len, const char *source)
{
    unsigned before;
    struct text rest = text_tail(data, len, &before), line;
    struct scan s = {
        .facts = facts, .source = source != NULL ? source : "environment", .line = before};
    while (text_next_line(&rest, &line)) {
        s.line++;
        for (;;) {
            const char *nul = line.len > 0 ? memchr(line.at, '\0', line.len) : NULL;
            struct text entry = nul != NULL ? text_first(line, (size_t)(nul - line.at)) : line;
            read_line(&s, entry);
            if (nul == NULL)
                break;
            line = text_skip(line, entry.len + 1);
        }
    }
}
