/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/option.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/say.h"
#include "base/wrap.h"
#include "cli/suggest.h"

#define LEFT_COLUMNS 26
#define HELP_COLUMNS 80

int option_on(const struct option_def *option, void *field, const char *value, struct rc_err *err)
{
    (void)option;
    (void)value;
    (void)err;
    *(bool *)field = true;
    return 0;
}

int option_off(const struct option_def *option, void *field, const char *value, struct rc_err *err)
{
    (void)option;
    (void)value;
    (void)err;
    *(bool *)field = false;
    return 0;
}

int option_text(const struct option_def *option, void *field, const char *value, struct rc_err *err)
{
    (void)option;
    (void)err;
    *(const char **)field = value;
    return 0;
}

int option_colour(const struct option_def *option, void *field, const char *value, struct rc_err *err)
{
    if (strcmp(value, "auto") != 0 && strcmp(value, "always") != 0 && strcmp(value, "never") != 0)
        return rc_err_set(err, -EINVAL, "--%s is auto, always or never, not '%s'", option->name, value);
    return option_text(option, field, value, err);
}

int option_sysroot(const struct option_def *option, void *field, const char *value, struct rc_err *err)
{
    (void)field;
    struct stat st;
    if (stat(value, &st) != 0 || !S_ISDIR(st.st_mode))
        return rc_err_set(err, -EINVAL, "--%s: there is no folder '%s'", option->name, value);
    fs_set_sysroot(value);
    return setenv("ROCMCRASH_SYSROOT", value, 1) == 0 ? 0 : -errno;
}

static const struct option_def *find_long(const struct option_def *table, const char *name,
                                          size_t len)
{
    for (; table->name != NULL; table++)
        if (strlen(table->name) == len && strncmp(table->name, name, len) == 0)
            return table;
    return NULL;
}

static const struct option_def *find_letter(const struct option_def *table, char letter)
{
    for (; table->name != NULL; table++)
        if (table->letter != 0 && table->letter == letter)
            return table;
    return NULL;
}

static int unknown_option(const struct option_def *table, const char *word, struct rc_err *err)
{
    char name[32];
    const char *best = NULL;
    unsigned nearest = 4; /* fewer than so many letters apart */
    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    for (; word[1] == '-' && table->name != NULL; table++) {
        unsigned distance = suggest_distance(name + 2, table->name);
        if (distance < nearest && (distance == 1 || distance < strlen(table->name) / 2)) {
            nearest = distance;
            best = table->name;
        }
    }
    if (best != NULL)
        return rc_err_set(err, -EINVAL, "unknown option '%s'; did you mean '--%s'?", word, best);
    return rc_err_set(err, -EINVAL, "unknown option '%s'", word);
}

int option_set(const struct option_def *option, void *target, const char *value,
               struct rc_err *err)
{
    return option->parse(option, (char *)target + option->field, value, err);
}

/* One option word; *ret_used counts the words it took. */
static int parse_one(const struct option_def *table, void *target, char *const argv[],
                     int *ret_used, struct rc_err *err)
{
    const char *word = argv[0];
    bool is_long = word[1] == '-';
    const char *name = word + (is_long ? 2 : 1);
    size_t len = is_long ? strcspn(name, "=") : 1;
    const struct option_def *option =
        is_long ? find_long(table, name, len) : find_letter(table, name[0]);
    const char *attached =
        is_long ? (name[len] == '=' ? name + len + 1 : NULL) : (name[1] != '\0' ? name + 1 : NULL);
    *ret_used = 1;
    if (option == NULL)
        return unknown_option(table, word, err);
    if (option->argument == NULL) {
        if (attached != NULL)
            return rc_err_set(err, -EINVAL, "option '%s' takes no value", word);
        return option_set(option, target, NULL, err);
    }
    if (attached == NULL) {
        attached = argv[1];
        *ret_used = 2;
    }
    if (attached == NULL)
        return rc_err_set(err, -EINVAL, "option '%s' needs a value", word);
    return option_set(option, target, attached, err);
}

int options_parse(const struct option_def *table, void *target, int argc, char *const argv[],
                  struct rc_err *err)
{
    int at = 0;
    while (at < argc && argv[at][0] == '-' && argv[at][1] != '\0') {
        if (strcmp(argv[at], "--") == 0)
            return at + 1;
        int used = 1;
        int r = parse_one(table, target, argv + at, &used, err);
        if (r < 0)
            return r;
        at += used;
    }
    return at;
}

