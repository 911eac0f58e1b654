/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/own_variables.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/own_path.h"

/* The library's file, or the link to it that has a name which LD_PRELOAD can hold (launch/library_name.h). */
static bool is_our_library(const char *path, size_t len)
{
    static const char begin[] = "librocmcrash-ledger";
    const char *slash = memrchr(path, '/', len);
    size_t name = slash != NULL ? (size_t)(slash + 1 - path) : 0;
    return len - name >= sizeof begin - 1 && strncmp(path + name, begin, sizeof begin - 1) == 0;
}

static bool is_our_hook(const char *path, size_t len)
{
    char own[FS_PATH_MAX];
    if (own_path_find("python/rocmcrash_hook.py", R_OK, own, sizeof own) < 0)
        return false;
    *strrchr(own, '/') = '\0';
    return strlen(own) == len && strncmp(path, own, len) == 0;
}

/* Removes from a list with ':' (or blanks) between what is ours; false when nothing else is in it. */
static bool keep_others(char *value, const char *between, bool (*is_ours)(const char *, size_t))
{
    bool any = false;
    char *to = value;
    for (char *from = value; *from != '\0';) {
        size_t len = strcspn(from, between);
        size_t whole = len + (from[len] != '\0');
        if (!is_ours(from, len)) {
            any = any || len > 0;
            memmove(to, from, whole);
            to += whole;
        }
        from += whole;
    }
    *to = '\0';
    return any;
}

void own_variables_remove(const char **list, char *text)
{
    static const char preload[] = "LD_PRELOAD=", python[] = "PYTHONPATH=";
    const char **to = list;
    for (const char **from = list; *from != NULL; from++) {
        char *entry = text + (*from - text);
        bool kept = true;
        if (strncmp(entry, preload, sizeof preload - 1) == 0)
            kept = keep_others(entry + sizeof preload - 1, ": ", is_our_library);
        else if (strncmp(entry, python, sizeof python - 1) == 0)
            kept = keep_others(entry + sizeof python - 1, ":", is_our_hook);
        if (kept)
            *to++ = entry;
    }
    *to = NULL;
}
