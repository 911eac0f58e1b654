/* SPDX-License-Identifier: Apache-2.0 */
#include "collectors/helper_program.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"

int helper_program_find(const char *name, char *out, size_t size)
{
    static const char *const places[] = {"", "../libexec/rocmcrash/"};
    char exe[FS_PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (n <= 0)
        return -ENOENT;
    exe[n] = '\0';
    char *slash = strrchr(exe, '/');
    if (slash == NULL)
        return -ENOENT;
    slash[1] = '\0';
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        int length = snprintf(out, size, "%s%s%s", exe, places[i], name);
        if (length > 0 && (size_t)length < size && access(out, X_OK) == 0)
            return 0;
    }
    return -ENOENT;
}
