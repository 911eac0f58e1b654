/* SPDX-License-Identifier: Apache-2.0 */
#include "experiment/changes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/err.h"
#include "base/fs.h"
#include "base/target_change.h"
#include "diagnose/fact.h"
#include "diagnose/tree.h"

#define COLUMNS 8
#define LINE_MAX_BYTES 1024

static const struct {
    const char *word;
    enum change_kind kind;
} kinds[] = {{"env", CHANGE_ENV},
             {"unset", CHANGE_UNSET},
             {"alloc", CHANGE_ALLOC},
             {"limit", CHANGE_LIMIT},
             {"arg", CHANGE_ARG}};

static const struct {
    const char *name;
    int resource;
} limits[] = {{"nofile", RLIMIT_NOFILE}, {"memlock", RLIMIT_MEMLOCK}, {"as", RLIMIT_AS},
              {"stack", RLIMIT_STACK},   {"data", RLIMIT_DATA},       {"nproc", RLIMIT_NPROC}};

/* -1: there is no such limit */
static int limit_of(const char *name)
{
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++)
        if (strcmp(limits[i].name, name) == 0)
            return limits[i].resource;
    return -1;
}

/* The soft limit that `value` asks for: a number, "hard" or "unlimited". */
static bool limit_wanted(const char *value, const struct rlimit *now, rlim_t *ret)
{
    uint64_t number = 0;
    if (strcmp(value, "hard") == 0)
        *ret = now->rlim_max;
    else if (strcmp(value, "unlimited") == 0)
        *ret = RLIM_INFINITY;
    else if (fs_parse_u64(value, &number) == 0)
        *ret = (rlim_t)number;
    else
        return false;
    return true;
}

/* --- one change out of a text --- */

static bool copy(char *out, size_t size, const char *text, size_t len)
{
    bool fits = len < size;
    if (fits)
        (void)snprintf(out, size, "%.*s", (int)len, text);
    return fits;
}

/* "name=value" */
static bool split(struct change *c, const char *text)
{
    const char *equals = strchr(text, '=');
    return equals != NULL && equals > text &&
           copy(c->name, sizeof c->name, text, (size_t)(equals - text)) &&
           copy(c->value, sizeof c->value, equals + 1, strlen(equals + 1));
}

/* "--batch_size 16" has a name, "--no-mmap" is one without a value, "16" a value without a name. */
static bool split_argument(struct change *c, const char *text)
{
    size_t len = strcspn(text, " =");
    const char *rest = text + len + strspn(text + len, " =");
    if (text[0] != '-')
        return copy(c->value, sizeof c->value, text, strlen(text)) && text[0] != '\0';
    return copy(c->name, sizeof c->name, text, len) &&
           copy(c->value, sizeof c->value, rest, strlen(rest));
}

static bool set_change(struct change *c, const char *text)
{
    struct rlimit now;
    rlim_t wanted;
    switch (c->kind) {
    case CHANGE_ENV:
        return split(c, text);
    case CHANGE_UNSET:
        return text[0] != '\0' && strchr(text, '=') == NULL &&
               copy(c->name, sizeof c->name, text, strlen(text));
    case CHANGE_ALLOC:
        return strchr(text, ':') != NULL && copy(c->value, sizeof c->value, text, strlen(text));
    case CHANGE_LIMIT:
        return split(c, text) && limit_of(c->name) >= 0 &&
               getrlimit((__rlimit_resource_t)limit_of(c->name), &now) == 0 &&
               limit_wanted(c->value, &now, &wanted);
    case CHANGE_ARG:
        return split_argument(c, text);
    }
    return false;
}

int changes_add(struct changes *changes, enum change_kind kind, const char *text, struct rc_err *err)
{
    struct change c = {.kind = kind};
    if (!set_change(&c, text))
        return rc_err_set(err, -EINVAL,
                          kind == CHANGE_LIMIT
                              ? "a limit is nofile, memlock, as, stack, data or nproc, '=', and a "
                                "number, hard or unlimited; not '%s'"
                          : kind == CHANGE_ENV ? "a variable is NAME=VALUE, not '%s'"
                                               : "'%s' is too long, or empty",
                          text);
    if (changes->count == CHANGES_MAX)
        return rc_err_set(err, -EINVAL, "more than %d changes", CHANGES_MAX);
    (void)snprintf(c.id, sizeof c.id, "yours-%zu", changes->count + 1);
    changes->change[changes->count++] = c;
    return 0;
}

void change_text(const struct change *c, char *out, size_t size)
{
    switch (c->kind) {
    case CHANGE_UNSET:
        (void)snprintf(out, size, "%s unset", c->name);
        break;
    case CHANGE_ALLOC:
    case CHANGE_ENV:
    case CHANGE_LIMIT:
        (void)snprintf(out, size, "%s=%s", c->name, c->value);
        break;
    case CHANGE_ARG:
        (void)snprintf(out, size, "%s%s%s", c->name, c->name[0] != '\0' && c->value[0] != '\0' ? " " : "",
                       c->value);
        break;
    }
}

