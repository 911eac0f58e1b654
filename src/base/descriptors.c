/* SPDX-License-Identifier: Apache-2.0 */
#include "base/descriptors.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436 /* Linux 5.9; unknown to glibc 2.28's headers */
#endif

void close_descriptors(unsigned first, unsigned last)
{
    if (first > last || syscall(SYS_close_range, first, last, 0u) == 0)
        return;
    /* An older kernel, or a seccomp filter. Our processes have few descriptors open. */
    struct rlimit limit = {.rlim_cur = 1024};
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    for (unsigned fd = first; fd <= last && fd < limit.rlim_cur && fd < 65536; fd++)
        (void)close((int)fd);
}

void leave_caller(void)
{
    (void)setsid();
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd <= 2 && null_fd >= 0; fd++)
        (void)dup2(null_fd, fd);
}
