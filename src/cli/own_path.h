/* SPDX-License-Identifier: Apache-2.0 */
/* Where our own executable lies, also where /proc is not mounted. In both programs. */
#ifndef CLI_OWN_PATH_H
#define CLI_OWN_PATH_H

#include <stddef.h>

/* The folder of our executable, without the trailing slash. 0 or -errno. */
int own_directory(char *out, size_t size);

#endif
