/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/stage_places.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/ending.h"
#include "base/err.h"
#include "bundle/bundle.h"

/* "torch-stats.csv" is a table, "stacks.txt" and "jax-stacks.txt" are stacks of Python. */
static bool place_of(const char *name, char *place, size_t size)
{
    static const char stacks[] = "stacks.txt";
    int n = 0;
    if (ends_with(name, "-stats.csv"))
        n = snprintf(place, size, "telemetry/%s", name);
    else if (strcmp(name, stacks) == 0)
        n = snprintf(place, size, "stacks/python.txt");
    else if (ends_with(name, "-stacks.txt"))
        n = snprintf(place, size, "stacks/python-%.*s.txt", (int)(strlen(name) - sizeof stacks), name);
    return n > 0 && (size_t)n < size;
}

static int move_one(int stage_fd, int hook_fd, const char *name)
{
    char place[300];
    if (!place_of(name, place, sizeof place))
        return 0;
    const char *folder = place[0] == 't' ? "telemetry" : "stacks";
    if (mkdirat(stage_fd, folder, 0700) != 0 && errno != EEXIST)
        return -errno;
    return renameat(hook_fd, name, stage_fd, place) == 0 ? 0 : -errno;
}

int stage_places(const char *stage)
{
    int first = 0;
    RC_AUTO_CLOSE int stage_fd = open(stage, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    int hook_fd = openat(stage_fd, "hook", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (hook_fd < 0)
        return errno == ENOENT ? 0 : -errno;
    RC_AUTO_CLOSEDIR DIR *hook = fdopendir(hook_fd);
    if (hook == NULL) {
        (void)close(hook_fd);
        return -ENOMEM;
    }
    for (const struct dirent *entry; (entry = readdir(hook)) != NULL;) {
        int r = move_one(stage_fd, hook_fd, entry->d_name);
        first = first < 0 ? first : r;
    }
    return first;
}

ssize_t stage_read_table(const char *bundle, const char *name, size_t max, char **ret)
{
    char path[128];
    struct rc_err err = {""};
    (void)snprintf(path, sizeof path, "telemetry/%s", name);
    ssize_t len = bundle_read_file(bundle, path, max, ret, &err);
    if (len >= 0)
        return len;
    (void)snprintf(path, sizeof path, "hook/%s", name);
    return bundle_read_file(bundle, path, max, ret, &err);
}
