/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listing a directory without allocating: getdents64 into a buffer of the caller's frame.
 *
 * opendir() allocates 32 KiB; processes beside the target do not allocate while they work.
 */
#ifndef TELEMETRY_DIRSCAN_H
#define TELEMETRY_DIRSCAN_H

#include <stddef.h>
#include <stdint.h>

struct dirscan {
    int fd;
    long filled;   /* bytes in buf */
    long position; /* next entry */
    _Alignas(8) char buf[4096];
};

/* 0 or -errno. After success the caller ends with dirscan_close(). */
int dirscan_open(struct dirscan *d, const char *path);
int dirscan_openat(struct dirscan *d, int dirfd, const char *path);
/* Next name except "." and "..", NULL at the end or on an error: then the listing is incomplete.
 * Valid until the next call. */
const char *dirscan_next(struct dirscan *d);
void dirscan_close(struct dirscan *d);

#endif
