/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folders that only the effective user can replace.
 *
 * `sudo -E` keeps the caller's HOME. A root process that writes there leaves files that the caller
 * cannot remove, and follows the links that the caller lays.
 */
#ifndef BASE_OWN_FOLDER_H
#define BASE_OWN_FOLDER_H

#include <stdbool.h>
#include <sys/types.h>

struct rc_err;
struct stat;

/* The folder itself, or the part of it that exists, belongs to the effective user. Each folder above
 * belongs to that user or to root, and is sticky where everybody may write. */
bool own_folder_is_safe(const char *path);

/* The value of an environment variable that names such a folder. NULL: it is not set, not absolute,
 * not safe, or its file system does not answer within a second. */
const char *own_folder_from(const char *variable);

/* Why another user could have written the open file or folder (`st`, at `path`): a few words for a
 * message. NULL: it belongs to root or to the effective user, and nobody else can write to it or
 * replace it. */
const char *own_path_distrust(const char *path, const struct stat *st);

/* Opens the folder `name` in `parent`, which is made (0700) where it is missing. It must belong to the
 * effective user and have none of the permissions `closed` (S_IRWXG | S_IRWXO: nobody else has access).
 * 0 or -errno with *err; -EPERM: somebody else owns it, or it is open to others. */
int own_folder_open(const char *parent, const char *name, mode_t closed, int *ret_fd,
                    struct rc_err *err);
/* The first folder in `parent`, by name, that begins with `prefix` and that own_folder_open() would open. -ENOENT: none. */
int own_folder_find(const char *parent, const char *prefix, mode_t closed, char *name, size_t size);

#endif
