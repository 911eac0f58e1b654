/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/own_path.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

int own_directory(char *out, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", out, size - 1);
    if (n > 0) {
        out[n] = '\0';
    } else {
        /* Without /proc: the name we were executed by; relative to where we still are. */
        const char *name = (const char *)(uintptr_t)getauxval(AT_EXECFN);
        if (name == NULL || (size_t)snprintf(out, size, "%s", name) >= size)
            return -ENOENT;
    }
    char *slash = strrchr(out, '/');
    if (slash == NULL)
        return -ENOENT;
    *slash = '\0';
    return 0;
}
