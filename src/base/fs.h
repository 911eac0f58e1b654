/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files: bounded reads, complete writes, and the sysroot seam.
 *
 * Everything is opened O_CLOEXEC; foreign paths also O_NONBLOCK | O_NOCTTY, so that a FIFO or a
 * terminal in the way cannot hold us. (O_NONBLOCK does not help against a driver that sleeps in
 * read(): callers that read GPU files do it in a child that can be abandoned.)
 *
 * Sysroot: ROCMCRASH_SYSROOT (or --sysroot) names a folder that stands for the machine. Then /sys,
 * /dev/kmsg and the machine-wide files of /proc come from below it and are *absent* when it lacks
 * them; /proc/PID always stays the real one. That is how recorded machines are tested.
 */
#ifndef BASE_FS_H
#define BASE_FS_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct rc_err;

/* Longest path we form, with the NUL. */
#define FS_PATH_MAX 4096

/* "" for the real machine. Reads the environment on first use; fs_set_sysroot() overrides. */
const char *fs_sysroot(void);
void fs_set_sysroot(const char *dir);

/* `path` (absolute, machine-wide) below the sysroot. Returns 0 or -ENAMETOOLONG. */
int fs_machine_path(char *out, size_t size, const char *path);

/* open(2) for reading with the flags above; -errno on failure. */
int fs_open_read(const char *path);
int fs_open_machine(const char *path);

/*
 * For paths that somebody else may have laid out, links among them: opens a regular file and nothing else. To open a
 * device or a FIFO has effects of its own (a watchdog starts), so the file is looked at through O_PATH first, and what
 * was looked at is what is opened. The descriptor; -EISDIR for a folder, -ENODEV for anything else; -errno.
 */
int fs_open_regular(const char *path);

/*
 * Read at most size-1 bytes from offset 0, NUL-terminate, strip NUL padding and trailing white
 * space (recorded sysfs trees are padded to 4096 bytes). Returns the length or -errno; -EFBIG when
 * the file did not fit (then `out` holds the beginning).
 */
ssize_t fs_read_text(const char *path, char *out, size_t size);
/* The same through fs_open_regular(). */
ssize_t fs_read_regular_text(const char *path, char *out, size_t size);
ssize_t fs_read_machine_text(const char *path, char *out, size_t size);
ssize_t fs_pread_text(int fd, char *out, size_t size);

/* Whole file into malloc()ed NUL-terminated memory, at most max bytes; -EFBIG with the beginning
 * kept in *ret_data when longer. Caller frees *ret_data. Returns length >= 0 or -errno. */
ssize_t fs_read_all(const char *path, size_t max, char **ret_data);
ssize_t fs_read_all_fd(int fd, size_t max, char **ret_data);

/* Writes all, continues after EINTR and short writes. 0 or -errno. */
int fs_write_all(int fd, const void *data, size_t len);
int fs_pwrite_all(int fd, const void *data, size_t len, off_t at);

/* Continues after EINTR and short reads: fewer than `len` bytes only at the end of the file. Bytes
 * or -errno. */
ssize_t fs_pread_full(int fd, void *data, size_t len, off_t at);

/* Continues after EINTR, which network file systems and FUSE return. 0 or -errno. */
int fs_sync(int fd);
int fs_truncate(int fd, off_t size);
int fs_lock(int fd); /* flock(): exclusive, without waiting; -EWOULDBLOCK if another process has
                      * it */

/* close() of a written file: 0 or -errno. EINTR is no failure: Linux has closed the descriptor
 * then. */
int fs_close(int fd);

/*
 * Opens `name` in dirfd (AT_FDCWD: a path) for writing, with `flags` of open(2) such as O_RDWR | O_APPEND;
 * creates it (0600) where it is missing. A link, a pipe or a device that somebody laid there is replaced by a
 * regular file, so that nothing waits for the reader of a pipe. With O_APPEND it is -ELOOP instead: what was
 * written before is gone, too. A folder in a dirfd that is not AT_FDCWD gets another name (NAME.folder).
 * Returns the descriptor (O_CLOEXEC), or -errno.
 */
int fs_open_write(int dirfd, const char *name, int flags);

/* Create (0600) or replace `name` in dirfd: written under a temporary name, optionally fsynced,
 * renamed. 0 or -errno. */
int fs_write_file_at(int dirfd, const char *name, const void *data, size_t len, bool durable);

/* mkdir -p with mode 0700 for what is created. 0 or -errno. */
int fs_mkdir_p(const char *path);

/* The folder `name` in parent_fd, not through a link; NULL and errno. Close it by closedir(). */
DIR *fs_open_folder(int parent_fd, const char *name);

/* Remove a tree; does not follow links, does not leave the file system. 0 or first -errno. */
int fs_remove_tree(int parent_fd, const char *name);

/* A text that is one unsigned decimal number, white space around it. 0 or -EINVAL/-ERANGE. */
int fs_parse_u64(const char *text, uint64_t *ret);

#endif
