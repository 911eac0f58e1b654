/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loader_variables.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *aside;
} variables[] = {
    {"LD_PRELOAD", "ROCMCRASH_ASIDE_LD_PRELOAD"},
    {"LD_AUDIT", "ROCMCRASH_ASIDE_LD_AUDIT"},
    {"LD_LIBRARY_PATH", "ROCMCRASH_ASIDE_LD_LIBRARY_PATH"},
};

#define COUNT (sizeof variables / sizeof variables[0])

static int move(const char *from, const char *to)
{
    const char *value = getenv(from);
    if (value == NULL)
        return 0;
    return setenv(to, value, 1) != 0 || unsetenv(from) != 0 ? -errno : 0;
}

int loader_variables_put_aside(enum loader_variables which)
{
    const char *wish = getenv("ROCMCRASH_LOADER");
    if (wish != NULL && strcmp(wish, "keep") == 0)
        return 0;
    size_t count = which == LOADER_VARIABLES_ALL ? COUNT : which == LOADER_VARIABLES_BUT_PATH ? COUNT - 1 : 0;
    int r = 0;
    for (size_t i = 0; r == 0 && i < count; i++)
        r = move(variables[i].name, variables[i].aside);
    return r;
}

void loader_variables_put_back(void)
{
    for (size_t i = 0; i < COUNT; i++)
        (void)move(variables[i].aside, variables[i].name);
}
