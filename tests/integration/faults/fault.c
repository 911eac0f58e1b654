/* SPDX-License-Identifier: Apache-2.0 */
/* Selects the fault and the process; see fault.h. */
#define _GNU_SOURCE
#include "fault.h"

#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum kind kind;
int fault_errno;
long first, count;
char prefix[PATH_MAX];
static const char *process_name;
static _Atomic long calls;
static _Atomic uint64_t seed;
static const char *log_path;

uint64_t next_random(void)
{
    uint64_t x = seed;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    seed = x;
    return x >> 11;
}

/* Opened each time, as our helpers close what they do not know. */
void note(long n)
{
    if (log_path == NULL)
        return;
    char line[24];
    char *p = line + sizeof line;
    *--p = '\n';
    do
        *--p = (char)('0' + n % 10);
    while ((n /= 10) > 0);
    int saved = errno;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
                          0600);
    (void)!syscall(SYS_write, fd, p, (size_t)(line + sizeof line - p));
    (void)syscall(SYS_close, fd);
    errno = saved;
}

bool named_so(void)
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

bool counted(void)
{
    long n = ++calls;
    if (n < first || (first > 0 && n - first >= count) || !named_so())
        return false;
    note(n);
    return first > 0;
}

bool chance(unsigned one_in)
{
    if (next_random() % one_in != 0 || !named_so())
        return false;
    note(0);
    return true;
}

/* A crash tells where; its status stays what it is. */
static void on_crash(int signo)
{
    void *frames[48];
    (void)signo; /* the handler is gone: the instruction is tried again */
    backtrace_symbols_fd(frames, backtrace(frames, 48), STDERR_FILENO);
}

static void tell_of_crashes(void)
{
    void *frame[1];
    struct sigaction action = {.sa_handler = on_crash, .sa_flags = (int)SA_RESETHAND};
    struct sigaction old;
    (void)backtrace(frame, 1); /* loads what it needs, while there is memory */
    if (sigaction(SIGSEGV, NULL, &old) == 0 && old.sa_handler == SIG_DFL)
        (void)sigaction(SIGSEGV, &action, NULL);
}

__attribute__((constructor)) static void configure(void)
{
    static const struct {
        const char *name;
        enum kind kind;
    } kinds[] = {{"alloc:", ALLOC}, {"files:", FILES}, {"calls:", CALLS}, {"short:", SHORT},
                 {"forks:", FORKS}, {"clock:", CLOCK}, {"slow::", SLOW},  {"late::", LATE}};
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
    if (sscanf(text, "fdinfo:%4095s", prefix) == 1)
        kind = FDINFO;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strncmp(text, kinds[i].name, 6) != 0)
            continue;
        char *end = NULL;
        first = strtol(text + 6, &end, 10);
        count = *end == ':' ? strtol(end + 1, NULL, 10) : 0;
        seed = (uint64_t)first * 0x9e3779b97f4a7c15u | 1u;
        if (strcmp(exe, "rocmcrash-finish") == 0 && __interceptor_malloc == NULL)
            tell_of_crashes(); /* a sanitizer does it itself */
        kind = kinds[i].kind;
    }
}
