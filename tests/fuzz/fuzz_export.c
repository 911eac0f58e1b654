/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: `export` of a stranger's bundle. Whatever is in its tables and records, what comes out
 * as a trace is JSON, and UTF-8; as a snapshot, a pickle with an end. The verb itself, with a bundle whose files are pieces of the input.
 */
#include "cli/verb_export.c"

#include <stdint.h>

#include "pieces.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const names[] = {
    "run/run.json",         "telemetry/telemetry.csv", "telemetry/torch-stats.csv", "run/events.txt",
    "hook/events.jsonl",    "hook/oom-first.json",     "hook/oom-last.json",
};
#define NAMES (sizeof names / sizeof names[0])

static char *files[NAMES];

ssize_t bundle_read_file(const char *path, const char *name, size_t max, char **ret_data,
                         struct rc_err *err)
{
    (void)path, (void)max;
    for (size_t i = 0; i < NAMES; i++) {
        if (strcmp(names[i], name) != 0 || files[i][0] == '\0')
            continue;
        *ret_data = strdup(files[i]);
        return *ret_data != NULL ? (ssize_t)strlen(*ret_data) : -ENOMEM;
    }
    return rc_err_set(err, -ENOENT, "no such file");
}

int options_parse_around(const struct option_def *defs, void *target, int argc, char *argv[],
                         struct rc_err *err)
{
    (void)defs, (void)target, (void)argc, (void)argv, (void)err;
    return 0;
}

int option_on(const struct option_def *option, void *field, const char *value, struct rc_err *err)
{
    (void)option, (void)field, (void)value, (void)err;
    return 0;
}

int option_text(const struct option_def *option, void *field, const char *value, struct rc_err *err)
{
    (void)option, (void)field, (void)value, (void)err;
    return 0;
}

void options_help(const struct option_def *defs)
{
    (void)defs;
}

void help_text(const char *text)
{
    (void)text;
}

void verb_complain(const char *what, const struct rc_err *err)
{
    (void)what, (void)err;
}

void verb_tell_damage(const char *path)
{
    (void)path;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct export e = {.bundle = "fuzz"};
    struct rc_err err = {""};
    for (size_t i = 0; i < NAMES; i++)
        files[i] = pieces_next(&data, &size);
    int r = make_trace(&e, &err);
    cJSON *json = r == 0 ? cJSON_Parse(buf_str(&e.out)) : NULL;
    if ((r == 0 && json == NULL) || (r < 0 && err.msg[0] == '\0'))
        abort();
    struct buf clean = BUF_INIT;
    say_clean(&clean, buf_str(&e.out), e.out.len);
    if (r == 0 && strcmp(buf_str(&clean), buf_str(&e.out)) != 0)
        abort();
    buf_release(&clean);
    cJSON_Delete(json);
    buf_release(&e.out);
    struct buf pickle = BUF_INIT;
    unsigned lumped = 0;
    if (export_torch(files[0], &pickle, &lumped, &err) == 0 && pickle.data[pickle.len - 1] != '.')
        abort();
    buf_release(&pickle);
    for (size_t i = 0; i < NAMES; i++)
        free(files[i]);
    return 0;
}
