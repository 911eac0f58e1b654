/* SPDX-License-Identifier: Apache-2.0 */
/* See fixture_run.h. */
#include "fixture_run.h"

#include <dirent.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "diagnose/verdict.h"

#define FIXTURES TEST_SOURCE_DIR "/tests/fixtures/messages"

void fixture_parse(char kind, struct facts *facts, const char *data, size_t len)
{
    switch (kind) {
    case 'm':
        messages_to_facts(facts, data, len, "stderr");
        break;
    case 'k':
        kernel_log_to_facts(facts, data, len, "kernel log");
        break;
    case 'p':
        pasted_to_facts(facts, data, len, "pasted");
        break;
    case 'a':
        any_text_to_facts(facts, data, len, "text");
        break;
    default:
        environment_to_facts(facts, data, len, "env");
    }
}

const struct fact *fixture_fact(const struct facts *facts, const char *name)
{
    const struct fact *f = facts_find(facts, name, FACT_LOG);
    return f != NULL ? f : facts_find(facts, name, FACT_STATIC);
}

const char *fixture_value(const struct facts *facts, const char *name, char out[600])
{
    const struct fact *f = fixture_fact(facts, name);
    out[0] = '\0';
    if (f == NULL || f->status != FACT_PRESENT)
        return out;
    if (f->type == FACT_TEXT)
        (void)snprintf(out, 600, "%s", f->text);
    else if (f->type == FACT_REAL)
        (void)snprintf(out, 600, "%g", f->real);
    else
        (void)snprintf(out, 600, "%" PRId64, f->integer);
    return out;
}

char *fixture_read(const char *path, size_t *ret_len)
{
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return NULL;
    char *data = malloc((size_t)16 << 20);
    *ret_len = data != NULL ? fread(data, 1, ((size_t)16 << 20) - 1, f) : 0;
    if (data != NULL)
        data[*ret_len] = '\0';
    (void)fclose(f);
    return data;
}

static void expect(const struct facts *facts, const char *fixture, char *line)
{
    char value[600];
    if (line[0] == '!') {
        if (fixture_fact(facts, line + 1) != NULL)
            fail_msg("%s: %s is there: %s", fixture, line + 1,
                     fixture_value(facts, line + 1, value));
        return;
    }
    if (line[0] == '@') {
        char *word = strstr(line, " line ");
        assert_non_null(word);
        *word = '\0';
        const struct fact *f = fixture_fact(facts, line + 1);
        if (f == NULL)
            fail_msg("%s: %s is not there", fixture, line + 1);
        size_t a = strlen(f->source), b = strlen(word + 1);
        if (a < b || strcmp(f->source + a - b, word + 1) != 0)
            fail_msg("%s: %s comes from '%s', not %s", fixture, line + 1, f->source, word + 1);
        return;
    }
    char *equals = strstr(line, " = ");
    assert_non_null(equals);
    *equals = '\0';
    (void)fixture_value(facts, line, value);
    if (strcmp(value, equals + 3) != 0)
        fail_msg("%s: %s is '%s', not '%s'", fixture, line, value, equals + 3);
}

static void run_one(const char *name)
{
    char path[512];
    size_t len, expected_len;
    (void)snprintf(path, sizeof path, FIXTURES "/%s", name);
    char *data = fixture_read(path, &len);
    (void)snprintf(path, sizeof path, FIXTURES "/%.*s.facts", (int)strlen(name) - 4, name);
    char *expected = fixture_read(path, &expected_len);
    if (data == NULL || expected == NULL)
        fail_msg("%s: text or expectation missing", name);
    struct facts *facts = facts_new();
    fixture_parse(name[0], facts, data, len);
    unsigned lines = 0;
    for (char *save = NULL, *line = strtok_r(expected, "\n", &save); line != NULL;
         line = strtok_r(NULL, "\n", &save), lines++)
        expect(facts, name, line);
    assert_true(lines > 0);
    facts_free(facts);
    free(data);
    free(expected);
}

unsigned fixture_run_all(const char *kinds)
{
    unsigned count = 0;
    DIR *dir = opendir(FIXTURES);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        size_t n = strlen(e->d_name);
        if (n > 6 && strcmp(e->d_name + n - 4, ".txt") == 0 && e->d_name[1] == '_' &&
            strchr(kinds, e->d_name[0]) != NULL) {
            run_one(e->d_name);
            count++;
        }
    }
    (void)closedir(dir);
    return count;
}
