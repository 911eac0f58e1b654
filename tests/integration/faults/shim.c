/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into our programs by the tests of losses: makes the C library's answers what they are
 * on a failing machine. RC_FAULT_EXE names the program (last component of /proc/self/exe) that is
 * struck, RC_FAULT_COMM (optional) the process by its own name; all others see nothing. RC_FAULT:
 *
 *   output:ERRNO:N:PREFIX  from the Nth time on, what changes files below PREFIX fails with ERRNO
 *   alloc:N:COUNT          allocations and mappings N to N+COUNT-1 of a process fail
 *   files:N:COUNT          descriptors N to N+COUNT-1 of a process are refused with EMFILE
 *   calls:N:COUNT          calls N to N+COUNT-1 of those that may wait are interrupted (EINTR), or,
 *                          where a descriptor must not be waited for, answered by EAGAIN
 *   short:SEED             reads and writes are short, and calls are interrupted or told to come
 *                          again
 *   forks:SEED             every other process cannot be made (EAGAIN); forks:0: none can
 *   clock:SEED             the wall clock is stepped back and forth by up to a day
 *   slow::MS               the first fsync or fdatasync of a process takes so long
 *   late::MS               the first opening of the kernel log by a process takes so long
 *   fdinfo:PATH            descriptor 2 of every process is a GPU's, and what /proc tells of it is
 *                          in PATH
 *
 * RC_FAULT_LOG: a file that gets a line for each fault, so that a test knows that it met something:
 * the number of the call. With N = 0 nothing fails, and every call that might is told of.
 */
#define _GNU_SOURCE
#include "fault.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static _Atomic long clock_offset_s;

/* --- memory --- */

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);

static bool no_memory(void)
{
    if (kind != ALLOC || !counted())
        return false;
    errno = ENOMEM;
    return true;
}

void *malloc(size_t size)
{
    if (no_memory())
        return NULL;
    return __interceptor_malloc != NULL ? __interceptor_malloc(size) : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    if (no_memory())
        return NULL;
    return __interceptor_calloc != NULL ? __interceptor_calloc(n, size) : __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
    if (no_memory())
        return NULL;
    return __interceptor_realloc != NULL ? __interceptor_realloc(p, size) : __libc_realloc(p, size);
}

void *mmap(void *at, size_t len, int protection, int flags, int fd, off_t offset)
{
    if (no_memory())
        return MAP_FAILED;
    return (void *)syscall(SYS_mmap, at, len, protection, flags, fd, offset);
}

/* --- what takes long --- */

static void take_long(enum kind what)
{
    static _Atomic bool taken;
    if (kind != what || !named_so() || atomic_exchange(&taken, true))
        return;
    note(0);
    const struct timespec time = {first / 1000, first % 1000 * 1000000};
    (void)nanosleep(&time, NULL);
}

/* --- what makes descriptors --- */

static bool no_descriptor(void)
{
    if (kind != FILES || !counted())
        return false;
    errno = EMFILE;
    return true;
}

static bool below(int dirfd, const char *path)
{
    char full[2 * PATH_MAX] = "";
    size_t len = 0;
    if (path == NULL || path[0] != '/') {
        char link[64];
        (void)snprintf(link, sizeof link, dirfd == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d",
                       dirfd);
        long n = syscall(SYS_readlinkat, AT_FDCWD, link, full, (size_t)PATH_MAX - 1);
        len = n > 0 ? (size_t)n : 0;
        full[len++] = '/';
    }
    (void)snprintf(full + len, sizeof full - len, "%s", path != NULL ? path : "");
    return strncmp(full, prefix, strlen(prefix)) == 0;
}

static bool disk_fails(int dirfd, const char *path)
{
    if (kind != OUTPUT || !below(dirfd, path) || !counted())
        return false;
    errno = fault_errno;
    return true;
}

/* "/proc/4711/fdinfo/2" for folder "fdinfo" */
static bool is_of_descriptor_2(const char *path, const char *folder)
{
    char name[16] = "";
    int pid, fd, end = 0;
    return kind == FDINFO && sscanf(path, "/proc/%d/%15[a-z]/%d%n", &pid, name, &fd, &end) == 3 &&
           path[end] == '\0' && fd == 2 && strcmp(name, folder) == 0;
}

ssize_t readlink(const char *path, char *out, size_t size)
{
    static const char device[] = "/dev/dri/renderD128";
    if (!is_of_descriptor_2(path, "fd") || size < sizeof device)
        return syscall(SYS_readlink, path, out, size);
    memcpy(out, device, sizeof device - 1);
    return (ssize_t)sizeof device - 1;
}

