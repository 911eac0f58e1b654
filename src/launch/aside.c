/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/aside.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/ending.h"
#include "base/err.h"
#include "base/loader_variables.h"
#include "base/room.h"
#include "base/say.h"
#include "launch/finish.h"
#include "launch/options.h"
#include "launch/snapshot.h"
#include "record/shared.h"
#include "watch/relay.h"

#define HASH_MS 5000u

static int finish(int fd, const struct launch_options *options, enum loader_variables aside)
{
    int status = -1;
    pid_t finisher = finish_start(fd, options, FINISH_BUNDLE, aside, true);
    if (finisher > 0 && waitpid(finisher, &status, 0) != finisher)
        status = -1;
    return status;
}

static _Noreturn void make_bundle(struct shared *snapshot, int fd, const struct shared *run,
                                  const struct launch_options *options, struct relay *relays,
                                  const char *why)
{
    struct rc_err err = {""};
    struct launch_options own = *options;
    own.preview = false; /* nobody is asked while the program runs */
    own.hash_budget_ms = HASH_MS;
    (void)umask(077);
    relays_drop(relays);
    leave_caller();
    finish_lift_limits();
    uint64_t still_ns = run->still_since_ns;
    const struct snapshot_options what = {
        .pid = run->target_pid,
        .tree = true,
        .why = why,
        .output_dir = options->output_dir,
        .run = run,
        .request = run->look_request,
        .since_ns = still_ns != 0 ? still_ns : clock_mono_ns(),
    };
    if (snapshot_take(snapshot, &what, &err) < 0)
        _exit(1);
    int status = finish(fd, &own, LOADER_VARIABLES_ALL);
    if (status != 0 && snapshot->bundle_path[0] == '\0') /* its libraries may be where LD_LIBRARY_PATH says */
        status = finish(fd, &own, LOADER_VARIABLES_NONE);
    _exit(status == 0 ? 0 : 1);
}

bool aside_start(struct aside *a, struct shared *shared, const struct launch_options *options,
                 struct relay *relays, const char *why)
{
    struct rc_err err = {""};
    int fd = -1;
    if (a->count >= ASIDE_MAX || a->child != 0)
        return false;
    struct shared *snapshot = shared_create(&fd, &err);
    if (snapshot == NULL) {
        shared_event(shared, "supervisor", "no snapshot: %s", err.msg);
        return false;
    }
    if (a->made == NULL)
        a->made = room_for(sizeof *a->made);
    if (a->snapshot != NULL)
        (void)munmap(a->snapshot, sizeof *a->snapshot);
    a->snapshot = snapshot;
    a->count++;
    shared->asides_count++;
    (void)snprintf(shared->aside_why, sizeof shared->aside_why, "%s", why);
    shared->aside_bundle[0] = '\0';
    shared->look_request++;
    a->child = fork();
    if (a->child == 0)
        make_bundle(snapshot, fd, shared, options, relays, why);
    shared_note_own_child(shared, a->child);
    (void)close(fd);
    shared_event(shared, "supervisor", "snapshot: %s", why);
    if (a->child < 0)
        a->child = 0;
    return true;
}

/* A copy: others can write to what is shared. Only the last path is known where there is no memory for all. */
static void path_of(const struct aside *a, uint32_t i, char path[ASIDE_PATH_MAX])
{
    bool is_last = i + 1 == a->count && a->snapshot != NULL;
    const char *from = is_last ? a->snapshot->bundle_path : a->made != NULL ? a->made->path[i] : "";
    (void)snprintf(path, ASIDE_PATH_MAX, "%.*s", (int)sizeof a->snapshot->bundle_path - 1, from);
}

/* "/a/rocmcrash-X.tar.gz" -> "rocmcrash-X", by which reports name a bundle. */
static void note_name(struct shared *run, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    size_t len = strlen(name);
    len -= ends_with(name, ".tar.gz") ? strlen(".tar.gz") : 0;
    (void)snprintf(run->aside_bundle, sizeof run->aside_bundle, "%.*s", (int)len, name);
}

bool aside_ended(struct aside *a, struct shared *run, pid_t pid)
{
    char path[ASIDE_PATH_MAX] = "";
    if (pid != a->child || pid <= 0)
        return false;
    a->child = 0;
    path_of(a, a->count - 1, path);
    note_name(run, path);
    if (a->made != NULL)
        memcpy(a->made->path[a->count - 1], path, sizeof path);
    return true;
}

void aside_tell(struct aside *a, const char *what)
{
    char path[ASIDE_PATH_MAX] = "";
    for (uint32_t i = 0; i < a->count; i++) {
        path_of(a, i, path);
        if (path[0] != '\0')
            (void)say_line(stderr, "rocmcrash: %s; bundle of that moment: %s", what, path);
    }
    if (a->count == 0 || path[0] != '\0')
        return;
    (void)say_line(stderr, "rocmcrash: %s; %s", what,
                   a->child != 0 ? "the bundle of that moment is still being made"
                                 : "no bundle of that moment could be made");
}
