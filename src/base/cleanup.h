/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scope-bound release of memory, descriptors, streams and directories.
 *
 * Cleanup handlers do not report: a file that was written is closed, checked, fsynced and renamed
 * explicitly. Variables are initialised where they are declared, descriptors to -1.
 */
#ifndef BASE_CLEANUP_H
#define BASE_CLEANUP_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void rc_cleanup_free(void *p)
{
    free(*(void **)p);
}

static inline void rc_cleanup_close(const int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
}

static inline void rc_cleanup_fclose(FILE **f)
{
    if (*f != NULL)
        (void)fclose(*f);
}

static inline void rc_cleanup_closedir(DIR **d)
{
    if (*d != NULL)
        (void)closedir(*d);
}

#define RC_AUTO_FREE __attribute__((cleanup(rc_cleanup_free)))
#define RC_AUTO_CLOSE __attribute__((cleanup(rc_cleanup_close)))
#define RC_AUTO_FCLOSE __attribute__((cleanup(rc_cleanup_fclose)))
#define RC_AUTO_CLOSEDIR __attribute__((cleanup(rc_cleanup_closedir)))

/* Hand ownership out of a RC_AUTO_FREE / RC_AUTO_CLOSE variable. */
static inline void *rc_take(void *p)
{
    void **slot = p;
    void *value = *slot;
    *slot = NULL;
    return value;
}

static inline int rc_take_fd(int *fd)
{
    int value = *fd;
    *fd = -1;
    return value;
}

#endif
