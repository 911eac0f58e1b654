/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The option table: parser, --help and the tests that compare them come from one place.
 * Used by both programs; a verb has a table of its own.
 */
#ifndef CLI_OPTION_H
#define CLI_OPTION_H

#include <stdbool.h>
#include <stddef.h>

struct rc_err;

struct option_def;

/* Reads `value` (NULL for a switch) of `option` into `field`. 0, or -EINVAL with *err. */
typedef int option_parser(const struct option_def *option, void *field, const char *value,
                          struct rc_err *err);

struct option_def {
    const char *name;     /* without "--" */
    char letter;          /* 0 = none */
    const char *argument; /* name of the value in --help, NULL = a switch */
    const char *help;
    option_parser *parse; /* one of those below, or the table's own */
    size_t field;         /* offsetof() the member of the target that `parse` gets */
};

option_parser option_on;      /* bool: true */
option_parser option_off;     /* bool: false */
option_parser option_text;    /* const char *: the value itself */
option_parser option_colour;  /* const char *: auto, always or never */
option_parser option_sysroot; /* no field: the folder that stands for the machine (base/fs.h) */
option_parser option_time_ms; /* unsigned: milliseconds of "5", "5s", "500ms" or "2m" */
option_parser option_time_ns; /* uint64_t: nanoseconds of such a time, above 0 */

/*
 * Parse options up to "--", the first word that is no option, or the end. Returns the index of
 * what follows, or -EINVAL with *err. Accepts --name=value, --name value, -l value, -lvalue.
 */
int options_parse(const struct option_def *table, void *target, int argc, char *const argv[],
                  struct rc_err *err);
/* The same for a verb, whose options may also follow its operands ("show BUNDLE --all"): the
 * operands are moved to the end of argv, in their order. Behind "--" nothing is an option. */
int options_parse_around(const struct option_def *table, void *target, int argc, char *argv[],
                         struct rc_err *err);
/* Sets what one option says: value is NULL for a switch. 0, or -EINVAL with *err. */
int option_set(const struct option_def *option, void *target, const char *value,
               struct rc_err *err);
void options_help(const struct option_def *table);
/* A paragraph of a help, broken for 80 columns; on a narrower terminal it is broken anew. */
void help_text(const char *text);
/* One row of a table of options or verbs: fits 80 columns, and the terminal. */
void option_help_row(const char *left, const char *help);

/* For a parser of a whole number from `min` to `max`, into an unsigned. */
int option_number(const struct option_def *option, void *field, const char *value, unsigned min,
                  unsigned max, struct rc_err *err);

#endif
