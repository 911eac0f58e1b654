/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec and posix_spawn of the program. The library has removed itself from the environment; these
 * functions add it again for programs that can load it. exec also gives the terminal itself to programs that need it
 * (terminal_need.h). Callable between vfork and exec: they write
 * only to the stack. glibc's system() and popen() do not call them, so their programs run without
 * the library. Runs in the target.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "inject/attach.h"
#include "inject/next.h"
#include "inject/privilege.h"
#include "inject/raw.h"
#include "inject/terminal.h"
#include "inject/terminal_need.h"

#define EXPORT __attribute__((visibility("default")))

typedef int (*exec_fn)(const char *, char *const[], char *const[]);
typedef int (*fexec_fn)(int, char *const[], char *const[]);
typedef int (*execveat_fn)(int, const char *, char *const[], char *const[], int);
typedef int (*spawn_fn)(pid_t *, const char *, const posix_spawn_file_actions_t *,
                        const posix_spawnattr_t *, char *const[], char *const[]);

/* One call of this family of functions. */
struct start {
    const char *path; /* path of the file, or (search) its name; to examine the file */
    char *const *environment;
    bool search; /* in PATH, as execvp() and posix_spawnp() */
    bool spawns; /* posix_spawn: its actions change descriptors, so these are left alone */
    int (*go)(const struct start *start, char *const environment[]);
    void *next; /* and arguments to pass on: */
    const char *name;
    char *const *argv;
    int fd, flags;
    pid_t *pid;
    const posix_spawn_file_actions_t *actions;
    const posix_spawnattr_t *attributes;
};

static const char *value_of(const char *name, char *const environment[])
{
    size_t n = raw_length(name);
    for (size_t i = 0; environment != NULL && environment[i] != NULL; i++)
        if (raw_starts(environment[i], name))
            return environment[i] + n;
    return NULL;
}

/* The environment for the start: the given one, or a changed one in `room`. *ret: what the look at the program gave. */
static char *const *environment_for(const struct start *s, const char *program, struct preload_room *room,
                                    enum preload_answer *ret)
{
    const struct preload *preload = attach_preload();
    *ret = PRELOAD_NO_FILE;
    if (program == NULL)
        return s->environment;
    if (attach_is_crowded())
        return s->environment;
    enum preload_answer answer = *ret = preload_check(preload, program, room);
    if (answer == PRELOAD_YES)
        answer = preload_environment(preload, s->environment, room);
    if (answer == PRELOAD_YES)
        return (char *const *)room->list;
    if (answer != PRELOAD_NO_FILE) /* no program is started then */
        attach_count_left_out(answer);
    return s->environment;
}

static int go_with(const struct start *s, struct preload_room *room)
{
    int before = errno;
    struct terminal_kept kept;
    const char *program =
        s->search ? preload_find(s->path, value_of("PATH=", environ), room) : s->path;
    enum preload_answer answer;
    char *const *environment = environment_for(s, program, room, &answer);
    bool gives_back = program != NULL && !s->spawns && terminal_is_relayed() &&
                      terminal_need_of(program, s->argv, room) != TERMINAL_NOT_NEEDED;
    if (gives_back)
        terminal_give_back(&kept);
    if (program != NULL && !s->spawns && (answer == PRELOAD_PRIVILEGED || answer == PRELOAD_NO_FILE))
        privilege_before_exec(program, answer == PRELOAD_PRIVILEGED);
    errno = before;
    int r = s->go(s, environment);
    if (gives_back)
        terminal_take_again(&kept); /* raw calls: errno stays */
    return r;
}

/* On the stack: in a child that shares our memory, a mapping would stay behind. */
static __attribute__((noinline)) int go_on_stack(const struct start *s)
{
    struct preload_room room;
    return go_with(s, &room);
}

/* Otherwise not on the stack: a signal handler may have only 8 KiB, and may start a crash
 * reporter. */
