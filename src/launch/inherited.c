/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/inherited.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"

#define FDS_USUAL 1024

void inherited_list(struct inherited *inherited)
{
    inherited->count = 0;
    RC_AUTO_CLOSEDIR DIR *dir = opendir("/proc/self/fd");
    if (dir == NULL) { /* no /proc: ask for the usual numbers */
        for (int fd = STDERR_FILENO + 1; fd < FDS_USUAL; fd++)
            if (fcntl(fd, F_GETFD) >= 0)
                inherited->fds[inherited->count++] = fd;
        return;
    }
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char *end;
        long fd = strtol(entry->d_name, &end, 10);
        if (end == entry->d_name || fd <= STDERR_FILENO || fd == dirfd(dir))
            continue;
        if (inherited->count < INHERITED_MAX)
            inherited->fds[inherited->count++] = (int)fd;
    }
}

void inherited_close(const struct inherited *inherited)
{
    for (int i = 0; i < inherited->count; i++)
        (void)close(inherited->fds[i]);
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null_fd < 0)
        return;
    (void)dup2(null_fd, STDIN_FILENO);
    (void)dup2(null_fd, STDOUT_FILENO);
    if (null_fd > STDERR_FILENO)
        (void)close(null_fd);
}
