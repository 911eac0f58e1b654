/* SPDX-License-Identifier: Apache-2.0 */
/* A name of our library that LD_PRELOAD can hold. */
#ifndef LAUNCH_LIBRARY_NAME_H
#define LAUNCH_LIBRARY_NAME_H

#include <stddef.h>

/* The loader splits LD_PRELOAD at blanks and colons. `ret` is `path` if it has none. Otherwise it is a
 * link to it in a folder of the user's state that nobody else can change. 0, or -errno: there is no
 * such folder. */
int library_name(const char *path, char *ret, size_t size);

#endif