int openat(int dirfd, const char *path, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(list, mode_t) : 0;
    va_end(list);
    if (is_of_descriptor_2(path, "fdinfo")) {
        note(0);
        path = prefix;
    }
    const char *name = strrchr(path, '/');
    if (kind == LATE && name != NULL && strcmp(name, "/kmsg") == 0)
        take_long(LATE);
    bool writes = (flags & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)) != 0;
    /* A full disk still opens files; a broken or read-only one does not. */
    if (no_descriptor() ||
        (writes && (fault_errno != ENOSPC || (flags & O_CREAT) != 0) && disk_fails(dirfd, path)))
        return -1;
    return (int)syscall(SYS_openat, dirfd, path, flags, mode);
}

int open(const char *path, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(list, mode_t) : 0;
    va_end(list);
    return openat(AT_FDCWD, path, flags, mode);
}

int pipe2(int fds[2], int flags)
{
    return no_descriptor() ? -1 : (int)syscall(SYS_pipe2, fds, flags);
}

int memfd_create(const char *name, unsigned flags)
{
    return no_descriptor() ? -1 : (int)syscall(SYS_memfd_create, name, flags);
}

int eventfd(unsigned value, int flags)
{
    return no_descriptor() ? -1 : (int)syscall(SYS_eventfd2, value, flags);
}

int signalfd(int fd, const sigset_t *mask, int flags)
{
    if (fd < 0 && no_descriptor())
        return -1;
    return (int)syscall(SYS_signalfd4, fd, mask, (size_t)8, flags);
}

DIR *opendir(const char *path)
{
    static DIR *(*next)(const char *);
    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "opendir");
    return no_descriptor() ? NULL : next(path);
}

FILE *fopen(const char *path, const char *mode)
{
    static FILE *(*next)(const char *, const char *);
    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "fopen");
    return no_descriptor() ? NULL : next(path, mode);
}

int fcntl(int fd, int command, ...)
{
    va_list list;
    va_start(list, command);
    void *argument = va_arg(list, void *);
    va_end(list);
    if ((command == F_DUPFD || command == F_DUPFD_CLOEXEC) && no_descriptor())
        return -1;
    return (int)syscall(SYS_fcntl, fd, command, argument);
}

/* --- what changes a disk --- */

static bool is_there(int dirfd, const char *path)
{
    struct stat st;
    return fstatat(dirfd, path, &st, AT_SYMLINK_NOFOLLOW) == 0; /* EEXIST comes before the disk */
}

int mkdir(const char *path, mode_t mode)
{
    return !is_there(AT_FDCWD, path) && disk_fails(AT_FDCWD, path)
               ? -1
               : (int)syscall(SYS_mkdir, path, mode);
}

int mkdirat(int dirfd, const char *path, mode_t mode)
{
    return !is_there(dirfd, path) && disk_fails(dirfd, path)
               ? -1
               : (int)syscall(SYS_mkdirat, dirfd, path, mode);
}

int renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
    return disk_fails(to_fd, to) ? -1
                                 : (int)syscall(SYS_renameat2, from_fd, from, to_fd, to, flags);
}

int renameat(int from_fd, const char *from, int to_fd, const char *to)
{
    return renameat2(from_fd, from, to_fd, to, 0);
}

int rename(const char *from, const char *to)
{
    return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0);
}

static bool struck(void)
{
    return (kind == SHORT && chance(4)) || (kind == CALLS && counted());
}

static bool interrupted(void)
{
    if (!struck())
        return false;
    errno = EINTR;
    return true;
}

/* Fails with EINTR, or with EAGAIN for a descriptor that does not block. */
static bool put_off(int fd)
{
    if (!struck())
        return false;
    struct stat st;
    long flags = syscall(SYS_fcntl, fd, F_GETFL);
    bool waits = flags < 0 || (flags & O_NONBLOCK) == 0 ||
                 (fstat(fd, &st) == 0 && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)));
    errno = waits ? EINTR : EAGAIN;
    return true;
}