/* --- the table --- */

/* In place. False: another number of columns. */
static bool cut_columns(char *line, char *column[COLUMNS])
{
    size_t n = 0;
    for (char *at = line; at != NULL && n <= COLUMNS; n++) {
        char *tab = strchr(at, '\t');
        if (n < COLUMNS)
            column[n] = at;
        if (tab != NULL)
            *tab++ = '\0';
        at = tab;
    }
    return n == COLUMNS;
}

static bool has_word(const char *list, const char *word)
{
    size_t len = word != NULL ? strlen(word) : 0;
    if (strcmp(list, "*") == 0)
        return true;
    for (const char *at = list; len > 0 && (at = strstr(at, word)) != NULL; at += len)
        if ((at == list || at[-1] == ' ') && (at[len] == '\0' || at[len] == ' '))
            return true;
    return false;
}

/* 1 yes, 0 no or not known, -EINVAL: no condition. */
static int holds(const char *condition, const struct facts *facts, struct rc_err *err)
{
    struct eval ev = {.facts = facts};
    struct expr *e = expr_parse(condition, NULL, err);
    if (e == NULL)
        return -EINVAL;
    enum answer answer = eval_answer(&ev, e);
    expr_free(e);
    return answer == ANSWER_YES;
}

/* Sets the variable with the allocator's options that this PyTorch reads: the first one that is set, else the
 * one that it prefers. "" = not known. */
static void set_alloc_variable(struct change *c, const struct facts *facts)
{
    const char *names = "";
    char name[sizeof c->name];
    c->name[0] = '\0';
    (void)facts_get_text(facts, "f.alloc.variables", &names);
    for (size_t len; (len = strcspn(names, " ")) > 0; names += len + strspn(names + len, " ")) {
        if (!copy(name, sizeof name, names, len))
            return;
        bool is_set = getenv(name) != NULL;
        if (is_set || c->name[0] == '\0')
            (void)snprintf(c->name, sizeof c->name, "%s", name);
        if (is_set)
            return;
    }
}

/* False if the setting already has this value, or if nobody knows which variable is read. */
static bool changes_something(const struct change *c)
{
    const char *now = getenv(c->name);
    struct rlimit limit;
    rlim_t wanted;
    if (c->kind == CHANGE_ENV)
        return now == NULL || strcmp(now, c->value) != 0;
    if (c->kind == CHANGE_UNSET)
        return now != NULL;
    if (c->kind == CHANGE_LIMIT)
        return getrlimit((__rlimit_resource_t)limit_of(c->name), &limit) == 0 &&
               limit_wanted(c->value, &limit, &wanted) && wanted != limit.rlim_cur;
    return c->kind != CHANGE_ALLOC || c->name[0] != '\0';
}

/* False: the row is wrong. */
static bool change_of_row(struct change *c, char *const column[COLUMNS], const struct facts *facts)
{
    bool known = false;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kinds[i].word, column[3]) == 0) {
            c->kind = kinds[i].kind;
            known = true;
        }
    if (!known || !set_change(c, column[4]) || !copy(c->id, sizeof c->id, column[0], strlen(column[0])) ||
        !copy(c->what, sizeof c->what, column[7], strlen(column[7])))
        return false;
    if (c->kind == CHANGE_ALLOC)
        set_alloc_variable(c, facts);
    c->refutes = strcmp(column[6], "yes") == 0;
    return strcmp(column[5], "-") == 0 ||
           copy(c->class_name, sizeof c->class_name, column[5], strlen(column[5]));
}

static bool is_there(const struct changes *changes, const struct change *c)
{
    for (size_t i = 0; i < changes->count; i++) {
        const struct change *other = &changes->change[i];
        if (other->kind == c->kind && strcmp(other->name, c->name) == 0 &&
            strcmp(other->value, c->value) == 0)
            return true;
    }
    return false;
}

static int choose_row(struct changes *changes, char *line, const char *class_name,
                      const struct facts *facts, struct rc_err *err)
{
    char *column[COLUMNS];
    struct change c = {.kind = CHANGE_ENV};
    if (!cut_columns(line, column))
        return rc_err_set(err, -EINVAL, "it has not %d columns", COLUMNS);
    int r = holds(column[2], facts, err);
    if (r < 0)
        return r;
    if (!change_of_row(&c, column, facts))
        return rc_err_set(err, -EINVAL, "'%s' is no change", column[4]);
    if (r > 0 && has_word(column[1], class_name) && changes_something(&c) && !is_there(changes, &c))
        changes->change[changes->count++] = c;
    return 0;
}

