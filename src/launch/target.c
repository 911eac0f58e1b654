/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/target.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/say.h"
#include "base/target_change.h"
#include "inject/preload.h"
#include "launch/inject_python.h"
#include "record/shared.h"
#include "watch/relay.h"

#define SHEBANG_DEPTH 5 /* fs/exec.c stops there too */

/* The child says so itself: its parent may be killed before it gets to that. */
static void say_running(struct shared *shared)
{
    uint32_t state = TARGET_NOT_STARTED;
    if (!atomic_compare_exchange_strong(&shared->target_state, &state, TARGET_STARTING))
        _exit(0);
    shared->target_pid = getpid();
    shared->target_state = TARGET_RUNNING;
}

/* The environment with the ledger's library, where the program can load it; else as it is. */
static char **environment_for(struct shared *shared, const struct target_spec *spec)
{
    static const char *const reasons[] = {
        [PRELOAD_NO_FILE] = "the program cannot be read",
        [PRELOAD_NOT_ELF] = "the program is no ELF file",
        [PRELOAD_OTHER_CLASS] = "the program is not one for x86-64",
        [PRELOAD_STATIC] = "the program is linked statically",
        [PRELOAD_OTHER_LOADER] = "the program has another libc than glibc",
        [PRELOAD_SANITIZER] = "the program has a sanitizer that must come first",
        [PRELOAD_PRIVILEGED] = "the program gains privilege",
        [PRELOAD_INVISIBLE] = "the program cannot see the library",
        [PRELOAD_LIMITED] = "the program has little address space",
        [PRELOAD_TOO_LONG] = "the environment is too long",
        [PRELOAD_CROWDED] = "too many programs were started",
    };
    static struct preload_room room;
    if (spec->preload == NULL || spec->preload->path[0] == '\0')
        return environ;
    const char *program = preload_find(spec->argv[0], getenv("PATH"), &room);
    enum preload_answer answer =
        program != NULL ? preload_check(spec->preload, program, &room) : PRELOAD_NO_FILE;
    if (answer == PRELOAD_YES)
        answer = preload_environment(spec->preload, environ, &room);
    if (answer == PRELOAD_YES)
        return room.list;
    (void)snprintf(shared->run.ledger_error, sizeof shared->run.ledger_error, "%s",
                   reasons[answer]);
    return environ;
}

static _Noreturn void target_exec(struct shared *shared, const struct target_spec *spec)
{
    char go;
    say_running(shared);
    (void)close(spec->go_write_fd);
    while (read(spec->go_fd, &go, 1) < 0 && errno == EINTR)
        ;
    for (int i = 0; i < RELAYS; i++)
        relay_child_setup(&spec->relays[i]);
    if (spec->child_signal_ignored)
        (void)signal(SIGCHLD, SIG_IGN);
    int changed = target_change_apply();
    inject_python(shared, spec->options);
    char **environment = environment_for(shared, spec);
    (void)sigprocmask(SIG_SETMASK, spec->signal_mask, NULL);
    if (changed == 0)
        (void)execvpe(spec->argv[0], spec->argv, environment);
    int error = changed < 0 ? -changed : errno;
    while (write(spec->exec_error_fd, &error, sizeof error) < 0 && errno == EINTR)
        ;
    _exit(error == ENOENT ? 127 : 126);
}

int target_wait_status(const siginfo_t *si)
{
    if (si->si_code == CLD_EXITED)
        return (si->si_status & 0xff) << 8;
    return si->si_status | (si->si_code == CLD_DUMPED ? 0x80 : 0);
}

int target_exec_here(char *const argv[])
{
    int changed = target_change_apply();
    if (changed == 0)
        (void)execvp(argv[0], argv);
    int error = changed < 0 ? -changed : errno;
    (void)say_line(stderr, "rocmcrash: cannot run '%s': %s", argv[0], strerror(error));
    return error == ENOENT ? 127 : 126;
}

pid_t target_fork(struct shared *shared, const struct target_spec *spec)
{
    pid_t pid = fork();
    if (pid == 0)
        target_exec(shared, spec);
    return pid;
}

static bool file_is_privileged(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return false;
    if ((st.st_mode & S_ISUID) != 0 || (st.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP))
        return true;
    return getxattr(path, "security.capability", NULL, 0) > 0;
}

/* The interpreter of a script ("#!/usr/bin/env python3\n" -> "/usr/bin/env"); false = no script. */
static bool script_interpreter(const char *path, char *out, size_t size)
{
    char line[256];
    RC_AUTO_CLOSE int fd = fs_open_read(path);
    if (fd < 0)
        return false;
    ssize_t len = read(fd, line, sizeof line - 1);
    if (len < 3 || line[0] != '#' || line[1] != '!')
        return false;
    line[len] = '\0';
    const char *start = line + 2 + strspn(line + 2, " \t");
    size_t n = strcspn(start, " \t\r\n");
    if (n == 0 || n >= size)
        return false;
    memcpy(out, start, n);
    out[n] = '\0';
    return true;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

bool target_is_launcher(const char *name)
{
    static const char *const launchers[] = {
        "sh",    "bash",  "dash",    "zsh",    "ksh",    "fish",    "busybox", "env",    "nice",
        "nohup", "time",  "timeout", "setsid", "stdbuf", "ionice",  "chrt",    "taskset", "numactl",
        "exec",  "runuser", "setpriv", "unshare", "prlimit", "script", "systemd-run", "apptainer", "singularity"};
    for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++)
        if (strcmp(base_name(name), launchers[i]) == 0)
            return true;
    return false;
}

bool target_exec_is_privileged(const char *name)
{
    static struct preload_room room;
    static char interpreters[2][FS_PATH_MAX];
    const char *path = preload_find(name, target_change_variable("PATH"), &room);
    for (int depth = 0; path != NULL && depth < SHEBANG_DEPTH; depth++) {
        char *interpreter = interpreters[depth % 2];
        if (!script_interpreter(path, interpreter, sizeof interpreters[0]))
            return file_is_privileged(path);
        path = interpreter;
    }
    return false;
}

enum terminal_need target_terminal_need(char *const argv[])
{
    static struct preload_room room;
    const char *program = preload_find(argv[0], target_change_variable("PATH"), &room);
    return program != NULL ? terminal_need_of(program, argv, &room) : TERMINAL_NOT_NEEDED;
}
