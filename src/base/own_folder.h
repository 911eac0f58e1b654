/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folders that only the effective user can exchange.
 *
 * `sudo -E` keeps the caller's HOME. A root process that writes there leaves files that the caller
 * cannot remove, and follows the links that the caller lays.
 */
#ifndef BASE_OWN_FOLDER_H
#define BASE_OWN_FOLDER_H

#include <stdbool.h>

/* The folder itself, or the part of it that exists, belongs to the effective user. Each folder above
 * belongs to that user or to root, and is sticky where everybody may write. */
bool own_folder_is_safe(const char *path);

/* The value of an environment variable that names such a folder. NULL: it is not set, not absolute,
 * or not safe. */
const char *own_folder_from(const char *variable);

#endif