static int choose_for(struct changes *changes, size_t max, const char *table, const char *class_name,
                      const struct facts *facts, struct rc_err *err)
{
    char line[LINE_MAX_BYTES];
    unsigned number = 1;
    for (const char *at = table; *at != '\0' && changes->count < max; number++) {
        size_t len = strcspn(at, "\n");
        bool fits = copy(line, sizeof line, at, len);
        at += len + (at[len] == '\n');
        if (fits && (line[0] == '#' || line[0] == '\0'))
            continue;
        int r = fits ? choose_row(changes, line, class_name, facts, err)
                     : rc_err_set(err, -EINVAL, "the line is too long");
        if (r < 0)
            return rc_err_wrap(err, r, "changes.tsv, line %u", number);
    }
    return 0;
}

int changes_choose(struct changes *changes, size_t max, const char *table, const char *class_name,
                   const char *runner_up, const struct facts *facts, struct rc_err *err)
{
    size_t most = max < CHANGES_MAX ? max : CHANGES_MAX;
    int r = choose_for(changes, most, table, class_name, facts, err);
    if (r == 0 && runner_up != NULL && runner_up[0] != '\0')
        r = choose_for(changes, most, table, runner_up, facts, err);
    return r;
}

/* --- in the child --- */

/* "a:1,b:2" with option b:3 is "a:1,b:3". */
static void merge_option(const char *now, const char *option, char *out, size_t size)
{
    size_t name = strcspn(option, ":") + 1;
    size_t used = 0;
    out[0] = '\0';
    for (const char *at = now; *at != '\0';) {
        size_t len = strcspn(at, ",");
        if (strncmp(at, option, name) != 0 && used + len + 2 < size)
            used += (size_t)snprintf(out + used, size - used, "%.*s,", (int)len, at);
        at += len + (at[len] == ',');
    }
    (void)snprintf(out + used, size - used, "%s", option);
}

/* Raising the hard limit needs the right to: found out now, not when the program is started. */
static int hand_over_limit(const struct change *c, char *out, size_t size)
{
    __rlimit_resource_t resource = (__rlimit_resource_t)limit_of(c->name);
    struct rlimit limit;
    if (getrlimit(resource, &limit) != 0 || !limit_wanted(c->value, &limit, &limit.rlim_cur))
        return -EINVAL;
    const struct rlimit now = {.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};
    if (limit.rlim_max != RLIM_INFINITY &&
        (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > limit.rlim_max)) {
        limit.rlim_max = limit.rlim_cur; /* root may */
        if (setrlimit(resource, &limit) != 0)
            return -errno;
        (void)setrlimit(resource, &now);
    }
    (void)snprintf(out, size, "limit %d %llu %llu", (int)resource, (unsigned long long)limit.rlim_cur,
                   (unsigned long long)limit.rlim_max);
    return 0;
}

int change_hand_over(const struct change *c)
{
    char merged[1024];
    char text[1200] = "";
    const char *now = getenv(c->name);
    int r = 0;
    switch (c->kind) {
    case CHANGE_ENV:
        (void)snprintf(text, sizeof text, "set %s=%s", c->name, c->value);
        break;
    case CHANGE_UNSET:
        (void)snprintf(text, sizeof text, "unset %s", c->name);
        break;
    case CHANGE_ALLOC:
        merge_option(now != NULL ? now : "", c->value, merged, sizeof merged);
        (void)snprintf(text, sizeof text, "set %s=%s", c->name, merged);
        break;
    case CHANGE_LIMIT:
        r = hand_over_limit(c, text, sizeof text);
        break;
    case CHANGE_ARG:
        return 0;
    }
    return r < 0 ? r : setenv(TARGET_CHANGE, text, 1) == 0 ? 0 : -errno;
}

/* "--name=value", which lives as long as the process: a run has one. */
static char *joined(const struct change *c)
{
    char *text = NULL;
    return asprintf(&text, "%s=%s", c->name, c->value) < 0 ? NULL : text;
}

char **change_command(const struct change *c, char *const command[])
{
    size_t n = 0;
    size_t name = strlen(c->name);
    bool done = c->kind != CHANGE_ARG;
    while (command[n] != NULL)
        n++;
    char **out = calloc(n + 3, sizeof *out);
    for (size_t i = 0; out != NULL && i < n; i++)
        out[i] = command[i];
    for (size_t i = 1; out != NULL && name > 0 && i < n && !done; i++) {
        if (strcmp(out[i], c->name) == 0 && (c->value[0] == '\0' || i + 1 < n)) {
            if (c->value[0] != '\0')
                out[i + 1] = (char *)(uintptr_t)c->value;
            done = true;
        } else if (strncmp(out[i], c->name, name) == 0 && out[i][name] == '=') {
            out[i] = joined(c);
            done = true;
        }
    }
    if (out != NULL && !done && name > 0)
        out[n++] = (char *)(uintptr_t)c->name;
    if (out != NULL && !done && c->value[0] != '\0')
        out[n] = (char *)(uintptr_t)c->value;
    return out;
}
