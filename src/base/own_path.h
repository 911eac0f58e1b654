/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the files that were installed or built with our program. All of our programs use it. */
#ifndef BASE_OWN_PATH_H
#define BASE_OWN_PATH_H

#include <stddef.h>

/*
 * The absolute path of `name` ("rocmcrash-finish", "templates/tree.json") in this installation or
 * build tree, where access(2) grants `mode`. 0, -ENOENT or -ENAMETOOLONG.
 */
int own_path_find(const char *name, int mode, char *out, size_t size);

#endif
