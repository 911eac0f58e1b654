/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file whose reads take as long as we choose: a FUSE file system of one regular file, mounted
 * over an existing one. A read that the server has received waits in D state, which not even SIGKILL ends, like a read
 * of a GPU file during a reset. Needs root and /dev/fuse.
 */
#ifndef TEST_TELEMETRY_FUSE_FILE_H
#define TEST_TELEMETRY_FUSE_FILE_H

#include <stdbool.h>
#include <sys/types.h>

struct fuse_file {
    const char *path;
    int fd;
    pid_t server;
    /* In memory shared with the server: */
    struct fuse_file_control *control;
};

struct fuse_file_control {
    _Atomic int hang;     /* 1 = reads are not answered */
    _Atomic int delay_us; /* before each answer */
    _Atomic int counting; /* the file holds a number, which changes with each read */
    _Atomic unsigned reads;
};

/* 0 or -errno (not root, no /dev/fuse). */
int fuse_file_mount(struct fuse_file *f, const char *path, const char *text);
/* Aborts waiting reads, ends the server, unmounts. */
void fuse_file_unmount(struct fuse_file *f);

#endif
