/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/own_arguments.h"

#include <stdlib.h>
#include <string.h>

char **own_arguments_hide(int argc, char *argv[], int command)
{
    size_t count = (size_t)(argc - command);
    char **copy = calloc(count + 1, sizeof *copy);
    if (copy == NULL)
        return argv + command;
    for (size_t i = 0; i < count; i++) {
        copy[i] = strdup(argv[command + (int)i]);
        if (copy[i] == NULL)
            return argv + command;
    }
    for (int i = command + 1; i < argc; i++)
        memset(argv[i], 0, strlen(argv[i]));
    return copy;
}
