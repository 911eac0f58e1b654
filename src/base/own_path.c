/* SPDX-License-Identifier: Apache-2.0 */
#include "base/own_path.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

/* From the folder of the program: beside it, from bin/, from libexec/rocmcrash/. A build tree has
 * bin/ and share/, too. */
static const char *const places[] = {"", "../libexec/rocmcrash/", "../../bin/",
                                     "../share/rocmcrash/", "../../share/rocmcrash/"};

static bool cut_after_slash(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash != NULL)
        slash[1] = '\0';
    return slash != NULL;
}

/* The folder of the file itself. */
static bool folder_of_file(char *out, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", out, size - 1);
    out[n > 0 ? n : 0] = '\0';
    return cut_after_slash(out);
}

/* The folder in which the caller found the program. It is the only one known without /proc. It also
 * leads to our other files if each of them is a symbolic link into a store (`uv --link-mode
 * symlink`). */
static bool folder_of_name(char *out, size_t size)
{
    const char *name = (const char *)(uintptr_t)getauxval(AT_EXECFN);
    size_t length = 0;
    if (name == NULL)
        return false;
    if (name[0] != '/') {
        if (getcwd(out, size) == NULL)
            return false;
        length = strlen(out);
    }
    int n = snprintf(out + length, size - length, "%s%s", length > 0 ? "/" : "", name);
    return n > 0 && (size_t)n < size - length && cut_after_slash(out);
}

int own_path_find(const char *name, int mode, char *out, size_t size)
{
    static bool (*const folders[])(char *, size_t) = {folder_of_file, folder_of_name};
    char folder[PATH_MAX] = "";
    int r = -ENOENT;
    for (size_t f = 0; f < sizeof folders / sizeof folders[0]; f++) {
        if (!folders[f](folder, sizeof folder))
            continue;
        for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
            int n = snprintf(out, size, "%s%s%s", folder, places[i], name);
            if (n < 0 || (size_t)n >= size)
                r = -ENAMETOOLONG;
            else if (access(out, mode) == 0)
                return 0;
        }
    }
    return r;
}