int options_parse_around(const struct option_def *table, void *target, int argc, char *argv[],
                         struct rc_err *err)
{
    int operands = 0; /* kept at the front of argv, where options were read already */
    int at = 0;
    while (at < argc) {
        bool is_end = strcmp(argv[at], "--") == 0;
        int used = 1;
        if (is_end || argv[at][0] != '-' || argv[at][1] == '\0') {
            at += is_end;
            for (int more = is_end ? argc - at : 1; more > 0; more--)
                argv[operands++] = argv[at++];
            continue;
        }
        int r = parse_one(table, target, argv + at, &used, err);
        if (r < 0)
            return r;
        at += used;
    }
    memmove(argv + argc - operands, argv, (size_t)operands * sizeof *argv);
    return argc - operands;
}

/* No wider than a reader likes it. */
static unsigned help_columns(void)
{
    unsigned columns = wrap_columns(STDOUT_FILENO);
    return columns > 0 && columns < HELP_COLUMNS ? columns : HELP_COLUMNS;
}

/* The lines of a paragraph as one. */
static void join_lines(struct buf *out, const char *text)
{
    for (; *text != '\0'; text++) {
        bool joins = *text == '\n' && out->len > 0 && text[1] != '\n' && text[1] != ' ' && text[1] != '\0' && text[-1] != '\n';
        buf_putc(out, joins ? ' ' : *text);
    }
}

void help_text(const char *text)
{
    struct buf joined = BUF_INIT;
    unsigned columns = help_columns();
    if (columns < HELP_COLUMNS)
        join_lines(&joined, text);
    (void)say_text(stdout, columns < HELP_COLUMNS ? buf_str(&joined) : text);
    buf_release(&joined);
}

/* Text that does not fit beside `left` continues below, in its own column. */
void option_help_row(const char *left, const char *help)
{
    int columns = (int)help_columns();
    int side = columns < HELP_COLUMNS ? columns / 4 : LEFT_COLUMNS;
    int column = printf("  %-*s", side, left);
    for (const char *word = help; *word != '\0';) {
        int len = (int)strcspn(word, " ");
        if (column + 1 + len >= columns)
            column = printf("\n  %-*s", side, "") - 1;
        column += printf(" %.*s", len, word);
        word += len + (word[len] == ' ');
    }
    (void)putchar('\n');
}

void options_help(const struct option_def *table)
{
    for (; table->name != NULL; table++) {
        char left[64];
        char letter[8] = "    ";
        if (table->letter != 0)
            (void)snprintf(letter, sizeof letter, "-%c, ", table->letter);
        (void)snprintf(left, sizeof left, "%s--%s%s%s", letter, table->name,
                       table->argument != NULL ? "=" : "",
                       table->argument != NULL ? table->argument : "");
        option_help_row(left, table->help);
    }
}

static int parse_milliseconds(const char *value, unsigned *ret)
{
    char *end = NULL;
    errno = 0;
    if (!isdigit((unsigned char)value[0]))
        return -EINVAL;
    double number = strtod(value, &end);
    double scale = 1000;
    if (strcmp(end, "ms") == 0)
        scale = 1;
    else if (strcmp(end, "m") == 0)
        scale = 60000;
    else if (*end != '\0' && strcmp(end, "s") != 0)
        return -EINVAL;
    if (errno != 0 || number * scale > INT_MAX)
        return -EINVAL;
    *ret = (unsigned)(number * scale);
    return 0;
}

static int not_a_time(const struct option_def *option, const char *value, struct rc_err *err)
{
    return rc_err_set(err, -EINVAL, "--%s is a time like 90s, 10m or 5 (seconds), not '%s'", option->name, value);
}

int option_time_ms(const struct option_def *option, void *field, const char *value, struct rc_err *err)
{
    return parse_milliseconds(value, field) < 0 ? not_a_time(option, value, err) : 0;
}

int option_time_ns(const struct option_def *option, void *field, const char *value, struct rc_err *err)
{
    unsigned ms = 0;
    if (parse_milliseconds(value, &ms) < 0 || ms == 0)
        return not_a_time(option, value, err);
    *(uint64_t *)field = ms * NS_PER_MS;
    return 0;
}

int option_number(const struct option_def *option, void *field, const char *value, unsigned min,
                  unsigned max, struct rc_err *err)
{
    uint64_t number = 0;
    if (fs_parse_u64(value, &number) < 0 || number < min || number > max)
        return rc_err_set(err, -EINVAL, "--%s is a number from %u to %u, not '%s'", option->name, min,
                          max, value);
    *(unsigned *)field = (unsigned)number;
    return 0;
}
