/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/inject_python.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bounded.h"
#include "base/cleanup.h"
#include "base/fs.h"
#include "launch/options.h"
#include "record/rundir.h"
#include "record/shared.h"

/* The hook writes a few for each process. */
#define FILES_MAX 4096
#define STRING_MAX 131072 /* the longest one that execve() takes, with its NUL */
#define PLACE_WAIT_MS 100 /* before the target begins */
#define OOM_WAIT_MS 500   /* after it has ended */

/* "FOLDER" or "FOLDER:BEFORE", malloc()ed; an empty BEFORE must not become the current directory. NULL: no
 * memory, or it would be no such list. */
static char *python_path(const char *folder)
{
    char *path = NULL;
    const char *before = getenv("PYTHONPATH");
    size_t len = strlen(folder);
    if (strchr(folder, ':') != NULL || (before != NULL && len + strlen(before) + 2 > STRING_MAX))
        return NULL;
    if (before == NULL || before[0] == '\0')
        return strdup(folder);
    if (strncmp(before, folder, len) == 0 && (before[len] == ':' || before[len] == '\0'))
        return strdup(before);
    return asprintf(&path, "%s:%s", folder, before) < 0 ? NULL : path;
}

static bool find_place(void *context)
{
    struct shared_run *run = &((struct shared *)context)->run;
    return rundir_name(run->hook_dir, sizeof run->hook_dir, run->start_wall_ns, run->supervisor_pid,
                       NULL) == 0;
}

void inject_python_plan(struct shared *shared, const struct launch_options *options)
{
    if ((options->inject & INJECT_PYTHON) != 0 && options->python_hook != NULL &&
        bounded_ask(find_place, shared, PLACE_WAIT_MS))
        return;
    shared->run.hook_dir[0] = '\0';
}

void inject_python(struct shared *shared, const struct launch_options *options)
{
    struct shared_run *run = &shared->run;
    char where[sizeof run->hook_dir + 96];
    char steps[32] = "";
    if (run->hook_dir[0] == '\0')
        return;
    RC_AUTO_FREE char *path = python_path(options->python_hook);
    if (options->hang_after_ms == HANG_AFTER_AUTO || conditions_need_steps(&options->bundle_at))
        (void)snprintf(steps, sizeof steps, "steps=%zu,", offsetof(struct shared, hook_steps));
    int n = snprintf(where, sizeof where, "%d:%s%smemory=%d+%zu:%s", (int)run->supervisor_pid,
                     options->torch_history ? "history," : "", steps, (int)run->shared_fd,
                     offsetof(struct shared, hook_trouble), run->hook_dir);
    if (n <= 0 || (size_t)n >= sizeof where || path == NULL ||
        setenv("ROCMCRASH_HOOK", where, 1) != 0 || setenv("PYTHONPATH", path, 1) != 0)
        run->hook_dir[0] = '\0';
}

static bool look_for_oom(void *path)
{
    RC_AUTO_CLOSEDIR DIR *dir = opendir(path);
    const struct dirent *entry;
    for (int i = 0; dir != NULL && i < FILES_MAX && (entry = readdir(dir)) != NULL; i++)
        if (strstr(entry->d_name, ".oom.") != NULL)
            return true;
    return false;
}

bool inject_python_saw_oom(const struct shared *shared)
{
    char path[sizeof shared->run.hook_dir + 8];
    (void)snprintf(path, sizeof path, "%s/hook", shared->run.hook_dir);
    return shared->run.hook_dir[0] != '\0' && bounded_ask(look_for_oom, path, OOM_WAIT_MS);
}

void inject_python_remove(const struct shared *shared)
{
    const struct shared_run *run = &shared->run;
    char state[sizeof run->hook_dir + 8];
    if (run->hook_dir[0] == '\0' || strcmp(run->run_dir, run->hook_dir) == 0)
        return;
    (void)snprintf(state, sizeof state, "%s/state", run->hook_dir);
    if (access(state, F_OK) != 0 && errno == ENOENT)
        (void)fs_remove_tree(AT_FDCWD, run->hook_dir);
}
