/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The variables by which ld.so(8) is told to load something else: LD_PRELOAD, LD_AUDIT and
 * LD_LIBRARY_PATH. They are meant for the user's program. A library of theirs may be one that the
 * finisher cannot use (libarchive of conda), or wait or exit in its constructor.
 */
#ifndef BASE_LOADER_VARIABLES_H
#define BASE_LOADER_VARIABLES_H

enum loader_variables {
    LOADER_VARIABLES_ALL,
    LOADER_VARIABLES_BUT_PATH, /* LD_LIBRARY_PATH stays: our own libraries may be there, too */
    LOADER_VARIABLES_NONE,
};

/* Before an exec of a program of ours: takes `which` out of the environment, unless ROCMCRASH_LOADER is
 * "keep" (fakeroot and proot work by LD_PRELOAD). 0 or -errno. */
int loader_variables_put_aside(enum loader_variables which);

/* At the start of that program: they are in the environment again, for the programs that it starts. */
void loader_variables_put_back(void);

#endif
