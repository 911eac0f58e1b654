/* SPDX-License-Identifier: Apache-2.0 */
#include "journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "machine.h"
#include "state.h"

/* Out of the way of programs that count on low numbers; lower where RLIMIT_NOFILE forbids it. */
#define HIGH_FD 900

static int journal_fd = -1;
static int kmsg_fd = -1;

static int open_append(const char *path)
{
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
                          0644);
    if (fd < 0)
        return -errno;
    int high = fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD);
    if (high < 0)
        return fd;
    (void)syscall(SYS_close, fd);
    return high;
}

int journal_open(void)
{
    char path[PATH_MAX];
    const char *given = getenv("EMULATOR_LOG");
    if (!file_path(path, sizeof path, "/emulator/log.jsonl"))
        return -ENAMETOOLONG;
    journal_fd = open_append(given != NULL && given[0] != '\0' ? given : path);
    if (file_path(path, sizeof path, "/dev/kmsg"))
        kmsg_fd = open_append(path);
    return journal_fd < 0 ? journal_fd : 0;
}

void journal(const char *format, ...)
{
    int saved = errno;
    char line[1024];
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    int n = snprintf(line, sizeof line, "{\"seq\":%llu,\"t\":%lld.%09ld,\"pid\":%d,\"tid\":%ld,",
                     (unsigned long long)state_next_log(), (long long)now.tv_sec, now.tv_nsec,
                     getpid(), syscall(SYS_gettid));
    va_list args;
    va_start(args, format);
    int more = vsnprintf(line + n, sizeof line - 2 - (size_t)n, format, args);
    va_end(args);
    if (journal_fd >= 0 && more >= 0 && (size_t)more < sizeof line - 2 - (size_t)n) {
        n += more;
        line[n++] = '}';
        line[n++] = '\n';
        (void)!syscall(SYS_write, journal_fd, line, (size_t)n);
    }
    errno = saved;
}

/* "4,1042,70212345,-;amdgpu 0000:03:00.0: amdgpu: ..." */
void kmsg(int level, const char *format, ...)
{
    int saved = errno;
    char line[1024];
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    int n = snprintf(line, sizeof line, "%d,%llu,%lld,-;", level,
                     (unsigned long long)state_next_kmsg(),
                     (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000);
    va_list args;
    va_start(args, format);
    int more = vsnprintf(line + n, sizeof line - 1 - (size_t)n, format, args);
    va_end(args);
    if (kmsg_fd >= 0 && more >= 0 && (size_t)more < sizeof line - 1 - (size_t)n) {
        n += more;
        line[n++] = '\n';
        (void)!syscall(SYS_write, kmsg_fd, line, (size_t)n);
    }
    errno = saved;
}
