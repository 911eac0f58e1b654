/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared memory and named semaphores go to ROOT/dev/shm: libhsakmt leaves hsakmt_shared_mem and
 * sem.hsakmt_semaphore, rocm-smi leaves rocm_smi_renderD*, and nothing may stay in /dev/shm.
 */
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "emulator.h"
#include "machine.h"
#include "redirect.h"

static bool private_path(char out[PATH_MAX], const char *prefix, const char *name)
{
    if (name == NULL || !emulator_on())
        return false;
    while (*name == '/')
        name++;
    return strchr(name, '/') == NULL && file_path(out, PATH_MAX, "/dev/shm/%s%s", prefix, name);
}

EXPORT int shm_open(const char *name, int flags, mode_t mode)
{
    char path[PATH_MAX];
    int (*real)(const char *, int, mode_t);
    if (private_path(path, "", name))
        return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC | O_NOFOLLOW, mode);
    *(void **)&real = redirect_next("shm_open");
    return real(name, flags, mode);
}

EXPORT int shm_unlink(const char *name)
{
    char path[PATH_MAX];
    int (*real)(const char *);
    if (private_path(path, "", name))
        return unlink(path);
    *(void **)&real = redirect_next("shm_unlink");
    return real(name);
}

/* The new semaphore appears under its name complete, or another process's semaphore does. */
static int create_semaphore(const char *path, mode_t mode, unsigned value)
{
    char fresh[PATH_MAX + 16];
    sem_t semaphore;
    (void)snprintf(fresh, sizeof fresh, "%s.%d", path, getpid());
    int fd = (int)syscall(SYS_openat, AT_FDCWD, fresh, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd < 0)
        return -1;
    memset(&semaphore, 0, sizeof semaphore);
    bool good = sem_init(&semaphore, 1, value) == 0 &&
                syscall(SYS_write, fd, &semaphore, sizeof semaphore) == (long)sizeof semaphore;
    (void)syscall(SYS_close, fd);
    if (good && link(fresh, path) != 0 && errno != EEXIST)
        good = false;
    (void)unlink(fresh);
    return good ? 0 : -1;
}

static sem_t *map_semaphore(const char *path)
{
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return SEM_FAILED;
    void *map = mmap(NULL, sizeof(sem_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)syscall(SYS_close, fd);
    return map == MAP_FAILED ? SEM_FAILED : map;
}

EXPORT sem_t *sem_open(const char *name, int flags, ...)
{
    char path[PATH_MAX];
    mode_t mode = 0;
    unsigned value = 0;
    if ((flags & O_CREAT) != 0) {
        va_list args;
        va_start(args, flags);
        mode = va_arg(args, mode_t);
        value = va_arg(args, unsigned);
        va_end(args);
    }
    if (!private_path(path, "sem.", name)) {
        sem_t *(*real)(const char *, int, ...);
        *(void **)&real = redirect_next("sem_open");
        return real(name, flags, mode, value);
    }
    if ((flags & O_CREAT) != 0) {
        bool there = syscall(SYS_faccessat, AT_FDCWD, path, F_OK) == 0;
        if (there && (flags & O_EXCL) != 0) {
            errno = EEXIST;
            return SEM_FAILED;
        }
        if (!there && create_semaphore(path, mode, value) < 0)
            return SEM_FAILED;
    }
    return map_semaphore(path);
}

EXPORT int sem_close(sem_t *semaphore)
{
    int (*real)(sem_t *);
    if (emulator_on())
        return munmap(semaphore, sizeof *semaphore);
    *(void **)&real = redirect_next("sem_close");
    return real(semaphore);
}

EXPORT int sem_unlink(const char *name)
{
    char path[PATH_MAX];
    int (*real)(const char *);
    if (private_path(path, "sem.", name))
        return unlink(path);
    *(void **)&real = redirect_next("sem_unlink");
    return real(name);
}