static int go(const struct start *s)
{
    if (attach_preload()->path[0] == '\0' || s->path == NULL)
        return s->go(s, s->environment);
    if (attach_shares_memory())
        return go_on_stack(s);
    struct preload_room *room = raw_map(sizeof *room, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == NULL)
        return s->go(s, s->environment);
    int r = go_with(s, room);
    (void)raw_call(SYS_munmap, room, sizeof *room, 0, 0);
    return r;
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

static int go_exec(const struct start *s, char *const environment[])
{
    exec_fn next;
    *(void **)&next = s->next;
    attach_exec_begins();
    return passed(next(s->name, s->argv, environment));
}

static int go_fexec(const struct start *s, char *const environment[])
{
    fexec_fn next;
    *(void **)&next = s->next;
    attach_exec_begins();
    return passed(next(s->fd, s->argv, environment));
}

static int go_execat(const struct start *s, char *const environment[])
{
    execveat_fn next;
    *(void **)&next = s->next;
    attach_exec_begins();
    return passed(next(s->fd, s->name, s->argv, environment, s->flags));
}

static int pass_exec(enum next_function called, bool search, const char *name, char *const argv[],
                     char *const environment[])
{
    struct start s = {.path = name,
                      .name = name,
                      .argv = argv,
                      .environment = environment,
                      .search = search,
                      .go = go_exec,
                      .next = next_function(called)};
    return s.next != NULL ? go(&s) : no_function();
}

EXPORT int execve(const char *path, char *const argv[], char *const environment[])
{
    return pass_exec(NEXT_execve, false, path, argv, environment);
}

EXPORT int execv(const char *path, char *const argv[])
{
    return pass_exec(NEXT_execv, false, path, argv, environ);
}

EXPORT int execvp(const char *name, char *const argv[])
{
    return pass_exec(NEXT_execvp, true, name, argv, environ);
}

EXPORT int execvpe(const char *name, char *const argv[], char *const environment[])
{
    return pass_exec(NEXT_execvpe, true, name, argv, environment);
}

EXPORT int fexecve(int fd, char *const argv[], char *const environment[])
{
    char path[40] = "/proc/self/fd/";
    struct start s = {.path = fd >= 0 ? path : NULL,
                      .fd = fd,
                      .argv = argv,
                      .go = go_fexec,
                      .environment = environment,
                      .next = next_function(NEXT_fexecve)};
    (void)raw_put_number(path + 14, (uint64_t)fd, 10);
    return s.next != NULL ? go(&s) : no_function();
}

#define PLACE_MAX 512

/* A path by which the file can be opened. NULL: it does not fit into PLACE_MAX bytes. */
static const char *path_at(int dir, const char *path, int flags, char out[PLACE_MAX])
{
    bool is_self = (flags & AT_EMPTY_PATH) != 0 && path != NULL && path[0] == '\0';
    if (path == NULL || (!is_self && (path[0] == '/' || dir == AT_FDCWD)))
        return path;
    size_t n = raw_put(out, PLACE_MAX, "/proc/self/fd/");
    n += raw_put_number(out + n, (uint64_t)dir, 10);
    if (!is_self) {
        if (raw_length(path) + n + 2 > PLACE_MAX)
            return NULL;
        n += raw_put(out + n, PLACE_MAX - n, "/");
        (void)raw_put(out + n, PLACE_MAX - n, path);
    }
    return out;
}

EXPORT int execveat(int dir, const char *path, char *const argv[], char *const environment[],
                    int flags)
{
    char place[PLACE_MAX];
    struct start s = {.path = path_at(dir, path, flags, place),
                      .name = path,
                      .fd = dir,
                      .flags = flags,
                      .argv = argv,
                      .environment = environment,
                      .go = go_execat,
                      .next = next_function(NEXT_execveat)};
    return s.next != NULL ? go(&s) : no_function();
}

/* --- with the arguments one by one --- */

static size_t count_arguments(const char *first, va_list args)
{
    size_t n = 1;
    for (const char *a = first; a != NULL; n++)
        a = va_arg(args, const char *);
    return n;
}

/* Fills `argv`, and leaves `args` after the NULL. */
#define TAKE_ARGUMENTS(first, args, argv)                                                          \
    do {                                                                                           \
        size_t at = 0;                                                                             \
        for (char *a = (char *)(uintptr_t)(first); (argv[at++] = a) != NULL;)                      \
            a = va_arg(args, char *);                                                              \
    } while (0)

#define DEFINE_EXECL(name, search, tail)                                                           \
    EXPORT int name(const char *path, const char *first, ...)                                      \
    {                                                                                              \
        va_list args;                                                                              \
        va_start(args, first);                                                                     \
        size_t count = count_arguments(first, args);                                               \
        va_end(args);                                                                              \
        char **argv = __builtin_alloca(count * sizeof *argv);                                      \
        va_start(args, first);                                                                     \
        TAKE_ARGUMENTS(first, args, argv);                                                         \
        char *const *environment = tail;                                                           \
        va_end(args);                                                                              \
        return pass_exec(NEXT_##name, search, path, argv, environment);                            \
    }

DEFINE_EXECL(execl, false, environ)
DEFINE_EXECL(execlp, true, environ)
DEFINE_EXECL(execle, false, va_arg(args, char *const *))

/* --- posix_spawn --- */

static int go_spawn(const struct start *s, char *const environment[])
{
    spawn_fn next;
    *(void **)&next = s->next;
    return next(s->pid, s->name, s->actions, s->attributes, s->argv, environment);
}

#define DEFINE_SPAWN(spawn, in_path)                                                               \
    EXPORT int spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,      \
                     const posix_spawnattr_t *attributes, char *const argv[],                      \
                     char *const environment[])                                                    \
    {                                                                                              \
        struct start s = {.path = path,                                                            \
                          .name = path,                                                            \
                          .search = in_path,                                                       \
                          .spawns = true,                                                          \
                          .pid = pid,                                                              \
                          .actions = actions,                                                      \
                          .attributes = attributes,                                                \
                          .argv = argv,                                                            \
                          .environment = environment,                                              \
                          .go = go_spawn,                                                          \
                          .next = next_function(NEXT_##spawn)};                                    \
        return s.next != NULL ? go(&s) : ENOSYS;                                                   \
    }

DEFINE_SPAWN(posix_spawn, false)
DEFINE_SPAWN(posix_spawnp, true)
