/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Helpers shared by the test programs: commands on the standard input, one a line, one answer line
 * each, so that a test can decide the next step by the answer. "hold" waits for the next line.
 */
#ifndef PROGRAMS_COMMANDS_H
#define PROGRAMS_COMMANDS_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS_MAX 65536

struct command {
    char name[32];
    unsigned long long first, second;
};

static inline bool next_command(struct command *ret)
{
    char line[256];
    *ret = (struct command){.name = ""};
    if (fgets(line, sizeof line, stdin) == NULL)
        return false;
    (void)sscanf(line, "%31s %llu %llu", ret->name, &ret->first, &ret->second);
    return true;
}

#define ANSWER(...)                                                                                \
    do {                                                                                           \
        (void)printf(__VA_ARGS__);                                                                 \
        (void)putchar('\n');                                                                       \
        (void)fflush(stdout);                                                                      \
    } while (0)

#endif