int fsync(int fd)
{
    take_long(SLOW);
    return interrupted() || disk_fails(fd, NULL) ? -1 : (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    take_long(SLOW);
    return interrupted() || disk_fails(fd, NULL) ? -1 : (int)syscall(SYS_fdatasync, fd);
}

int fallocate(int fd, int mode, off_t offset, off_t len)
{
    return interrupted() || disk_fails(fd, NULL)
               ? -1
               : (int)syscall(SYS_fallocate, fd, mode, offset, len);
}

/* --- reading and writing --- */

static size_t shorter(size_t n)
{
    if (kind != SHORT || n < 2 || !chance(2))
        return n;
    return 1 + next_random() % (n < 64 ? n : 64);
}

ssize_t write(int fd, const void *data, size_t n)
{
    if (put_off(fd) || disk_fails(fd, NULL))
        return -1;
    /* An event counter takes eight bytes or none. */
    return syscall(SYS_write, fd, data, n == 8 ? n : shorter(n));
}

ssize_t pwrite(int fd, const void *data, size_t n, off_t offset)
{
    if (interrupted() || disk_fails(fd, NULL))
        return -1;
    return syscall(SYS_pwrite64, fd, data, shorter(n), offset);
}

static bool takes_any_size(int fd)
{
    struct stat st;
    /* Records of /dev/kmsg, signalfd and eventfd are whole or an error. */
    return fstat(fd, &st) == 0 && (S_ISREG(st.st_mode) || S_ISFIFO(st.st_mode));
}

ssize_t read(int fd, void *data, size_t n)
{
    if (put_off(fd))
        return -1;
    return syscall(SYS_read, fd, data, kind == SHORT && takes_any_size(fd) ? shorter(n) : n);
}

ssize_t pread(int fd, void *data, size_t n, off_t offset)
{
    if (interrupted())
        return -1;
    return syscall(SYS_pread64, fd, data, shorter(n), offset);
}

int poll(struct pollfd *fds, nfds_t n, int timeout)
{
    return interrupted() ? -1 : (int)syscall(SYS_poll, fds, n, timeout);
}

ssize_t splice(int from, off64_t *from_at, int to, off64_t *to_at, size_t n, unsigned flags)
{
    if (put_off(from))
        return -1;
    return syscall(SYS_splice, from, from_at, to, to_at, shorter(n), flags);
}

ssize_t tee(int from, int to, size_t n, unsigned flags)
{
    if (put_off(from))
        return -1;
    return syscall(SYS_tee, from, to, shorter(n), flags);
}

int flock(int fd, int operation)
{
    return interrupted() ? -1 : (int)syscall(SYS_flock, fd, operation);
}

int ftruncate(int fd, off_t size)
{
    return interrupted() || disk_fails(fd, NULL) ? -1 : (int)syscall(SYS_ftruncate, fd, size);
}

int linkat(int from_fd, const char *from, int to_fd, const char *to, int flags)
{
    return disk_fails(to_fd, to) ? -1
                                 : (int)syscall(SYS_linkat, from_fd, from, to_fd, to, flags);
}

/* The descriptor is closed all the same, as Linux does it. */
int close(int fd)
{
    int r = (int)syscall(SYS_close, fd);
    return r == 0 && interrupted() ? -1 : r;
}

int nanosleep(const struct timespec *time, struct timespec *ret_left)
{
    if (interrupted()) {
        if (ret_left != NULL)
            *ret_left = *time;
        return -1;
    }
    return (int)syscall(SYS_nanosleep, time, ret_left);
}

pid_t waitpid(pid_t pid, int *status, int options)
{
    return interrupted() ? -1 : (pid_t)syscall(SYS_wait4, pid, status, options, NULL);
}

int waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
    return interrupted() ? -1 : (int)syscall(SYS_waitid, type, id, info, options, NULL);
}

/* --- processes and clocks --- */

pid_t fork(void)
{
    static pid_t (*next)(void);
    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "fork");
    if (kind == FORKS && chance(first == 0 ? 1 : 2)) {
        errno = EAGAIN;
        return -1;
    }
    return next();
}

int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, char *const argv[], char *const environment[])
{
    static int (*next)(pid_t *, const char *, const posix_spawn_file_actions_t *,
                       const posix_spawnattr_t *, char *const[], char *const[]);
    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "posix_spawnp");
    return kind == FORKS && chance(first == 0 ? 1 : 2) ? EAGAIN
                                      : next(pid, file, actions, attributes, argv, environment);
}

int clock_gettime(clockid_t id, struct timespec *ts)
{
    int r = (int)syscall(SYS_clock_gettime, id, ts);
    if (kind == CLOCK && id == CLOCK_REALTIME && r == 0) {
        /* The first call always: a finisher asks for the time but a few times. */
        if (clock_offset_s == 0 ? chance(1) : chance(3))
            clock_offset_s = (long)(next_random() % 172800u) - 86400;
        ts->tv_sec += clock_offset_s;
    }
    return r;
}

time_t time(time_t *ret)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_REALTIME, &ts);
    if (ret != NULL)
        *ret = ts.tv_sec;
    return ts.tv_sec;
}
