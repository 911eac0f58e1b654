/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec and posix_spawn of the program: the library, which has taken itself out of the environment,
 * is put back for programs that can load it. Callable between vfork and exec: nothing but the stack
 * is written. system() and popen() of glibc do not pass here: what they start goes without the
 * library. Runs in the target.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <unistd.h>

#include "inject/attach.h"
#include "inject/next.h"
#include "inject/raw.h"

#define EXPORT __attribute__((visibility("default")))

typedef int (*exec_fn)(const char *, char *const[], char *const[]);
typedef int (*fexec_fn)(int, char *const[], char *const[]);
typedef int (*execveat_fn)(int, const char *, char *const[], char *const[], int);
typedef int (*spawn_fn)(pid_t *, const char *, const posix_spawn_file_actions_t *,
                        const posix_spawnattr_t *, char *const[], char *const[]);

/* The environment to start `program` with: `environment` itself, or in `room`. */
static char *const *environment_for(const char *program, char *const environment[],
                                    struct preload_environ *room)
{
    const struct preload *preload = attach_preload();
    if (preload->path[0] == '\0' || program == NULL)
        return environment;
    enum preload_answer answer = preload_check(preload, program);
    if (answer == PRELOAD_YES)
        answer = preload_environment(preload, environment, room);
    if (answer == PRELOAD_YES)
        return room->list;
    if (answer != PRELOAD_NO_FILE) /* then nothing is started */
        attach_count_left_out(answer);
    return environment;
}

static const char *value_of(const char *name, char *const environment[])
{
    size_t n = raw_length(name);
    for (size_t i = 0; environment != NULL && environment[i] != NULL; i++)
        if (raw_starts(environment[i], name))
            return environment[i] + n;
    return NULL;
}

/* By the PATH of this process, as execvp() and posix_spawnp(). A text that is no program is run by
 * the shell. */
static char *const *environment_for_name(const char *name, char *const environment[],
                                         struct preload_environ *room)
{
    char found[PRELOAD_PATH_MAX];
    const char *program = preload_find(name, value_of("PATH=", environ), found);
    return environment_for(program, environment, room);
}

static int passed(int r)
{
    int error = errno;
    attach_exec_failed();
    errno = error;
    return r;
}

static int no_function(void)
{
    errno = ENOSYS;
    return -1;
}

/* --- exec --- */

/* `called`: the function of this family that the program called. */
static int pass_execve(const char *called, _Atomic(void *) *slot, const char *path,
                       char *const argv[], char *const environment[])
{
    struct preload_environ room;
    exec_fn next;
    *(void **)&next = next_lazily_of(slot, called, "execve");
    if (next == NULL)
        return no_function();
    char *const *list = environment_for(path, environment, &room);
    attach_exec_begins();
    return passed(next(path, argv, (char *const *)list));
}

static int pass_execvpe(const char *called, _Atomic(void *) *slot, const char *name,
                        char *const argv[], char *const environment[])
{
    struct preload_environ room;
    exec_fn next;
    *(void **)&next = next_lazily_of(slot, called, "execvpe");
    if (next == NULL)
        return no_function();
    char *const *list = environment_for_name(name, environment, &room);
    attach_exec_begins();
    return passed(next(name, argv, (char *const *)list));
}

EXPORT int execve(const char *path, char *const argv[], char *const environment[])
{
    static _Atomic(void *) slot;
    return pass_execve("execve", &slot, path, argv, environment);
}

EXPORT int execv(const char *path, char *const argv[])
{
    static _Atomic(void *) slot;
    return pass_execve("execv", &slot, path, argv, environ);
}

EXPORT int execvp(const char *name, char *const argv[])
{
    static _Atomic(void *) slot;
    return pass_execvpe("execvp", &slot, name, argv, environ);
}

EXPORT int execvpe(const char *name, char *const argv[], char *const environment[])
{
    static _Atomic(void *) slot;
    return pass_execvpe("execvpe", &slot, name, argv, environment);
}

EXPORT int fexecve(int fd, char *const argv[], char *const environment[])
{
    static _Atomic(void *) slot;
    struct preload_environ room;
    char path[40] = "/proc/self/fd/";
    fexec_fn next;
    *(void **)&next = next_lazily(&slot, "fexecve");
    if (next == NULL)
        return no_function();
    (void)raw_put_number(path + 14, (uint64_t)fd, 10);
    char *const *list = environment_for(fd >= 0 ? path : NULL, environment, &room);
    attach_exec_begins();
    return passed(next(fd, argv, (char *const *)list));
}

