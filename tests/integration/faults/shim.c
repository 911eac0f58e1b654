/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into our programs by the tests of losses: makes the C library's answers what they are
 * on a failing machine. RC_FAULT_EXE names the program (last component of /proc/self/exe) that is
 * struck, RC_FAULT_COMM (optional) the process by its own name; all others see nothing. RC_FAULT:
 *
 *   output:ERRNO:N:PREFIX  from the Nth time on, what changes files below PREFIX fails with ERRNO
 *   alloc:N:COUNT          allocations N to N+COUNT-1 of a process fail
 *   files:N:COUNT          descriptors N to N+COUNT-1 of a process are refused with EMFILE
 *   short:SEED             reads and writes are short, and calls are interrupted (EINTR)
 *   forks:SEED             every other process cannot be made (EAGAIN)
 *   clock:SEED             the wall clock is stepped back and forth by up to a day
 *
 * RC_FAULT_LOG: a file that gets a byte for each fault, so that a test knows that it met something.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum kind { NOTHING, OUTPUT, ALLOC, FILES, SHORT, FORKS, CLOCK };

static enum kind kind;
static int fault_errno;
static long first, count;
static char prefix[PATH_MAX];
static const char *process_name;
static _Atomic long calls;
static _Atomic uint64_t seed;
static _Atomic long clock_offset_s;
static const char *log_path;

/* --- which fault, and whom --- */

static uint64_t next_random(void)
{
    uint64_t x = seed;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    seed = x;
    return x >> 11;
}

/* Opened each time, as our helpers close what they do not know. */
static void note(void)
{
    if (log_path == NULL)
        return;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
                          0600);
    (void)!syscall(SYS_write, fd, "!", (size_t)1);
    (void)syscall(SYS_close, fd);
}

static bool named_so(void)
{
    if (process_name == NULL)
        return true;
    char name[32] = "";
    long fd = syscall(SYS_openat, AT_FDCWD, "/proc/self/comm", O_RDONLY | O_CLOEXEC);
    long n = fd < 0 ? 0 : syscall(SYS_read, (int)fd, name, sizeof name - 1);
    if (fd >= 0)
        (void)syscall(SYS_close, (int)fd);
    return n > 1 && strncmp(name, process_name, (size_t)n - 1) == 0 && process_name[n - 1] == '\0';
}

static bool counted(void)
{
    long n = ++calls;
    if (n < first || n - first >= count || !named_so())
        return false;
    note();
    return true;
}

static bool chance(unsigned one_in)
{
    if (next_random() % one_in != 0 || !named_so())
        return false;
    note();
    return true;
}

__attribute__((constructor)) static void configure(void)
{
    static const struct {
        const char *name;
        enum kind kind;
    } kinds[] = {{"alloc:", ALLOC},
                 {"files:", FILES},
                 {"short:", SHORT},
                 {"forks:", FORKS},
                 {"clock:", CLOCK}};
    const char *text = getenv("RC_FAULT");
    const char *exe = getenv("RC_FAULT_EXE");
    char self[PATH_MAX] = "";
    if (text == NULL || exe == NULL || readlink("/proc/self/exe", self, sizeof self - 1) <= 0 ||
        strcmp(strrchr(self, '/') + 1, exe) != 0)
        return;
    log_path = getenv("RC_FAULT_LOG");
    process_name = getenv("RC_FAULT_COMM");
    if (sscanf(text, "output:%d:%ld:%4095s", &fault_errno, &first, prefix) == 3) {
        count = LONG_MAX;
        kind = OUTPUT;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strncmp(text, kinds[i].name, 6) != 0)
            continue;
        char *end = NULL;
        first = strtol(text + 6, &end, 10);
        count = *end == ':' ? strtol(end + 1, NULL, 10) : 0;
        seed = (uint64_t)first * 0x9e3779b97f4a7c15u | 1u;
        kind = kinds[i].kind;
    }
}

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
    return no_memory() ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    return no_memory() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
    return no_memory() ? NULL : __libc_realloc(p, size);
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

int openat(int dirfd, const char *path, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(list, mode_t) : 0;
    va_end(list);
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

static bool interrupted(void)
{
    if (kind != SHORT || !chance(4))
        return false;
    errno = EINTR;
    return true;
}

int fsync(int fd)
{
    return interrupted() || disk_fails(fd, NULL) ? -1 : (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
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
    if (interrupted() || disk_fails(fd, NULL))
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
    if (interrupted())
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
    if (kind == FORKS && chance(2)) {
        errno = EAGAIN;
        return -1;
    }
    return next();
}

int clock_gettime(clockid_t id, struct timespec *ts)
{
    int r = (int)syscall(SYS_clock_gettime, id, ts);
    if (kind == CLOCK && id == CLOCK_REALTIME && r == 0) {
        if (chance(3))
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
