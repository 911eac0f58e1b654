/* SPDX-License-Identifier: Apache-2.0 */
#include "telemetry/cgroup.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"

/* v1 prints PAGE_COUNTER_MAX in bytes for "no limit": LONG_MAX rounded down to a page. */
#define CGROUP_V1_UNLIMITED (UINT64_C(1) << 62)

static bool folder_has(const char *folder, const char *file)
{
    char path[FS_PATH_MAX];
    char full[FS_PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%s", folder, file);
    return n > 0 && (size_t)n < sizeof path && fs_machine_path(full, sizeof full, path) == 0 &&
           access(full, F_OK) == 0;
}

bool cgroup_parse_limit(const char *text, uint64_t *ret)
{
    uint64_t value = 0;
    if (fs_parse_u64(text, &value) < 0 || value >= CGROUP_V1_UNLIMITED)
        return false;
    *ret = value;
    return true;
}

static bool read_limit(const char *folder, const char *file, uint64_t *ret)
{
    char path[FS_PATH_MAX];
    char text[64];
    (void)snprintf(path, sizeof path, "%s/%s", folder, file);
    return fs_read_machine_text(path, text, sizeof text) > 0 && cgroup_parse_limit(text, ret);
}

static void find_smallest(struct cgroup_memory *c, const char *base, const char *limit_file)
{
    char folder[sizeof c->leaf];
    uint64_t smallest = UINT64_MAX;
    memcpy(folder, c->leaf, sizeof folder);
    memcpy(c->limit, c->leaf, sizeof c->limit);
    for (int depth = 0; depth < 64; depth++) {
        uint64_t limit = 0;
        if (read_limit(folder, limit_file, &limit) && limit < smallest) {
            smallest = limit;
            memcpy(c->limit, folder, sizeof folder);
        }
        char *slash = strrchr(folder, '/');
        if (slash == NULL || strlen(folder) <= strlen(base))
            return;
        *slash = '\0';
    }
}

static bool resolve_in(struct cgroup_memory *c, const char *base, const char *path,
                       const char *used_file, const char *limit_file)
{
    (void)snprintf(c->leaf, sizeof c->leaf, "%s%s", base, strcmp(path, "/") == 0 ? "" : path);
    if (!folder_has(c->leaf, used_file) && !folder_has(c->leaf, limit_file)) {
        (void)snprintf(c->leaf, sizeof c->leaf, "%s", base);
        if (!folder_has(c->leaf, used_file) && !folder_has(c->leaf, limit_file))
            return false;
    }
    find_smallest(c, base, limit_file);
    return true;
}

void cgroup_resolve(const struct cgroup_paths *paths, struct cgroup_memory *ret)
{
    memset(ret, 0, sizeof *ret);
    /* On a hybrid machine the memory controller is in v1 or v2; a v1 line names it. */
    ret->v1 = paths->v1_memory[0] != '\0';
    if (ret->v1)
        ret->found = resolve_in(ret, "/sys/fs/cgroup/memory", paths->v1_memory,
                                "memory.usage_in_bytes", "memory.limit_in_bytes");
    /* A container may see the unified hierarchy only, whatever /proc/PID/cgroup says. */
    if (!ret->found && paths->v2[0] != '\0') {
        ret->v1 = false;
        ret->found =
            resolve_in(ret, "/sys/fs/cgroup", paths->v2, "memory.current", "memory.max");
    }
}