/* Where the file lies, for looking at it; NULL = it cannot be said in a path. */
static const char *path_at(int dir, const char *path, int flags, char out[PRELOAD_PATH_MAX])
{
    bool is_self = (flags & AT_EMPTY_PATH) != 0 && path != NULL && path[0] == '\0';
    if (path == NULL || (!is_self && (path[0] == '/' || dir == AT_FDCWD)))
        return path;
    size_t n = raw_put(out, PRELOAD_PATH_MAX, "/proc/self/fd/");
    n += raw_put_number(out + n, (uint64_t)dir, 10);
    if (!is_self) {
        n += raw_put(out + n, PRELOAD_PATH_MAX - n, "/");
        (void)raw_put(out + n, PRELOAD_PATH_MAX - n, path);
    }
    return out;
}

EXPORT int execveat(int dir, const char *path, char *const argv[], char *const environment[],
                    int flags)
{
    static _Atomic(void *) slot;
    struct preload_environ room;
    char place[PRELOAD_PATH_MAX];
    execveat_fn next;
    *(void **)&next = next_lazily(&slot, "execveat");
    if (next == NULL)
        return no_function();
    char *const *list = environment_for(path_at(dir, path, flags, place), environment, &room);
    attach_exec_begins();
    return passed(next(dir, path, argv, (char *const *)list, flags));
}

/* --- with the arguments one by one --- */

static size_t count_arguments(const char *first, va_list args)
{
    size_t n = 1;
    for (const char *a = first; a != NULL; n++)
        a = va_arg(args, const char *);
    return n;
}

/* Fills `argv`, and leaves `args` behind the NULL. */
#define TAKE_ARGUMENTS(first, args, argv)                                                          \
    do {                                                                                           \
        size_t at = 0;                                                                             \
        for (char *a = (char *)(uintptr_t)(first); (argv[at++] = a) != NULL;)                      \
            a = va_arg(args, char *);                                                              \
    } while (0)

#define DEFINE_EXECL(name, pass, tail)                                                             \
    EXPORT int name(const char *path, const char *first, ...)                                      \
    {                                                                                              \
        static _Atomic(void *) slot;                                                               \
        va_list args;                                                                              \
        va_start(args, first);                                                                     \
        size_t count = count_arguments(first, args);                                               \
        va_end(args);                                                                              \
        char **argv = __builtin_alloca(count * sizeof *argv);                                      \
        va_start(args, first);                                                                     \
        TAKE_ARGUMENTS(first, args, argv);                                                         \
        char *const *environment = tail;                                                           \
        va_end(args);                                                                              \
        return pass(#name, &slot, path, argv, environment);                                        \
    }

DEFINE_EXECL(execl, pass_execve, environ)
DEFINE_EXECL(execlp, pass_execvpe, environ)
DEFINE_EXECL(execle, pass_execve, va_arg(args, char *const *))

/* --- posix_spawn --- */

static int pass_spawn(const char *function, _Atomic(void *) *slot, pid_t *pid, const char *path,
                      const posix_spawn_file_actions_t *actions,
                      const posix_spawnattr_t *attributes, char *const argv[],
                      char *const environment[], bool search)
{
    struct preload_environ room;
    spawn_fn next;
    int before = errno;
    *(void **)&next = next_lazily(slot, function);
    if (next == NULL)
        return ENOSYS;
    char *const *list = search ? environment_for_name(path, environment, &room)
                               : environment_for(path, environment, &room);
    errno = before;
    return next(pid, path, actions, attributes, argv, (char *const *)list);
}

EXPORT int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attributes, char *const argv[],
                       char *const environment[])
{
    static _Atomic(void *) next;
    return pass_spawn("posix_spawn", &next, pid, path, actions, attributes, argv, environment,
                      false);
}

EXPORT int posix_spawnp(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                        const posix_spawnattr_t *attributes, char *const argv[],
                        char *const environment[])
{
    static _Atomic(void *) next;
    return pass_spawn("posix_spawnp", &next, pid, path, actions, attributes, argv, environment,
                      true);
}
