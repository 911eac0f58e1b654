/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/inject_python.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "launch/options.h"
#include "record/rundir.h"
#include "record/shared.h"

#define FILES_MAX                                                                                  \
    4096 /* the hook writes a few for each process; a folder that others filled is left */

static bool run_dir_of(const struct shared *shared, char *out, size_t size)
{
    const struct shared_run *run = &shared->run;
    if (run->run_dir[0] != '\0')
        return (size_t)snprintf(out, size, "%s", run->run_dir) < size;
    return rundir_name(out, size, run->start_wall_ns, run->supervisor_pid, NULL) == 0;
}

/* "FOLDER" or "FOLDER:BEFORE"; an empty BEFORE must not become the current directory. */
static bool python_path(const char *folder, char *out, size_t size)
{
    const char *before = getenv("PYTHONPATH");
    size_t len = strlen(folder);
    if (strchr(folder, ':') != NULL)
        return false;
    if (before == NULL || before[0] == '\0')
        return (size_t)snprintf(out, size, "%s", folder) < size;
    if (strncmp(before, folder, len) == 0 && (before[len] == ':' || before[len] == '\0'))
        return (size_t)snprintf(out, size, "%s", before) < size;
    return (size_t)snprintf(out, size, "%s:%s", folder, before) < size;
}

void inject_python(const struct shared *shared, const struct launch_options *options)
{
    static char path[131072]; /* the longest string that execve() takes */
    char run_dir[FS_PATH_MAX];
    char where[FS_PATH_MAX + 64];
    if (options == NULL || (options->inject & INJECT_PYTHON) == 0 || options->python_hook == NULL ||
        !python_path(options->python_hook, path, sizeof path) ||
        !run_dir_of(shared, run_dir, sizeof run_dir))
        return;
    int n = snprintf(where, sizeof where, "%d:%s:%s", (int)shared->run.supervisor_pid,
                     options->torch_history ? "history" : "", run_dir);
    if (n > 0 && (size_t)n < sizeof where && setenv("ROCMCRASH_HOOK", where, 1) == 0)
        (void)setenv("PYTHONPATH", path, 1);
}

bool inject_python_saw_oom(const struct shared *shared)
{
    char path[FS_PATH_MAX + 8];
    char run_dir[FS_PATH_MAX];
    if (!run_dir_of(shared, run_dir, sizeof run_dir))
        return false;
    (void)snprintf(path, sizeof path, "%s/hook", run_dir);
    RC_AUTO_CLOSEDIR DIR *dir = opendir(path);
    const struct dirent *entry;
    for (int i = 0; dir != NULL && i < FILES_MAX && (entry = readdir(dir)) != NULL; i++)
        if (strstr(entry->d_name, ".oom.") != NULL)
            return true;
    return false;
}

void inject_python_remove(const struct shared *shared)
{
    char run_dir[FS_PATH_MAX];
    char state[FS_PATH_MAX + 8];
    if (shared->run.run_dir[0] != '\0' || !run_dir_of(shared, run_dir, sizeof run_dir))
        return;
    (void)snprintf(state, sizeof state, "%s/state", run_dir);
    if (access(state, F_OK) != 0 && errno == ENOENT)
        (void)fs_remove_tree(AT_FDCWD, run_dir);
}
